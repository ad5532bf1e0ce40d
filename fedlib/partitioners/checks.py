"""The partitioners' conditions on their arguments, in one place."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import MOST, WORDS
from fedlib.errors import Error, require

# From this number of classes on, labels are checked for being ids.
FEW_LABELS = 1000
# The range of a Dirichlet's concentration in which no draw becomes 0, infinite or NaN.
Concentration = Annotated[float, lambda value: 1e-6 <= value <= 1e6]


def labels(name: str, values: ArrayLike) -> np.ndarray:
    """``values`` as an array ``[N]`` of integers, 0 or more. Error otherwise."""
    y = np.asarray(values)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise Error(f"{name} must be one-dimensional integers, not {y.dtype} of shape {y.shape}")
    if y.size and y.min() < 0:
        raise Error(f"{name} must be 0 or more, but the smallest is {y.min()}")
    if y.size and y.max() >= FEW_LABELS:
        different = len(np.unique(y))
        if different < y.max() // 10 or different > y.size // 2:
            raise Error(
                f"{name} look like ids, with {different} different values in {y.size} examples, up "
                f"to {y.max()}: number the classes with np.unique(labels, return_inverse=True)[1]"
            )
    return y


def sizes(name: str, value: int | Sequence[int] | np.ndarray, clients: int) -> np.ndarray:
    """``value``, a count or one per client, as int64 ``[clients]``, 0 or more. Error if not."""
    array = np.asarray(value)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != clients):
        raise Error(f"{name} must be one number or {clients} numbers, one per client")
    whole = np.issubdtype(array.dtype, np.integer)
    require(whole and 0 <= array.min() <= array.max() <= MOST, name, value, WORDS["Size"])
    return np.broadcast_to(array, (clients,)).astype(np.int64)


def enough(clients: int, wanted: int, available: int) -> None:
    """Error unless there are ``available`` examples for all that the clients want together."""
    if wanted > available:
        raise Error(
            f"{clients} clients ask for {wanted} examples in all, but there are only "
            f"{available}: take fewer, or prepare the data if a stand-in is used"
        )
