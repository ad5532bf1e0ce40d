"""The papers' printed tables: which cells they have, and which runs belong to a cell."""

from __future__ import annotations

from fedlib.errors import unknown
from fedlib.results.items import (
    adafedadam,
    adafedadam_variants,
    delta_sgd,
    fedopt,
    fedopt_decay,
    fedopt_text,
    mime,
)
from fedlib.results.items.base import Cell, Item, Method, algorithm_name, printed_cells
from fedlib.results.items.metrics import METRICS, Metric

__all__ = [
    "ITEMS",
    "METRICS",
    "Cell",
    "Item",
    "Method",
    "Metric",
    "algorithm_name",
    "find",
    "printed_cells",
]

ITEMS: tuple[Item, ...] = (
    *fedopt.ITEMS,
    *fedopt_decay.ITEMS,
    *fedopt_text.ITEMS,
    *adafedadam.ITEMS,
    *adafedadam_variants.ITEMS,
    *mime.ITEMS,
    *delta_sgd.ITEMS,
)


def find(paper: str, item: str, task: str | None = None) -> list[Item]:
    """The items of a printed table, for instance ``find("fedopt", "Table 1")``.

    Args:
        task: only this task's.

    Raises:
        Error: no such table, or it does not have the task.
    """
    table = [one for one in ITEMS if (one.paper, one.item) == (paper, item)]
    if not table:
        known = dict.fromkeys(f"{one.paper} {one.item}" for one in ITEMS)
        raise unknown("printed table", f"{paper} {item}", known)
    chosen = [one for one in table if task is None or one.task == task]
    if not chosen:
        raise unknown(f"task of {paper}'s {item}", task, {one.task for one in table})
    return chosen
