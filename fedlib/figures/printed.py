"""Panels and tables that set runs beside the papers' printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures.curves import algorithm, learning_curves
from fedlib.results import items
from fedlib.results.compare import cells
from fedlib.results.matching import same_method


def of_task(histories: Sequence[History], task: str) -> list[History]:
    """The histories of a task, in order."""
    return [history for history in histories if history.config.task["name"] == task]


def printed_curves(
    item: items.Item,
    histories: Sequence[History],
    metric: str,
    *,
    series: str = "accuracy",
    title: str = "",
    column: str = "",
    by: Callable[[History], str] = algorithm,
    ax: Axes,
) -> pd.DataFrame:
    """Learning curves with the printed values of the algorithms that are drawn as marks.

    Args:
        item: the printed table that the marks come from.
        metric: of its cells, a key of :data:`fedlib.results.items.METRICS`.
        series: the test metric that is drawn.
        column: the table's printed column.
        by: what a line stands for; the marks are the cells whose runs these are.

    Returns:
        what is drawn: see :func:`fedlib.figures.learning_curves`; printed and printed_rounds added.
    """
    percent = items.METRICS[metric].factor == 100
    table = [cell for cell in item.cells if (cell.metric, cell.column) == (metric, column)]
    printed: dict[str, float] = {}
    for history in histories:
        for cell in table:
            if cell.algorithm == history.config.algorithm and same_method(cell, history):
                printed.setdefault(by(history), cell.printed)
    _, data = learning_curves(
        histories,
        series,
        printed=printed,
        printed_rounds=item.rounds,
        title=title or item.label,
        percent=percent,
        legend=False,
        by=by,
        ax=ax,
    )
    return data.assign(printed=data["algorithm"].map(printed), printed_rounds=item.rounds)


def printed_table(
    paper: str, item: str
) -> Callable[[Sequence[History]], tuple[Figure | None, pd.DataFrame]]:
    """The drawing of a printed table: its rows for the tasks that were run, beside ours.

    Args:
        paper, item: for instance ``"fedopt"``, ``"Table 1"``.
    """

    def draw(histories: Sequence[History]) -> tuple[Figure | None, pd.DataFrame]:
        shown = [one for one in items.find(paper, item) if of_task(histories, one.task)]
        if not shown:
            raise Error(f"{paper} {item}: none of these runs is of its tasks")
        frame = cells(histories, shown).drop(columns=["paper", "item", "runs", "algorithm"])
        empty = [name for name in ("column", "unclear") if (frame[name] == "").all()]
        return None, frame.drop(columns=empty).rename(columns={"row": "method"})

    return draw
