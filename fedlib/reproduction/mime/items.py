"""The tables of Mime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedlib import papers
from fedlib.reproduction.mime import runs as mime
from fedlib.reproduction.table import Method, Table, printed_cells

_NOTEBOOKS = {"emnist_logistic": "24_mime_emnist", "emnist_cr": "24_mime_emnist"}
# The paper's data: TensorFlow Federated's. Its setup is FedOpt's, whose batches these are.
_SCALE: dict[str, tuple[int, Mapping[str, Any]]] = {
    "emnist_logistic": (20, {"clients": 3400}),
    "emnist_cr": (20, {"clients": 3400, "width": 1.0}),
    "shakespeare": (4, {"clients": 715, "width": 1.0, "rows": 0, "length": 80}),
    "stackoverflow_nwp": (16, {"clients": 342_477, "words": 10_000, "width": 1.0, "cap": 1000}),
}


def _rows(column: str) -> dict[str, tuple[str, str]]:
    """The printed labels of a column: ``{"FedAvgMom": ("FedAvg", "Momentum"), ...}``."""
    table = papers.table("mime", "table2_accuracy")
    table = table[table["dataset"] == column]
    pairs = zip(table["method"], table["base_optimizer"], strict=True)
    return dict(zip(table["printed_name"], pairs, strict=True))


def _table_2(task: str) -> Table:
    """A column of Table 2. Each row's rate is tuned, and its cohort is what 40 (Stack Overflow:
    100) model sizes per round pay for; see :mod:`fedlib.reproduction.mime.runs`.
    """
    column, _ = mime.TABLE_2[task]
    rows, sizes = _rows(column), mime.budget(task)

    def method(label: str) -> Method:
        return mime.method(*rows[label])

    cells = printed_cells(
        *("mime", "table2_accuracy", {"dataset": column}),
        metrics="avg",
        row="printed_name",
        method=method,
    )
    batch_size, options = _SCALE[task]
    return Table(
        *("mime", "Table 2", task, column),
        cells=tuple(
            replace(
                cell,
                tuned={"client_lr": mime.RATES},
                clients_per_round=mime.cohort(*rows[cell.row], sizes),
            )
            for cell in cells
        ),
        notebook=_NOTEBOOKS.get(task, "25_mime_text"),
        rounds=papers.settings("mime")["table2"]["rounds"],
        clients_per_round=mime.cohort("FedAvg", "SGD", sizes),
        batch_size=batch_size,
        options=options,
    )


TABLES: tuple[Table, ...] = tuple(_table_2(task) for task in mime.TABLE_2)
