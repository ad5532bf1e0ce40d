"""Panels and tables that set runs beside the papers' printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedlib.engine.history import History
from fedlib.figures.curves import algorithm, learning_curves
from fedlib.figures.scale import scale
from fedlib.reproduction import tables
from fedlib.reproduction.compare import VERDICT, cells
from fedlib.reproduction.entry import Drawing, Entry
from fedlib.reproduction.matching import printed_settings, same_method
from fedlib.reproduction.metrics import METRICS

# What a table side by side shows of a cell, and the column of the comparison that has it.
_HEADINGS = {"printed": "printed", "ours": "ours", "clients alike": "ours_unweighted"}


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
    series: str = "accuracy",
    split: str = "test",
    title: str = "",
    column: str = "",
    by: Callable[[History], str] = algorithm,
    window: int | None = None,
    beside: bool = True,
    ax: Axes,
) -> pd.DataFrame:
    """Learning curves with the printed values of the algorithms that are drawn, where they compare.

    Args:
        cells: a printed table's of the task, that the values come from.
        metric: of these, a key of :data:`fedlib.reproduction.metrics.METRICS`.
        series, split: what is drawn.
        column: the table's printed column.
        by: what a line stands for; the values are those of the cells whose runs these are.
        window: see :func:`fedlib.figures.learning_curves`.
        beside: whether the printed values are shown.

    Returns:
        what is drawn: see :func:`fedlib.figures.learning_curves`; printed and printed_rounds added.
    """
    percent = METRICS[metric].factor == 100
    shown = cells[(cells["metric"] == metric) & (cells["column"] == column)].to_dict("records")
    paper = cells.iloc[0]
    rounds = printed_settings(paper)["rounds"]
    printed: dict[str, float] = {}
    for history in histories if beside else ():
        for cell in shown:
            if cell["algorithm"] == history.config.algorithm and same_method(cell, history):
                printed.setdefault(by(history), cell["printed"])
    _, data = learning_curves(
        histories,
        series,
        split,
        printed=printed,
        title=title or paper["label"],
        percent=percent,
        log_y=METRICS[metric].smaller,  # errors fall by orders of magnitude
        by=by,
        window=window,
        shown=scale(histories, {**paper["given"], "rounds": rounds}),
        ax=ax,
    )
    return data.assign(printed=data["algorithm"].map(printed), printed_rounds=rounds)


def printed_entry(paper: str, name: str, **more: Any) -> Entry:
    """The entry of a printed table: its rows for the tasks that were run, beside ours.

    Args:
        paper, name: for instance ``"fedopt"``, ``"Table 1"``.
        more: other fields of the entry.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        gone = ["paper", "item", "runs", "algorithm", *VERDICT]
        frame = _shown(paper, name, histories).drop(columns=gone)
        empty = [name for name in ("column", "unclear") if (frame[name] == "").all()]
        return None, frame.drop(columns=empty).rename(columns={"row": "method"})

    return Entry(_id(paper, name), tables.notebooks(paper, name), draw, table=True, **more)


def side_by_side(
    paper: str, name: str, metrics: Mapping[str, str], setting: str, **more: Any
) -> Entry:
    """The entry of a printed table that keeps its rows: three columns for each metric.

    They are the printed number, ours weighted by examples, and ours with the clients alike.

    Args:
        paper, name: for instance ``"adafedadam"``, ``"Table 6"``.
        metrics: the cells' metrics in order, and how the columns are headed.
        setting: heading of the printed column (Dirichlet concentration, local solver), which is
            shown where the table has one.
        more: other fields of the entry.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        cells = _shown(paper, name, histories).rename(columns={"column": setting, "row": "method"})
        cells = cells.set_index([setting, "method"])
        numbers = {}
        for metric, label in metrics.items():
            part = cells[cells["metric"] == metric]
            for heading, column in _HEADINGS.items():
                numbers[f"{label}: {heading}"] = part[column]
        first = cells[cells["metric"] == next(iter(metrics))]
        unclear = cells["unclear"].str.split(":").str[0].groupby(level=[0, 1], sort=False)
        data = pd.DataFrame(numbers).join(first[["seeds", "rounds", "data", "note"]])
        data = data.assign(unclear=unclear.agg(_listed)).reset_index()
        empty = [name for name in (setting, "unclear") if (data[name] == "").all()]
        return None, data.drop(columns=empty)

    more |= {"table": True, "cells": True}
    return Entry(_id(paper, name), tables.notebooks(paper, name), draw, **more)


def _listed(words: Iterable[str]) -> str:
    """The words once each, with commas."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def _id(paper: str, name: str) -> str:
    return f"{paper}/{name.lower().replace(' ', '_')}"


def _shown(paper: str, name: str, histories: Sequence[History]) -> pd.DataFrame:
    """The comparison for the tasks that were run; see :func:`fedlib.reproduction.compare.cells`."""
    return cells(histories, of_these(histories, paper, name))
