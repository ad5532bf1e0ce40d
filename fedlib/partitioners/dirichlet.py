"""Latent Dirichlet allocation of labels to clients, sampled without replacement.

Source: Hsu, Qi and Brown (2019), in the form that "Adaptive Federated Optimization" used for its
federated CIFAR-10: the concentration multiplies a vector of ones, not a prior that sums to one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Seed, checked, whole
from fedlib.partitioners import checks
from fedlib.randomness import numpy_generator


@checked
def dirichlet_proportions(clients: int, classes: int, alpha: float, seed: Seed) -> np.ndarray:
    """Each client's label distribution, ``q ~ Dirichlet(alpha, ..., alpha)``.

    Returns:
        float64 ``[clients, classes]``, rows sum to 1. :func:`dirichlet` draws the same matrix from
        the same numbers.

    Raises:
        Error: fewer than one client or class, or ``alpha`` not a positive finite number.

    Example:
        >>> import fedlib
        >>> q = fedlib.partition.dirichlet_proportions(5, 3, alpha=0.1, seed=0)
        >>> q.shape, bool((abs(q.sum(1) - 1) < 1e-9).all())
        ((5, 3), True)
    """
    clients, classes = whole("clients", clients, 1), whole("classes", classes, 1)
    alpha = checks.positive("alpha", alpha)
    generator = numpy_generator(seed, "partition dirichlet proportions")
    return generator.dirichlet(np.full(classes, alpha), size=clients)


@checked
def dirichlet(
    labels: ArrayLike,
    clients: int,
    alpha: float,
    examples_per_client: int | Sequence[int] | np.ndarray,
    seed: Seed,
) -> list[np.ndarray]:
    """Split examples so that each client has its own mix of labels (small ``alpha``: few labels).

    Each class's examples are shuffled. Client after client, example after example, a label is drawn
    from the client's distribution and the next unused example of that class is taken. When a class
    runs out, its probability becomes 0 for every client and the others are renormalised. A client
    whose whole probability lay on classes that ran out draws from the classes that are left, in
    proportion to what is left of each.

    Args:
        labels: ``[N]`` integers, 0 or more.
        clients: number of clients.
        alpha: concentration.
        examples_per_client: size of every client, or one size per client.
        seed: of the distributions, the shuffles and the draws.

    Returns:
        ``clients`` int64 arrays of exactly the asked sizes, in the order drawn; no index twice.

    Raises:
        Error: a number out of range, or more examples asked for than there are.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.dirichlet(labels, 5, 0.1, 20, seed=0)
        >>> [len(part) for part in parts]
        [20, 20, 20, 20, 20]
    """
    y = checks.labels("labels", labels)
    clients = whole("clients", clients, 1)
    sizes = checks.sizes("examples_per_client", examples_per_client, clients)
    checks.enough(sizes, y.size)
    classes = int(y.max()) + 1 if y.size else 1
    q = dirichlet_proportions(clients, classes, alpha, seed)
    shuffler = numpy_generator(seed, "partition dirichlet order")
    order = [shuffler.permutation(np.flatnonzero(y == label)) for label in range(q.shape[1])]
    total = np.array([len(indices) for indices in order])
    used = np.zeros_like(total)
    return [
        _draw_client(
            q[client],
            numpy_generator(seed, "partition dirichlet labels", client).random(int(sizes[client])),
            order,
            total,
            used,
        )
        for client in range(clients)
    ]


def _draw_client(
    q: np.ndarray, u: np.ndarray, order: list[np.ndarray], total: np.ndarray, used: np.ndarray
) -> np.ndarray:
    """Draw one client's examples with the uniforms ``u``; ``used`` [C] is updated in place.

    The distribution is renormalised whenever a class runs out.
    """
    chosen: list[int] = []
    cumulative: list[float] = []
    for uniform in u.tolist():
        if not cumulative:
            left = total - used
            p = np.where(left > 0, q, 0.0)
            p = p if p.sum() > 0 else left.astype(np.float64)
            shares = np.cumsum(p)
            cumulative = (shares / shares[-1]).tolist()
        label = bisect_right(cumulative, uniform)
        chosen.append(order[label][used[label]])
        used[label] += 1
        if used[label] == total[label]:
            cumulative = []
    return np.array(chosen, dtype=np.int64)
