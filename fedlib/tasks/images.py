"""Transforms of raw images, batched over clients and keyed per example."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedlib import randomness


def crop(x: Tensor, size: int, top: Tensor, left: Tensor) -> Tensor:
    """Windows of ``x [..., H, W, C]`` at ``top, left [...]``: ``[..., size, size, C]``."""
    flat = x.reshape(-1, *x.shape[-3:])
    window = torch.arange(size, device=x.device)
    image = torch.arange(len(flat), device=x.device).view(-1, 1, 1)
    rows = top.reshape(-1, 1, 1) + window.view(1, -1, 1)
    columns = left.reshape(-1, 1, 1) + window.view(1, 1, -1)
    return flat[image, rows, columns].view(*x.shape[:-3], size, size, x.shape[-1])


def random_crop_flip(x: Tensor, size: int, keys: Tensor) -> Tensor:
    """A random window and a horizontal flip with probability 1/2, for each image by its key.

    Args:
        x: ``[..., H, W, C]``.
        size: side of the square window.
        keys: int64 ``[...]``.
    """
    draws = randomness.uniform(keys, 3)
    top = (draws[..., 0] * (x.shape[-3] - size + 1)).long()
    left = (draws[..., 1] * (x.shape[-2] - size + 1)).long()
    window = crop(x, size, top, left)
    flip = (draws[..., 2] < 0.5).view(*keys.shape, 1, 1, 1)
    return torch.where(flip, window.flip(-2), window)


def centre_crop(x: Tensor, size: int) -> Tensor:
    """The central window of ``x [..., H, W, C]``."""
    top, left = (x.shape[-3] - size) // 2, (x.shape[-2] - size) // 2
    return x[..., top : top + size, left : left + size, :]


def standardize(x: Tensor) -> Tensor:
    """Each image to mean 0 and standard deviation 1 over all its N numbers.

    The divisor is at least N^-1/2, as in TensorFlow's per_image_standardization. ``x [..., H, W,
    C]`` of any dtype -> float32.
    """
    x = x.float()
    std, mean = torch.std_mean(x, dim=(-3, -2, -1), keepdim=True, correction=0)
    return (x - mean) / std.clamp(min=1 / math.sqrt(math.prod(x.shape[-3:])))


def channels_first(x: Tensor) -> Tensor:
    """``[..., H, W, C]`` -> ``[..., C, H, W]``."""
    return x.movedim(-1, -3).contiguous()
