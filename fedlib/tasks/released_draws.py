"""The partition and the cohorts of Delta-SGD's released script, from NumPy's legacy generator.

The script seeds NumPy's global generator with 5821 and draws from it, in this order: the Dirichlet
proportions of all clients, each client's examples, and then one cohort a round. We assume that the
paper's Table 1 was made with this seed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fedlib.arguments import Count, checked
from fedlib.partitioners.checks import Concentration
from fedlib.partitioners.dirichlet import rounded_counts
from fedlib.task import Cohorts

SEED = 5821


@checked
def released_draws(
    labels: np.ndarray, clients: Count, alpha: Concentration, size: Count, *, author_split: bool
) -> tuple[list[np.ndarray], Cohorts]:
    """Each client's examples, and its sampler of cohorts.

    Args:
        labels: ``[N]`` integers. Classes that do not occur are left out.
        clients: number of clients.
        alpha: concentration of the Dirichlet distribution, per class.
        size: examples of a client.
        author_split: only the first 90 % of each client's examples, as the script trains.

    Returns:
        int64 arrays, in the order of the classes (if the other classes' rounded counts exceed
        ``size``, the surplus is kept), and the sampler, for :class:`fedlib.Task`.

    Raises:
        Error: a number is out of range.
    """
    legacy = np.random.RandomState(SEED)
    classes = np.unique(labels)
    proportions = legacy.dirichlet(alpha * np.ones(len(classes)), clients)
    pools = [np.flatnonzero(labels == label) for label in classes]
    parts = []
    for q in proportions:
        counts = rounded_counts(q, size, exact=False)
        drawn = [
            legacy.choice(pool, count, replace=True)
            for pool, count in zip(pools, counts, strict=True)
        ]
        part = np.concatenate(drawn)
        parts.append(part[: int(0.9 * len(part))] if author_split else part)
    return parts, _cohorts(legacy.get_state(), clients)


def _cohorts(state: Any, clients: int) -> Cohorts:
    """The cohorts that the script draws after the partition, one a round, in its order.

    Args:
        state: state of the legacy generator after the partition.
        clients: number of clients.
    """

    @cache
    def first(size: int, rounds: int) -> list[np.ndarray]:
        legacy = np.random.RandomState()
        legacy.set_state(state)
        return [legacy.choice(clients, size, replace=False) for _ in range(rounds)]

    # A round's cohort depends on all cohorts before it.
    return lambda number, size: first(size, max(512, 1 << number.bit_length()))[number]
