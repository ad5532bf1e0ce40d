"""What the text tasks share: which data, which clients, and arrays as tensors."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from fedlib import datasets
from fedlib.datasets import TextDataset
from fedlib.datasets.dataset import describe, fingerprint
from fedlib.datasets.store import Root
from fedlib.errors import require
from fedlib.randomness import numpy_generator


def is_prepared(name: str, data_root: Root) -> bool:
    """Whether a copy of a data set is under the data root."""
    return name in datasets.store.prepared_names(data_root)


def choose(official: str, substitute: str, data: str | None, data_root: Root) -> TextDataset:
    """The data asked for; else the official set, a real substitute if prepared, or a stand-in."""
    if data is None:
        swap = not is_prepared(official, data_root) and is_prepared(substitute, data_root)
        data = substitute if swap else official
    return datasets.load_text(data, data_root)


def source(dataset: TextDataset, official: str, title: str) -> str:
    """Where the data comes from; a real data set other than the paper's says that it is another."""
    if dataset.stand_in or dataset.name == official:
        return dataset.source
    return f"{dataset.source} ({dataset.name}, real texts in place of {title})"


def pick(clients: np.ndarray, count: int | None, most: int | None, seed: int) -> np.ndarray:
    """Some of ``clients [M]``, in their order.

    Args:
        count: how many; default all, but ``most`` at most.
        seed: of the choice.

    Raises:
        Error: more clients asked for than there are, or fewer than one.
    """
    if count is None:
        count = len(clients) if most is None else min(most, len(clients))
    good = isinstance(count, int) and 1 <= count <= len(clients)
    require(good, "clients", count, f"1..{len(clients)} (the clients of this data set)")
    if count == len(clients):
        return clients
    chosen = numpy_generator(seed, "clients").choice(len(clients), count, replace=False)
    return clients[np.sort(chosen)]


def by_client(codes: np.ndarray, clients: np.ndarray) -> list[np.ndarray]:
    """For each of ``clients`` the positions in ``codes [N]`` that hold it, ascending."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    left, right = (np.searchsorted(ordered, clients, side=side) for side in ("left", "right"))
    return [order[a:b] for a, b in zip(left, right, strict=True)]


def tensor(array: np.ndarray) -> Tensor:
    """An array as a tensor on the same memory; nobody writes to a task's data."""
    with warnings.catch_warnings():
        # Memory maps are read-only, which torch remarks on.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def encoded_fingerprint(**arrays: np.ndarray) -> str:
    """SHA-256 (hex) of what a task made of its texts."""
    return fingerprint({key: describe(array) for key, array in arrays.items()}, None)
