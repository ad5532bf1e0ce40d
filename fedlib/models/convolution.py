"""Convolutions by matrix products, for cases in which torch's kernels are slower.

On a CPU, torch's kernels are fastest if images are large compared with the weights. Late layers of
a network are the opposite: hundreds of channels, and a few points per image. Torch's kernels are
slowest at the gradient of the weights, so for late layers it is computed by matrix products here.
On a GPU, torch runs a convolution of many rows as one grouped convolution, whose cuDNN kernels are
a third to two thirds as fast as batched products of the same numbers.
"""

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Pair = tuple[int, int]
# A late layer has at least this many weights, and this many per output point of the batch.
# Measured on two cores with AMX, see docs/speed.md.
WEIGHTS, WEIGHTS_A_POINT = 2**16, 400
# Grouped convolutions are slow unless a group's channels, in and out, are whole blocks of these. A
# single row then runs faster, from this many products of an input and a weight on. With fewer,
# starting it takes longer. Measured on a two-core AMD EPYC with AVX-512.
BLOCK, PRODUCTS = 8, 2**20
# On a GPU, rows' products need a copy of the input for each point of the kernel, kept for the
# gradient. A layer that needs a larger part of the memory takes the grouped convolution.
PART = 1 / 64


def on_cpu(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair) -> Tensor:
    """``torch.nn.functional.conv2d`` of images ``[B, in, H, W]`` with ``[out, in, h, w]``."""
    late = _late(x, weight, stride, padding)
    # Kernels, and the pooling and norms after them, run faster if a pixel's channels are adjacent.
    x = _channels_last(x) if x.dtype == torch.float32 and not late else x.contiguous()
    if not (late and torch.is_grad_enabled() and weight.requires_grad):
        return F.conv2d(x, weight, bias, stride, padding)
    y: Tensor = _Late.apply(x, weight, stride, padding)
    return y if bias is None else y + bias[:, None, None]


def better_apart(x: Tensor, weight: Tensor) -> bool:
    """Whether rows ``[R, out, in, h, w]`` on images ``[G, B, in, H, W]`` run faster one by one.

    It is always False on a GPU.
    """
    whole = weight.shape[1] % BLOCK == 0 == weight.shape[2] % BLOCK
    if whole or x.device.type != "cpu":
        return False
    points = x.shape[1] * x.shape[-2] * x.shape[-1]  # points of the input
    return points * weight[0].numel() >= PRODUCTS


def by_products(x: Tensor, weight: Tensor) -> bool:
    """Whether rows ``[R, out, in, h, w]`` on images ``[G, B, in, H, W]`` are products of matrices.

    It is always False on a CPU.
    """
    if x.device.type == "cpu":
        return False
    met = x.numel() * math.prod(weight.shape[-2:]) * x.element_size()
    return met <= PART * _memory(x.device)


@functools.cache
def _memory(device: torch.device) -> int:
    """The memory of a GPU in bytes."""
    if device.type != "cuda":
        return 2**36
    return int(torch.cuda.get_device_properties(device).total_memory)


def products(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair) -> Tensor:
    """Rows' convolution ``[R, B, out, H', W']`` as products of weights and image patches."""
    (groups, batch, *_), (rows, outputs, _, high, wide) = x.shape, weight.shape
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    met = x.unfold(3, high, stride[0]).unfold(4, wide, stride[1]).permute(0, 2, 5, 6, 1, 3, 4)
    left = weight.reshape(groups, -1, math.prod(weight.shape[2:]))
    right = met.reshape(groups, left.shape[-1], -1)
    if bias is None:
        y = torch.bmm(left, right)
    else:
        y = torch.baddbmm(bias.reshape(groups, -1, 1), left, right)
    return y.view(rows, outputs, batch, *met.shape[-2:]).transpose(1, 2)


def _late(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> bool:
    """Whether the layer has many weights for its number of output points."""
    sizes = zip(x.shape[-2:], weight.shape[-2:], stride, padding, strict=True)
    high, wide = ((size + 2 * more - kernel) // step + 1 for size, kernel, step, more in sizes)
    return weight.numel() >= max(WEIGHTS, WEIGHTS_A_POINT * len(x) * high * wide)


class _Late(torch.autograd.Function):
    """A convolution whose weight gradient is a few matrix products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (grad,), (x, weight), (of_x, of_weight, *_) = grads, ctx.saved_tensors, ctx.needs_input_grad
        given = grad, x, weight, [0], ctx.stride, ctx.padding, [1, 1], False, [0, 0], 1
        by_x = torch.ops.aten.convolution_backward(*given, [of_x, False, False])[0]
        if not of_weight:
            return by_x, None, None, None
        by_weight = _of_weight(grad, x, weight.shape, ctx.stride, ctx.padding)
        return by_x, by_weight.contiguous(), None, None


def _of_weight(grad: Tensor, x: Tensor, shape: torch.Size, stride: Pair, padding: Pair) -> Tensor:
    """The weights' gradient ``[out, in, h, w]``, from the gradient of outputs ``[B, out, H', W']``.

    It is one product for each point of the kernel, of the outputs' gradient and the inputs. Points
    that fall on padding are skipped, which saves a fifth for 6 x 6 points and a 3 x 3 kernel.
    """
    out, inputs, *kernel = shape
    came, met = (images.permute(0, 2, 3, 1).contiguous() for images in (grad, x))
    down, right = (
        [_places(came.shape[axis], met.shape[axis], at, step, more) for at in range(points)]
        for axis, points, step, more in zip((1, 2), kernel, stride, padding, strict=True)
    )
    products = grad.new_empty(*kernel, out, inputs)
    for top, (down_to, down_of) in enumerate(down):
        for side, (right_to, right_of) in enumerate(right):
            left = came[:, down_to, right_to].reshape(-1, out).t()
            torch.mm(left, met[:, down_of, right_of].reshape(-1, inputs), out=products[top, side])
    return products.permute(2, 3, 0, 1)


def _places(outputs: int, inputs: int, at: int, stride: int, padding: int) -> tuple[slice, slice]:
    """Along an axis, the outputs that the kernel's point ``at`` feeds, and their inputs."""
    first = max(0, math.ceil((padding - at) / stride))
    last = min(outputs - 1, (inputs - 1 + padding - at) // stride)
    begin = first * stride + at - padding
    count = max(0, last - first + 1)
    return slice(first, first + count), slice(begin, begin + count * stride, stride)


def _channels_last(images: Tensor) -> Tensor:
    """The same images with a pixel's channels contiguous in memory, so that results are, too."""
    if images.shape[1] > 1:
        return images.contiguous(memory_format=torch.channels_last)
    # With one channel both layouts are the same memory, and only the strides differ.
    count, _, height, width = images.shape
    return images.reshape(count, height, width, 1).permute(0, 3, 1, 2)
