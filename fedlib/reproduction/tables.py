"""The papers' printed tables: which cells they have, and which runs belong to a cell."""

from __future__ import annotations

from fedlib.errors import unknown
from fedlib.reproduction.adafedadam import tables as adafedadam
from fedlib.reproduction.delta_sgd import tables as delta_sgd
from fedlib.reproduction.fedopt import tables as fedopt
from fedlib.reproduction.mime import tables as mime
from fedlib.reproduction.table import Table

TABLES: tuple[Table, ...] = (
    *fedopt.TABLES,
    *adafedadam.TABLES,
    *mime.TABLES,
    *delta_sgd.TABLES,
)


def find(paper: str, name: str, task: str | None = None) -> list[Table]:
    """A printed table, task by task, for instance ``find("fedopt", "Table 1")``.

    Args:
        task: only this task's.

    Raises:
        Error: no such table, or it does not have the task.
    """
    tables = [table for table in TABLES if (table.paper, table.name) == (paper, name)]
    if not tables:
        known = dict.fromkeys(f"{table.paper} {table.name}" for table in TABLES)
        raise unknown("printed table", f"{paper} {name}", known)
    chosen = [table for table in tables if task is None or table.task == task]
    if not chosen:
        raise unknown(f"task of {paper}'s {name}", task, {table.task for table in tables})
    return chosen


def notebooks(paper: str, name: str) -> dict[str, str]:
    """Task -> the notebook that makes the runs of a printed table.

    >>> notebooks("fedopt", "Table 10")["stackoverflow_nwp"]
    '15_stackoverflow_nwp'
    """
    return {table.task: table.notebook for table in find(paper, name)}
