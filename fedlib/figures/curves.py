"""Curves over rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from fedlib.arguments import checked
from fedlib.engine.history import History
from fedlib.errors import Error, first_line, require
from fedlib.figures import style

Drawing = tuple[Figure, pd.DataFrame]  # and what is drawn
MARKERS = 8
# Metrics whose names are no words.
METRIC_NAMES = {"mse_x1000": "MSE × 1000"}
# Where a panel's own legend does not lie on its lines.
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}


def algorithm(history: History) -> str:
    """What a line stands for by default."""
    return history.config.algorithm


@checked
def learning_curves(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    printed: Mapping[str, float] | None = None,
    *,
    printed_rounds: int | None = None,
    title: str = "",
    percent: bool = True,
    log_y: bool = False,
    legend: bool = True,
    by: Callable[[History], str] = algorithm,
    looks: Mapping[str, style.Look] | None = None,
    ax: Axes | None = None,
) -> Drawing:
    """A metric over rounds: a line per algorithm, the mean over seeds with a band of ± one std.

    Args:
        histories: runs of one task.
        metric, split: which series.
        printed: the paper's final values by algorithm, in the drawn unit: short marks at the right
            edge.
        printed_rounds: after how many rounds the paper's values were reached, for the legend.
        title: of the panel.
        percent: draw fractions as percent.
        log_y: logarithmic values.
        legend: draw one; without it :func:`shared_legend` can.
        by: what a line stands for, a key of :data:`fedlib.figures.style.LOOKS` or of ``looks``.
        looks: of lines that look otherwise here.
        ax: draw into these axes; default a new figure.

    Returns:
        the figure, and what is drawn: task, algorithm (what ``by`` says), round, mean, std (n - 1,
            NaN for one seed), seeds.

    Raises:
        Error: no runs, or a run without this metric.

    Example:
        >>> import fedlib
        >>> from fedlib import figures
        >>> history = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=5)
        >>> figure, data = figures.learning_curves([history], "loss", percent=False)
        >>> len(data)
        6
    """
    data = _data(histories, metric, split, percent, by)
    with style.axes(ax) as ax:
        for key, part in data.groupby("algorithm", sort=False):
            look = (looks or {}).get(str(key)) or style.look(str(key))
            every = max(1, len(part) // MARKERS)
            # Not seaborn's lineplot: on a logarithmic axis it takes the mean of the logarithms.
            ax.plot(part["round"], part["mean"], label=look.label, markevery=every, **look.line())
            if (part["seeds"] > 1).any():
                low, high = part["mean"] - part["std"], part["mean"] + part["std"]
                ax.fill_between(part["round"], low, high, color=look.color, alpha=0.2, linewidth=0)
        marks = {name: value for name, value in (printed or {}).items() if np.isfinite(value)}
        for name, value in marks.items():
            # Along the right edge, outside the curves; the axis still makes room for the values.
            edge: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
            color, label = style.look(name).color, f"_printed {name}"
            ax.plot([1, 1.035], [value] * 2, color=color, linewidth=2, label=label, **edge)
        handles = ax.get_legend_handles_labels()[0]
        if marks:
            handles.append(printed_key(printed_rounds))
        if log_y:
            ax.set_yscale("log")
        ax.set(xlabel="round", ylabel=axis_label(metric, split, percent), title=title)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if legend:
            ax.legend(handles=handles)
    return figure_of(ax), data


def line_of(history: History, by: Callable[[History], str]) -> str:
    """What a run's line stands for.

    Raises:
        Error: ``by`` fails, or gives no text.
    """
    try:
        line = by(history)
    except Error:
        raise
    except Exception as error:
        raise Error(f"by fails on {history!r}: {first_line(error)}") from error
    require(isinstance(line, str), f"by of {history!r}", line, "a text")
    return line


def _data(
    histories: Sequence[History],
    metric: str,
    split: str,
    percent: bool,
    by: Callable[[History], str],
) -> pd.DataFrame:
    if not histories:
        raise Error("no runs to draw; give at least one history")
    frames = []
    for history in histories:
        series = history.series(metric, split) * (100.0 if percent else 1.0)
        frame = series.rename("value").reset_index()
        frame.insert(0, "algorithm", line_of(history, by))
        frame.insert(0, "task", history.config.task["name"])
        frames.append(frame)
    every = pd.concat(frames, ignore_index=True)
    grouped = every.groupby(["task", "algorithm", "round"], sort=False)["value"]
    return grouped.agg(mean="mean", std="std", seeds="count").reset_index()


def printed_key(*rounds: int | None) -> Line2D:
    """The legend's entry for the marks of printed values."""
    known = "/".join(str(number) for number in dict.fromkeys(rounds) if number)
    label = f"printed ({known} rounds)" if known else "printed"
    return Line2D([], [], color="0.4", linewidth=2, label=label)


def shared_legend(figure: Figure, *more: Line2D) -> None:
    """One legend above all panels: each label once, then ``more``."""
    handles: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    every = [*handles.values(), *more]
    figure.legend(handles=every, loc="outside upper center", ncols=min(4, len(every)))


def axis_label(metric: str, split: str, percent: bool) -> str:
    """What an axis says of a metric.

    >>> axis_label("recall_at_5", "test", percent=True)
    'test recall at 5 (%)'
    """
    name = METRIC_NAMES.get(metric, metric.replace("_", " "))
    return f"{split} {name}{' (%)' if percent else ''}"


def plain_log_ticks(ax: Axes) -> None:
    """A logarithmic y-axis says 5 or 0.2, not 5e0 or 2e-1."""
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def figure_of(ax: Axes) -> Figure:
    """The figure that some axes belong to."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise Error("these axes belong to no figure; make them with Figure().subplots()")
    return figure
