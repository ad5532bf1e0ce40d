"""A few large clients that share out every class: each class is cut up in Dirichlet proportions.

Source: "Accelerating Fair Federated Learning" (AdaFedAdam), appendix C.1: CIFAR-10 in 16 subsets,
"Dir_16(0.1)"; in the form of its authors' code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Seed, checked, whole
from fedlib.errors import Error
from fedlib.partitioners import checks
from fedlib.randomness import numpy_generator

TRIES = 10_000


@checked
def silos(labels: ArrayLike, clients: int, beta: float, seed: Seed) -> list[np.ndarray]:
    """Cut every class among all clients in proportions drawn from ``Dir(beta)`` over the clients.

    Unlike :func:`dirichlet`, where a client draws its mix of classes, here a class draws its mix of
    clients: every example is used, and small ``beta`` makes clients differ in size as well.
    Proportions are drawn again until every client has enough: the sum over the classes of its
    shares is at least 1 / (10 K) for K clients, as in the authors' code, and no client is empty.

    Args:
        labels: ``[N]`` integers, 0 or more.
        clients: K.
        beta: concentration; the paper uses 0.05, 0.1, 0.5 and 1.
        seed: of the proportions and the shuffles.

    Returns:
        K int64 arrays in random order; every index is in exactly one.

    Raises:
        Error: a number out of range, more clients than examples, or no acceptable proportions in
            10,000 tries.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.silos(labels, 4, beta=0.5, seed=0)
        >>> len(parts), sum(len(part) for part in parts)
        (4, 100)
    """
    y = checks.labels("labels", labels)
    clients = whole("clients", clients, 1)
    beta = checks.positive("beta", beta)
    if clients > len(y):
        raise Error(f"cannot split {len(y)} examples among {clients} clients: some would have none")
    classes, counts = np.unique(y, return_counts=True)
    least = 1 / (10 * clients)
    generator = numpy_generator(seed, "partition silos")
    for _ in range(TRIES):
        q = generator.dirichlet(np.full(clients, beta), size=len(classes))
        # [C, K + 1]: where a class is cut; rounding the running sums uses every example.
        cuts = np.round(np.cumsum(q, axis=1) * counts[:, None]).astype(np.int64)
        cuts[:, -1] = counts
        sizes = np.diff(cuts, axis=1, prepend=0).sum(axis=0)
        if q.sum(axis=0).min() >= least and sizes.min() > 0:
            break
    else:
        raise Error(
            f"beta is {beta}: in {TRIES} tries some client always had a share below "
            f"1/{10 * clients} summed over the classes; raise beta or take fewer clients than "
            f"{clients}"
        )
    pieces = [
        np.split(generator.permutation(np.flatnonzero(y == label)), cuts[row, :-1])
        for row, label in enumerate(classes)
    ]
    return [
        generator.permutation(np.concatenate([piece[client] for piece in pieces])).astype(np.int64)
        for client in range(clients)
    ]
