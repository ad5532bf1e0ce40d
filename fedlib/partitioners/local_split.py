"""Every client's own test set, split off at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Seed, checked
from fedlib.errors import require
from fedlib.randomness import numpy_generator


@checked
def local_split(
    parts: Sequence[ArrayLike], test_fraction: float, seed: Seed
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Split each client's examples at random into a training and a test part.

    AdaFedAdam does so with a fraction of 0.2 to measure how the clients' accuracies differ.

    Args:
        parts: one index array per client.
        test_fraction: 0 to 1; a client of n examples tests on ``round(test_fraction * n)`` of them.
        seed: of the choice; a client's choice does not depend on the other clients.

    Returns:
        training parts and test parts, int64, in the order of ``parts``.

    Raises:
        Error: a fraction outside 0 to 1.

    Example:
        >>> import fedlib
        >>> train, test = fedlib.partition.local_split([range(10)], 0.2, seed=0)
        >>> len(train[0]), len(test[0])
        (8, 2)
    """
    good = isinstance(test_fraction, (int, float)) and 0 <= test_fraction <= 1
    require(good, "test_fraction", test_fraction, "0 to 1")
    train, test = [], []
    for client, part in enumerate(parts):
        indices = np.asarray(part, dtype=np.int64)
        order = numpy_generator(seed, "local split", client).permutation(indices)
        count = round(test_fraction * len(indices))
        test.append(order[:count])
        train.append(order[count:])
    return train, test
