"""Panels and tables that set runs beside the papers' printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedlib.engine.history import History
from fedlib.figures import style
from fedlib.figures.curves import algorithm, learning_curves
from fedlib.figures.scale import scale
from fedlib.reproduction import tables
from fedlib.reproduction.compare import VERDICT, cells
from fedlib.reproduction.entry import Drawing, Entry
from fedlib.reproduction.matching import printed_settings, same_method
from fedlib.reproduction.metrics import METRICS


def of_task(histories: Sequence[History], task: str) -> list[History]:
    """The histories of a task, in order."""
    return [history for history in histories if history.config.task["name"] == task]


def of_these(histories: Sequence[History], paper: str, name: str) -> pd.DataFrame:
    """A printed table's cells of the tasks that these histories are of."""
    printed = tables.find(paper, name)
    return printed[printed["task"].isin({history.config.task["name"] for history in histories})]


def printed_curves(
    cells: pd.DataFrame,
    histories: Sequence[History],
    metric: str,
    *,
    title: str = "",
    by: Callable[[History], str] = algorithm,
    beside: bool = True,
    ax: Axes,
) -> pd.DataFrame:
    """Learning curves with the printed values of the algorithms that are drawn, where they compare.

    Args:
        cells: a printed table's of the task and one column, that the values come from.
        metric: of these, a key of :data:`fedlib.reproduction.metrics.METRICS`; its series is drawn.
        by: what a line stands for; the values are those of the cells whose runs these are.
        beside: whether the printed values are shown.

    Returns:
        what is drawn: see :func:`fedlib.figures.learning_curves`; printed and printed_rounds added.
    """
    drawn = METRICS[metric]
    shown = cells[cells["metric"] == metric].to_dict("records")
    paper = cells.iloc[0]
    rounds = printed_settings(paper)["rounds"]
    printed: dict[str, float] = {}
    for history in histories if beside else ():
        for cell in shown:
            if cell["algorithm"] == history.config.algorithm and same_method(cell, history):
                printed.setdefault(by(history), cell["printed"])
    _, data = learning_curves(
        histories,
        drawn.series,
        drawn.split(*histories),
        printed=printed,
        title=title or style.name(paper["label"]),
        log_y=drawn.smaller,  # errors fall by orders of magnitude
        by=by,
        window=drawn.window,
        shown=scale(histories, {"rounds": rounds}),
        ax=ax,
    )
    return data.assign(printed=data["algorithm"].map(printed), printed_rounds=rounds)


def printed_entry(paper: str, name: str, **more: Any) -> Entry:
    """The entry of a printed table: its rows for the tasks that were run, beside ours.

    A table of one method has a row for each of its columns instead.

    Args:
        paper, name: for instance ``"fedopt"``, ``"Table 1"``.
        more: other fields of the entry.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        gone = ["paper", "item", "runs", "algorithm", *VERDICT]
        frame = cells(histories, of_these(histories, paper, name)).drop(columns=gone)
        if frame["row"].nunique() == 1:
            frame["row"], frame["column"] = frame["column"], ""
        empty = [name for name in ("column", "unclear") if (frame[name] == "").all()]
        return None, frame.drop(columns=empty).rename(columns={"row": "method"})

    id = f"{paper}/{name.lower().replace(' ', '_')}"
    return Entry(id, tables.notebooks(paper, name), draw, table=True, **more)
