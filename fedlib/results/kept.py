"""Runs at the papers' settings that the store or the checkout keeps, to stand beside quick ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedlib.engine.history import History
from fedlib.results import items
from fedlib.results.matching import Run, choose, complete, index, read
from fedlib.results.store import Store


def with_kept(
    store: Store, histories: Sequence[History], paper: str, *tables: str
) -> list[History]:
    """The histories, and after them the best kept runs of the printed tables' cells.

    Kept runs are of the paper preset and not on stand-ins; the fewer rounds or the smaller width
    that they may have, a table's note says. Runs that are among the histories are not repeated.

    Args:
        paper, tables: for instance ``"adafedadam", "Table 3", "Table 7"``.
    """
    found: dict[str, Run] = {}
    for table in tables:
        for item in items.find(paper, table):
            known = index(_proper(store.stored(item.task, published=True)))
            for cell in item.cells:
                found |= {run.config.digest: run for run in choose(item, cell, known)}
    for history in histories:
        found.pop(history.config.digest, None)
    return [*histories, *read(found.values())]


def _proper(runs: Iterable[Run]) -> list[Run]:
    return [
        run
        for run in runs
        if run.config.task["preset"] == "paper" and not run.config.task["stand_in"]
    ]


def kept_table(
    store: Store, paper: str, table: str, task: str, column: str | None = None
) -> list[History]:
    """The best kept runs of a task's rows, for a figure that compares these.

    Args:
        column: only the rows of this printed column.

    Returns:
        see :func:`fedlib.results.matching.complete`: none unless all rows have runs of one setting.
    """
    (item,) = items.find(paper, table, task)
    cells = tuple(cell for cell in item.cells if column in (None, cell.column))
    return complete(replace(item, cells=cells), _proper(store.stored(task, published=True)))
