"""Batch normalisation, with or without running statistics, for one model or for several at once."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.models.layers import REAL, _groups

# Test images are normalised together in batches of this many, as in Delta-SGD's published code.
EVALUATION_BATCH = 128


class BatchNorm2d(nn.BatchNorm2d):
    """torch.nn.BatchNorm2d, or R of them with weight ``[R, C]``.

    Images ``[..., B, C, H, W]`` are normalised with the mean and variance of their own batch, in
    training and in evaluation. In evaluation mode they are split into consecutive batches of
    :data:`EVALUATION_BATCH`, so that a prediction does not depend on how many images pass at once
    (as long as they are multiples of that).

    With ``track`` evaluation uses running statistics instead, which is torch's default. A forward
    pass in training moves them by a tenth towards the batch's statistics. It replaces the old
    tensors (``moving`` names them) by new ones, so that the engine can give every row its own,
    ``[R, C]``, and read the new values. See :class:`fedlib.engine.rows.Statistics`.

    Padding (see :class:`fedlib.models.layers.real_examples`) counts in no mean and no variance.
    """

    def __init__(self, channels: int, eps: float = 1e-5, track: bool = False) -> None:
        super().__init__(channels, eps, track_running_stats=track)
        self.moving = ("running_mean", "running_var") if track else ()

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if weight.dim() == 2:
            repeats = len(weight) // _groups(self, weight, x, 5)
            x = x.repeat_interleave(repeats, 0) if repeats > 1 else x
        elif x.dim() == 4:
            # Not [0], whose gradient would come in another memory layout, which is slow.
            return self.rows(x.unsqueeze(0), weight.unsqueeze(0), bias.unsqueeze(0)).squeeze(0)
        else:
            weight, bias = weight.expand(len(x), -1), bias.expand(len(x), -1)
        return self.rows(x, weight, bias)

    def rows(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """``x [R, B, C, H, W]`` normalised with ``weight, bias [R, C]``."""
        if self.moving and not self.training:
            mean, variance = (getattr(self, name) for name in self.moving)
            return _scaled(x, mean, variance, weight, bias, self.eps)
        if self.moving:
            self._move(x.detach())
        size = x.shape[1] if self.training else EVALUATION_BATCH
        real, batches = REAL.get(), []
        for start in range(0, x.shape[1], size):
            part = x[:, start : start + size]
            if real is None:
                batches.append(self._whole(part, weight, bias))
            else:
                mask = real[..., start : start + size]
                _, mean, variance = _moments(part, mask.reshape(-1, mask.shape[-1]))
                batches.append(_scaled(part, mean, variance, weight, bias, self.eps))
        return batches[0] if len(batches) == 1 else torch.cat(batches, 1)

    def _whole(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        # Channels are normalised independently, so R rows of C channels are images of R * C.
        images = x.transpose(0, 1).flatten(1, 2)
        y = F.batch_norm(
            images, None, None, weight.flatten(), bias.flatten(), training=True, eps=self.eps
        )
        return torch.unflatten(y, 1, weight.shape).transpose(0, 1)

    def _move(self, x: Tensor) -> None:
        """Move the running statistics towards the statistics of ``x [R, B, C, H, W]``."""
        real = REAL.get()
        mask = x.new_ones(1, x.shape[1]) if real is None else real.reshape(-1, real.shape[-1])
        count, mean, variance = _moments(x, mask)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        for name, batch in (("running_mean", mean), ("running_var", unbiased)):
            old: Tensor = getattr(self, name)
            batch = batch if old.dim() == 2 else batch.squeeze(0)
            setattr(self, name, torch.lerp(old, batch, self.momentum or 0.0))


def _moments(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The number of values of a channel ``[R, 1]``, their mean and their variance ``[R, C]``.

    A batch of nothing but padding counts it, so that its unused statistics stay finite.

    Args:
        x: ``[R, B, C, H, W]``.
        mask: ``[G, B]``, True for real examples. G divides R.
    """
    mask = mask.bool() | ~mask.bool().any(1, keepdim=True)
    real = mask.to(x.dtype).repeat_interleave(len(x) // len(mask), 0).view(len(x), -1, 1, 1, 1)
    count = real.sum(1, keepdim=True) * (x.shape[-2] * x.shape[-1])
    mean = (x * real).sum((1, 3, 4), keepdim=True) / count
    variance = ((x - mean).square() * real).sum((1, 3, 4), keepdim=True) / count
    return count.flatten(1), mean[:, 0, :, 0, 0], variance[:, 0, :, 0, 0]


def _scaled(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` by channel, statistics ``[(R,) C]``."""

    def channels(values: Tensor) -> Tensor:
        return values.view(-1, 1, values.shape[-1], 1, 1)

    scale = channels(weight) * torch.rsqrt(channels(variance) + eps)
    return torch.addcmul(channels(bias), x - channels(mean), scale)
