"""AdaFedAdam's Cifar10 setup: 16 silos with label skew, VGG11, every client in every round."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from fedlib import datasets, papers, partitioners
from fedlib.models import VGG11
from fedlib.randomness import key
from fedlib.task import ClientData, Task
from fedlib.tasks import images, settings

QUICK_EXAMPLES = 1600


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str = "cifar10",
    clients: int = 16,
    beta: float = 0.1,
    examples: int | None = None,
    width: float | None = None,
    augment: bool = False,
) -> Task:
    """Every class cut up among 16 clients in Dir(0.1) proportions; batches of 32, 200 rounds.

    Source: AdaFedAdam, appendix C.1; what it leaves out is taken from its authors' partly published
    code (the partition of the 50,000 training images, no augmentation) and from FedNova, whose
    setup it shares (the network). Each client's images are divided at random: 80 % train, 20 %
    test. ``quick``: 1600 images, an eighth of the width, 10 rounds.

    Args:
        seed: of the partition and the divisions.
        data: the prepared data set; without it the offline stand-in of ``cifar10``.
        clients: how many silos.
        beta: concentration of the Dirichlet distribution; 0.05, 0.1, 0.5 and 1 in Table 6.
        examples: how many of the training images to use, drawn at random; default 1600 (``quick``)
            or all (``paper``).
        width: factor on all channels and hidden units.
        augment: crop the training images at random after padding by 4 and flip them, as FedNova
            does.
    """
    quick = preset == "quick"
    width = (0.125 if quick else 1.0) if width is None else width
    dataset = datasets.load(data, data_root)
    chosen = images.subset(
        len(dataset.train_y), QUICK_EXAMPLES if quick else None, examples, "examples", seed
    )
    labels = np.asarray(dataset.train_y)[chosen]
    parts = partitioners.silos(labels, clients, beta, key(seed, "silos"))
    train_parts, test_parts = partitioners.local_split(parts, 0.2, key(seed, "fair_cifar10"))
    x, y = images.tensor(np.asarray(dataset.train_x)[chosen]), images.tensor(labels)
    classes = int(dataset.train_y.max()) + 1
    setup = papers.settings("adafedadam")["setups"]["Cifar10"]
    return Task(
        name="fair_cifar10",
        model=lambda: VGG11(classes, width=width),
        train=ClientData(x, y, train_parts),
        test=ClientData(x, y, test_parts),
        transform=partial(
            images.cifar_transform, constants=images.CIFAR10, pad=4 if augment else None
        ),
        rounds=10 if quick else setup["rounds"],
        clients_per_round=None,
        batch_size=setup["batch_size"],
        hyperparameters=settings.adafedadam("Cifar10"),
        preset=preset,
        seed=seed,
        options={
            "data": data,
            "clients": clients,
            "beta": float(beta),
            "examples": len(chosen),
            "width": float(width),
            "augment": augment,
        },
        stand_in=dataset.stand_in,
        source=dataset.source,
        fingerprint=dataset.fingerprint,
        label="Cifar10",
    )
