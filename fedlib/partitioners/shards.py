"""Label skew by a few labels a client: shards, and a fixed number of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Count, Seed, checked
from fedlib.errors import Error
from fedlib.partitioners import checks
from fedlib.randomness import numpy_generator


@checked
def shards(
    labels: ArrayLike, clients: Count, shards_per_client: Count, seed: Seed
) -> list[np.ndarray]:
    """Sort the examples by label, split them into equal shards, and deal these out.

    Source: McMahan et al. (2017), "Communication-Efficient Learning of Deep Networks from
    Decentralized Data": MNIST in 200 shards, two for each of 100 clients. Examples of a label are
    in random order. Sizes of shards differ by one if their number does not divide the examples.

    Args:
        labels: ``[N]`` integers, 0 or more.
        clients, shards_per_client: number of clients, and of shards for each.
        seed: seed of the order and the deal.

    Returns:
        ``clients`` int64 arrays. Every example is in exactly one.

    Raises:
        Error: a number is out of range, or there are more shards than examples.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> parts = fedlib.partition.shards(np.arange(100) % 10, 5, 2, seed=0)
        >>> [len(part) for part in parts]
        [20, 20, 20, 20, 20]
    """
    y, number = checks.labels("labels", labels), int(clients) * int(shards_per_client)
    checks.enough(clients, number, y.size)
    draw = numpy_generator(seed, "partition shards")
    order = draw.permutation(y.size)
    pieces = np.array_split(order[np.argsort(y[order], kind="stable")], number)
    dealt = draw.permutation(number).reshape(clients, shards_per_client)
    return [np.concatenate([pieces[piece] for piece in hand]) for hand in dealt]


@checked
def fixed_classes(
    labels: ArrayLike, clients: Count, classes_per_client: Count, seed: Seed
) -> list[np.ndarray]:
    """Give every client the same number of classes, and divide each class among its clients.

    Source: Li et al. (2022), "Federated Learning on Non-IID Data Silos", "#C = k": client i has
    the i-th class, modulo the number of classes, and others at random.

    Args:
        labels: ``[N]`` integers, 0 or more.
        clients, classes_per_client: number of clients, and of classes for each.
        seed: seed of the classes and the shuffles.

    Returns:
        ``clients`` int64 arrays. Every example of a class that some client has is in exactly one.

    Raises:
        Error: a number is out of range, or a class has fewer examples than clients.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.fixed_classes(labels, 20, 3, seed=0)
        >>> {len(np.unique(labels[part])) for part in parts}
        {3}
    """
    y = checks.labels("labels", labels)
    names = np.unique(y)
    if classes_per_client > len(names):
        count = len(names)
        raise Error(f"classes_per_client is {classes_per_client}, but there are {count} classes")
    draw = numpy_generator(seed, "partition fixed classes")
    has = np.zeros((clients, len(names)), dtype=bool)
    for client in range(clients):
        first = client % len(names)
        others = np.delete(np.arange(len(names)), first)
        has[client, [first, *draw.choice(others, classes_per_client - 1, replace=False)]] = True
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for code, name in enumerate(names):
        owners, examples = np.flatnonzero(has[:, code]), np.flatnonzero(y == name)
        if len(owners) > len(examples):
            raise Error(
                f"label {name} has {len(examples)} examples for {len(owners)} clients: take fewer"
            )
        cut = np.array_split(draw.permutation(examples), max(1, len(owners)))
        for owner, part in zip(owners, cut, strict=False):
            parts[owner].append(part)
    return [np.concatenate(pieces) for pieces in parts]
