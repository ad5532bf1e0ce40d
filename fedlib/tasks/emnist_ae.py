"""EMNIST autoencoder of FedOpt: a client per writer, a dense network that reproduces its input."""

from __future__ import annotations

import os

from torch import Tensor

from fedlib import losses
from fedlib.models import EMNISTAutoencoder
from fedlib.task import ClientData, Task
from fedlib.tasks import settings
from fedlib.tasks.handwriting import flat_pixels, load_writers


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error ``[R, B]`` over pixels: outputs in [0, 1], targets uint8."""
    return losses.squared_error(outputs, pixels(outputs, targets))


def mse_x1000(outputs: Tensor, targets: Tensor) -> Tensor:
    """1000 times :func:`squared_error`, the unit of the paper's Table 1."""
    return losses.mse_x1000(outputs, pixels(outputs, targets))


def pixels(outputs: Tensor, targets: Tensor) -> Tensor:
    """``targets`` uint8 ``[..., 28, 28]`` as the numbers in [0, 1] ``[..., 784]`` of outputs."""
    return (targets.to(outputs.dtype) / 255).flatten(-2)


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    width: float | None = None,
    reduction: str = "sum",
) -> Task:
    """Writers as clients, 10 a round, batches of 20, 3000 rounds; the target is the input.

    Sources: FedOpt section 4 (task), Table 3 (model), Table 7 (batch), Tables 8 and 9
    (hyperparameters). Ink is 1 and paper 0: the authors' code turns the files' pixels over.
    ``quick``: 40 writers, a quarter of the width, 20 rounds.

    Args:
        seed: of the choice of writers where there are more than ``clients``.
        data: the prepared data set, with writers; default ``emnist``, else ``femnist``, else the
            offline stand-in of ``emnist``.
        clients: how many writers; default 40 (``quick``) or all (``paper``).
        width: factor on all hidden layers.
        reduction: of the images' mean squared errors in a batch. The code of the time of the paper
            took their ``"sum"``, which fits client learning rates of 10 and more; before and since
            it took the ``"mean"``.
    """
    quick = preset == "quick"
    width = (0.25 if quick else 1.0) if width is None else width
    writers = load_writers("emnist_ae", data, data_root, clients, preset, seed)
    train, test = (writers.tensors(split, ink="bright")[0] for split in ("train", "test"))
    return Task(
        name="emnist_ae",
        model=lambda: EMNISTAutoencoder(width=width),
        train=ClientData(train, train, writers.train, writers.ids),
        test=ClientData(test, test, writers.test, writers.ids),
        loss=squared_error,
        metrics={"mse_x1000": mse_x1000},
        transform=flat_pixels,
        reduction=reduction,
        rounds=20 if quick else 3000,
        clients_per_round=10,
        batch_size=20,
        hyperparameters=settings.fedopt("EMNIST AE"),
        preset=preset,
        seed=seed,
        options={
            "data": writers.data.name,
            "clients": len(writers.ids),
            "width": float(width),
            "reduction": reduction,
        },
        stand_in=writers.data.stand_in,
        source=writers.data.source,
        fingerprint=writers.data.fingerprint,
        label="EMNIST AE",
    )
