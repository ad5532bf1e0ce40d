"""The tables of Adaptive Federated Optimization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import papers
from fedlib.reproduction.table import Table, printed_cells

# The files' metrics and ours.
METRICS = {
    "accuracy_percent": "accuracy",
    "recall_at_5_x100": "recall_at_5",
    "mse_x1000": "mse_x1000",
}
_CIFAR = {"clients": 500, "examples_per_client": 100, "test_clients": 100, "width": 1.0}
_STACKOVERFLOW = {"clients": 342477, "words": 10000, "cap": 1000, "validation": 10000}


def _table_1(task: str, label: str, notebook: str, options: Mapping[str, Any]) -> Table:
    """A task's column of Table 1, with the settings of section 4 and Table 7."""
    stated = papers.settings("fedopt")
    cohorts = stated["federated"]["clients_per_round"]
    return Table(
        *("fedopt", "Table 1", task, label),
        cells=printed_cells("fedopt", "table1_validation", {"task": label}, metrics=METRICS),
        notebook=notebook,
        rounds=stated["rounds"][label],
        clients_per_round=cohorts.get(label, stated["federated"]["clients_per_round_default"]),
        batch_size=stated["batch_size"][label],
        options=options,
    )


TABLES: tuple[Table, ...] = (
    _table_1("cifar10", "CIFAR-10", "10_cifar10", _CIFAR | {"alpha": 0.1, "groups": 2}),
    # The authors' own partition, where that is prepared, has no concentrations.
    _table_1("cifar100", "CIFAR-100", "11_cifar100", _CIFAR | {"groups": 2}),
    _table_1("emnist_cr", "EMNIST CR", "12_emnist_cr", {"clients": 3400, "width": 1.0}),
    _table_1(
        *("emnist_ae", "EMNIST AE", "13_emnist_ae"),
        {"clients": 3400, "width": 1.0, "reduction": "sum"},
    ),
    _table_1(
        *("shakespeare", "Shakespeare", "14_shakespeare"),
        {"clients": 715, "rows": 0, "width": 1.0, "length": 80},
    ),
    _table_1(
        *("stackoverflow_lr", "StackOverflow LR", "16_stackoverflow_lr"),
        _STACKOVERFLOW | {"tags": 500},
    ),
    _table_1(
        *("stackoverflow_nwp", "StackOverflow NWP", "15_stackoverflow_nwp"),
        _STACKOVERFLOW | {"width": 1.0},
    ),
)
