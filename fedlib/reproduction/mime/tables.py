"""Mime's Table 2: the methods of its rows, and the cohorts that cost the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import algorithms, papers
from fedlib.reproduction.tables import find

BASES = ("SGD", "Momentum", "Adam", "Adagrad")


def method(name: str, base: str) -> tuple[str, dict[str, Any]]:
    """The algorithm and overrides of a row of Table 2, all but the client learning rate.

    Args:
        name: ``"FedAvg"``, ``"MimeLite"`` or ``"Mime"``; the Mimes with their cohort in halves.
        base: one of :data:`BASES`, as printed.

    >>> method("Mime", "Adam")
    ('mime', {'base': 'adam', 'split': True})
    """
    printed = papers.table("mime", "table2_accuracy").set_index(["method", "base_optimizer"])
    label = printed.loc[[(name, base)], "printed_name"].iloc[0]
    cells = find("mime", "Table 2").set_index("row")
    return tuple(cells.loc[[label], ["algorithm", "overrides"]].iloc[0])


def cohort(algorithm: str, overrides: Mapping[str, Any], model_sizes: float) -> int:
    """How many clients a method can pay for in a round that sends and receives so much."""
    return algorithms.clients_for_budget(algorithms.build(algorithm, **overrides), model_sizes)
