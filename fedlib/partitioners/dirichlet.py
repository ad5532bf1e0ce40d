"""Label skew by Dirichlet distributions, as in FedOpt, Delta-SGD and AdaFedAdam."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Count, Seed, checked
from fedlib.errors import Error
from fedlib.partitioners import checks
from fedlib.partitioners.checks import Concentration
from fedlib.randomness import numpy_generator

TRIES = 10_000  # tries of :func:`silos`


@checked
def dirichlet_proportions(
    clients: Count, classes: Count, alpha: Concentration, seed: Seed
) -> np.ndarray:
    """Each client's label distribution, ``q ~ Dirichlet(alpha, ..., alpha)``.

    Returns:
        float64 ``[clients, classes]``, rows sum to 1. :func:`dirichlet` draws the same matrix from
        the same arguments.

    Raises:
        Error: fewer than one client or class, or ``alpha`` is not a positive finite number.

    Example:
        >>> import fedlib
        >>> q = fedlib.partition.dirichlet_proportions(5, 3, alpha=0.1, seed=0)
        >>> q.shape, bool((abs(q.sum(1) - 1) < 1e-9).all())
        ((5, 3), True)
    """
    generator = numpy_generator(seed, "partition dirichlet proportions")
    return generator.dirichlet(np.full(classes, alpha), size=clients)


@checked
def dirichlet(
    labels: ArrayLike,
    clients: Count,
    alpha: Concentration,
    examples_per_client: int | Sequence[int] | np.ndarray,
    seed: Seed,
) -> list[np.ndarray]:
    """Split examples so that each client has its own mix of labels (small ``alpha``: few labels).

    Source: Hsu, Qi and Brown (2019), in the form that "Adaptive Federated Optimization" used for
    its federated CIFAR-10: the concentration multiplies a vector of ones, not a prior that sums to
    one.

    Each class's examples are shuffled. Client after client, example after example, a label is drawn
    from the client's distribution and the next unused example of that class is taken. When a class
    runs out, its probability becomes 0 for every client and the others are renormalised. If all
    classes of a client's distribution have run out, the client draws from the remaining classes, in
    proportion to their remaining examples.

    Args:
        labels: ``[N]`` integers, 0 or more. Classes that do not occur are left out.
        clients: number of clients.
        alpha: concentration.
        examples_per_client: size of every client, or one size per client.
        seed: seed of the distributions, the shuffles and the draws.

    Returns:
        ``clients`` int64 arrays of exactly these sizes, in the order drawn. No index occurs twice.

    Raises:
        Error: a number is out of range, or there are too few examples.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.dirichlet(labels, 5, 0.1, 20, seed=0)
        >>> [len(part) for part in parts]
        [20, 20, 20, 20, 20]
    """
    y = checks.labels("labels", labels)
    sizes = checks.sizes("examples_per_client", examples_per_client, clients)
    checks.enough(clients, sizes.sum(), y.size)
    classes = np.unique(y)
    q = dirichlet_proportions(clients, max(len(classes), 1), alpha, seed)
    shuffler = numpy_generator(seed, "partition dirichlet order")
    order = [shuffler.permutation(np.flatnonzero(y == label)) for label in classes]
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
    """Draw one client's examples with the uniforms ``u``. ``used`` [C] is updated in place.

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


@checked
def dirichlet_overlapping(
    labels: ArrayLike,
    clients: Count,
    alpha: Concentration,
    examples_per_client: int | Sequence[int] | np.ndarray,
    seed: Seed,
    *,
    author_split: bool = False,
) -> list[np.ndarray]:
    """Draw every client's examples with replacement, in rounded Dirichlet proportions.

    Source: "Auto-tuned clients" (Delta-SGD), section 4, as in its authors' code: 100 clients of 500
    examples, alpha 0.01, 0.1 or 1. The paper cites Hsu et al. (2019), whose concentration
    multiplies a prior that sums to one. In the authors' code, and here, it multiplies a vector of
    ones.

    A client with distribution q over the classes takes ``round(size * q)`` examples of each class
    but the last. The missing examples come from the last class. The examples of a class are drawn
    with replacement from all of its examples: clients overlap, and a client may hold an example
    twice. So every client keeps its proportions to within rounding, and no class runs out.

    Args:
        labels: ``[N]`` integers, 0 or more. Classes that do not occur are left out.
        clients: number of clients.
        alpha: concentration, per class.
        examples_per_client: size of every client, or one size per client (the paper's appendix
            B.3: :func:`uniform_sizes` with 100 and 500).
        seed: seed of the distributions (the same as in :func:`dirichlet`) and the draws.
        author_split: use the training examples of the authors' code. In it a client's examples stay
            in the order of their classes, and only the first 90 % of them are used, so a client
            loses its last classes. For CIFAR-100 and alpha 1, over five seeds, the last ten classes
            hold 1.3 % of the training examples instead of 10 %. If the other classes' rounded
            counts exceed the size, the code also keeps the surplus. By default all examples are
            used, as in the paper's text.

    Returns:
        ``clients`` int64 arrays, in random order and of exactly these sizes. With ``author_split``
        they are in the order of the classes and a tenth shorter.

    Raises:
        Error: a number is out of range, or there are no labels.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.dirichlet_overlapping(labels, 3, 0.1, 20, seed=0)
        >>> len(parts)
        3
    """
    y = checks.labels("labels", labels)
    sizes = checks.sizes("examples_per_client", examples_per_client, clients)
    if not y.size:
        raise Error("labels is empty: there is nothing to draw from")
    classes = np.unique(y)
    pools = [np.flatnonzero(y == label) for label in classes]
    q = dirichlet_proportions(clients, len(classes), alpha, seed)
    parts = []
    for client, size in enumerate(sizes):
        counts = rounded_counts(q[client], int(size), exact=not author_split)
        generator = numpy_generator(seed, "partition dirichlet overlapping", client)
        chosen = [
            pool[generator.integers(len(pool), size=count)]
            for pool, count in zip(pools, counts, strict=True)
        ]
        indices = np.concatenate(chosen).astype(np.int64)
        if author_split:
            parts.append(indices[: int(0.9 * len(indices))])
        else:
            parts.append(generator.permutation(indices))
    return parts


def rounded_counts(q: np.ndarray, size: int, exact: bool = True) -> np.ndarray:
    """``round(size * q)`` for every class but the last, which takes the missing examples.

    Rounding up may leave a negative number for the last class. Then it takes 0, and with ``exact``
    the largest counts each lose one until the sum is ``size``.

    Args:
        q: ``[C]``, sums to 1.

    Returns:
        int64 ``[C]``.
    """
    counts = np.round(size * q).astype(np.int64)
    counts[-1] = max(size - counts[:-1].sum(), 0)
    surplus = counts.sum() - size
    if exact and surplus > 0:
        # Rounding adds less than one to a class, so there are enough classes to take from.
        counts[np.argsort(-counts, kind="stable")[:surplus]] -= 1
    return counts


@checked
def silos(labels: ArrayLike, clients: Count, beta: Concentration, seed: Seed) -> list[np.ndarray]:
    """Split every class among all clients in proportions drawn from ``Dir(beta)`` over the clients.

    Source: "Accelerating Fair Federated Learning" (AdaFedAdam), appendix C.1: CIFAR-10 in 16
    subsets, "Dir_16(0.1)", as in its authors' code.

    In :func:`dirichlet` a client draws its mix of classes. Here a class draws its mix of clients,
    so every example is used, and small ``beta`` makes clients differ in size as well. Proportions
    are drawn again until every client has enough: no client is empty, and with K clients the sum
    of a client's shares over the classes is at least 1 / (10 K), as in the authors' code.

    Args:
        labels: ``[N]`` integers, 0 or more.
        clients: K.
        beta: concentration. The paper uses 0.05, 0.1, 0.5 and 1.
        seed: seed of the proportions and the shuffles.

    Returns:
        K int64 arrays in random order. Every index is in exactly one.

    Raises:
        Error: a number is out of range, there are more clients than examples, or 10,000 tries gave
            no acceptable proportions.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.silos(labels, 4, beta=0.5, seed=0)
        >>> len(parts), sum(len(part) for part in parts)
        (4, 100)
    """
    y = checks.labels("labels", labels)
    checks.enough(clients, clients, len(y))
    classes, counts = np.unique(y, return_counts=True)
    least = 1 / (10.0 * clients)  # as a float, since ten times a small NumPy integer may overflow
    generator = numpy_generator(seed, "partition silos")
    for _ in range(TRIES):
        q = generator.dirichlet(np.full(clients, beta), size=len(classes))
        # [C, K + 1]: the bounds within a class. Rounding the running sums uses every example.
        cuts = np.round(np.cumsum(q, axis=1) * counts[:, None]).astype(np.int64)
        cuts[:, -1] = counts
        sizes = np.diff(cuts, axis=1, prepend=0).sum(axis=0)
        if q.sum(axis=0).min() >= least and sizes.min() > 0:
            break
    else:
        raise Error(
            f"beta is {beta}, and in {TRIES} tries some client always had a share below "
            f"1/{10.0 * clients:g} summed over the classes: raise beta or take fewer clients than "
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
