"""The tables of AdaFedAdam's main experiment: Table 5."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedlib import papers
from fedlib.results.items.base import Item, printed_cells

_FAIRNESS = {"avg": "avg", "std": "std", "worst30": "worst30"}


def _table_5(
    label: str, task: str, notebook: str, options: Mapping[str, Any], own: Mapping[str, Any]
) -> Item:
    """The rows of a setup.

    Args:
        options: of the task, at the paper's scale.
        own: options without which a run is of another experiment.
    """
    setup = papers.settings("adafedadam")["setups"][label]
    cells = printed_cells(
        "adafedadam",
        "table5_convergence_fairness",
        {"setup": label},
        metrics=_FAIRNESS,
        options=own,
    )
    return Item(
        *("adafedadam", "Table 5", task, label),
        # FedProx' mu comes from a grid, and the winner is not printed.
        cells=tuple(
            dataclasses.replace(cell, tuned=("mu",)) if cell.algorithm == "fedprox" else cell
            for cell in cells
        ),
        notebook=notebook,
        rounds=setup["rounds"],
        clients_per_round=None,
        batch_size=setup["batch_size"],
        options=options,
    )


ITEMS: tuple[Item, ...] = (
    _table_5("Femnist", "fair_femnist", "20_fair_femnist", {"clients": 3500, "width": 1.0}, {}),
    _table_5(
        "Cifar10",
        "fair_cifar10",
        "21_fair_cifar10",
        {"data": "cifar10", "clients": 16, "examples": 50_000, "width": 1.0, "augment": False},
        {"beta": 0.1},
    ),
    _table_5(
        "Sent140",
        "fair_sent140",
        "22_fair_sent140",
        {"data": "sent140", "clients": 697, "examples": 0, "tokens": 25, "width": 1.0},
        {},
    ),
    _table_5(
        "Synthetic",
        "synthetic",
        "23_fair_synthetic",
        {"clients": 100, "data_seed": 931231},
        {},
    ),
)
