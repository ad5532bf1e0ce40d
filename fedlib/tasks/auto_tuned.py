"""What Delta-SGD's image tasks share: overlapping clients with label skew, one central test set."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import nn

from fedlib import datasets, partitioners
from fedlib.errors import Error
from fedlib.randomness import key
from fedlib.task import ClientData, Task, Transform
from fedlib.tasks import images, settings

# Clients, examples of each.
PAPER, QUICK = (100, 500), (20, 100)
QUICK_TEST_EXAMPLES = 500


def image_task(
    name: str,
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None,
    *,
    data: str,
    clients: int | None,
    sizes: int | str | None,
    alpha: float,
    author_split: bool,
    test_examples: int | None,
    model: Callable[[int], nn.Module],
    transform: Transform,
    rounds: int,
    options: Mapping[str, Any],
    label: str,
) -> Task:
    """One of Delta-SGD's image tasks (section 4 and appendix B).

    100 clients, 10 a round, batches of 64 (the authors' commands; the number is illegible in the
    text), one local epoch. A client's 500 examples are drawn with replacement, so clients overlap.
    The server evaluates on the whole test set, which is one client here.

    Args:
        data, clients, sizes, alpha, author_split, test_examples: see the tasks.
        model: makes the network for a number of classes.
        transform, rounds, label: the task's.
        options: the task's own, stored with the common ones.
    """
    own = PAPER if preset == "paper" else QUICK
    clients = own[0] if clients is None else clients
    sizes = own[1] if sizes is None else sizes
    dataset = datasets.load(data, data_root)
    parts = partitioners.dirichlet_overlapping(
        np.asarray(dataset.train_y),
        clients,
        alpha,
        _sizes(sizes, clients, seed),
        key(seed, "clients"),
        author_split=author_split,
    )
    most = None if preset == "paper" else QUICK_TEST_EXAMPLES
    tested = images.subset(len(dataset.test_y), most, test_examples, "test_examples", seed)
    classes = int(max(dataset.train_y.max(), dataset.test_y.max())) + 1
    return Task(
        name=name,
        model=lambda: model(classes),
        train=ClientData(images.tensor(dataset.train_x), images.tensor(dataset.train_y), parts),
        test=ClientData(
            images.tensor(dataset.test_x), images.tensor(dataset.test_y), [tested], ["all"]
        ),
        transform=transform,
        rounds=rounds,
        clients_per_round=10,
        batch_size=64,
        hyperparameters=settings.delta_sgd(),
        client_hyperparameters=settings.delta_sgd_clients(),
        preset=preset,
        seed=seed,
        options={
            "data": data,
            "clients": clients,
            "sizes": sizes,
            "alpha": float(alpha),
            "author_split": author_split,
            "test_examples": len(tested),
            **options,
        },
        stand_in=dataset.stand_in,
        source=dataset.source,
        fingerprint=dataset.fingerprint,
        label=label,
    )


def _sizes(sizes: int | str, clients: int, seed: int) -> int | np.ndarray:
    """Examples per client: one number, or a draw from ``"low-high"`` for each client."""
    if not isinstance(sizes, str):
        return sizes
    low, dash, high = sizes.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        raise Error(f"sizes is {sizes!r}; allowed: a whole number, or a range such as '100-500'")
    return partitioners.uniform_sizes(clients, int(low), int(high), key(seed, "sizes"))
