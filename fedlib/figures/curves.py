"""Curves over rounds, and distributions over clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style

MARKERS = 8
# Metrics whose names are no words.
METRIC_NAMES = {"mse_x1000": "MSE × 1000"}
# Where a panel's own legend does not lie on its lines.
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}


def algorithm(history: History) -> str:
    """What a line stands for by default."""
    return history.config.algorithm


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
) -> tuple[Figure, pd.DataFrame]:
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
    """
    data = curve_data(histories, metric, split, percent, by)
    with style.context():
        ax = Figure().subplots() if ax is None else ax
        for key, part in data.groupby("algorithm", sort=False):
            look = (looks or {}).get(str(key)) or style.look(str(key))
            every = max(1, len(part) // MARKERS)
            ax.plot(part["round"], part["mean"], label=look.label, markevery=every, **look.line())
            if (part["seeds"] > 1).any():
                low, high = part["mean"] - part["std"], part["mean"] + part["std"]
                ax.fill_between(part["round"], low, high, color=look.color, alpha=0.2, linewidth=0)
        marks = {name: value for name, value in (printed or {}).items() if np.isfinite(value)}
        for name, value in marks.items():
            color = style.look(name).color
            # Along the right edge, outside the curves; the axis still makes room for the values.
            ax.plot(
                [1.0, 1.035],
                [value, value],
                transform=ax.get_yaxis_transform(),
                color=color,
                linewidth=2,
                clip_on=False,
                label=f"_printed {name}",
            )
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


def curve_data(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    percent: bool = True,
    by: Callable[[History], str] = algorithm,
) -> pd.DataFrame:
    """What a learning curve shows: task, algorithm, round, mean, std, seeds."""
    if not histories:
        raise Error("no runs to draw; give at least one history")
    frames = []
    for history in histories:
        series = history.series(metric, split) * (100.0 if percent else 1.0)
        frame = series.rename("value").reset_index()
        frame.insert(0, "algorithm", by(history))
        frame.insert(0, "task", history.config.task["name"])
        frames.append(frame)
    every = pd.concat(frames, ignore_index=True)
    grouped = every.groupby(["task", "algorithm", "round"], sort=False)["value"]
    return grouped.agg(mean="mean", std="std", seeds="count").reset_index()


def client_distribution(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    *,
    title: str = "",
    percent: bool = True,
    legend: bool = True,
    by: Callable[[History], str] = algorithm,
    ax: Axes | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """The share of clients whose final value is at most x, a line per algorithm (seeds pooled).

    Returns:
        the figure, and what is drawn: task, algorithm, value, share (in percent of the clients).

    Raises:
        Error: no runs, or one without values per client.
    """
    if not histories:
        raise Error("no runs to draw; give at least one history")
    parts: dict[str, list[np.ndarray]] = {}
    for history in histories:
        frame = history.clients
        chosen = frame[(frame["metric"] == metric) & (frame["split"] == split)]["value"].dropna()
        if chosen.empty:
            raise Error(
                f"{history!r} has no {split} {metric} per client; draw runs of another task"
            )
        parts.setdefault(by(history), []).append(chosen.to_numpy(float))
    factor = 100.0 if percent else 1.0
    frames = []
    with style.context():
        ax = Figure().subplots() if ax is None else ax
        for key, values in parts.items():
            ordered = factor * np.sort(np.concatenate(values))
            share = 100.0 * np.arange(1, len(ordered) + 1) / len(ordered)
            look = style.look(key)
            ax.plot(
                ordered,
                share,
                label=look.label,
                drawstyle="steps-post",
                markevery=max(1, len(ordered) // MARKERS),
                **look.line(),
            )
            frames.append(pd.DataFrame({"algorithm": key, "value": ordered, "share": share}))
        ax.set(
            xlabel=f"client {axis_label(metric, split, percent)}", ylabel="clients at or below (%)"
        )
        ax.set_title(title)
        if legend:
            ax.legend()
    data = pd.concat(frames, ignore_index=True)
    data.insert(0, "task", histories[0].config.task["name"])
    return figure_of(ax), data


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
    """For instance ``"test accuracy (%)"``."""
    name = METRIC_NAMES.get(metric, metric.replace("_", " "))
    return f"{split} {name}{' (%)' if percent else ''}"


def figure_of(ax: Axes) -> Figure:
    """The figure that some axes belong to."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise Error("these axes belong to no figure; make them with Figure().subplots()")
    return figure
