"""CIFAR-10 and CIFAR-100 of FedOpt: clients with label skew, ResNet-18 with GroupNorm.

The quick preset has a small problem of the same kind instead, for a network with one hidden layer.
Its pictures show two handwritten digits. The label is the first digit (ten classes), or the number
that both write (a hundred classes in ten families).
"""

import math

import numpy as np
from torch import Tensor, nn

from fedlib import papers, partitioners
from fedlib.datasets import Dataset
from fedlib.errors import Error
from fedlib.models import MLP, ResNet18GN
from fedlib.randomness import key
from fedlib.task import Fixed, Task
from fedlib.tasks import images, settings
from fedlib.tasks.presets import Given, Preset, sample, small_network

LABELS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
CROP = 24
FROZEN = "fed_cifar100"  # the authors' own partition, as a data set with clients
STATED = papers.settings("fedopt")
TEN, HUNDRED = (STATED["datasets"][name] for name in LABELS)
GROUPS = STATED["models"]["group_norm_groups"]
paper: dict[str, Preset] = {
    "cifar10": {
        "data": "cifar10",
        "clients": TEN["train_clients"],
        "examples_per_client": TEN["examples_per_client"],
        "test_clients": TEN["test_clients"],
        "alpha": TEN["dirichlet_alpha"],
        **{"network": "resnet18", "width": 1.0, "groups": GROUPS, "l2": 0.0},
        **settings.fedopt_run("CIFAR-10"),
    },
    "cifar100": {
        "data": None,
        "clients": HUNDRED["train_clients"],
        "examples_per_client": HUNDRED["examples_per_client"],
        "test_clients": TEN["test_clients"],
        "alpha": HUNDRED["root_dirichlet_alpha"],
        "beta": HUNDRED["coarse_dirichlet_beta"],
        **{"network": "resnet18", "width": 1.0, "groups": GROUPS, "l2": 0.0},
        **settings.fedopt_run("CIFAR-100"),
    },
}
laptop = {
    "cifar10": {**paper["cifar10"], "width": 0.25, "rounds": 1000},
    "cifar100": {**paper["cifar100"], "width": 0.25, "rounds": 1000},
}
SMALL = {"network": "mlp", "test_clients": 20, "rounds": 80}
TENS = {"data": "first_digits", "clients": 150, "examples_per_client": 40}
NUMBERS = {"data": "digit_pairs", "clients": 200, "examples_per_client": 30}
quick = {
    "cifar10": {**paper["cifar10"], **SMALL, **TENS},
    "cifar100": {**paper["cifar100"], **SMALL, **NUMBERS},
}
HIDDEN = 64  # units of the small network


def transform(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 32, 32, 3]`` -> float32 ``[..., 3, 24, 24]``.

    In training each image is cropped and flipped at random, then standardised. In evaluation it is
    cropped to the centre. (The code behind the paper's numbers took one crop offset per batch until
    2021. The paper says per image.)
    """
    window = images.centre_crop(x, CROP) if keys is None else images.random_crop_flip(x, CROP, keys)
    return images.channels_first(images.standardize(window))


def load(given: Given) -> Task:
    """500 clients of 100 examples, 10 clients a round, batches of 20, 4000 rounds.

    ``cifar10`` has labels from Dirichlet(0.1), ``cifar100`` Pachinko allocation. Sources: FedOpt
    section 4 and appendices C.1 and F (data), Table 7 (batch), Tables 8 and 9 (hyperparameters).

    Options:
        seed: seed of the partition. If data have clients, seed of the choice among them.
        data: the prepared data set. ``cifar100`` needs coarse labels or clients. Its default is
            ``fed_cifar100`` (the authors' own partition) if that is prepared, else ``cifar100``.
        clients, examples_per_client: numbers of training clients and of their examples.
        test_clients: number of test clients, with 100 test images each, partitioned alike.
        alpha: concentration of the Dirichlet distribution (times a vector of ones). For
            ``cifar100`` it is over coarse labels.
        beta: for ``cifar100``, the concentration over the fine labels of each. Data with clients
            do not use alpha, beta and examples_per_client.
        network: ``"resnet18"``, or ``"mlp"`` with one hidden layer of 64 units. Its inputs are the
            pixels in [0, 1] and its learning rates are in :func:`fedlib.tasks.settings.small`.
        width: factor on all channel counts, or on the hidden units.
        groups: groups of the ResNet's GroupNorm. The paper's numbers used 2 (then the library's
            default).
        l2: 1e-4 adds 1e-4 times the sum of the squared weights of convolutions and dense layer
            (its bias too) to the training loss. The authors' model asks for it, but until July
            2020 their library did not add it. The paper says nothing. Default: none.
    """
    dataset = images.load(given, FROZEN, "cifar100")
    train = _partition(given, dataset, "train", given.clients, given.examples_per_client)
    test = _partition(given, dataset, "test", given.test_clients, 100)
    small = small_network(given, "resnet18", "mlp")
    unused = (["alpha", "beta"] if _has_clients(given, dataset) else []) + ["groups"] * small
    classes, pixels = images.classes(dataset), math.prod(dataset.train_x.shape[1:])

    def model() -> nn.Module:
        if small:
            return MLP(pixels, (HIDDEN,), classes, given.width)
        return ResNet18GN(classes, width=given.width, groups=given.groups)

    return Task(
        name=given.name,
        model=model,
        train=images.clients(dataset, "train", train),
        test=images.clients(dataset, "test", test),
        transform=Fixed(images.flat_pixels) if small else transform,
        l2=given.l2,
        hyperparameters=(settings.small if small else settings.fedopt)(LABELS[given.name]),
        options={"data": dataset.name} | dict.fromkeys(unused),
        **images.origin(dataset),
    )


def _has_clients(given: Given, dataset: Dataset) -> bool:
    """Whether the data come with clients, which CIFAR-100's task takes."""
    both = dataset.train_client is not None and dataset.test_client is not None
    return both and given.name == "cifar100"


def _partition(
    given: Given, dataset: Dataset, split: str, clients: int, examples: int
) -> list[np.ndarray]:
    if _has_clients(given, dataset):
        parts = partitioners.by_user(getattr(dataset, f"{split}_client"))
        of = f"the {split} clients of {dataset.name!r}"
        taken = sample(clients, len(parts), "clients", given.seed, f"{split} clients", of)
        return [parts[client] for client in taken]
    labels = np.asarray(getattr(dataset, f"{split}_y"))
    draw = key(given.seed, split) % 2**31
    if given.name == "cifar10":
        return partitioners.dirichlet(labels, clients, given.alpha, examples, draw)
    coarse = getattr(dataset, f"{split}_coarse")
    if coarse is None:
        what = f"task cifar100: data {dataset.name!r} has no coarse labels"
        raise Error(f"{what}: import it with train_coarse and test_coarse")
    return partitioners.pachinko(
        np.asarray(coarse), labels, clients, examples, given.alpha, given.beta, draw
    )
