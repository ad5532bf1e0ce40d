"""The common parts of text tasks: choice of data and clients, and arrays as tensors."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedlib.datasets import TextDataset
from fedlib.datasets.dataset import describe, fingerprint
from fedlib.tasks.presets import AtMost, sample


def origin(dataset: TextDataset, official: str, title: str, **arrays: np.ndarray) -> dict[str, Any]:
    """The fields of a task that describe its data.

    Args:
        official: the data set of the paper, called ``title``. For other real data, ``source`` says
            that they replace it.
        arrays: the task's encoded texts, which the fingerprint is taken of.
    """
    source = dataset.source
    if not dataset.stand_in and dataset.name != official:
        source += f" ({dataset.name}, real texts in place of {title})"
    fingerprint = encoded_fingerprint(**arrays)
    return {"stand_in": dataset.stand_in, "source": source, "fingerprint": fingerprint}


def pick(clients: np.ndarray, count: int | AtMost, seed: int) -> np.ndarray:
    """Some of ``clients [M]``, in their order. See :func:`fedlib.tasks.presets.sample`."""
    of = "the clients of this data set"
    return clients[sample(count, len(clients), "clients", seed, of=of)]


def packed(codes: np.ndarray, clients: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of ``clients`` in ``codes [N]``, client after client, and their counts. Int64.

    Args:
        most: largest number per client, the first ones. 0 for all.
    """
    places = pd.Series(codes).groupby(codes).indices
    parts = [places[client][: most or None] for client in clients.tolist()]
    return np.concatenate(parts), sizes_of(parts)


def tensor(array: np.ndarray) -> Tensor:
    """An array as a tensor on the same memory. Nobody writes to a task's data."""
    with warnings.catch_warnings():
        # Memory maps are read-only, and torch warns of that.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def sizes_of(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The number of examples in each part, int64."""
    return np.array([len(part) for part in parts], dtype=np.int64)


def consecutive(sizes: np.ndarray) -> list[np.ndarray]:
    """Consecutive parts of these sizes: for sizes 2 and 3 they are 0, 1 and 2, 3, 4."""
    return np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])


def encoded_fingerprint(**arrays: np.ndarray) -> str:
    """SHA-256 (hex) of a task's encoded texts."""
    return fingerprint({key: describe(array) for key, array in arrays.items()}, None)
