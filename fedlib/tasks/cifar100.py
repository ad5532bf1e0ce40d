"""CIFAR-100 of FedOpt: Pachinko allocation, ResNet-18 with GroupNorm, 24x24 crops."""

from __future__ import annotations

import os

import numpy as np

from fedlib import datasets, partitioners
from fedlib.datasets import Dataset
from fedlib.errors import Error, require
from fedlib.models import ResNet18GN
from fedlib.randomness import key, numpy_generator
from fedlib.task import ClientData, Task
from fedlib.tasks import images, settings
from fedlib.tasks.cifar10 import PAPER, QUICK, transform

FROZEN = "fed_cifar100"  # the authors' own partition, as a data set with clients


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    examples_per_client: int = 100,
    test_clients: int | None = None,
    alpha: float = 0.1,
    beta: float = 10.0,
    width: float | None = None,
    groups: int = 2,
) -> Task:
    """500 clients of 100 examples by Pachinko allocation, 10 clients a round.

    Batches of 20, 4000 rounds. Sources: FedOpt section 4 and appendices C.1 and F (data), Table 7
    (batch), Tables 8 and 9 (hyperparameters). Crops and network are :mod:`fedlib.tasks.cifar10`'s.
    ``quick``: 50 clients, an eighth of the width, 1000 test images, 30 rounds.

    Args:
        seed: of the partition; for data with clients, of the choice among them.
        data: the prepared data set, with coarse labels or with clients; default ``fed_cifar100``
            (the authors' own partition) where it is prepared, else ``cifar100``, else its offline
            stand-in.
        clients, examples_per_client: training clients.
        test_clients: 100 test images each, partitioned alike.
        alpha, beta: concentrations over coarse labels, and over the fine labels of each; unused for
            data with clients, as examples_per_client is.
        width: factor on all channel counts.
        groups: of GroupNorm; 2 made the printed numbers (the default of the library then used).
    """
    chosen = PAPER if preset == "paper" else QUICK
    clients = int(chosen["clients"]) if clients is None else clients
    test_clients = int(chosen["test_clients"]) if test_clients is None else test_clients
    width = chosen["width"] if width is None else width
    frozen = FROZEN in datasets.names(data_root) and datasets.info(FROZEN, data_root)["prepared"]
    dataset = datasets.load(data or (FROZEN if frozen else "cifar100"), data_root)
    if dataset.train_client is not None and dataset.test_client is not None:
        train_parts = _own(dataset, "train", clients, seed)
        test_parts = _own(dataset, "test", test_clients, seed)
        partition = {}
    else:
        concentrations = (alpha, beta)
        train_parts = _pachinko(
            dataset, "train", clients, examples_per_client, concentrations, seed
        )
        test_parts = _pachinko(dataset, "test", test_clients, 100, concentrations, seed)
        partition = {"alpha": float(alpha), "beta": float(beta)}
    classes = int(max(dataset.train_y.max(), dataset.test_y.max())) + 1
    return Task(
        name="cifar100",
        model=lambda: ResNet18GN(classes, width=width, groups=groups),
        train=ClientData(
            images.tensor(dataset.train_x), images.tensor(dataset.train_y), train_parts
        ),
        test=ClientData(images.tensor(dataset.test_x), images.tensor(dataset.test_y), test_parts),
        transform=transform,
        rounds=4000 if preset == "paper" else 30,
        clients_per_round=10,
        batch_size=20,
        hyperparameters=settings.fedopt("CIFAR-100"),
        preset=preset,
        seed=seed,
        options={
            "data": dataset.name,
            "clients": clients,
            "examples_per_client": examples_per_client,
            "test_clients": test_clients,
            **partition,
            "width": float(width),
            "groups": groups,
        },
        stand_in=dataset.stand_in,
        source=dataset.source,
        fingerprint=dataset.fingerprint,
        label="CIFAR-100",
    )


def _own(dataset: Dataset, split: str, clients: int, seed: int) -> list[np.ndarray]:
    """The data's own clients, or some of them."""
    parts = partitioners.by_user(getattr(dataset, f"{split}_client"))
    allowed = f"1..{len(parts)} (the {split} clients of {dataset.name!r})"
    require(1 <= clients <= len(parts), "clients", clients, allowed)
    chosen = numpy_generator(seed, f"{split} clients").choice(len(parts), clients, replace=False)
    return [parts[client] for client in np.sort(chosen)]


def _pachinko(
    dataset: Dataset,
    split: str,
    clients: int,
    examples_per_client: int,
    concentrations: tuple[float, float],
    seed: int,
) -> list[np.ndarray]:
    coarse = getattr(dataset, f"{split}_coarse")
    if coarse is None:
        raise Error(
            f"task cifar100: data {dataset.name!r} has no coarse labels; import it with "
            "train_coarse and test_coarse"
        )
    return partitioners.pachinko(
        np.asarray(coarse),
        np.asarray(getattr(dataset, f"{split}_y")),
        clients,
        examples_per_client,
        *concentrations,
        key(seed, split) % 2**31,
    )
