"""AdaFedAdam's Femnist setup: characters by writer, an MLP, every client in every round."""

from __future__ import annotations

import os

import numpy as np
import torch

from fedlib import papers, partitioners
from fedlib.models import MLP
from fedlib.randomness import key
from fedlib.task import ClientData, Task
from fedlib.tasks import settings
from fedlib.tasks.handwriting import CLASSES, PIXELS, flat_pixels, load_writers


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    width: float | None = None,
) -> Task:
    """3500 writers, all in every round, batches of 10, 500 rounds.

    Source: AdaFedAdam, appendix C.1. All of a writer's examples, whatever split they come in, are
    divided at random: 80 % train, 20 % test. The pseudo-code loops over all clients; sampling fewer
    (``clients_per_round``) is a cheaper reading. Paper is 1 and ink 0, as in LEAF's files.
    ``quick``: 40 writers, a quarter of the width, 20 rounds.

    Args:
        seed: of the choice of writers where there are more than ``clients``, and of their division.
        data: the prepared data set, with writers; default ``femnist``, else ``emnist``, else the
            offline stand-in of ``femnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
        width: factor on the hidden layer.
    """
    quick = preset == "quick"
    width = (0.25 if quick else 1.0) if width is None else width
    writers = load_writers(
        "fair_femnist", data, data_root, clients, preset, seed, prefer=("femnist", "emnist")
    )
    train_x, train_y = writers.tensors("train", ink="dark")
    test_x, test_y = writers.tensors("test", ink="dark")
    x, y = torch.cat([train_x, test_x]), torch.cat([train_y, test_y])
    parts = [
        np.concatenate([train, test + len(train_x)])
        for train, test in zip(writers.train, writers.test, strict=True)
    ]
    train_parts, test_parts = partitioners.local_split(parts, 0.2, key(seed, "fair_femnist"))
    setup = papers.settings("adafedadam")["setups"]["Femnist"]
    return Task(
        name="fair_femnist",
        model=lambda: MLP(PIXELS, (128,), CLASSES, width=width),
        train=ClientData(x, y, train_parts, writers.ids),
        test=ClientData(x, y, test_parts, writers.ids),
        transform=flat_pixels,
        rounds=20 if quick else setup["rounds"],
        clients_per_round=None,
        batch_size=setup["batch_size"],
        hyperparameters=settings.adafedadam("Femnist"),
        preset=preset,
        seed=seed,
        options={"data": writers.data.name, "clients": len(writers.ids), "width": float(width)},
        stand_in=writers.data.stand_in,
        source=writers.data.source,
        fingerprint=writers.data.fingerprint,
        label="Femnist",
    )
