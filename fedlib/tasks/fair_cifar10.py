"""AdaFedAdam's Cifar10 setup: 16 silos with label skew, VGG11, every client in every round."""

from __future__ import annotations

from functools import partial

import numpy as np

from fedlib import datasets, papers, partitioners
from fedlib.errors import require
from fedlib.models import VGG11
from fedlib.randomness import key
from fedlib.task import Task
from fedlib.tasks import fair, images, settings
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, sample

LABEL = "Cifar10"
SETUP = papers.settings("adafedadam")["setups"][LABEL]
PARTITIONS = ("silos", "iid")
paper: Preset = {
    "data": "cifar10",
    "clients": SETUP["clients"],
    "beta": SETUP["dirichlet_beta"],
    "examples": ALL,
    "width": 1.0,
    "augment": False,
    "init": "torch",
    "partition": "silos",
    **settings.adafedadam_run(LABEL),
}
# From torch's values a narrow network does not leave the plateau at chance in a few rounds.
quick = {
    **paper,
    **{"examples": AtMost(1600), "width": 0.125, "rounds": 10, "init": "fednova"},
}
HISTORICAL = {"init": "fednova", "partition": "silos"}


def load(given: Given) -> Task:
    """Every class cut up among 16 clients in Dir(0.1) proportions; batches of 32, 200 rounds.

    Source: AdaFedAdam, appendix C.1; what it leaves out is taken from its authors' partly published
    code (the partition of the 50,000 training images, no augmentation) and from FedNova, whose
    setup it shares (the network). Each client's images are divided at random: 80 % train, 20 %
    test.

    Options:
        seed: of the partition and the divisions.
        data: the prepared data set; without it the offline stand-in of ``cifar10``.
        clients: how many silos.
        beta: concentration of the Dirichlet distribution; 0.05, 0.1, 0.5 and 1 in Table 6.
        examples: how many of the training images to use, drawn at random.
        width: factor on all channels and hidden units.
        augment: crop the training images at random after padding by 4 and flip them, as FedNova
            does.
        init: where the convolutions start, ``"torch"`` or, in quick, ``"fednova"``; see
            :class:`fedlib.models.VGG11`.
        partition: ``"silos"``, or ``"iid"``, the level that the paper's text adds to Table 6's:
            the images are dealt out at random, the same number to each client, and beta has no
            effect.
    """
    require(given.partition in PARTITIONS, "partition", given.partition, ", ".join(PARTITIONS))
    dataset = datasets.load(given.data, given.data_root)
    used = sample(given.examples, len(dataset.train_y), "examples", given.seed)
    labels = np.asarray(dataset.train_y)[used]
    iid = given.partition == "iid"
    if iid:
        parts = partitioners.iid(len(labels), given.clients, key(given.seed, "silos"))
    else:
        parts = partitioners.silos(labels, given.clients, given.beta, key(given.seed, "silos"))
    x, y = images.tensor(np.asarray(dataset.train_x)[used]), images.tensor(labels)
    classes = int(dataset.train_y.max()) + 1
    pad = 4 if given.augment else None
    return Task(
        name=given.name,
        model=lambda: VGG11(classes, given.width, given.init),
        transform=partial(images.cifar_transform, constants=images.CIFAR10, pad=pad),
        hyperparameters=settings.adafedadam(LABEL),
        options={"examples": len(used)} | ({"beta": None} if iid else {}),
        label=LABEL,
        **fair.divided(given, x, y, parts),
        **images.origin(dataset),
    )
