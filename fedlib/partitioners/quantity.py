"""Quantity skew: clients that differ in how much they have, not in what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedlib.arguments import Seed, checked, whole
from fedlib.errors import Error, require
from fedlib.partitioners import checks
from fedlib.randomness import numpy_generator


@checked
def uniform_sizes(clients: int, low: int, high: int, seed: Seed) -> np.ndarray:
    """Sizes drawn uniformly from the integers ``low .. high``, both included.

    Source: "Auto-tuned clients" (Delta-SGD), appendix B.3, with 100 and 500.

    Returns:
        int64 ``[clients]``; also the ``examples_per_client`` of the other partitioners.

    Raises:
        Error: fewer than one client, a negative size, or ``high`` below ``low``.

    Example:
        >>> import fedlib
        >>> sizes = fedlib.partition.uniform_sizes(1000, 100, 500, seed=0)
        >>> int(sizes.min()), int(sizes.max())
        (101, 500)
    """
    clients = whole("clients", clients, 1)
    low, high = whole("low", low, 0), whole("high", high, 0)
    if high < low:
        raise Error(f"high is {high}, below low, which is {low}")
    return numpy_generator(seed, "partition uniform sizes").integers(low, high + 1, clients)


@checked
def lognormal_sizes(
    clients: int, seed: Seed, mean: float = 3.0, sigma: float = 2.0, shift: int = 5, cap: int = 1000
) -> np.ndarray:
    """Sizes with a long tail, ``min(floor(exp(N(mean, sigma^2))) + shift, cap)``.

    The defaults are those of LEAF's Synthetic (Caldas et al., 2018): half of the clients have
    about 25 examples or fewer, and some have a thousand.

    Args:
        clients: number of clients.
        seed: of the draws.
        mean, sigma: of the logarithm.
        shift: added to every size, its minimum.
        cap: the largest size.

    Returns:
        int64 ``[clients]``; also the ``examples_per_client`` of the other partitioners.

    Raises:
        Error: a number out of range.

    Example:
        >>> import fedlib
        >>> sizes = fedlib.partition.lognormal_sizes(1000, seed=0)
        >>> int(sizes.min()) >= 5, int(sizes.max())
        (True, 1000)
    """
    clients = whole("clients", clients, 1)
    shift, cap = whole("shift", shift, 0), whole("cap", cap, 0)
    require(-np.inf < mean < np.inf, "mean", mean, "a finite number")
    require(0 <= sigma < np.inf, "sigma", sigma, "a finite number, 0 or more")
    draws = numpy_generator(seed, "partition lognormal sizes").normal(mean, sigma, clients)
    # Beyond exp(40) every cap is exceeded, and much beyond it the exponential would overflow.
    sizes = np.floor(np.exp(np.minimum(draws, 40.0))) + shift
    return np.minimum(sizes, cap).astype(np.int64)


@checked
def quantity(n: int, sizes: int | Sequence[int] | np.ndarray, seed: Seed) -> list[np.ndarray]:
    """Deal indices of ``0 .. n - 1`` at random to clients of given sizes.

    Args:
        n: number of examples.
        sizes: one size per client, for instance from :func:`uniform_sizes`.
        seed: of the shuffle.

    Returns:
        an int64 array of exactly the asked size for every client; no index twice. Indices beyond
        the sum of the sizes stay unused.

    Raises:
        Error: the sizes ask for more than ``n`` examples, or are not integers, 0 or more.

    Example:
        >>> import fedlib
        >>> [len(part) for part in fedlib.partition.quantity(10, [5, 3, 1], seed=0)]
        [5, 3, 1]
    """
    n = whole("n", n, 0)
    if np.ndim(sizes) != 1 or len(np.asarray(sizes)) == 0:
        raise Error("sizes must be a sequence with one number per client")
    wanted = checks.sizes("sizes", sizes, len(np.asarray(sizes)))
    checks.enough(wanted, n)
    order = numpy_generator(seed, "partition quantity").permutation(n).astype(np.int64)
    return np.split(order[: wanted.sum()], np.cumsum(wanted)[:-1])
