"""What a printed table holds: cells, each with the runs that belong to it.

How to add one, in ``tables.py`` of the paper's folder::

    Table(
        *("fedopt", "Table 10", "stackoverflow_nwp", "StackOverflow NWP"),
        cells=printed_cells(
            "fedopt", "table10_stackoverflow_test", {"task": "StackOverflow NWP"},
            metrics={"accuracy_percent": "last_accuracy"},
        ),
        notebook="15_stackoverflow_nwp",
        rounds=1500,
        clients_per_round=50,
        batch_size=16,
    )

A table whose rows are not algorithms says by ``method`` what each printed label means, and what
tells its columns apart stands in the cells' options or overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedlib import algorithms, papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.results.selection import training_score

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
        metric: a key of :data:`fedlib.reproduction.metrics.METRICS`.
        printed, spread: the number and its ±, in the printed unit; NaN where there is none.
        unclear: what is uncertain about the printed number, in words.
        options: task options without which a run is not the cell's, for instance the partition's
            concentration where the table varies it; in place of a value, a function of it may say
            whether it will do.
        clients_per_round: if it differs from the table's.
        tuned: override keys that the paper tunes and does not print, each with the values that it
            tries, as far as they are known: any value belongs, and the one with the smallest
            :attr:`Table.score` counts.
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
    tuned: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def fixed_options(self) -> dict[str, Any]:
        """The options with one value."""
        return {name: value for name, value in self.options.items() if not callable(value)}


@dataclass(frozen=True)
class Table:
    """One task's cells of a printed table, and the settings they were printed for.

    Attributes:
        paper, name: for instance ``"fedopt"``, ``"Table 1"``.
        task: fedlib's name of the task; ``label`` is the paper's.
        cells: see :class:`Cell`.
        notebook: which makes the runs.
        rounds, clients_per_round (None: all), batch_size, local_epochs: the paper's. Runs with
            others count too, where there are no better ones, and say so.
        options: the task's options in the paper, over the defaults of its paper preset; the same
            holds for them.
        seeds: how many the printed numbers are means of.
        one_split: whether these share one partition of the data.
        score: what the setting of a tuned cell minimises, a rule of
            :mod:`fedlib.results.selection`.
    """

    paper: str
    name: str
    task: str
    label: str
    cells: tuple[Cell, ...]
    notebook: str
    rounds: int
    clients_per_round: int | None
    batch_size: int
    local_epochs: int | tuple[int, int] = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    one_split: bool = False
    score: Callable[[History], float] = training_score

    @property
    def rows(self) -> list[Cell]:
        """The first cell of each row and column: those of other metrics are of the same runs."""
        first: dict[tuple[str, str], Cell] = {}
        for cell in self.cells:
            first.setdefault((cell.column, cell.row), cell)
        return list(first.values())


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
    tuned: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
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
        tuned: for algorithms whose hyperparameters are tuned and not printed, these and the values
            tried; see :class:`Cell`.
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
                tuned=(tuned or {}).get(meant[0], {}),
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
