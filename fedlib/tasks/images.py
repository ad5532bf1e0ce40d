"""Common to image tasks: transforms, batched over clients and keyed per example, and clients."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedlib import datasets, randomness
from fedlib.clients import ClientData
from fedlib.datasets import Dataset, TextDataset
from fedlib.errors import Error
from fedlib.tasks.presets import Given, choose_data

Constants = tuple[tuple[float, ...], tuple[float, ...]]
# Means and deviations of the channels (pixels in [0, 1]) as in Delta-SGD's code. FedNova's code has
# the same for CIFAR-10.
CIFAR10: Constants = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
CIFAR100: Constants = ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))


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
    """Scale each image to mean 0 and standard deviation 1 over all its N numbers.

    The divisor is at least N^-1/2, as in TensorFlow's per_image_standardization. ``x [..., H, W,
    C]`` of any dtype -> float32.
    """
    x = x.float()
    std, mean = torch.std_mean(x, dim=(-3, -2, -1), keepdim=True, correction=0)
    return (x - mean) / std.clamp(min=1 / math.sqrt(math.prod(x.shape[-3:])))


def channels_first(x: Tensor) -> Tensor:
    """``[..., H, W, C]`` -> ``[..., C, H, W]``."""
    return x.movedim(-1, -3).contiguous()


def scaled(
    x: Tensor,
    keys: Tensor | None,
    *,
    constants: Constants,
    white: int = 255,
    grey: bool = False,
    pad: int = 0,
) -> Tensor:
    """Images ``[..., H, W, C]`` -> float32 ``[..., C, H, W]``, shifted and scaled by channel.

    Args:
        constants: mean and deviation of each channel, which become 0 and 1.
        white: the point that is 1 in the constants' unit.
        grey: images are ``[..., H, W]``, with one channel.
        pad: in training, pad the image by this many black points, take a random window of it and
            flip it at random, for each image by its key.
    """
    x = x.unsqueeze(-1) if grey else x
    if keys is not None and pad:
        x = random_crop_flip(F.pad(x, (0, 0, pad, pad, pad, pad)), x.shape[-2], keys)
    mean, std = (constant(values, x.device) for values in constants)
    return channels_first((x.float() / white - mean) / std)


@functools.lru_cache(maxsize=16)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers as a cached tensor, so that they are moved to a device once."""
    return torch.tensor(values, device=device)


def grey(x: Tensor, keys: Tensor | None, *, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """uint8 grey images ``[..., H, W]`` -> float32 ``[..., 1, H, W]``.

    Args:
        mean, std: statistics of pixels in [0, 1], which become 0 and 1. Default: unchanged pixels.
    """
    return ((x.float() / 255 - mean) / std).unsqueeze(-3)


def flat_pixels(
    x: Tensor, keys: Tensor | None, *, mean: float = 0.0, std: float = 1.0, block: int = 1
) -> Tensor:
    """The same as float32 ``[..., F]``, for means over squares of ``block`` by ``block`` pixels."""
    pixels = F.avg_pool2d((x.float() / 255).flatten(0, -3), block)
    return (pixels.view(*x.shape[:-2], -1) - mean) / std


def pooled_pixels(x: Tensor, keys: Tensor | None, *, pool: int) -> Tensor:
    """Like :func:`flat_pixels`, but its means differ in the last bit."""
    squares = x.float().unfold(-2, pool, pool).unfold(-2, pool, pool) / 255
    return squares.mean((-2, -1)).flatten(-2)


def load(given: Given, *prefer: str) -> Dataset:
    """A task's images as uint8. :func:`fedlib.tasks.presets.choose_data` chooses the data.

    Raises:
        Error: images are floating points neither in 0 to 1 nor in 0 to 255.
    """
    dataset = datasets.load(choose_data(given, *prefer), given.data_root)
    if dataset.train_x.dtype == np.uint8:
        return dataset
    splits = {split: np.asarray(getattr(dataset, split)) for split in ("train_x", "test_x")}
    low = min(float(x.min()) for x in splits.values())
    high = max(float(x.max()) for x in splits.values())
    if low < 0 or high > 255:
        what = f"the images of {dataset.name!r} have points from {low:g} to {high:g}"
        raise Error(f"{what} (allowed: 0 to 1, or 0 to 255)")
    scale = 255 if high <= 1 else 1
    whole: dict[str, Any] = {
        split: np.rint(x * scale).astype(np.uint8) for split, x in splits.items()
    }
    return dataclasses.replace(dataset, **whole)


def tensor(array: np.ndarray) -> Tensor:
    """A copy of an array, which may be a memory map, as a tensor."""
    return torch.from_numpy(np.array(array))


def clients(
    dataset: Dataset, split: str, parts: Sequence[np.ndarray], ids: Sequence[str] = ()
) -> ClientData:
    """A split's images and labels with the given partition."""
    x, y = (tensor(getattr(dataset, f"{split}_{field}")) for field in "xy")
    return ClientData(x, y, parts, ids)


def classes(dataset: Dataset) -> int:
    """The number of classes in both splits' labels."""
    return int(max(dataset.train_y.max(), dataset.test_y.max())) + 1


def origin(dataset: Dataset | TextDataset) -> dict[str, Any]:
    """The fields of a task that describe its data."""
    return {name: getattr(dataset, name) for name in ("stand_in", "source", "fingerprint")}
