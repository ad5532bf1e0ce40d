"""Mime's "EMNIST MLP" (Figure 1): a 300-100 network on characters, a client per writer."""

from __future__ import annotations

import os

from fedlib import papers
from fedlib.models import MLP
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
    """Writers as clients, 20 a round, 10 local epochs, batches of 20, 1000 rounds.

    Source: Mime, section 5.1 and Figure 1. No batch size is printed; FedOpt's EMNIST batches hold
    20. Ink is 1 and paper 0, as the authors' library has it. ``quick``: 40 writers, a quarter of
    the width, 20 rounds.

    Args:
        seed: of the choice of writers where there are more than ``clients``.
        data: the prepared data set, with writers; default ``emnist``, else ``femnist``, else the
            offline stand-in of ``emnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
        width: factor on the hidden layers.
    """
    quick = preset == "quick"
    width = (0.25 if quick else 1.0) if width is None else width
    writers = load_writers("emnist_mlp", data, data_root, clients, preset, seed)
    figure = papers.settings("mime")["figure1"]
    return Task(
        name="emnist_mlp",
        model=lambda: MLP(PIXELS, figure["hidden_units"], CLASSES, width=width),
        train=ClientData(*writers.tensors("train", ink="bright"), writers.train, writers.ids),
        test=ClientData(*writers.tensors("test", ink="bright"), writers.test, writers.ids),
        transform=flat_pixels,
        rounds=20 if quick else figure["rounds"],
        clients_per_round=figure["clients_per_round"],
        batch_size=20,
        local_epochs=figure["local_epochs"],
        hyperparameters=settings.mime("EMNIST MLP"),
        preset=preset,
        seed=seed,
        options={"data": writers.data.name, "clients": len(writers.ids), "width": float(width)},
        stand_in=writers.data.stand_in,
        source=writers.data.source,
        fingerprint=writers.data.fingerprint,
        label="EMNIST MLP",
    )
