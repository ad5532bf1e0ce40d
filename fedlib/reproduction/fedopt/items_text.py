"""Adaptive Federated Optimization, Table 10: the whole test sets of Stack Overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import papers
from fedlib.reproduction.table import Table, printed_cells

# The model after the last round, where Table 1 averages over the last 100.
_METRICS = {"accuracy_percent": "last_accuracy", "recall_at_5_x100": "last_recall_at_5"}
_OPTIONS = {"clients": 342477, "words": 10000, "cap": 1000}


def _table_10(task: str, label: str, notebook: str, options: Mapping[str, Any]) -> Table:
    """A task's row. Runs that were tested on a sample of the posts (Table 1's) do not belong."""
    stated = papers.settings("fedopt")
    cohorts = stated["federated"]["clients_per_round"]
    return Table(
        *("fedopt", "Table 10", task, label),
        cells=printed_cells(
            *("fedopt", "table10_stackoverflow_test", {"task": label}),
            metrics=_METRICS,
            options={"validation": 0},
        ),
        notebook=notebook,
        rounds=stated["rounds"][label],
        clients_per_round=cohorts.get(label, stated["federated"]["clients_per_round_default"]),
        batch_size=stated["batch_size"][label],
        options={**_OPTIONS, **options},
    )


TABLES: tuple[Table, ...] = (
    _table_10(*("stackoverflow_nwp", "StackOverflow NWP", "15_stackoverflow_nwp"), {"width": 1.0}),
    _table_10(*("stackoverflow_lr", "StackOverflow LR", "16_stackoverflow_lr"), {"tags": 500}),
)
