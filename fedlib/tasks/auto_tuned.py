"""Delta-SGD's image tasks: overlapping clients with label skew, one central test set.

The quick preset has small problems instead: pictures of scikit-learn's digits for softmax
regression and networks of 32 units a layer. They keep the structure of the paper's comparison: the
learning rates are tuned on one problem and used on others, which have other classes, depths, input
scales and label skews.
"""

from functools import partial

import numpy as np
from torch import nn

from fedlib import papers, partitioners
from fedlib.errors import Error, require, unknown
from fedlib.models import MLP, DeltaCNN, ResNet, Softmax
from fedlib.randomness import key
from fedlib.task import Cohorts, Fixed, Task, Transform
from fedlib.tasks import images, settings
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, sample
from fedlib.tasks.released_draws import released_draws

MEAN, STD = 0.1307, 0.3081  # statistics of MNIST's pixels
DIGITS = 0.305, 0.376  # statistics of scikit-learn's digits
# name -> (data, depth of the ResNet or None for the shallow CNN, the paper's name of the data)
TASKS = {
    "mnist": ("mnist", None, "MNIST"),
    "fashion_mnist": ("fashion_mnist", None, "FMNIST"),
    "cifar10_resnet18": ("cifar10", 18, "CIFAR-10"),
    "cifar100_resnet18": ("cifar100", 18, "CIFAR-100"),
    "cifar100_resnet50": ("cifar100", 50, "CIFAR-100"),
}
CONSTANTS = {"cifar10": images.CIFAR10, "cifar100": images.CIFAR100}
STATED = papers.settings("delta_sgd")
FEDERATED = STATED["federated"]
PAPER: Preset = {
    "clients": FEDERATED["clients_image"],
    "sizes": FEDERATED["examples_per_client"],
    "alpha": STATED["table3"]["alpha"],
    "author_split": True,
    "draws": None,
    "test_examples": ALL,
    "network": "paper",
    "width": 1.0,
    # Our text copy of the paper lacks these two: the authors' code has them.
    "clients_per_round": 10,
    "batch_size": 64,
    "local_epochs": FEDERATED["local_epochs"],
}
paper = {
    name: {"data": data, **PAPER, "rounds": STATED["rounds"][label]}
    | ({} if depth is None else {"norm": "tracked"})
    for name, (data, depth, label) in TASKS.items()
}
# MNIST is whole on two cores. Fashion-MNIST has a quarter of its rounds, and ResNets are narrow.
laptop = {
    "fashion_mnist": {**paper["fashion_mnist"], "rounds": 250},
    **{
        name: {**paper[name], "width": 0.125, "rounds": 100}
        for name, (_, depth, _) in TASKS.items()
        if depth is not None
    },
}
SMALL = {"sizes": 100, "batch_size": 12, "rounds": 40, "test_examples": AtMost(1000)}
# The small problems: data, network, mean and deviation that become 0 and 1, side of the squares
# over which pixels are averaged, and the name in figures.
SMALLER = {
    "mnist": ("mnist", "softmax", (MEAN, STD), 4, "softmax, 7x7 pixels"),
    "fashion_mnist": ("fashion_mnist", "mlp", (MEAN, STD), 4, "MLP, 7x7 pixels"),
    "cifar10_resnet18": ("first_digits", "deep", DIGITS, 1, "deep MLP"),
    "cifar100_resnet18": ("first_digits", "mlp", (0.0, 1.0), 1, "MLP, faint pixels"),
    "cifar100_resnet50": ("first_digits", "mlp", DIGITS, 1, "MLP"),
}
quick = {
    name: {**paper[name], **SMALL, "data": data, "network": network}
    for name, (data, network, *_) in SMALLER.items()
}
HIDDEN = {"softmax": (), "mlp": (32,), "deep": (32, 32, 32)}  # units of the small networks


def load(given: Given) -> Task:
    """100 clients of 500 examples with labels from Dirichlet(alpha), 10 a round, batches of 64.

    There are 500 rounds on MNIST, 1000 on Fashion-MNIST and 2000 on the others. Sources: Delta-SGD
    section 4 and appendix B. The authors' code supplies the rest: for CIFAR random crops after
    padding by 4, flips, and pixels shifted and scaled by channel. A client's examples are drawn
    with replacement, so clients overlap. The server evaluates on the whole test set, which is one
    client here.

    Options:
        seed: seed of the partition.
        data: the prepared data set. Default: ``mnist``, ``fashion_mnist``, ``cifar10`` or
            ``cifar100``, or for the quick preset the data in :data:`SMALLER`.
        clients: number of clients.
        sizes: examples of each client. ``"100-500"`` draws each client's number from this range
            (Table 3).
        alpha: concentration of the Dirichlet distribution. 1, 0.1 and 0.01 in the paper.
        author_split: train on the first 90 % of each client's examples in the order of their
            labels, as the authors' code behind the paper's numbers does. Then a client has 450 of
            500, and an epoch's last batch has 2. False is the paper's text: all of them. See
            :func:`fedlib.partition.dirichlet_overlapping`.
        draws: ``"authors"`` takes the partition and the cohorts that the authors' released script
            draws, whatever the seeds. See :mod:`fedlib.tasks.released_draws`. Default: by the
            seeds of the task and of the run.
        test_examples: number of test images, drawn at random.
        network: ``"paper"`` is the network in the task's name. The small problems use
            ``"softmax"`` regression, ``"mlp"`` with one hidden layer of 32 units, or ``"deep"``
            with three. Their inputs are in :data:`SMALLER` and their learning rates in
            :func:`fedlib.tasks.settings.small_clients`.
        width: factor on all layer widths.
        norm: normalisation of a ResNet, see :class:`fedlib.models.ResNet`. ``"tracked"``, in the
            paper preset, keeps running statistics as the code behind the paper's numbers does, but
            always averages them with the model (under FedAdam that code leaves the server's
            statistics at their start). ``"batch"``, in the quick preset, has none. ``"group"`` is
            GroupNorm.
    """
    data, depth, _ = TASKS[given.name]
    dataset = images.load(given)
    parts, cohorts = _draw(given, np.asarray(dataset.train_y))
    tested = sample(given.test_examples, len(dataset.test_y), "test_examples", given.seed)
    classes = images.classes(dataset)
    small = given.network != "paper"
    if small and given.network not in HIDDEN:
        raise unknown("network", given.network, ("paper", *HIDDEN))
    # Fashion-MNIST is shifted and scaled with MNIST's numbers, as in the authors' code.
    transform: Transform = Fixed(partial(images.grey, mean=MEAN, std=STD))
    if small:
        _, _, (mean, std), block, _ = SMALLER[given.name]
        transform = Fixed(partial(images.flat_pixels, mean=mean, std=std, block=block))
    elif depth is not None:
        transform = partial(images.scaled, constants=CONSTANTS[data], pad=4)
    inputs = transform(images.tensor(dataset.test_x[:1]), None).numel() if small else 0

    def model() -> nn.Module:
        if small:
            hidden = HIDDEN[given.network]
            return MLP(inputs, hidden, classes, given.width) if hidden else Softmax(inputs, classes)
        if depth is None:
            return DeltaCNN(classes, width=given.width)
        return ResNet(depth, classes, width=given.width, norm=given.norm)

    return Task(
        name=given.name,
        model=model,
        train=images.clients(dataset, "train", parts),
        test=images.clients(dataset, "test", [tested], ["all"]),
        transform=transform,
        **settings.delta_sgd_task(small),
        options={
            "test_examples": len(tested),
            **({"norm": None} if small and depth else {}),
            **({"width": None} if given.network == "softmax" else {}),
        },
        cohorts=cohorts,
        **images.origin(dataset),
    )


def _draw(given: Given, labels: np.ndarray) -> tuple[list[np.ndarray], Cohorts | None]:
    """The clients' examples, and the sampler of cohorts if they are the authors'."""
    sizes, split = _sizes(given), bool(given.author_split)
    if given.draws is None:
        seed = key(given.seed, "clients")
        parts = partitioners.dirichlet_overlapping(
            labels, given.clients, given.alpha, sizes, seed, author_split=split
        )
        return parts, None
    require(given.draws == "authors", "draws", given.draws, "'authors'")
    if not isinstance(sizes, int):
        raise Error(f"sizes is {given.sizes!r}, but the authors' draws need one number")
    return released_draws(labels, given.clients, given.alpha, sizes, author_split=split)


def _sizes(given: Given) -> int | np.ndarray:
    """Examples per client: one number, or a draw from ``"low-high"`` for each client."""
    sizes: int | str = given.sizes
    if not isinstance(sizes, str):
        return sizes
    low, dash, high = sizes.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        raise Error(f"sizes is {sizes!r} (allowed: a whole number, or a range such as '100-500')")
    return partitioners.uniform_sizes(given.clients, int(low), int(high), key(given.seed, "sizes"))
