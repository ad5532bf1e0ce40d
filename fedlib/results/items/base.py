"""What a printed table holds: cells, each with the runs that belong to it.

How to add a table, in the paper's own file of this package::

    def _table_10(label: str, task: str, metric: str) -> Item:
        return Item(
            *("fedopt", "Table 10", task, label),
            cells=printed_cells(
                "fedopt", "table10_stackoverflow_test", {"task": label},
                metrics={"accuracy_percent": metric},
            ),
            notebook="15_stackoverflow_nwp",
            rounds=1500,
            clients_per_round=50,
            batch_size=16,
        )

    ITEMS = (..., _table_10("StackOverflow NWP", "stackoverflow_nwp", "accuracy"))

A table whose rows are not algorithms says what each printed label means, and what tells its columns
apart stands in the cells' options or overrides::

    def _client(label: str) -> Method:  # "SGD_decay" -> FedAvg with SGD clients, step_decay
        ...
        return "fedavg", {"client_optimizer": "sgd", "client_schedule": "step_decay"}

    cells = tuple(
        cell
        for alpha in (0.01, 0.1, 1.0)
        for cell in printed_cells(
            "delta_sgd", "table1", {"dataset": "MNIST", "alpha": alpha},
            metrics="avg", row="optimizer", column=f"alpha {alpha}",
            method=_client, options={"alpha": alpha},
        )
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedlib import algorithms, papers
from fedlib.errors import Error

NAN = float("nan")
# An algorithm's name and the overrides that make it the printed one.
Method = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One printed number, and which runs belong to it.

    A run belongs to a cell if its method is the algorithm with the task's own hyperparameters (the
    paper's) and the cell's overrides, it trained with the overrides' local epochs and batch size
    (else the task's own), and its task has the cell's options.

    Attributes:
        row, column: the labels as printed; ``column`` is "" where the table has one column a task.
        algorithm, overrides: fedlib's name, and override keys as :func:`fedlib.run` takes them.
        metric: a key of :data:`fedlib.results.items.metrics.METRICS`.
        printed, spread: the number and its ±, in the printed unit; NaN where there is none.
        unclear: what is uncertain about the printed number, in words.
        options: task options without which a run is not the cell's, for instance the partition's
            concentration where the table varies it; in place of a value, a function of it may say
            whether it will do.
        clients_per_round: if it differs from the item's.
        tuned: override keys that the paper tunes and does not print: any value belongs, and the one
            with the smallest training loss counts.
    """

    row: str
    algorithm: str
    metric: str
    printed: float
    overrides: Mapping[str, Any] = field(default_factory=dict)
    column: str = ""
    spread: float = NAN
    unclear: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clients_per_round: int | None = None
    tuned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """One task's cells of a printed table, and the settings they were printed for.

    Attributes:
        paper, item: for instance ``"fedopt"``, ``"Table 1"``.
        task: fedlib's name of the task; ``label`` is the paper's.
        cells: see :class:`Cell`.
        notebook: which makes the runs; until there is one, the command that does.
        rounds, clients_per_round (None: all), batch_size, local_epochs: the paper's. Runs with
            others count too, where there are no better ones, and say so.
        options: the task's options in the paper; the same holds for them.
    """

    paper: str
    item: str
    task: str
    label: str
    cells: tuple[Cell, ...]
    notebook: str
    rounds: int
    clients_per_round: int | None
    batch_size: int
    local_epochs: int | tuple[int, int] = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def algorithm_name(label: str) -> str:
    """fedlib's name of an algorithm from the papers': ``"q-FedAvg"`` -> ``"qfedavg"``."""
    return label.lower().replace("-", "").replace(" ", "")


def named(label: str) -> Method:
    """The method of a row whose label is an algorithm's name."""
    return algorithm_name(label), {}


def printed_cells(
    paper: str,
    table: str,
    where: Mapping[str, Any],
    *,
    metrics: Mapping[str, str] | str,
    row: str = "algorithm",
    column: str = "",
    method: Callable[[str], Method | None] = named,
    **settings: Any,
) -> tuple[Cell, ...]:
    """The cells of a transcribed table, one per row of its file.

    Args:
        paper, table: of :mod:`fedlib.papers`.
        where: what the file's columns must equal.
        metrics: the file's ``metric`` -> ours; rows with others are left out. Or ours for all rows,
            if the file has no such column.
        row: the column that holds the printed label.
        column: label of the printed column.
        method: from the label to the algorithm and overrides; None leaves the row out. Labels of
            algorithms that fedlib does not have are left out, too.
        settings: other fields of :class:`Cell`, the same for all.

    Raises:
        Error: no row.
    """
    frame = papers.table(paper, table)
    for key, wanted in where.items():
        frame = frame[frame[key] == wanted]
    if frame.empty:
        raise Error(f"{paper}/{table} has no row with {dict(where)}")
    number = next(name for name in ("value", "mean", "accuracy") if name in frame.columns)
    cells = []
    for entry in frame.to_dict("records"):
        metric = metrics if isinstance(metrics, str) else metrics.get(entry["metric"])
        meant = method(entry[row])
        if metric is None or meant is None or meant[0] not in algorithms.METHODS:
            continue
        cells.append(
            Cell(
                row=entry[row],
                algorithm=meant[0],
                metric=metric,
                printed=float(entry[number]),
                overrides=meant[1],
                column=column,
                spread=float(entry.get("std", NAN)) if number == "mean" else NAN,
                unclear=_unclear(entry),
                **settings,
            )
        )
    return tuple(cells)


def _unclear(entry: Mapping[str, Any]) -> str:
    status = entry.get("status", "read")
    if status in ("", "read"):
        return ""
    note = entry.get("note", "")
    return f"{status}: {note}" if note and not pd.isna(note) else str(status)
