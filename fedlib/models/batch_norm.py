"""Batch normalisation without running statistics, for one model or for many at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.errors import Error
from fedlib.models.layers import _groups, real_examples

# Test images are normalised together in batches of this many, as in Delta-SGD's published code.
EVALUATION_BATCH = 128


class BatchNorm2d(nn.BatchNorm2d):
    """torch.nn.BatchNorm2d with ``track_running_stats=False``, or R of them: weight ``[R, C]``.

    Images ``[..., B, C, H, W]`` are normalised with the mean and variance of their own batch, in
    training and in evaluation. Running statistics would be state beside the parameters, which rows
    cannot share and federated averaging does not define. In evaluation mode the images are cut into
    consecutive batches of :data:`EVALUATION_BATCH`, so that a prediction does not depend on how
    many images pass at once (as long as they are multiples of that).

    Padding (see :class:`fedlib.models.layers.real_examples`) counts in no mean and no variance.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__(channels, eps, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if weight.dim() == 2:
            repeats = len(weight) // _groups(self, weight, x, 5)
            x = x.repeat_interleave(repeats, 0) if repeats > 1 else x
        elif x.dim() == 4:
            return self.rows(x.unsqueeze(0), weight.unsqueeze(0), bias.unsqueeze(0))[0]
        else:
            weight, bias = weight.expand(len(x), -1), bias.expand(len(x), -1)
        return self.rows(x, weight, bias)

    def rows(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """``x [R, B, C, H, W]`` normalised with ``weight, bias [R, C]``."""
        size = x.shape[1] if self.training else EVALUATION_BATCH
        real, batches = real_examples.active(), []
        for start in range(0, x.shape[1], size):
            part = x[:, start : start + size]
            if real is None:
                batches.append(self._whole(part, weight, bias))
            else:
                mask = real[..., start : start + size]
                batches.append(self._padded(part, weight, bias, mask))
        return batches[0] if len(batches) == 1 else torch.cat(batches, 1)

    def _whole(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        # Channels are normalised one by one: R rows of C channels are images of R * C.
        images = x.transpose(0, 1).flatten(1, 2)
        y = F.batch_norm(
            images, None, None, weight.flatten(), bias.flatten(), training=True, eps=self.eps
        )
        return torch.unflatten(y, 1, weight.shape).transpose(0, 1)

    def _padded(self, x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        rows, mask = len(x), mask.reshape(-1, mask.shape[-1])
        if rows % len(mask) or mask.shape[1] != x.shape[1]:
            raise Error(
                f"BatchNorm2d has an input of {rows} rows of {x.shape[1]} examples and a mask of "
                f"shape {tuple(mask.shape)}; its rows must divide the input's, its examples agree"
            )
        # A batch of padding alone counts it, so that its numbers, which nobody uses, stay finite.
        mask = mask | ~mask.any(1, keepdim=True)
        real = mask.to(x.dtype).repeat_interleave(rows // len(mask), 0).view(rows, -1, 1, 1, 1)
        count = real.sum(1, keepdim=True) * (x.shape[-2] * x.shape[-1])
        mean = (x * real).sum((1, 3, 4), keepdim=True) / count
        centred = x - mean
        variance = (centred.square() * real).sum((1, 3, 4), keepdim=True) / count
        scale = weight.view(rows, 1, -1, 1, 1) * torch.rsqrt(variance + self.eps)
        return torch.addcmul(bias.view(rows, 1, -1, 1, 1), centred, scale)
