"""EMNIST character recognition of FedOpt and Mime: 62 classes, a client per writer, a small CNN."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor

from fedlib import datasets, partitioners
from fedlib.datasets import Dataset, standins
from fedlib.errors import Error, require
from fedlib.models import EMNISTCNN
from fedlib.randomness import numpy_generator
from fedlib.tasks import settings
from fedlib.tasks.base import ClientData, Task

CLASSES = 62


def transform(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 28, 28]`` -> float32 ``[..., 1, 28, 28]`` in [0, 1], nothing else."""
    return (x.float() / 255).unsqueeze(-3)


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    width: float | None = None,
) -> Task:
    """Writers as clients, 10 a round, batches of 20, 1500 rounds.

    Sources: FedOpt section 4 (task), Table 4 (model), Table 7 (batch), Tables 8 and 9
    (hyperparameters). Paper is 1 and ink 0, as in the federated EMNIST files. ``quick``: 40
    writers, a quarter of the width, 20 rounds.

    Args:
        seed: of the choice of writers where there are more than ``clients``.
        data: the prepared data set, with writers; default ``emnist``, else ``femnist``, else the
            offline stand-in of ``emnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
        width: factor on all layer widths.
    """
    quick = preset == "quick"
    width = (0.25 if quick else 1.0) if width is None else width
    dataset = _choose(data, data_root)
    invert = dataset.polarity == "ink_bright"
    train_parts, test_parts, ids = _writers(dataset, clients, 40 if quick else None, seed)
    return Task(
        name="emnist_cr",
        model=lambda: EMNISTCNN(CLASSES, width=width),
        train=ClientData(*_tensors(dataset.train_x, dataset.train_y, invert), train_parts, ids),
        test=ClientData(*_tensors(dataset.test_x, dataset.test_y, invert), test_parts, ids),
        transform=transform,
        rounds=20 if quick else 1500,
        clients_per_round=10,
        batch_size=20,
        hyperparameters=settings.fedopt("EMNIST CR"),
        preset=preset,
        seed=seed,
        options={"data": dataset.name, "clients": len(ids), "width": float(width)},
        stand_in=dataset.stand_in,
        source=dataset.source,
        fingerprint=dataset.fingerprint,
        label="EMNIST CR",
    )


def _choose(data: str | None, data_root: str | os.PathLike[str] | None) -> Dataset:
    """What was asked for, else the first prepared data with writers, else the stand-in."""
    prepared = [
        name for name in ("emnist", "femnist") if datasets.info(name, data_root)["prepared"]
    ]
    for name in [data] if data else prepared:
        dataset = datasets.load(name, data_root)
        if dataset.train_client is not None and dataset.test_client is not None:
            return dataset
    if data:
        raise Error(
            f"task emnist_cr: data {data!r} has no writers; import it with "
            "train_client and test_client"
        )
    return standins.make("emnist")


def _writers(
    dataset: Dataset, clients: int | None, most: int | None, seed: int
) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Examples of writers that are in both splits; by default at most ``most`` writers."""
    train, test = (
        dict(zip(np.unique(codes).tolist(), partitioners.by_user(codes), strict=True))
        for codes in (np.asarray(dataset.train_client), np.asarray(dataset.test_client))
    )
    writers = sorted(set(train) & set(test))
    if not writers:
        raise Error(
            f"task emnist_cr: no writer of {dataset.name!r} is in both splits; see data/README.md"
        )
    allowed = f"1..{len(writers)} (the writers of {dataset.name!r} in both splits)"
    count = min(most or len(writers), len(writers)) if clients is None else clients
    require(1 <= count <= len(writers), "clients", count, allowed)
    chosen = np.sort(
        numpy_generator(seed, "writers").choice(writers, count, replace=False)
    ).tolist()
    return [train[w] for w in chosen], [test[w] for w in chosen], [str(w) for w in chosen]


def _tensors(x: np.ndarray, y: np.ndarray, invert: bool) -> tuple[Tensor, Tensor]:
    pixels = np.array(x)
    return torch.from_numpy(255 - pixels if invert else pixels), torch.from_numpy(np.array(y))
