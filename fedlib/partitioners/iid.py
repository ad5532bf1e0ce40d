"""A uniformly random split into clients of near-equal size."""

from __future__ import annotations

import numpy as np

from fedlib.arguments import Seed, checked, whole
from fedlib.errors import Error
from fedlib.randomness import numpy_generator


@checked
def iid(n: int, clients: int, seed: Seed) -> list[np.ndarray]:
    """Deal the indices ``0 .. n - 1`` at random to ``clients`` clients.

    Args:
        n: number of examples.
        clients: number of clients, ``1 .. n``.
        seed: of the shuffle.

    Returns:
        ``clients`` int64 arrays; every index is in exactly one, and sizes differ by at most one.

    Raises:
        Error: fewer than one client, or more clients than examples.

    Example:
        >>> import fedlib
        >>> parts = fedlib.partition.iid(10, 3, seed=0)
        >>> [len(part) for part in parts]
        [4, 3, 3]
    """
    n, clients = whole("n", n, 0), whole("clients", clients, 1)
    if clients > n:
        raise Error(f"cannot split {n} examples among {clients} clients: some would have none")
    order = numpy_generator(seed, "partition iid").permutation(n).astype(np.int64)
    return list(np.array_split(order, clients))
