"""Splits that do not use labels: at random, by size, by person, and a client's own test set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedlib.arguments import Count, Seed, Size, checked
from fedlib.clients import NamedParts, checked_parts, require_owners
from fedlib.errors import Error, require
from fedlib.partitioners import checks
from fedlib.randomness import numpy_generator


@checked
def iid(n: Size, clients: Count, seed: Seed) -> list[np.ndarray]:
    """Deal the indices ``0 .. n - 1`` at random to ``clients`` clients.

    Args:
        n: number of examples.
        clients: number of clients, ``1 .. n``.
        seed: seed of the shuffle.

    Returns:
        ``clients`` int64 arrays. Every index is in exactly one, and sizes differ by at most one.

    Raises:
        Error: fewer than one client, or more clients than examples.

    Example:
        >>> import fedlib
        >>> parts = fedlib.partition.iid(10, 3, seed=0)
        >>> [len(part) for part in parts]
        [4, 3, 3]
    """
    checks.enough(clients, clients, n)
    order = numpy_generator(seed, "partition iid").permutation(n).astype(np.int64)
    return list(np.array_split(order, clients))


@checked
def by_user(user_codes: ArrayLike) -> list[np.ndarray]:
    """Group example indices by user. :class:`fedlib.ClientData` keeps the users' names.

    Args:
        user_codes: ``[N]`` integers or strings, the user of each example, or a column of pandas.

    Returns:
        One int64 array of ascending indices per distinct user, in the order of
        ``np.unique(user_codes)``. The list's ``names`` are these users.

    Raises:
        Error: the codes are not one-dimensional, or one is missing.

    Example:
        >>> import fedlib
        >>> [part.tolist() for part in fedlib.partition.by_user(["bob", "ann", "bob"])]
        [[1], [0, 2]]
    """
    codes = require_owners("user_codes", user_codes)
    codes = codes.astype(str) if codes.dtype == object else codes
    if codes.ndim != 1:
        raise Error(f"user_codes has {codes.ndim} dimensions: give one code per example")
    by_code = pd.Series(codes).groupby(codes).indices
    return NamedParts(by_code.values(), list(by_code))


@checked
def uniform_sizes(clients: Count, low: Size, high: Size, seed: Seed) -> np.ndarray:
    """Sizes drawn uniformly from the integers ``low .. high``, both included.

    Source: "Auto-tuned clients" (Delta-SGD), appendix B.3, with 100 and 500.

    Returns:
        int64 ``[clients]``, which other partitioners take as ``examples_per_client``.

    Raises:
        Error: fewer than one client, a negative size, or ``high`` below ``low``.

    Example:
        >>> import fedlib
        >>> sizes = fedlib.partition.uniform_sizes(1000, 100, 500, seed=0)
        >>> int(sizes.min()), int(sizes.max())
        (101, 500)
    """
    if high < low:
        raise Error(f"high is {high}, below low, which is {low}")
    return numpy_generator(seed, "partition uniform sizes").integers(
        low, high, clients, endpoint=True
    )


@checked
def lognormal_sizes(
    clients: Count,
    seed: Seed,
    mean: float = 3.0,
    sigma: float = 2.0,
    shift: Size = 5,
    cap: Size = 1000,
) -> np.ndarray:
    """Sizes with a long tail, ``min(floor(exp(N(mean, sigma^2))) + shift, cap)``.

    The defaults come from LEAF's Synthetic (Caldas et al., 2018): half of the clients have about 25
    examples or fewer, and some have a thousand.

    Args:
        clients: number of clients.
        seed: seed of the draws.
        mean, sigma: mean and standard deviation of the logarithm.
        shift: added to every size, so it is the minimum.
        cap: the largest size.

    Returns:
        int64 ``[clients]``, which other partitioners take as ``examples_per_client``.

    Raises:
        Error: a number out of range.

    Example:
        >>> import fedlib
        >>> sizes = fedlib.partition.lognormal_sizes(1000, seed=0)
        >>> int(sizes.min()) >= 5, int(sizes.max())
        (True, 1000)
    """
    require(-np.inf < mean < np.inf, "mean", mean, "a finite number")
    require(0 <= sigma < np.inf, "sigma", sigma, "a finite number, 0 or more")
    generator = numpy_generator(seed, "partition lognormal sizes")
    draws = generator.normal(mean, abs(sigma), clients)  # NumPy refuses -0.0
    # Beyond exp(40) every cap is exceeded, and much beyond it the exponential would overflow.
    sizes = np.floor(np.exp(np.minimum(draws, 40.0))) + shift
    return np.minimum(sizes, cap).astype(np.int64)


@checked
def quantity(n: Size, sizes: int | Sequence[int] | np.ndarray, seed: Seed) -> list[np.ndarray]:
    """Deal indices of ``0 .. n - 1`` at random to clients of given sizes.

    Args:
        n: number of examples.
        sizes: one size per client, for instance from :func:`uniform_sizes`.
        seed: seed of the shuffle.

    Returns:
        An int64 array of exactly the given size for every client. No index occurs twice. Indices
        beyond the sum of the sizes stay unused.

    Raises:
        Error: the sizes ask for more than ``n`` examples, or are not integers, 0 or more.

    Example:
        >>> import fedlib
        >>> [len(part) for part in fedlib.partition.quantity(10, [5, 3, 1], seed=0)]
        [5, 3, 1]
    """
    if np.ndim(sizes) != 1 or len(np.asarray(sizes)) == 0:
        raise Error("sizes must be a sequence with one number per client")
    counts = checks.sizes("sizes", sizes, len(np.asarray(sizes)))
    checks.enough(len(counts), counts.sum(), n)
    order = numpy_generator(seed, "partition quantity").permutation(n).astype(np.int64)
    return np.split(order[: counts.sum()], np.cumsum(counts)[:-1])


@checked
def local_split(
    parts: Sequence[ArrayLike], test_fraction: float, seed: Seed
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Split each client's examples at random into a training and a test part.

    AdaFedAdam uses a fraction of 0.2 to measure how the clients' accuracies differ.

    Args:
        parts: one index array per client.
        test_fraction: 0 to 1. A client of n examples tests on ``round(test_fraction * n)`` of them.
            An example that it holds several times, as with :func:`dirichlet_overlapping`, counts
            once, and all copies are in the same part.
        seed: seed of the choice. A client's choice does not depend on the other clients.

    Returns:
        Training parts and test parts, int64, in the order of ``parts``.

    Raises:
        Error: a fraction outside 0 to 1, or a part that is no list of indices, 0 or more.

    Example:
        >>> import fedlib
        >>> train, test = fedlib.partition.local_split([range(10)], 0.2, seed=0)
        >>> len(train[0]), len(test[0])
        (8, 2)
    """
    require(0 <= test_fraction <= 1, "test_fraction", test_fraction, "0 to 1")
    train, test = [], []
    for client, given in enumerate(checked_parts("", parts, np.iinfo(np.int64).max)):
        known = np.unique(given)
        twice = len(known) < len(given)
        order = numpy_generator(seed, "local split", client).permutation(known if twice else given)
        count = round(test_fraction * len(order))
        tests, trains = order[:count], order[count:]
        if twice:
            tests, trains = (given[np.isin(given, side)] for side in (tests, trains))
        test.append(tests)
        train.append(trains)
    return train, test
