"""FedOpt on tuning: heat maps of learning rates, performance against tau, server against client
rates, the best of both.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import plain_log_ticks
from fedlib.figures.scale import scale, small
from fedlib.figures.style import readable
from fedlib.reproduction.entry import Drawing, of_task
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import TASKS

# The colours tell points of percent apart down to so many below the best, errors up to its double.
BELOW, DOUBLE = 15.0, 2.0
# Of a figure, in inches; of a number's four letters, in ems; the smallest that can be read.
WIDTH, FOUR, LEAST = 7.5, 2.6, 3.8
MIDDLE = 0.2  # luminance that contrasts about as much with black as with white


def grids(algorithms: Sequence[str], histories: Sequence[History]) -> Drawing:
    """One task's heat maps, a panel per algorithm, all on one scale.

    They show the printed metric; bright is good, means over the seeds. The scale ends 15 points
    below the best cell of all (an error's at its double), so that methods which differ by a point
    can be told apart; each method's best cell is framed. Hatched, and without a colour, is what
    diverged or left the test loss above the untrained model's.
    """
    frame = outcomes.collect(histories)
    shown = [name for name in algorithms if (frame["algorithm"] == name).any()]
    if not shown:
        raise Error(f"heat maps: none of these runs is of {', '.join(algorithms)}")
    frame = outcomes.over_seeds(frame[frame["algorithm"].isin(shown)])
    frame["hatched"] = outcomes.useless(frame)
    smaller = outcomes.smaller_is_better(frame)
    useful = frame.loc[~frame["hatched"], "performance"]
    best = useful.min() if smaller else useful.max()
    limits = (best, DOUBLE * best) if smaller else (max(useful.min(), best - BELOW), best)
    with style.panels(1, len(shown), (WIDTH, 2.3), sharey=True) as (figure, panels):
        for ax, name in zip(panels, shown, strict=True):
            image = _map(ax, frame[frame["algorithm"] == name], smaller, limits, len(shown))
            ax.set(xlabel="", ylabel="server learning rate" if ax is panels[0] else "")
        clipped = (useful > limits[1]).any() if smaller else (useful < limits[0]).any()
        extend = "neither" if not clipped else "max" if smaller else "min"
        bar = figure.colorbar(image, ax=list(panels), extend=extend, pad=0.01, aspect=15)
        better = " (lower is better)" if smaller else ""
        bar.set_label(outcomes.label(frame) + better, fontsize=7)
        if isinstance(image.norm, LogNorm):
            plain_log_ticks(bar.ax)
        bar.ax.tick_params(labelsize=6)
        figure.supxlabel("client learning rate", fontsize=8)
        told = [f"{style.name(frame['task'].iloc[0])}: {scale(histories)}"]
        told += ["hatched: diverged, or worse than untrained"] if frame["hatched"].any() else []
        if gone := [style.name(name) for name in algorithms if name not in shown]:
            told.append(f"no such runs of {' and '.join(gone)}")
        lines = textwrap.fill("; ".join(told), 135)
        figure.suptitle(lines, fontsize=7, color="0.4", x=0.01, ha="left")
    return figure, frame


def _map(
    ax: Axes, part: pd.DataFrame, smaller: bool, limits: tuple[float, float], panels: int
) -> ScalarMappable:
    """One algorithm's map, its best cell framed; the caller adds the colour bar."""
    import seaborn as sns  # here: it takes seconds, and most commands draw nothing
    from seaborn.utils import relative_luminance

    cells = part.pivot(index="server_lr", columns="client_lr")
    gone = cells["hatched"].to_numpy(bool)
    values = cells["performance"].astype(float).where(~gone)
    size = 72 * 0.82 * WIDTH / panels / values.shape[1] / FOUR
    # Errors span orders of magnitude. The best of all may lie on the other side of the limits.
    low, high = sorted(limits)
    scale = LogNorm if smaller and low > 0 else Normalize
    colors = {"cmap": "cividis_r" if smaller else "cividis", "norm": scale(low, high)}
    texts = {"annot": values.map(style.short) if size >= LEAST else None}
    texts["annot_kws"] = {"fontsize": min(6.5, size)}
    bare = {"cbar": False, "xticklabels": False, "yticklabels": False}
    sns.heatmap(values, ax=ax, fmt="", **colors, **texts, **bare)
    ax.set_ylim(0, len(values))  # the smallest below
    mesh = ax.collections[0]
    # A mesh without any value has one colour.
    colours = np.resize(np.asarray(mesh.get_facecolor()), (values.size, 4))
    shown = colours[values.notna().to_numpy().ravel()]
    for text, background in zip(ax.texts, shown, strict=False):
        # Whichever contrasts more; seaborn writes white on brighter cells, too.
        text.set_color("black" if relative_luminance(background) > MIDDLE else "white")
    for i, j in np.argwhere(gone):
        ax.add_patch(Rectangle((j, i), 1, 1, hatch="////", fill=False, edgecolor="0.6", lw=0))
    title, known = style.look(str(part["algorithm"].iloc[0])).label, values.to_numpy()
    if np.isfinite(known).any():
        place = np.nanargmin(known) if smaller else np.nanargmax(known)
        row, column = map(int, np.unravel_index(int(place), known.shape))
        ax.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor="#D55E00", linewidth=1.5))
        title += f": {style.short(known[row, column])}"
    ax.set_title(title, fontsize=8, fontweight="bold")
    ax.tick_params(labelsize=6, length=2)
    for axis, rates in ((ax.xaxis, values.columns), (ax.yaxis, values.index)):
        axis.set_ticks(np.arange(len(rates)) + 0.5, [style.readable(rate) for rate in rates])
    ax.tick_params(axis="x", labelrotation=90 if values.shape[1] > 5 else 0)
    return mesh


# Bars beside each other stay visible: a factor between neighbours.
APART = 10**0.06
# So near to the best a server rate is as good: points of percent, a share of an error.
POINTS, SHARE = 1.0, 0.05


def against_tau(rule: str, histories: Sequence[History]) -> Drawing:
    """Test performance against tau, a panel per task: means and bands over seeds.

    Args:
        rule: how the learning rates are chosen for every tau: ``"train_loss"`` (the captions of
            Figures 3 and 13) or ``"test"``, the best afterwards (the text about Figure 13, E.5).
    """
    rules = {"train_loss": "train_loss", "test": "performance"}
    other = "best on test data" if rule == "train_loss" else "with the least training loss"
    frame = outcomes.collect(histories)
    frame = frame[frame["tau"].notna()]
    if frame.empty:
        raise Error("performance against tau: no run of an adaptive optimizer")
    chosen = []
    with _panels(frame, histories, f"dotted: rates {other}") as (figure, panels):
        for ax, part in panels:
            for by in sorted(rules, key=rule.__eq__):  # the figure's own last
                runs = outcomes.tuned(part, rules[by], "algorithm", "tau")
                for name, line in runs.groupby("algorithm", sort=False):
                    look, by_tau = style.look(str(name)), line.groupby("tau")["performance"]
                    mean, std = by_tau.mean(), by_tau.std()
                    if by != rule:
                        ax.plot(mean, ":", color=look.color, alpha=0.5, label="_other")
                        continue
                    ax.plot(mean, label=look.label, **look.line())
                    style.band(ax, mean.index, mean, std, look.color, 0.15)
                    chosen.append(line)
            taus = sorted(part["tau"].unique())
            ax.set(xscale="log", xlabel="τ", ylabel=outcomes.label(part))
            ax.set_xticks(taus, [f"$10^{{{math.log10(tau):g}}}$" for tau in taus])
            ax.set_xticks([], minor=True)
            if outcomes.smaller_is_better(part):
                ax.invert_yaxis()  # above is good in every panel
            style.label_ends(ax, numbers=False)
    return figure, pd.concat(chosen, ignore_index=True)


def server_against_client(histories: Sequence[History]) -> Drawing:
    """Figure 12: the best server rate for every client rate, a panel per task.

    A bar spans the server rates around the best that are as good, within a point.
    """
    frame = outcomes.over_seeds(outcomes.collect(histories))
    best = outcomes.best_server_rates(frame)
    if best.empty:
        raise Error("server against client rates: no run lowered the test loss by 10 %")
    with _panels(frame, histories, "bars: as good within a point") as (figure, panels):
        for ax, part in panels:
            points = best[best["task"] == part["task"].iloc[0]]
            ax.set(xscale="log", yscale="log", xlabel="client rate", ylabel="best server rate")
            for place, name in enumerate(part["algorithm"].unique()):
                line = points[points["algorithm"] == name].sort_values("client_lr")
                look, x = style.look(name), line["client_lr"] * APART ** (place - 2)
                ax.plot(x, line["server_lr"], look.marker, color=look.color, label=look.label)
                ax.plot(x, line["server_lr"], color=look.color, linewidth=0.5, alpha=0.5)
                for at, row in zip(x, line.to_dict("records"), strict=True):
                    low, high = _as_good(part[part["algorithm"] == name], row)
                    ax.plot([at, at], [low, high], color=look.color, linewidth=3, alpha=0.3)
            if points.empty:
                ax.text(0.5, 0.5, "nothing trained", transform=ax.transAxes, ha="center")
            for axis, name in ((ax.xaxis, "client_lr"), (ax.yaxis, "server_lr")):
                axis.set_ticks(sorted(part[name].unique()))
                axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
                axis.set_minor_formatter(NullFormatter())
                axis.set_ticks([], minor=True)
        style.key(figure)
    return figure, best


def _as_good(runs: pd.DataFrame, best: dict[Hashable, Any]) -> tuple[float, float]:
    """The ends of the server rates around the best that are all as good at its client rate."""
    same = runs[runs["client_lr"] == best["client_lr"]].sort_values("server_lr")
    top = best["performance"]
    near = SHARE * top if outcomes.smaller_is_better(runs) else POINTS
    good = outcomes.trained(same) & ((same["performance"] - top).abs() <= near)
    stretches = (good != good.shift()).cumsum()
    around = stretches == stretches[same["server_lr"] == best["server_lr"]].iloc[0]
    rates = same.loc[around, "server_lr"]
    return rates.min(), rates.max()


def selected(table: str, names: Sequence[str], histories: Sequence[History]) -> Drawing:
    """Table 8 or 9: printed values (log10) beside those that are best here.

    Best is the run with the smallest training loss, as in the paper.

    Args:
        table: of :mod:`fedlib.papers`.
        names: override keys; ours are shown of all, printed ones where the table has them.
    """
    frame = outcomes.over_seeds(outcomes.collect(histories))
    printed = papers.table("fedopt", table).set_index(["task", "algorithm"])
    rows = []
    for winner in outcomes.best(frame, "train_loss", "task", "algorithm").to_dict("records"):
        place = TASKS[winner["task"]], style.look(winner["algorithm"]).label
        if place not in printed.index:
            continue
        row: dict[str, Any] = dict(zip(("task", "method"), place, strict=True))
        for name in names:
            word = style.name(name)
            if f"log10_{name}" in printed:
                row[f"{word}, printed"] = float(printed.loc[place, f"log10_{name}"])
            row[f"{word}, ours"] = math.log10(winner[name])
        same = (frame["task"] == winner["task"]) & (frame["algorithm"] == winner["algorithm"])
        runs = frame[same]
        edges = {name: {runs[name].min(), runs[name].max()} for name in names}
        ends = [name for name in names if len(edges[name]) > 1 and winner[name] in edges[name]]
        row["at the grid's edge"] = ", ".join(map(style.name, ends))
        rows.append({**row, "settings tried": len(runs)})
    return None, pd.DataFrame(rows)


@contextmanager
def _panels(
    frame: pd.DataFrame, histories: Sequence[History], told: str
) -> Iterator[tuple[Figure, list[tuple[Axes, pd.DataFrame]]]]:
    """A panel per task, at most four in a row, and its part of the frame; ``told`` is above it."""
    groups = list(frame.groupby("task", sort=False))
    rows, columns = style.grid(len(groups), 4)
    size = (5.5, 2.9) if len(groups) == 1 else (2.7 * columns, 0.6 + 1.9 * rows)
    with style.panels(rows, columns, size, len(groups)) as (figure, axes):
        for ax, (task, _) in zip(axes, groups, strict=True):
            runs = of_task(histories, str(task))
            style.titled(ax, style.name(task), f"{scale(runs)}; {told}", small=small(runs))
            ax.tick_params(labelsize=6)
            for axis in (ax.xaxis, ax.yaxis):
                axis.label.set_size(7)
        yield figure, [(ax, part) for ax, (_, part) in zip(axes, groups, strict=True)]
