"""Session 1: the label skew of a partition, and a Dirichlet partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedlib import partition

from .compare import expect, same


def label_skew(function: Callable[..., Any], seed: int = 0, *, balanced: bool = True) -> None:
    """``label_skew(labels, parts)`` against :func:`fedlib.partition.total_variation`."""
    draw = np.random.default_rng(seed)
    shares = np.full(5, 0.2) if balanced else np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    labels = draw.permutation(np.repeat(np.arange(5), (200 * shares).astype(int)))
    ends = np.sort(draw.choice(np.arange(1, 200), 6, replace=False))
    parts = np.split(draw.permutation(200), ends)
    hint = "half the sum of |share in the client - share in all labels|"
    same("label_skew", function(labels, parts), partition.total_variation(labels, parts), hint)


def dirichlet_partition(
    function: Callable[..., Any], alpha: float, seed: int = 0, *, clients: int = 100, size: int = 50
) -> None:
    """``dirichlet_partition(labels, clients, alpha, size, draw)``: sizes, no example twice, and as
    much skew as :func:`fedlib.partition.dirichlet` gives."""
    labels = np.repeat(np.arange(10), 600)
    parts = function(labels, clients, alpha, size, np.random.default_rng(seed))
    expect(len(parts) == clients, f"{len(parts)} parts for {clients} clients")
    sizes = {len(part) for part in parts}
    expect(sizes == {size}, f"clients have {sorted(sizes)} examples, not {size} each")
    used = np.concatenate(parts)
    twice = len(used) - len(np.unique(used))
    expect(twice == 0, f"{twice} examples are dealt twice; take each out of its label's pile")
    expect(used.min() >= 0 and used.max() < len(labels), "a part has indices, not labels")
    counts = partition.label_counts(labels, parts)
    kinds = len(set(counts.argmax(axis=1)))
    expect(kinds > 4, f"all clients like the same {kinds} labels: draw q anew for each client")
    skew = partition.total_variation(labels, parts).mean()
    right = [partition.dirichlet(labels, clients, alpha, size, each) for each in range(5)]
    wanted = np.mean([partition.total_variation(labels, part).mean() for part in right])
    message = f"for alpha = {alpha:g} the mean skew is {skew:.2f}, not about {wanted:.2f}"
    expect(abs(skew - wanted) < 0.06, f"{message}; q ~ Dirichlet(alpha, ..., alpha)")
