"""Mime's "EMNIST logistic": softmax regression on characters, a client per writer."""

from __future__ import annotations

import os

from fedlib.models import Softmax
from fedlib.task import ClientData, Task
from fedlib.tasks import settings
from fedlib.tasks.handwriting import CLASSES, PIXELS, flat_pixels, load_writers


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
) -> Task:
    """Writers as clients, 20 a round, batches of 20, one local epoch, 1000 rounds.

    Source: Mime, section 5 and Table 2. The paper counts communication, not clients: 20 a round is
    what FedAvg's 40 model sizes pay for, methods that send more sample fewer. It prints no batch
    size; its setup "closely matches" FedOpt's, whose EMNIST batches hold 20. Ink is 1 and paper 0,
    as the authors' library has it. ``quick``: 40 writers, 30 rounds.

    Args:
        seed: of the choice of writers where there are more than ``clients``.
        data: the prepared data set, with writers; default ``emnist``, else ``femnist``, else the
            offline stand-in of ``emnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
    """
    writers = load_writers("emnist_logistic", data, data_root, clients, preset, seed)
    return Task(
        name="emnist_logistic",
        model=lambda: Softmax(PIXELS, CLASSES),
        train=ClientData(*writers.tensors("train", ink="bright"), writers.train, writers.ids),
        test=ClientData(*writers.tensors("test", ink="bright"), writers.test, writers.ids),
        transform=flat_pixels,
        rounds=30 if preset == "quick" else 1000,
        clients_per_round=20,
        batch_size=20,
        hyperparameters=settings.mime("EMNIST logistic"),
        preset=preset,
        seed=seed,
        options={"data": writers.data.name, "clients": len(writers.ids)},
        stand_in=writers.data.stand_in,
        source=writers.data.source,
        fingerprint=writers.data.fingerprint,
        label="EMNIST logistic",
    )
