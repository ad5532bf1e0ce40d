"""Entries of figures and tables of the series, and functions that set runs beside papers' numbers.

To add an entry, in ``figures.py`` of the paper's package::

    Entry(
        "fedopt/figure_4",
        {"emnist_cr": "12_emnist_cr"},  # task -> the notebook that makes its runs
        fedopt_figure_4,  # (histories) -> (figure, or None for a table; data)
    ),
    printed_entry("fedopt", "Table 10"),

and in ``figures.toml`` its caption, and the sentence with its message.
"""

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
CUT = re.compile(r"\b(of|for|instead|small)\b")  # words of departures from the paper


@dataclass(frozen=True)
class Entry:
    """A figure or table.

    Attributes:
        id: ``<paper>/<name>``.
        notebooks: task -> the notebook that makes its runs. A figure of several tasks shows those
            that were run. A figure that needs no runs has the one task "".
        draw: makes a figure (None for a table) and its data from the chosen histories, or from the
            data root if it needs no runs.
        clients: whether it is drawn from the clients' values. Published runs then keep them.
        parts: parts of the notebooks' plans with its runs. Empty: all.
        table: whether it sets runs beside the cells of a paper's table, with a note for each. Then
            it may show runs of both presets with the papers' tasks.
        cells: whether each run counts separately. Otherwise a method's runs are shown all or none.
        choose: selects the runs to draw, for instance those at the tuned rates. Default: all.
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
        """Its caption, without the paper's title."""
        paper, name = self.id.split("/")
        return str(read_toml("reproduction/figures.toml")[paper][name]["caption"])

    @property
    def notebook(self) -> str:
        """The notebooks' names, with commas."""
        return ", ".join(dict.fromkeys(self.notebooks.values()))


@dataclass(frozen=True)
class Drawn:
    """The drawn and saved figure (None for a table), its data, and the path of the PNG or HTML."""

    figure: Figure | None
    data: pd.DataFrame
    path: Path


def of_task(histories: Sequence[History], task: str) -> list[History]:
    """The histories of a task, in order."""
    return [history for history in histories if history.config.task["name"] == task]


def of_these(histories: Sequence[History], paper: str, name: str) -> pd.DataFrame:
    """The cells of a paper's table for the tasks of these histories."""
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
    """Learning curves with the paper's values of the drawn algorithms, if they are comparable.

    Args:
        cells: cells of a table of the paper, for the task and one column, with the values.
        metric: their metric, a key of :data:`fedlib.reproduction.metrics.METRICS`, whose series is
            drawn.
        by: the label of a run's line. Its value comes from the cells with the same runs.
        beside: whether the paper's values are shown.
        legend: whether the lines are named.
        lead: makes a title from the lines' last numbers and whether small ones are good.
        cut: whether the line under the title has only departures from the paper.

    Returns:
        The drawn data, see :func:`fedlib.figures.learning_curves`. If the paper's values are shown,
        also printed and printed_rounds, and note if a line's run departs in a value that the cell
        leaves open.
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
        log_y=drawn.smaller,  # as errors fall by orders of magnitude
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
    """How lines depart from the paper, with equal departures joined.

    >>> _said({"FedAdam": "beta2 0.999", "FedYogi": "beta2 0.999"})
    ['FedAdam and FedYogi: beta2 0.999']
    """
    by_text: dict[str, list[str]] = {}
    for line, text in departs.items():
        by_text.setdefault(text, []).append(line)
    return [f"{style.listed(lines)}: {text}" for text, lines in by_text.items()]


def beside(frame: pd.DataFrame, histories: Sequence[History]) -> list[bool]:
    """For each number of :func:`fedlib.reproduction.compare.cells` whether its runs are on the
    paper's whole data, or there are none.
    """
    known = {history.config.digest: history for history in histories}
    return [whole([known[digest] for digest in runs]) for runs in frame["runs"]]


def printed_entry(
    paper: str, name: str, rows: Mapping[str, str] | None = None, **more: Any
) -> Entry:
    """The entry of a paper's table: its rows for the tasks that were run, beside ours.

    A table of one method has one row for each of its columns instead.

    Args:
        paper, name: for instance ``"fedopt"``, ``"Table 1"``.
        rows: row of the paper -> another name. Rows with one name and different columns are joined.
        more: other fields of the entry.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = cells(histories, of_these(histories, paper, name))
        gone = {"paper", "item", "runs", "algorithm", *VERDICT} - {"outcome"}
        gone -= {"splits"} if frame["splits"].max() > 1 else set()
        frame = frame.assign(beside=beside(frame, histories)).drop(columns=[*gone])
        frame["row"] = frame["row"].replace(rows or {})
        if frame["row"].nunique() == 1:
            frame["row"], frame["column"] = frame["column"], ""
        empty = [name for name in ("column", "unclear", "outcome") if (frame[name] == "").all()]
        return None, frame.drop(columns=empty).rename(columns={"row": "method"})

    id = f"{paper}/{name.lower().replace(' ', '_')}"
    return Entry(id, tables.notebooks(paper, name), draw, table=True, **more)
