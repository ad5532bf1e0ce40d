"""EMNIST character recognition of FedOpt and Mime: 62 classes, a client per writer, a small CNN."""

from __future__ import annotations

import os

from torch import Tensor

from fedlib.models import EMNISTCNN
from fedlib.task import ClientData, Task
from fedlib.tasks import settings
from fedlib.tasks.handwriting import CLASSES, load_writers


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

    Mime's Table 2 has this task as "EMNIST CNN" (1000 rounds, 20 clients a round for FedAvg).

    Args:
        seed: of the choice of writers where there are more than ``clients``.
        data: the prepared data set, with writers; default ``emnist``, else ``femnist``, else the
            offline stand-in of ``emnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
        width: factor on all layer widths.
    """
    quick = preset == "quick"
    width = (0.25 if quick else 1.0) if width is None else width
    writers = load_writers("emnist_cr", data, data_root, clients, preset, seed)
    own = settings.fedopt("EMNIST CR")
    return Task(
        name="emnist_cr",
        model=lambda: EMNISTCNN(CLASSES, width=width),
        train=ClientData(*writers.tensors("train", ink="dark"), writers.train, writers.ids),
        test=ClientData(*writers.tensors("test", ink="dark"), writers.test, writers.ids),
        transform=transform,
        rounds=20 if quick else 1500,
        clients_per_round=10,
        batch_size=20,
        hyperparameters=settings.mime("EMNIST CNN") | own,
        preset=preset,
        seed=seed,
        options={"data": writers.data.name, "clients": len(writers.ids), "width": float(width)},
        stand_in=writers.data.stand_in,
        source=writers.data.source,
        fingerprint=writers.data.fingerprint,
        label="EMNIST CR",
    )
