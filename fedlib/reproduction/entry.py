"""What a figure or table of the series is, and what sets runs beside printed numbers in it.

How to add one, in ``figures.py`` of the paper's room::

    Entry(
        "fedopt/figure_4",
        {"emnist_cr": "12_emnist_cr"},  # task -> the notebook that makes its runs
        fedopt_figure_4,  # (histories) -> (figure, or None for a table; data)
    ),
    printed_entry("fedopt", "Table 10"),

and in ``figures.toml`` what stands below it, and what a reader learns from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.figures import style
from fedlib.figures.curves import algorithm, learning_curves
from fedlib.figures.scale import scale, whole
from fedlib.paths import read_toml
from fedlib.reproduction import tables
from fedlib.reproduction.compare import VERDICT, cells
from fedlib.reproduction.matching import left_open, printed_settings, same_method
from fedlib.reproduction.metrics import METRICS

Drawing = tuple[Figure | None, pd.DataFrame]
CUT = re.compile(r"\b(of|for|instead|small|lossy)\b")  # in the words of what departs from the paper


@dataclass(frozen=True)
class Entry:
    """A figure or table.

    Attributes:
        id: ``<paper>/<name>``.
        notebooks: task -> the notebook that makes its runs. A figure of several tasks shows those
            that were run. A figure that needs no runs has the one task "".
        draw: from histories, chosen ones, to a figure (None for a table) and its data; of a figure
            that needs no runs, from the data root.
        clients: whether it is drawn from the clients' values. Published runs keep them then.
        parts: of the notebooks' plans, whose runs these are; none: all.
        table: whether it sets runs beside a printed table's cells, a note beside each: then it may
            show runs of both presets with the papers' tasks.
        cells: whether each run counts by itself; else a method's runs are shown all or none.
        choose: which of these runs are drawn, for instance those at the tuned rates; default all.
    """

    id: str
    notebooks: Mapping[str, str]
    draw: Callable[[Any], Drawing]
    clients: bool = False
    parts: tuple[str, ...] = ()
    table: bool = False
    cells: bool = False
    choose: Callable[[Sequence[History]], Sequence[History]] = list

    @property
    def paper(self) -> str:
        """The first part of the id."""
        return self.id.split("/")[0]

    @property
    def needs_runs(self) -> bool:
        """Whether it is drawn from runs."""
        return "" not in self.notebooks

    @property
    def caption(self) -> str:
        """What stands below it, without the paper's title."""
        paper, name = self.id.split("/")
        return str(read_toml("reproduction/figures.toml")[paper][name]["caption"])


@dataclass(frozen=True)
class Drawn:
    """What was drawn and saved: figure (None for a table), data, path of the PNG or HTML."""

    figure: Figure | None
    data: pd.DataFrame
    path: Path


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
    legend: bool = True,
    lead: Callable[[pd.Series, bool], str] | None = None,
    cut: bool = False,
    ax: Axes,
) -> pd.DataFrame:
    """Learning curves with the printed values of the algorithms that are drawn, where they compare.

    Args:
        cells: a printed table's of the task and one column, that the values come from.
        metric: of these, a key of :data:`fedlib.reproduction.metrics.METRICS`; its series is drawn.
        by: what a line stands for. The values are those of the cells whose runs these are.
        beside: whether the printed values are shown.
        legend: whether the lines are named.
        lead: what the title says of the lines' last numbers and whether small ones are good.
        cut: whether the line under the title has only what departs from the paper.

    Returns:
        what is drawn: see :func:`fedlib.figures.learning_curves`; if they are shown printed and
        printed_rounds added, and note where a line's run departs in a value that the cell leaves
        open.
    """
    drawn = METRICS[metric]
    shown = cells[cells["metric"] == metric].to_dict("records")
    paper = cells.iloc[0]
    rounds = printed_settings(paper)["rounds"]
    printed: dict[str, float] = {}
    departs: dict[str, str] = {}
    for history in histories:
        for cell in shown:
            if cell["algorithm"] == history.config.algorithm and same_method(cell, history):
                printed.setdefault(by(history), cell["printed"])
                departs |= {by(history): "; ".join(left_open(cell, history))}
    words = {line: " ".join(map(style.name, text.split())) for line, text in departs.items()}
    said = _said({style.name(line): text for line, text in words.items() if text})
    split = drawn.split(*histories)
    title = title or style.name(paper["label"])
    below = scale(histories, {"rounds": rounds})
    if lead is not None:
        finals = [run.final(drawn.series, split, drawn.over(run)) for run in histories]
        ends = drawn.factor * pd.Series(finals).groupby(list(map(by, histories))).mean()
        title = ": ".join(filter(None, [title, lead(ends, drawn.smaller)]))
    if cut:
        below = ", ".join(part for part in below.split(", ") if CUT.search(part))
    below = "; ".join(filter(None, [below, *said]))
    _, data = learning_curves(
        histories,
        drawn.series,
        split,
        printed=printed if beside else None,
        title=title,
        log_y=drawn.smaller,  # errors fall by orders of magnitude
        by=by,
        window=drawn.over,
        shown=below,
        legend=legend,
        ax=ax,
    )
    if beside:
        data = data.assign(printed=data["algorithm"].map(printed), printed_rounds=rounds)
    return data.assign(note=data["algorithm"].map(departs)) if said else data


def _said(departs: Mapping[str, str]) -> list[str]:
    """How lines depart from print, those that do alike in one.

    >>> _said({"FedAdam": "beta2 0.999", "FedYogi": "beta2 0.999"})
    ['FedAdam and FedYogi: beta2 0.999']
    """
    by_text: dict[str, list[str]] = {}
    for line, text in departs.items():
        by_text.setdefault(text, []).append(line)
    return [f"{style.listed(lines)}: {text}" for text, lines in by_text.items()]


def beside(frame: pd.DataFrame, histories: Sequence[History]) -> list[bool]:
    """Of each number of :func:`fedlib.reproduction.compare.cells` whether its runs are on the
    paper's data, whole, or there are none.
    """
    known = {history.config.digest: history for history in histories}
    return [whole([known[digest] for digest in runs]) for runs in frame["runs"]]


def printed_entry(
    paper: str, name: str, rows: Mapping[str, str] | None = None, **more: Any
) -> Entry:
    """The entry of a printed table: its rows for the tasks that were run, beside ours.

    A table of one method has a row for each of its columns instead.

    Args:
        paper, name: for instance ``"fedopt"``, ``"Table 1"``.
        rows: printed row -> another name; rows of one name, whose columns differ, are one.
        more: other fields of the entry.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        gone = ["paper", "item", "runs", "algorithm", *VERDICT]
        frame = cells(histories, of_these(histories, paper, name))
        frame = frame.assign(beside=beside(frame, histories)).drop(columns=gone)
        frame["row"] = frame["row"].replace(rows or {})
        if frame["row"].nunique() == 1:
            frame["row"], frame["column"] = frame["column"], ""
        empty = [name for name in ("column", "unclear") if (frame[name] == "").all()]
        return None, frame.drop(columns=empty).rename(columns={"row": "method"})

    id = f"{paper}/{name.lower().replace(' ', '_')}"
    return Entry(id, tables.notebooks(paper, name), draw, table=True, **more)
