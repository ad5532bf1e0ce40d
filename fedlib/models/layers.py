"""Layers that are ordinary torch layers, and that also run many models at once.

A ROW is one model: one configuration on one client. A parameter has torch's usual shape, or one
extra leading axis of R rows. With rows, an input is ``[G, B, ...]`` where G divides R, and weight
row ``r`` uses input row ``r // (R // G)``: the rows that share a client's data are consecutive, and
the data are never repeated. The first layer that has parameters turns G rows into R. Layers decide
from the dimensions of their own weight, and layers without parameters use trailing dimensions only,
so a model needs no flag and no second forward function.

Images are ``[..., C, H, W]``. A convolution over rows is one grouped convolution, in memory
``[B, R * C, H, W]``, and its result is a ``[R, B, C, H, W]`` view of that. If a CPU is slow at
grouped convolutions, it is one row after the other, in memory ``[R, B, H, W, C]``. The layers here
keep these layouts, so that a sequence of them copies nothing. Plain autograd differentiates
everything.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib import randomness
from fedlib.errors import Error, require
from fedlib.models import convolution

Size = int | tuple[int, int]


def scaled(count: int, width: float, multiple: int = 1) -> int:
    """``count * width`` channels, rounded to a multiple of ``multiple``, but not to 0."""
    require(0 < width < math.inf, "width", width, "a finite number > 0")
    return max(multiple, round(count * width / multiple) * multiple)


def he_normal_(tensor: Tensor) -> Tensor:
    """Fill a weight ``[out, in, ...]`` as Keras' he_normal: standard deviation sqrt(2 / fan_in).

    The normal distribution is truncated at two of its standard deviations, and widened so that the
    truncated one has the stated standard deviation.
    """
    fan_in = tensor[0].numel()
    std = math.sqrt(2 / fan_in) / 0.87962566103423978
    return nn.init.trunc_normal_(tensor, std=std, a=-2 * std, b=2 * std)


def start(layer: nn.Linear | nn.Conv2d, init: str = "keras") -> None:
    """Initialise a new torch layer with a bias as a framework does.

    Args:
        init: ``"torch"`` keeps torch's values, weight and bias from U(-a, a), a^2 = 1 / fan_in.
            ``"keras"`` sets a Glorot-uniform weight, U(-a, a) with a^2 = 6 / (fan_in + fan_out),
            and a zero bias.
    """
    require(init in ("keras", "torch"), "init", init, "'keras' or 'torch'")
    if init == "keras":
        nn.init.xavier_uniform_(layer.weight)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)


def _groups(layer: nn.Module, weight: Tensor, x: Tensor, dims: int) -> int:
    """The input's number of rows G. ``weight`` has rows, so ``x`` needs ``dims`` dimensions."""
    rows = weight.shape[0]
    if x.dim() < dims or x.shape[0] == 0 or rows % x.shape[0]:
        raise Error(
            f"{type(layer).__name__} has weights of {rows} rows and an input of shape "
            f"{tuple(x.shape)}: its first axis must be rows, whose number divides the weights' "
            "number of rows. x.unsqueeze(0) makes one row"
        )
    return x.shape[0]


def _each_image(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of images ``[N, C, H, W]`` to ``[B, C, H, W]`` or ``[G, B, C, H, W]``."""
    if x.dim() == 4:
        return function(x)
    if x.stride(0) < x.stride(1):
        # A convolution over rows left x in this layout, so merging in this order copies nothing.
        y = function(x.transpose(0, 1).flatten(0, 1))
        return torch.unflatten(y, 0, (x.shape[1], x.shape[0])).transpose(0, 1)
    return torch.unflatten(function(x.flatten(0, 1)), 0, x.shape[:2])


def same_padding(x: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Pad images ``[..., C, H, W]`` as TensorFlow's "same": ceil(size / stride) points come out.

    If the amount is odd, one more comes after than before.
    """
    amounts = []
    for size in (x.shape[-1], x.shape[-2]):
        total = max(0, (math.ceil(size / stride) - 1) * stride + kernel - size)
        amounts += [total // 2, total - total // 2]
    return _each_image(lambda images: F.pad(images, amounts, value=value), x)


def _affine(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(left, right) if bias is None else torch.baddbmm(bias, left, right)


def linear(layer: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W' + b`` with weight ``[out, in]``, or ``[R, out, in]`` and input ``[G, ..., in]``.

    ``layer`` owns the weights. It is named in errors.
    """
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    groups, rows = _groups(layer, weight, x, 3), weight.shape[0]
    if rows == 1:
        # With few examples the CPU adds a bias faster after the product than within it.
        y = F.linear(x, weight.squeeze(0))
        return y if bias is None else y + bias.squeeze(0)
    middle = x.shape[1:-1]
    if x.dim() > 3:
        x = x.flatten(1, -2)
    if groups == rows:
        y = _affine(x, weight.transpose(1, 2), None if bias is None else bias.unsqueeze(1))
    else:
        # [(R // G) * out, in] @ [in, B] for each input row, so that y needs no reordering.
        left = weight.reshape(groups, -1, weight.shape[-1])
        column = None if bias is None else bias.reshape(groups, -1, 1)
        y = _affine(left, x.transpose(1, 2), column)
        y = y.reshape(rows, -1, x.shape[1]).transpose(1, 2)
    return y if len(middle) == 1 else torch.unflatten(y, 1, middle)


class Linear(nn.Linear):
    """torch.nn.Linear, or R of them with weight ``[R, out, in]`` and input ``[G, ..., in]``."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(self, x, self.weight, self.bias)


class Conv2d(nn.Conv2d):
    """torch.nn.Conv2d, or R of them: weight ``[R, out, in, h, w]``, input ``[G, B, in, H, W]``.

    Args:
        padding: points added on each side. For TensorFlow's "same" see :func:`same_padding`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        bias: bool = True,
    ) -> None:
        if isinstance(padding, str):
            raise Error(f"padding is {padding!r} (allowed: points to add on each side)")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)

    def _strides_and_padding(self) -> tuple[convolution.Pair, convolution.Pair]:
        """Both as pairs, along the height and the width."""
        padding = (int(self.padding[0]), int(self.padding[1]))
        return (self.stride[0], self.stride[1]), padding

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int = 1) -> Tensor:
        if groups == 1 and x.device.type == "cpu":
            return convolution.on_cpu(x, weight, bias, *self._strides_and_padding())
        return F.conv2d(x, weight, bias, *self._strides_and_padding(), groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if weight.dim() == 4:
            return _each_image(lambda images: self._convolve(images, weight, bias), x)
        groups, rows = _groups(self, weight, x, 5), weight.shape[0]
        if rows == 1:
            shift = None if bias is None else bias.squeeze(0)
            return self._convolve(x.squeeze(0), weight.squeeze(0), shift).unsqueeze(0)
        if convolution.by_products(x, weight):
            return convolution.products(x, weight, bias, *self._strides_and_padding())
        if convolution.better_apart(x, weight):
            biases = [None] * rows if bias is None else bias.unbind(0)
            inputs = [row for row in x.unbind(0) for _ in range(rows // groups)]
            images = [*map(self._convolve, inputs, weight.unbind(0), biases)]
            return torch.unflatten(torch.cat(images), 0, (rows, -1))
        shifts = None if bias is None else bias.flatten()
        y = self._convolve(x.transpose(0, 1).flatten(1, 2), weight.flatten(0, 1), shifts, groups)
        return torch.unflatten(y, 1, (rows, -1)).transpose(0, 1)


class GroupNorm(nn.GroupNorm):
    """torch.nn.GroupNorm on images ``[..., C, H, W]``, or R of them: weight and bias ``[R, C]``."""

    def _normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        trained = any(p is not None and p.requires_grad for p in (weight, bias))
        if trained and not x.requires_grad:
            x = x.contiguous()  # torch 2.11 crashes if a pixel's channels are contiguous
        return _each_image(
            lambda images: F.group_norm(images, self.num_groups, weight, bias, self.eps), x
        )

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if weight is None or weight.dim() == 1:
            return self._normalise(x, weight, bias)
        groups, rows = _groups(self, weight, x, 5), weight.shape[0]
        if rows == 1:
            return self._normalise(x, weight.squeeze(0), bias.squeeze(0))
        if groups == rows:
            # Channel groups are normalised independently, so R rows of C channels are images of
            # R * C.
            y = F.group_norm(
                x.transpose(0, 1).flatten(1, 2),
                rows * self.num_groups,
                weight.flatten(),
                bias.flatten(),
                self.eps,
            )
            return torch.unflatten(y, 1, (rows, -1)).transpose(0, 1)
        y = self._normalise(x, None, None).unsqueeze(1)
        shape = (groups, rows // groups, 1, -1, 1, 1)
        return torch.addcmul(bias.reshape(shape), y, weight.reshape(shape)).flatten(0, 1)


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm over the last axis, or R of them: weight and bias ``[R, D]``."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__(size, eps)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, size = self.weight, self.bias, self.normalized_shape
        if weight.dim() == 1:
            return F.layer_norm(x, size, weight, bias, self.eps)
        groups, rows = _groups(self, weight, x, 3), weight.shape[0]
        if rows == 1:
            return F.layer_norm(x, size, weight.squeeze(0), bias.squeeze(0), self.eps)
        y = F.layer_norm(x, size, eps=self.eps).unsqueeze(1)
        shape = (groups, rows // groups, *(1,) * (x.dim() - 2), -1)
        return torch.addcmul(bias.reshape(shape), y, weight.reshape(shape)).flatten(0, 1)


def _largest_of_four(x: Tensor) -> Tensor:
    """Max-pooling by 2x2, without the indices of the maxima, which take most of a CPU's time."""
    height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    across = torch.maximum(x[..., :height, :width:2], x[..., :height, 1:width:2])
    return torch.maximum(across[..., ::2, :], across[..., 1::2, :])


class MaxPool2d(nn.Module):
    """Maximum over windows of images ``[..., C, H, W]``.

    Args:
        kernel_size: the window.
        stride: the window's step, by default the window itself.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride

    def _pool(self, x: Tensor) -> Tensor:
        by_two = self.kernel_size == 2 == self.stride
        differentiated = torch.is_grad_enabled() and x.requires_grad
        if by_two and x.device.type == "cpu" and not differentiated:
            return _largest_of_four(x)
        return F.max_pool2d(x, self.kernel_size, self.stride)

    def forward(self, x: Tensor) -> Tensor:
        return _each_image(self._pool, x)


class GlobalAvgPool2d(nn.Module):
    """``[..., C, H, W]`` to ``[..., C]``, the mean over the image."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


class Flatten(nn.Module):
    """Merge the last dimensions of images, C, H, W in this order, into one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(-3)


class Dropout(nn.Module):
    """Dropout while training, with keyed masks if the engine has opened them.

    See :func:`fedlib.randomness.dropout`. It drops with probability p.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        require(0 <= p < 1, "dropout probability", p, "0 <= p < 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return randomness.dropout(x, self.p) if self.training else x


class Dropout2d(Dropout):
    """Dropout of whole channels of images ``[..., C, H, W]`` while training, with keyed masks."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * randomness.dropout(x.new_ones(x.shape[:-2]), self.p)[..., None, None]


# The mask of real examples in this thread, see :func:`real_examples`.
REAL: ContextVar[Tensor | None] = ContextVar("real examples", default=None)


@contextmanager
def real_examples(mask: Tensor | None) -> Iterator[None]:
    """In this context, layers that mix a batch's examples count only real ones, not the padding.

    Args:
        mask: bool ``[G, B]`` (``[B]`` for one model without a row axis), True for real examples.
            None if all are.
    """
    outer = REAL.set(mask)
    try:
        yield
    finally:
        REAL.reset(outer)
