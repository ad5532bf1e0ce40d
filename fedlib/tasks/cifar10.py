"""CIFAR-10 of FedOpt: Dirichlet(0.1) over labels, ResNet-18 with GroupNorm, 24x24 crops."""

from __future__ import annotations

import os

import numpy as np
from torch import Tensor

from fedlib import datasets, partitioners
from fedlib.models import ResNet18GN
from fedlib.randomness import key
from fedlib.task import ClientData, Task
from fedlib.tasks import images, settings

CROP = 24
QUICK = {"clients": 50, "test_clients": 10, "width": 0.125}
PAPER = {"clients": 500, "test_clients": 100, "width": 1.0}


def transform(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 32, 32, 3]`` -> float32 ``[..., 3, 24, 24]``.

    Training: random crop and flip per image, then standardised per image. Evaluation: the central
    crop. (The code behind the printed numbers took one crop offset per batch until 2021; per image
    is what the paper says.)
    """
    window = images.centre_crop(x, CROP) if keys is None else images.random_crop_flip(x, CROP, keys)
    return images.channels_first(images.standardize(window))


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str = "cifar10",
    clients: int | None = None,
    examples_per_client: int = 100,
    test_clients: int | None = None,
    alpha: float = 0.1,
    width: float | None = None,
    groups: int = 2,
) -> Task:
    """500 clients of 100 examples with labels from Dirichlet(0.1), 10 clients a round.

    Batches of 20, 4000 rounds. Sources: FedOpt section 4 and appendix C.1 (data), Table 7 (batch),
    Tables 8 and 9 (hyperparameters). ``quick``: 50 clients, an eighth of the width, 1000 test
    images, 30 rounds.

    Args:
        seed: of the partition.
        data: the prepared data set; without it the offline stand-in of ``cifar10``.
        clients, examples_per_client: training clients.
        test_clients: 100 test images each, partitioned alike.
        alpha: concentration of the Dirichlet distribution (times a vector of ones).
        width: factor on all channel counts.
        groups: of GroupNorm; 2 made the printed numbers (the default of the library then used).
    """
    chosen = PAPER if preset == "paper" else QUICK
    clients = int(chosen["clients"]) if clients is None else clients
    test_clients = int(chosen["test_clients"]) if test_clients is None else test_clients
    width = chosen["width"] if width is None else width
    dataset = datasets.load(data, data_root)
    train_parts = partitioners.dirichlet(
        np.asarray(dataset.train_y), clients, alpha, examples_per_client, key(seed, "train") % 2**31
    )
    test_parts = partitioners.dirichlet(
        np.asarray(dataset.test_y), test_clients, alpha, 100, key(seed, "test") % 2**31
    )
    classes = int(max(dataset.train_y.max(), dataset.test_y.max())) + 1
    return Task(
        name="cifar10",
        model=lambda: ResNet18GN(classes, width=width, groups=groups),
        train=ClientData(
            images.tensor(dataset.train_x), images.tensor(dataset.train_y), train_parts
        ),
        test=ClientData(images.tensor(dataset.test_x), images.tensor(dataset.test_y), test_parts),
        transform=transform,
        rounds=4000 if preset == "paper" else 30,
        clients_per_round=10,
        batch_size=20,
        hyperparameters=settings.fedopt("CIFAR-10"),
        preset=preset,
        seed=seed,
        options={
            "data": data,
            "clients": clients,
            "examples_per_client": examples_per_client,
            "test_clients": test_clients,
            "alpha": float(alpha),
            "width": float(width),
            "groups": groups,
        },
        stand_in=dataset.stand_in,
        source=dataset.source,
        fingerprint=dataset.fingerprint,
        label="CIFAR-10",
    )
