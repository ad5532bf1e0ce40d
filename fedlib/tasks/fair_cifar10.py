"""AdaFedAdam's Cifar10 setup: 16 silos with label skew, VGG11, every client in every round.

The quick preset has a small problem of the same kind, for a network with one hidden layer. Its
pictures show two handwritten digits, and the label is the first one.
"""

import math
from functools import partial

import numpy as np

from fedlib import papers, partitioners
from fedlib.errors import require
from fedlib.models import MLP, VGG11
from fedlib.randomness import key
from fedlib.task import Fixed, Task
from fedlib.tasks import fair, images, settings
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, sample, small_network

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
    "lr_factor": 1.0,
    "partition": "silos",
    "network": "vgg11",
    **settings.adafedadam_run(LABEL),
}
# A fifth of the images and half of the rounds are a tenth of the steps. With torch's initial values
# FedAvg was still at chance after all of them at the paper's rate (Dir(0.05), 0.1 and 0.5), and
# after forty rounds at three, five and ten times the rate (Dir(1)). With FedNova's values its
# training loss at Dir(0.1) is lowest at ten times (of 1, 2.5, 5, 10 and 25, after 20 rounds).
laptop = {
    **paper,
    **{"examples": AtMost(10_000), "width": 0.125, "rounds": 100},
    **{"init": "fednova", "lr_factor": 10.0},
}
quick = {
    **paper,
    **{"data": "first_digits", "network": "mlp", "examples": AtMost(1200), "rounds": 100},
}
HIDDEN = (32,)  # units of the small network
# The small problem's client rate is the paper's, scaled so that rate times rounds is unchanged.
CLIENT_LR = SETUP["local_lr"] * paper["rounds"] / quick["rounds"]


def load(given: Given) -> Task:
    """Every class split among 16 clients in Dir(0.1) proportions. Batches of 32, 200 rounds.

    Source: AdaFedAdam, appendix C.1. The rest is taken from its authors' partly published code (the
    partition of the 50,000 training images, no augmentation) and from FedNova, whose setup it
    shares (the network). Each client's images are split at random into 80 % training and 20 %
    test.

    Options:
        seed: seed of the partition and the splits.
        data: the prepared data set. Default: ``cifar10``, or ``first_digits`` for the quick preset.
        clients: number of silos.
        beta: concentration of the Dirichlet distribution. 0.05, 0.1, 0.5 and 1 in Table 6.
        examples: number of training images to use, drawn at random.
        width: factor on all channels and hidden units.
        augment: crop the training images at random after padding by 4 and flip them, as FedNova
            does.
        init: initial values of the convolutions, ``"torch"`` or ``"fednova"``. See
            :class:`fedlib.models.VGG11`. The small network starts as torch's layers do.
        lr_factor: factor on the client learning rate of all algorithms.
        network: ``"vgg11"``, or ``"mlp"`` with one hidden layer of 32 units. Its inputs are the
            pixels in [0, 1]. Its client rate is 0.04: twice the paper's for half the rounds.
        partition: ``"silos"`` or ``"iid"``, which the paper's text adds to the levels of Table 6.
            With ``"iid"`` every client gets the same number of images at random, and beta has no
            effect.
    """
    require(given.partition in PARTITIONS, "partition", given.partition, ", ".join(PARTITIONS))
    dataset = images.load(given)
    used = sample(given.examples, len(dataset.train_y), "examples", given.seed)
    labels = np.asarray(dataset.train_y)[used]
    iid = given.partition == "iid"
    if iid:
        parts = partitioners.iid(len(labels), given.clients, key(given.seed, "silos"))
    else:
        parts = partitioners.silos(labels, given.clients, given.beta, key(given.seed, "silos"))
    x, y = images.tensor(np.asarray(dataset.train_x)[used]), images.tensor(labels)
    classes = int(dataset.train_y.max()) + 1
    require(given.lr_factor > 0, "lr_factor", given.lr_factor, "a number > 0")
    small = small_network(given, "vgg11", "mlp")
    rate = given.lr_factor * (CLIENT_LR if small else SETUP["local_lr"])
    pixels, pad = math.prod(x.shape[1:]), 4 if given.augment else 0
    colours = partial(images.scaled, constants=images.CIFAR10, pad=pad)
    unused = ["beta"] * iid + ["init", "augment"] * small
    return Task(
        name=given.name,
        model=lambda: (
            MLP(pixels, HIDDEN, classes, given.width, "torch")
            if small
            else VGG11(classes, given.width, given.init)
        ),
        transform=Fixed(images.flat_pixels) if small else colours,
        hyperparameters=settings.adafedadam(LABEL, rate),
        options={"examples": len(used)} | dict.fromkeys(unused),
        **fair.divided(given, x, y, parts),
        **images.origin(dataset),
    )
