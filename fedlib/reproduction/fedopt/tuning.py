"""FedOpt on tuning: performance against tau, server against client rates, the best of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import axis_label, shared_legend
from fedlib.reproduction.fedopt import outcomes as tuning
from fedlib.reproduction.fedopt.grids import TASKS
from fedlib.reproduction.metrics import METRICS

Drawing = tuple[Figure | None, pd.DataFrame]
# Lines that lie on each other stay visible: shares of a half-decade.
SHIFT = 0.12


def against_tau(rule: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of test performance against tau, a panel per task.

    Args:
        rule: how the learning rates are chosen for every tau: ``"train_loss"`` (the captions of
            Figures 3 and 13) or ``"test"``, the best afterwards (the text about Figure 13, E.5).
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = tuning.outcomes(histories)
        frame = frame[frame["tau"].notna()]
        if frame.empty:
            raise Error("performance against tau: no run of an adaptive optimizer")
        chosen = []
        with style.context():
            figure, panels = _panels(frame)
            for ax, (task, part) in zip(panels, frame.groupby("task", sort=False), strict=True):
                column = tuning.measure(part)
                by = "train_loss" if rule == "train_loss" else column
                winners = tuning.best(part, by, "task", "algorithm", "tau")
                chosen.append(winners.assign(shown=column))
                for name, line in winners.sort_values("tau").groupby("algorithm", sort=False):
                    look = style.look(str(name))
                    ax.plot(np.log10(line["tau"]), line[column], label=look.label, **look.line())
                ticks = np.unique(np.log10(part["tau"]))
                ax.set(xticks=ticks, xlim=(ticks[0] - 0.3, ticks[-1] + 0.3))
                _words(ax, task, "log10 tau", _label(part, column))
            shared_legend(figure)
        return figure, pd.concat(chosen, ignore_index=True).drop(columns=["preset"])

    return draw


def server_against_client(histories: Sequence[History]) -> Drawing:
    """Figure 12: the best server rate for every client rate, a panel per task."""
    frame = tuning.outcomes(histories)
    best = tuning.best_server_rates(frame)
    if best.empty:
        raise Error("server against client rates: no run lowered the test loss by 10 %")
    with style.context():
        figure, panels = _panels(frame)
        for ax, (task, part) in zip(panels, frame.groupby("task", sort=False), strict=True):
            own = best[best["task"] == task]
            for place, name in enumerate(part["algorithm"].unique()):
                line = own[own["algorithm"] == name].sort_values("client_lr")
                look = style.look(name)
                shift = SHIFT * (place - 2) / 2
                x, y = np.log10(line["client_lr"]), np.log10(line["server_lr"]) + shift
                ax.plot(x, y, label=look.label, **look.line())
            if own.empty:
                ax.text(0.5, 0.5, "nothing trained", transform=ax.transAxes, ha="center")
            for limits, name in ((ax.set_xlim, "client_lr"), (ax.set_ylim, "server_lr")):
                limits(math.log10(part[name].min()) - 0.3, math.log10(part[name].max()) + 0.3)
            _words(ax, task, "log10 client rate", "best log10 server rate")
        shared_legend(figure)
    return figure, best.drop(columns=["preset"])


def best_learning_rates(histories: Sequence[History]) -> Drawing:
    """Table 8: the printed rates (log10) beside those with the smallest training loss here."""
    return None, _selected(histories, "table8_learning_rates", ("client_lr", "server_lr"))


def best_tau(histories: Sequence[History]) -> Drawing:
    """Table 9: the printed tau (log10) beside that with the smallest training loss here.

    The rates that go with ours are those of the same run.
    """
    frame = _selected(histories, "table9_tau", ("tau", "client_lr", "server_lr"))
    return None, frame


def _selected(histories: Sequence[History], table: str, names: Sequence[str]) -> pd.DataFrame:
    """The printed values of a table beside those that the papers' rule selects from these runs."""
    frame = tuning.outcomes(histories)
    winners = tuning.best(frame, "train_loss", "task", "algorithm")
    printed = papers.table("fedopt", table)
    rows = []
    for winner in winners.to_dict("records"):
        same = (frame["task"] == winner["task"]) & (frame["algorithm"] == winner["algorithm"])
        row: dict[str, Any] = {
            "task": TASKS[winner["task"]],
            "method": style.look(winner["algorithm"]).label,
        }
        cell = printed[(printed["task"] == row["task"]) & (printed["algorithm"] == row["method"])]
        if cell.empty:
            continue
        for name in names:
            if f"log10_{name}" in cell:
                row[f"{name} printed"] = float(cell[f"log10_{name}"].iloc[0])
            row[f"{name} ours"] = math.log10(winner[name])
        own = frame[same]
        ends = [name for name in names if winner[name] in (own[name].min(), own[name].max())]
        rows.append({**row, "at the grid's edge": ", ".join(ends), "runs": len(own)})
    return pd.DataFrame(rows)


def _panels(frame: pd.DataFrame) -> tuple[Figure, list[Axes]]:
    """A panel per task, at most four in a row."""
    count = frame["task"].nunique()
    columns = min(4, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(5.5, 1.0 + 1.4 * rows))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in panels[count:]:
        ax.set_axis_off()
    return figure, panels[:count]


def _words(ax: Axes, task: Any, x: str, y: str) -> None:
    ax.set_title(TASKS.get(task, task), fontsize=8)
    ax.set_xlabel(x, fontsize=7)
    ax.set_ylabel(y, fontsize=7)
    ax.tick_params(labelsize=6)


def _label(frame: pd.DataFrame, column: str) -> str:
    if column == "loss":
        return "test loss"
    metric = frame["metric"].iloc[0]
    return axis_label(metric, "test", METRICS[metric].factor == 100)
