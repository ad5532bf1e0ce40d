"""What the partitioners ask of their arguments, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedlib.errors import Error, require

# Of so many classes it is asked whether they are classes.
FEW_LABELS = 1000
# What numbers of a Dirichlet distribution can be drawn without becoming 0, infinite or NaN.
CONCENTRATIONS = 1e-6, 1e6


def positive(name: str, value: Any) -> float:
    """A concentration as a float; Error where it is out of range."""
    low, high = CONCENTRATIONS
    good = isinstance(value, (int, float, np.number)) and low <= value <= high
    require(bool(good), name, value, f"a finite number above 0, {low:g} to {high:g}")
    return float(value)


def labels(name: str, values: ArrayLike) -> np.ndarray:
    """``values`` as an array ``[N]`` of integers, 0 or more; Error otherwise."""
    y = np.asarray(values)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise Error(f"{name} must be one-dimensional integers, not {y.dtype} of shape {y.shape}")
    if y.size and y.min() < 0:
        raise Error(f"{name} must be 0 or more; the smallest is {y.min()}")
    if y.size and y.max() >= FEW_LABELS:
        different = len(np.unique(y))
        if different < y.max() // 10 or different > y.size // 2:
            raise Error(
                f"{name} look like ids: {different} different ones in {y.size} examples, up to "
                f"{y.max()}; number the classes, np.unique(labels, return_inverse=True)[1]"
            )
    return y


def sizes(name: str, value: int | Sequence[int] | np.ndarray, clients: int) -> np.ndarray:
    """``value``, one number or one per client, as int64 ``[clients]``, 0 or more; Error if not."""
    array = np.asarray(value)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != clients):
        raise Error(f"{name} must be one number or {clients} numbers, one per client")
    if not np.issubdtype(array.dtype, np.integer) or array.min() < 0:
        raise Error(f"{name} is {value}; allowed: integers, 0 or more")
    return np.broadcast_to(array, (clients,)).astype(np.int64)


def enough(wanted: np.ndarray, available: int) -> None:
    """Error unless ``available`` examples are enough for clients of these sizes."""
    if wanted.sum() > available:
        raise Error(
            f"{len(wanted)} clients ask for {wanted.sum()} examples in all, "
            f"but there are only {available}; take fewer, or prepare the data if a stand-in is used"
        )
