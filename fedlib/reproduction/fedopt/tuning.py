"""FedOpt on tuning: performance against tau, server against client rates, the best of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import shared_legend
from fedlib.reproduction.entry import Drawing
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.grids import TASKS

# Lines that lie on each other stay visible: shares of a half-decade.
SHIFT = 0.12


def against_tau(rule: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of test performance against tau, a panel per task.

    Args:
        rule: how the learning rates are chosen for every tau: ``"train_loss"`` (the captions of
            Figures 3 and 13) or ``"test"``, the best afterwards (the text about Figure 13, E.5).
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.collect(histories)
        frame = frame[frame["tau"].notna()]
        if frame.empty:
            raise Error("performance against tau: no run of an adaptive optimizer")
        chosen = []
        with _panels(frame) as (figure, panels):
            for ax, part in panels:
                column = outcomes.measure(part)
                by = "train_loss" if rule == "train_loss" else column
                winners = outcomes.best(part, by, "task", "algorithm", "tau")
                chosen.append(winners.assign(shown=column))
                for name, line in winners.sort_values("tau").groupby("algorithm", sort=False):
                    look = style.look(str(name))
                    ax.plot(np.log10(line["tau"]), line[column], label=look.label, **look.line())
                ticks = np.unique(np.log10(part["tau"]))
                ax.set(xticks=ticks, xlim=(ticks[0] - 0.3, ticks[-1] + 0.3))
                ax.set(xlabel="log10 tau", ylabel=outcomes.label(part, column))
            shared_legend(figure)
        return figure, pd.concat(chosen, ignore_index=True).drop(columns=["preset"])

    return draw


def server_against_client(histories: Sequence[History]) -> Drawing:
    """Figure 12: the best server rate for every client rate, a panel per task."""
    frame = outcomes.collect(histories)
    best = outcomes.best_server_rates(frame)
    if best.empty:
        raise Error("server against client rates: no run lowered the test loss by 10 %")
    with _panels(frame) as (figure, panels):
        for ax, part in panels:
            points = best[best["task"] == part["task"].iloc[0]]
            for place, name in enumerate(part["algorithm"].unique()):
                line = points[points["algorithm"] == name].sort_values("client_lr")
                look = style.look(name)
                shift = SHIFT * (place - 2) / 2
                x, y = np.log10(line["client_lr"]), np.log10(line["server_lr"]) + shift
                ax.plot(x, y, label=look.label, **look.line())
            if points.empty:
                ax.text(0.5, 0.5, "nothing trained", transform=ax.transAxes, ha="center")
            for limits, name in ((ax.set_xlim, "client_lr"), (ax.set_ylim, "server_lr")):
                limits(math.log10(part[name].min()) - 0.3, math.log10(part[name].max()) + 0.3)
            ax.set(xlabel="log10 client rate", ylabel="best log10 server rate")
        shared_legend(figure)
    return figure, best.drop(columns=["preset"])


def selected(table: str, *names: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of Table 8 or 9: printed values (log10) beside those that are best here.

    Best is the run with the smallest training loss, as in the paper.

    Args:
        table: of :mod:`fedlib.papers`.
        names: override keys; ours are shown of all, printed ones where the table has them.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.collect(histories)
        printed = papers.table("fedopt", table).set_index(["task", "algorithm"])
        rows = []
        for winner in outcomes.best(frame, "train_loss", "task", "algorithm").to_dict("records"):
            place = TASKS[winner["task"]], style.look(winner["algorithm"]).label
            if place not in printed.index:
                continue
            row: dict[str, Any] = dict(zip(("task", "method"), place, strict=True))
            for name in names:
                if f"log10_{name}" in printed:
                    row[f"{name} printed"] = float(printed.loc[place, f"log10_{name}"])
                row[f"{name} ours"] = math.log10(winner[name])
            same = (frame["task"] == winner["task"]) & (frame["algorithm"] == winner["algorithm"])
            runs = frame[same]
            ends = [name for name in names if winner[name] in (runs[name].min(), runs[name].max())]
            rows.append({**row, "at the grid's edge": ", ".join(ends), "runs": len(runs)})
        return None, pd.DataFrame(rows)

    return draw


@contextmanager
def _panels(frame: pd.DataFrame) -> Iterator[tuple[Figure, list[tuple[Axes, pd.DataFrame]]]]:
    """A panel per task, at most four in a row, and its part of the frame."""
    groups = list(frame.groupby("task", sort=False))
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    with style.panels(rows, columns, (5.5, 1.0 + 1.4 * rows), len(groups)) as (figure, axes):
        for ax, (task, _) in zip(axes, groups, strict=True):
            ax.set_title(TASKS[task], fontsize=8)
            ax.tick_params(labelsize=6)
            for axis in (ax.xaxis, ax.yaxis):
                axis.label.set_size(7)
        yield figure, [(ax, part) for ax, (_, part) in zip(axes, groups, strict=True)]
