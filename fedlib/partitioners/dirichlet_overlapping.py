"""Dirichlet label skew with clients that may share examples: every client draws from all of them.

Source: "Auto-tuned clients" (Delta-SGD), section 4, in the form of its authors' code: 100 clients
of 500 examples, alpha 0.01, 0.1 or 1. The paper names Hsu et al. (2019), whose concentration
multiplies a prior that sums to one; the code multiplies a vector of ones, and so does this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Seed, checked, whole
from fedlib.errors import Error
from fedlib.partitioners import checks
from fedlib.partitioners.dirichlet import dirichlet_proportions
from fedlib.randomness import numpy_generator


@checked
def dirichlet_overlapping(
    labels: ArrayLike,
    clients: int,
    alpha: float,
    examples_per_client: int | Sequence[int] | np.ndarray,
    seed: Seed,
    *,
    author_split: bool = False,
) -> list[np.ndarray]:
    """Draw every client's examples with replacement, in rounded Dirichlet proportions.

    A client with distribution q over the classes takes ``round(size * q)`` examples of each class
    but the last, and of the last as many as are missing. The examples of a class are drawn with
    replacement from all there are: clients overlap, and a client may hold an example twice. So the
    proportions are kept to within rounding for every client, and no class runs out.

    Args:
        labels: ``[N]`` integers, 0 or more; classes that do not occur are left out.
        clients: number of clients.
        alpha: concentration, per class.
        examples_per_client: size of every client, or one size per client (the paper's appendix
            B.3: :func:`uniform_sizes` with 100 and 500).
        seed: of the distributions (the same as :func:`dirichlet`'s) and the draws.
        author_split: what the authors' code trains on. There a client's examples stay in the order
            of their classes, and only the first 90 % of them are trained on, so a client's last
            classes are cut off: of 500 examples 450 are left, and the classes with the highest
            numbers hardly occur (for CIFAR-100 and alpha 1, over five seeds, the last ten classes
            hold 1.3 % of the training examples instead of 10 %). If the other classes' rounded
            counts exceed the size, the code also keeps the surplus. Default: the paper's text, all
            examples.

    Returns:
        ``clients`` int64 arrays, in random order and of exactly the asked sizes; with
        ``author_split`` in the order of the classes and a tenth shorter.

    Raises:
        Error: a number out of range, or no labels.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> labels = np.arange(100) % 10
        >>> parts = fedlib.partition.dirichlet_overlapping(labels, 3, 0.1, 20, seed=0)
        >>> len(parts)
        3
    """
    y = checks.labels("labels", labels)
    clients = whole("clients", clients, 1)
    alpha = checks.positive("alpha", alpha)
    sizes = checks.sizes("examples_per_client", examples_per_client, clients)
    if not y.size:
        raise Error("labels is empty; there is nothing to draw from")
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
    """``round(size * q)`` for every class but the last, which takes what is missing.

    Rounding up may leave less than nothing for the last class. Then it takes 0, and with ``exact``
    the largest counts give back one each until the sum is ``size``.

    Args:
        q: ``[C]``, sums to 1.

    Returns:
        int64 ``[C]``.
    """
    counts = np.round(size * q).astype(np.int64)
    counts[-1] = max(size - counts[:-1].sum(), 0)
    surplus = counts.sum() - size
    if exact and surplus > 0:
        # Rounding adds less than one to a class, so there are enough classes to take it from.
        counts[np.argsort(-counts, kind="stable")[:surplus]] -= 1
    return counts
