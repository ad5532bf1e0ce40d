"""The natural split: a client is the person who wrote the examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import checked
from fedlib.errors import Error


@checked
def by_user(user_codes: ArrayLike) -> list[np.ndarray]:
    """Group example indices by user.

    Args:
        user_codes: ``[N]`` integers or strings, the user of each example; also a column of pandas.

    Returns:
        One int64 array of ascending indices per distinct user, in the order of
        ``np.unique(user_codes)``.

    Raises:
        Error: the codes are not one-dimensional.

    Example:
        >>> import fedlib
        >>> [part.tolist() for part in fedlib.partition.by_user(["bob", "ann", "bob"])]
        [[1], [0, 2]]
    """
    codes = np.asarray(user_codes)
    codes = codes.astype(str) if codes.dtype == object else codes
    if codes.ndim != 1:
        raise Error(f"user_codes has {codes.ndim} dimensions; one code per example is needed")
    if codes.size == 0:
        return []
    # A stable sort keeps each user's examples in their original order.
    order = np.argsort(codes, kind="stable").astype(np.int64)
    ordered = codes[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return np.split(order, starts)
