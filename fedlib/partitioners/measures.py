"""Measures of how clients' labels differ: counts, and distances from all labels together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import checked
from fedlib.clients import checked_parts
from fedlib.errors import Error
from fedlib.partitioners import checks


@checked
def label_counts(labels: ArrayLike, parts: Sequence[ArrayLike]) -> np.ndarray:
    """The number of examples of each label on each client.

    Args:
        labels: ``[N]`` integers, 0 or more.
        parts: index arrays, one per client.

    Returns:
        int64 ``[clients, largest label + 1]``.

    Raises:
        Error: no clients, a part that is no list of indices, or an index outside the labels.

    Example:
        >>> import fedlib
        >>> fedlib.partition.label_counts([0, 1, 1], [[0, 1], [2]]).tolist()
        [[1, 1], [0, 1]]
    """
    y = checks.labels("labels", labels)
    if not len(parts):
        raise Error("parts is empty: give one index array per client")
    classes = int(y.max()) + 1 if y.size else 1
    return np.stack(
        [np.bincount(y[part], minlength=classes) for part in checked_parts("", parts, len(y))]
    )


@checked
def total_variation(labels: ArrayLike, parts: Sequence[ArrayLike]) -> np.ndarray:
    """Each client's distance from all labels: half the sum of the differences of shares.

    It is the share of a client's examples that would have to change their label. If it is 0, the
    client has the same mix of labels as ``labels``. If it is close to 1, its labels are rare.

    Returns:
        float64 ``[clients]``, NaN for a client without examples.

    Example:
        >>> import fedlib
        >>> fedlib.partition.total_variation([0, 0, 1, 1], [[0, 2], [1]]).tolist()
        [0.0, 0.5]
    """
    counts = label_counts(labels, parts).astype(np.float64)
    total = np.bincount(np.asarray(labels), minlength=counts.shape[1]).astype(np.float64)
    sizes = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, sizes, out=np.full_like(counts, np.nan), where=sizes > 0)
    return np.abs(shares - total / total.sum()).sum(axis=1) / 2
