"""One model's convolution on a CPU, each part of it in the way that is fastest there.

torch's kernels are at their best where images are large beside the weights. Late layers of a
network have it the other way round: hundreds of channels, and a few points an image. There the
gradient of the weights, which those kernels are slowest at, is a matrix product here: what each
weight met (an image's patches, ``[B * points, h * w * in]``) times the outputs' gradient.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedlib.processor import AMX, bfloat16_arithmetic

Pair = tuple[int, int]
# What makes a layer a late one: so many weights, and so many for each output point of the batch, by
# number format. Measured on two cores with AMX; see docs/speed.md.
LATE_WEIGHTS = 2**16
LATE_WEIGHTS_A_POINT = {torch.bfloat16: 100}
USUALLY = 400


def on_cpu(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair) -> Tensor:
    """``torch.nn.functional.conv2d`` of images ``[B, in, H, W]`` with ``[out, in, h, w]``."""
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    late = _late(x, weight, stride, padding)
    x = _channels_last(x) if _pixels(x.dtype) and not late else x.contiguous()
    if late and torch.is_grad_enabled() and weight.requires_grad:
        y: Tensor = _Late.apply(x, weight, stride, padding)
        return y if bias is None else y + bias[:, None, None]
    return F.conv2d(x, weight, bias, stride, padding)


def _late(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> bool:
    """Whether the weights are many beside the outputs' points."""
    sizes = zip(x.shape[-2:], weight.shape[-2:], stride, padding, strict=True)
    high, wide = ((size + 2 * more - kernel) // step + 1 for size, kernel, step, more in sizes)
    limit = LATE_WEIGHTS_A_POINT.get(x.dtype, USUALLY) * len(x) * high * wide
    return weight.numel() >= max(LATE_WEIGHTS, limit)


def _pixels(dtype: torch.dtype) -> bool:
    """Whether kernels, and the pooling and norms after them, run faster on whole pixels."""
    if dtype == torch.bfloat16:
        return AMX in bfloat16_arithmetic()
    return dtype == torch.float32


class _Late(torch.autograd.Function):
    """A convolution whose weights' gradient is a matrix product."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (grad,), (x, weight) = grads, ctx.saved_tensors
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            mask = [True, False, False]
            of_x = torch.ops.aten.convolution_backward(
                *(grad, x, weight, [0], ctx.stride, ctx.padding, [1, 1], False, [0, 0], 1, mask)
            )[0]
        if ctx.needs_input_grad[1]:
            of_weight = _of_weight(grad, x, weight.shape, ctx.stride, ctx.padding)
        return of_x, of_weight, None, None


def _of_weight(grad: Tensor, x: Tensor, shape: torch.Size, stride: Pair, padding: Pair) -> Tensor:
    """The gradient ``[out, in, h, w]`` by the weights, of the outputs' ``[B, out, H', W']``."""
    out, inputs, high, wide = shape
    padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0])).permute(0, 2, 3, 1)
    met = padded.contiguous().unfold(1, high, stride[0]).unfold(2, wide, stride[1])
    patches = met.permute(0, 1, 2, 4, 5, 3).reshape(-1, high * wide * inputs)
    product = grad.transpose(0, 1).reshape(out, -1) @ patches
    return product.view(out, high, wide, inputs).permute(0, 3, 1, 2).contiguous()


def _channels_last(images: Tensor) -> Tensor:
    """The same images with a pixel's channels side by side in memory, so that results are, too."""
    if images.shape[1] > 1:
        return images.contiguous(memory_format=torch.channels_last)
    # With one channel both layouts are the same memory, and only the strides tell.
    count, _, height, width = images.shape
    return images.reshape(count, height, width, 1).permute(0, 3, 1, 2)
