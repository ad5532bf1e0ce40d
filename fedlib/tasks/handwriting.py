"""What the EMNIST tasks share: data with writers, and a client per writer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib import datasets, partitioners
from fedlib.datasets import Dataset, standins
from fedlib.errors import Error, require
from fedlib.randomness import numpy_generator

CLASSES = 62
PIXELS = 28 * 28
QUICK_WRITERS = 40


@dataclass(frozen=True)
class Writers:
    """Handwriting with the examples of its chosen writers.

    Attributes:
        data: all of it.
        train, test: of each writer the indices of its examples, in the two splits.
        ids: the writers' codes.
    """

    data: Dataset
    train: list[np.ndarray]
    test: list[np.ndarray]
    ids: list[str]

    def tensors(self, split: str, ink: str) -> tuple[Tensor, Tensor]:
        """Pixels uint8 ``[N, 28, 28]`` and labels ``[N]`` of a split.

        Args:
            split: ``"train"`` or ``"test"``.
            ink: ``"dark"`` or ``"bright"``; pixels of the other polarity are turned over.
        """
        x, y = (getattr(self.data, f"{split}_{field}") for field in "xy")
        pixels = np.array(x)
        other = "ink_bright" if ink == "dark" else "ink_dark"
        if self.data.polarity == other:
            pixels = 255 - pixels
        return torch.from_numpy(pixels), torch.from_numpy(np.array(y))


def load_writers(
    task: str,
    data: str | None,
    data_root: str | os.PathLike[str] | None,
    clients: int | None,
    preset: str,
    seed: int,
    prefer: Sequence[str] = ("emnist", "femnist"),
) -> Writers:
    """Writers that are in both splits.

    Args:
        task: its name, for errors.
        data: the prepared data set; default the first of ``prefer`` that is prepared with writers,
            else the offline stand-in of ``prefer[0]``.
        clients: how many writers; default all, at most 40 under the quick preset.
        seed: of the choice of writers.

    Raises:
        Error: data without writers, or more clients than there are.
    """
    dataset = _choose(task, data, data_root, prefer)
    train, test = (
        dict(zip(np.unique(codes).tolist(), partitioners.by_user(codes), strict=True))
        for codes in (np.asarray(dataset.train_client), np.asarray(dataset.test_client))
    )
    writers = sorted(set(train) & set(test))
    if not writers:
        raise Error(
            f"task {task}: no writer of {dataset.name!r} is in both splits; see data/README.md"
        )
    allowed = f"1..{len(writers)} (the writers of {dataset.name!r} in both splits)"
    most = QUICK_WRITERS if preset == "quick" else len(writers)
    count = min(most, len(writers)) if clients is None else clients
    require(1 <= count <= len(writers), "clients", count, allowed)
    chosen = np.sort(
        numpy_generator(seed, "writers").choice(writers, count, replace=False)
    ).tolist()
    return Writers(
        dataset, [train[w] for w in chosen], [test[w] for w in chosen], [str(w) for w in chosen]
    )


def _choose(
    task: str, data: str | None, data_root: str | os.PathLike[str] | None, prefer: Sequence[str]
) -> Dataset:
    """What was asked for, else the first prepared data with writers, else the stand-in."""
    prepared = [name for name in prefer if datasets.info(name, data_root)["prepared"]]
    for name in [data] if data else prepared:
        dataset = datasets.load(name, data_root)
        if dataset.train_client is not None and dataset.test_client is not None:
            return dataset
    if data:
        raise Error(
            f"task {task}: data {data!r} has no writers; import it with "
            "train_client and test_client"
        )
    return standins.make(prefer[0])


def flat_pixels(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 28, 28]`` -> float32 ``[..., 784]`` in [0, 1], nothing else."""
    return (x.float() / 255).flatten(-2)
