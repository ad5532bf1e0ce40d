"""FedOpt on tuning: performance against tau, server against client rates, the best of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import shared_legend
from fedlib.figures.style import readable
from fedlib.reproduction.entry import Drawing
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import TASKS

# Lines that lie on each other stay visible: a factor between neighbours.
APART = 10**0.06


def against_tau(rule: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of test performance against tau, a panel per task: means and bands over seeds.

    Args:
        rule: how the learning rates are chosen for every tau: ``"train_loss"`` (the captions of
            Figures 3 and 13) or ``"test"``, the best afterwards (the text about Figure 13, E.5).
    """
    by = "train_loss" if rule == "train_loss" else "performance"

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.collect(histories)
        frame = frame[frame["tau"].notna()]
        if frame.empty:
            raise Error("performance against tau: no run of an adaptive optimizer")
        chosen = []
        with _panels(frame) as (figure, panels):
            for ax, part in panels:
                lines = outcomes.tuned(part, by, "algorithm", "tau").groupby(
                    "algorithm", sort=False
                )
                for place, (name, line) in enumerate(lines):
                    look, spread = style.look(str(name)), line.groupby("tau")["performance"]
                    data = spread.agg(["mean", "std"]).fillna({"std": 0.0})
                    x = data.index.to_numpy() * APART ** (place - 1)
                    ax.errorbar(x, data["mean"], data["std"], label=look.label, **look.line())
                    chosen.append(line)
                ax.set(xscale="log", xlabel="tau", ylabel=outcomes.label(part, "performance"))
                ax.set_xticks(sorted(part["tau"].unique())[::2])
                if outcomes.smaller_is_better(part, "performance"):
                    ax.invert_yaxis()  # above is good in every panel
            shared_legend(figure)
        return figure, pd.concat(chosen, ignore_index=True)

    return draw


def server_against_client(histories: Sequence[History]) -> Drawing:
    """Figure 12: the best server rate for every client rate, a panel per task."""
    frame = outcomes.over_seeds(outcomes.collect(histories))
    best = outcomes.best_server_rates(frame)
    if best.empty:
        raise Error("server against client rates: no run lowered the test loss by 10 %")
    with _panels(frame) as (figure, panels):
        for ax, part in panels:
            points = best[best["task"] == part["task"].iloc[0]]
            for place, name in enumerate(part["algorithm"].unique()):
                line = points[points["algorithm"] == name].sort_values("client_lr")
                look, shift = style.look(name), APART ** (place - 2)
                ax.plot(
                    line["client_lr"], line["server_lr"] * shift, label=look.label, **look.line()
                )
            if points.empty:
                ax.text(0.5, 0.5, "nothing trained", transform=ax.transAxes, ha="center")
            ax.set(xscale="log", yscale="log", xlabel="client rate", ylabel="best server rate")
            for limits, axis, name in (
                (ax.set_xlim, ax.xaxis, "client_lr"),
                (ax.set_ylim, ax.yaxis, "server_lr"),
            ):
                limits(part[name].min() / 2, part[name].max() * 2)
                axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
                axis.set_minor_formatter(NullFormatter())
        shared_legend(figure)
    return figure, best


def selected(table: str, *names: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of Table 8 or 9: printed values (log10) beside those that are best here.

    Best is the run with the smallest training loss, as in the paper.

    Args:
        table: of :mod:`fedlib.papers`.
        names: override keys; ours are shown of all, printed ones where the table has them.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.over_seeds(outcomes.collect(histories))
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
            rows.append({**row, "at the grid's edge": ", ".join(ends), "settings": len(runs)})
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
