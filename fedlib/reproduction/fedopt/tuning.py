"""FedOpt on tuning: heat maps of learning rates, performance against tau, server against client
rates, the best of both.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import axis_label
from fedlib.figures.scale import scale, small, titled
from fedlib.figures.style import readable, short
from fedlib.reproduction.entry import Drawing, of_task
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import TASKS
from fedlib.reproduction.metrics import METRICS

# Short names for tasks whose names are too long for a title.
SHORT = {"emnist_ae": "AE", "stackoverflow_lr": "Tags", "stackoverflow_nwp": "Words"}
# The recall in percent of always guessing the five most common tags of the training posts, on the
# posts of this many users with this many words, counted from the data, which no drawing reads.
COMMONEST_TAGS = {("stackexchange", 1914, 2000): 24.8}
# The colours of maps distinguish points of percent down to this many below the level, and errors up
# to twice the level. Above it they show at least this many points, or this share of an error.
BELOW, DOUBLE, ABOVE, SHARE_ABOVE = 15.0, 2.0, 5.0, 0.1
# Grey is worse than the level, white equal, blue better.
GAIN = [(0, "#B4B4B4"), (0.25, "#D6D6D6"), (0.5, "#FBFBF9"), (0.68, "#BBD7EA"), (1, "#0B4FA0")]
# A level that is shared by a larger part of a map's cells is a plateau.
PLATEAU = 0.25
# The mark of a method's best tau.
RING: dict[str, Any] = {"marker": "o", "markersize": 7.5, "fillstyle": "none", "linestyle": ""}
# Widths of the frames of a method's best cell and of cells that are as good, in points. More cells
# than this, a plateau, have no frames.
FRAMES, FEW = (1.6, 0.8), 4
# A rate this close to the best is as good: points of percent, or a share of an error. Methods with
# one seed count as alike up to twice this distance.
POINTS, SHARE, ONE_SEED = 1.0, 0.05, 2.0


def grids(algorithms: Sequence[str], histories: Sequence[History]) -> Drawing:
    """One task's heat maps of the paper's metric, a panel per algorithm, all on one scale. Means
    over the seeds.

    White is a common level: a known level without training, else FedAvg's best, else that of the
    weakest method. Blue is better and grey worse. Each method's best cell is framed. A cross marks
    runs that diverged or left the test loss above the untrained model's.
    """
    frame = outcomes.collect(histories)
    shown = [name for name in algorithms if (frame["algorithm"] == name).any()]
    if not shown:
        raise Error(f"heat maps: none of these runs is of {', '.join(algorithms)}")
    frame = outcomes.over_seeds(frame[frame["algorithm"].isin({*shown, "fedavg"})])
    frame["hatched"] = outcomes.useless(frame)
    smaller = outcomes.smaller_is_better(frame)
    useful = frame["performance"].where(~frame["hatched"])
    level, word = _level(histories, frame, smaller)
    frame = frame[frame["algorithm"].isin(shown)].reset_index(drop=True)
    best = useful.min() if smaller else useful.max()
    columns = 3 if len(shown) > 3 else len(shown) + 1
    rows = -(-(len(shown) + 1) // columns)
    size = (style.WIDTH, 0.45 + 1.68 * rows)
    with style.panels(rows, columns, size, sharex=True, sharey=True) as (figure, panels):
        colour = _colours(level, best, smaller)
        drawn = frame[~_untrained(frame, "client_lr") & ~_untrained(frame, "server_lr")]
        thin = False
        for at, (ax, name) in enumerate(zip(panels, shown, strict=False)):
            thin |= _map(ax, drawn[drawn["algorithm"] == name], smaller, level, colour)
            ax.tick_params(labelleft=at % columns == 0, labelbottom=True)
        gone = [style.name(name) for name in algorithms if name not in shown]
        for ax in panels[len(shown) :]:
            ax.set_axis_off()
        known = drawn["performance"].where(~drawn["hatched"])
        near = _near(known, level, smaller)
        crowd = [f"plateau: {near.sum()} within {_reach(smaller)}"]
        words = [*word, *crowd * bool(near.mean() > PLATEAU and rows > 1)]
        _legend(panels[len(shown)], level, words, best, smaller, colour, _crosses(drawn), thin)
        figure.supxlabel("client learning rate", fontsize=7)
        figure.supylabel("server learning rate", fontsize=7)
        note = f"{_label(frame)}{' (low is good)' if smaller else ''}; {scale(histories)}"
        note += f"; not run: {', '.join(gone)}" if gone else ""
        for column in ("client_lr", "server_lr"):
            rates = sorted({*frame[column]} - {*drawn[column]})
            if rates:
                note += f"; {column[:6]} rate {', '.join(map(style.power, rates))}: none trained"
        found = _finding(frame, level, " ".join(word), smaller)
        style.headed(figure, f"{_task(frame)}: {found}", note)
    return figure, frame


def _task(frame: pd.DataFrame) -> str:
    """The name of a frame's task in a title."""
    task = frame["task"].iloc[0]
    return "Autoencoder" if task == "emnist_ae" else SHORT.get(task, style.name(task))


def _untrained(frame: pd.DataFrame, rate: str) -> pd.Series:
    """Whether no method trained at a row's rate."""
    return frame["hatched"].groupby(frame[rate]).transform("all")


def _crosses(frame: pd.DataFrame) -> str:
    """What the crosses of a map mean, of what occurs in it."""
    diverged, crossed = frame["diverged"].notna(), frame["hatched"]
    reasons = ["diverged"] * bool((crossed & diverged).any())
    reasons += ["loss above untrained"] * bool((crossed & ~diverged).any())
    return "\nor ".join(reasons)


def _near(values: Any, best: float, smaller: bool) -> Any:
    """Whether values are as good as another: within a point, or 5 % of an error."""
    return np.abs(values - best) <= (SHARE * best if smaller else POINTS)


def _reach(smaller: bool) -> str:
    """How near :func:`_near` is, in words."""
    return f"{100 * SHARE:g} %" if smaller else "a point"


def _label(frame: pd.DataFrame) -> str:
    """An axis' label for the performance of one task's runs."""
    metric = frame["metric"].iloc[0]
    return axis_label(metric, "test", percent=METRICS[metric].factor == 100)


def _level(
    histories: Sequence[History], frame: pd.DataFrame, smaller: bool
) -> tuple[float, list[str]]:
    """The level that the cells of a map are compared with, and its description, in lines."""
    options = histories[0].config.task["options"]
    data = tuple(options.get(key) for key in ("data", "clients", "words"))
    if frame["metric"].iloc[0] == "recall_at_5" and data in COMMONEST_TAGS:
        return COMMONEST_TAGS[data], ["guessing the", "commonest tags"]
    bests = frame[~frame["hatched"]].groupby("algorithm")["performance"]
    best = bests.min() if smaller else bests.max()
    name = "fedavg" if "fedavg" in best else best.idxmax() if smaller else best.idxmin()
    return float(best[name]), [f"{style.name(str(name))}'s best"]


def _finding(frame: pd.DataFrame, level: float, word: str, smaller: bool) -> str:
    """The methods whose best is as good as the best of all, and their distances from the level."""
    bests = frame[~frame["hatched"]].groupby("algorithm", sort=False)["performance"]
    best = bests.min() if smaller else bests.max()
    top = best.min() if smaller else best.max()
    points = POINTS if frame["seeds"].min() > 1 else ONE_SEED
    near = best[(best - top).abs() <= (SHARE * top if smaller else points)]
    apart = style.ahead(best.max(), best.min())
    if not smaller and apart <= SHARE * top:
        return f"the methods' best cells are within {apart:.1f} points"
    gains = sorted(1 - end / level if smaller else style.ahead(end, level) for end in near)
    if gains[0] <= 0:
        return f"no method is far ahead of {word}"
    ends = (f"{100 * gain:.0f}" if smaller else f"{gain:.1f}" for gain in (gains[0], gains[-1]))
    far = f"{' to '.join(dict.fromkeys(ends))}{' % below' if smaller else ' points above'}"
    names = style.listed([style.name(name) for name in near.index])
    return f"{names if len(near) < 3 else f'{len(near)} methods'} {far} {word}"


def _colours(level: float, best: float, smaller: bool) -> Any:
    """A function from a performance to its colour."""
    colours = LinearSegmentedColormap.from_list("gain", GAIN)
    if smaller:
        ahead, behind = max(math.log(level / best), SHARE_ABOVE), math.log(DOUBLE)
    else:
        ahead, behind = max(best - level, ABOVE), min(BELOW, max(level, ABOVE))

    def colour(value: float) -> Any:
        gain = math.log(level / value) if smaller else value - level
        return colours(0.5 + 0.5 * float(np.clip(gain / (ahead if gain > 0 else behind), -1, 1)))

    return colour


def _map(ax: Axes, part: pd.DataFrame, smaller: bool, level: float, colour: Any) -> bool:
    """One algorithm's map, with its best cell framed. True if cells that are as good are, too."""
    cells = part.pivot(index="server_lr", columns="client_lr")
    values = cells["performance"].where(~cells["hatched"].astype(bool)).astype(float)
    known = values.to_numpy()
    for (i, j), value in np.ndenumerate(known):
        if np.isnan(value):
            ax.text(j, i, "×", ha="center", va="center", color="0.45", fontsize=6)
            continue
        shade = colour(value)
        ax.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, facecolor=shade, linewidth=0))
        dark = np.dot(shade[:3], (0.299, 0.587, 0.114)) < 0.55
        text = _written(value)
        ink = "white" if dark else "0.1"
        ax.text(j, i, text, ha="center", va="center", color=ink, fontsize=6)
    title, below = style.name(str(part["algorithm"].iloc[0])), "nothing trained"
    thin = False
    if np.isfinite(known).any():
        place = int(np.nanargmin(known) if smaller else np.nanargmax(known))
        top = known.flat[place]
        near = _near(known, top, smaller)
        thin = bool(1 < near.sum() <= FEW)
        best = np.arange(known.size).reshape(known.shape) == place
        for row, column in np.argwhere(near if thin else best):
            width = FRAMES[0 if best[row, column] else 1]
            ax.add_patch(_framed(column - 0.45, row - 0.44, 0.9, 0.88, width))
        gain = style.ahead(top, level)
        ahead = f"{gain:+.1f}".replace("-", "−") if abs(gain) >= 0.05 else ""
        below = f"{near.sum()} within {_reach(smaller)}"
        title = f"{title}: {short(top)}"
        spec = ax.get_gridspec()
        if spec and spec.ncols > 3:  # there is no room in the title
            below = "; ".join(filter(None, [ahead, below]))
        elif ahead:
            title += f" ({ahead})"
    style.titled(ax, title, below)
    ax.grid(False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    for axis, rates in ((ax.xaxis, values.columns), (ax.yaxis, values.index)):
        axis.set_ticks(range(len(rates)), style.powers(rates))
    ax.set(xlim=(-0.5, known.shape[1] - 0.5), ylim=(-0.5, known.shape[0] - 0.5))
    return thin


def _framed(x: float, y: float, wide: float, high: float, width: float, **how: Any) -> Rectangle:
    """A frame round a cell, with a line of this width."""
    edge = style.COLORS["red"]
    return Rectangle((x, y), wide, high, fill=False, edgecolor=edge, linewidth=width, **how)


def _written(value: float) -> str:
    """A cell's number."""
    return "0" if abs(value) < 0.05 else f"{value:.{0 if abs(value) >= 100 else 1}f}"


def _legend(
    ax: Axes,
    level: float,
    word: Sequence[str],
    best: float,
    smaller: bool,
    colour: Any,
    crosses: str,
    thin: bool,
) -> None:
    """The meaning of the maps' colours and signs, in a panel's place."""
    worst = level * DOUBLE if smaller else max(0.0, level - BELOW)
    bar = ax.inset_axes((0.04, 0.42, 0.09, 0.58))
    ends = (worst, best) if abs(best - level) > 1e-9 else (worst, level)
    # The level is in the middle, whatever is above and below it.
    values = [*np.linspace(ends[0], level, 30), *np.linspace(level, ends[1], 30)]
    how: dict[str, Any] = {"aspect": "auto", "origin": "lower", "extent": (0, 1, 0, 1)}
    bar.imshow([[colour(value)] for value in values], **how)
    bar.set(xticks=[], yticks=[])
    bar.grid(False)
    less = "and more" if smaller else "and less"
    low, middle, top = (_written(value) for value in (ends[0], level, ends[1]))
    words = {0.02: f"{low} {less}" if ends[0] else "0", 0.5: "\n".join([middle, *word])}
    if ends[1] != level:
        words[0.98] = f"{top}, best of all"
    said: dict[str, Any] = {"fontsize": 6, "color": "0.25", "linespacing": 1.1}
    for y, text in words.items():
        bar.text(1.5, y, text, va="center", **said)
    place: dict[str, Any] = {"transform": ax.transAxes}
    frames = ["a method's best", *[f"as good: within {_reach(smaller)}"] * thin]
    for y, width, text in zip((0.26, 0.13), FRAMES, frames, strict=False):
        ax.add_patch(_framed(0.04, y - 0.04, 0.09, 0.08, width, **place))
        ax.text(0.175, y, text, va="center", **said, **place)
    if crosses:
        y = 0.0 if thin else 0.13
        ax.text(0.085, y, "×", ha="center", va="center", **said | {"color": "0.45"}, **place)
        ax.text(0.175, y + 0.045, crosses, va="top", **said, **place)


def margins(algorithms: Sequence[str], histories: Sequence[History]) -> Drawing:
    """The best values along a heat map's rows and columns: over the server rates and over the
    client rates, with the other rate chosen for each. Means over the seeds.
    """
    _, frame = grids(algorithms, histories)
    smaller, known = outcomes.smaller_is_better(frame), frame[~frame["hatched"]]
    lines: dict[str, list[pd.Series]] = {}
    with style.panels(1, 2, (style.WIDTH, 2.3), sharey=True) as (figure, panels):
        for ax, column in zip(panels, ("server_lr", "client_lr"), strict=True):
            bests: dict[str, list[str]] = {}
            for name, part in known.groupby("algorithm", sort=False):
                by = part.groupby(column)["performance"]
                line = by.min() if smaller else by.max()
                lines.setdefault(str(name), []).append(line)
                look = style.look(str(name))
                mark = {} if part["seeds"].min() > 1 else {"markerfacecolor": "white"}
                ax.plot(line, **look.line(), **mark, label=look.label)
                rate = readable(line.idxmin() if smaller else line.idxmax())
                bests.setdefault(rate, []).append(look.label)
            rates = sorted(frame[column].unique())
            for tried in rates:  # crosses above the axis, one beside the other
                lost = [name for name in lines if tried not in lines[name][-1]]
                for number, name in enumerate(lost):
                    where = (7.0 * number - 3.5 * (len(lost) - 1), 2.0)
                    aside = {"xycoords": ax.get_xaxis_transform(), "ha": "center"}
                    _beside(ax, "×", (tried, 0), where, name, **aside)
            ax.set(xscale="log", xlabel=f"{column.split('_')[0]} learning rate")
            ax.set_xticks(rates, style.powers(rates))
            ax.set_xticks([], minor=True)
            ax.set_xlim(rates[0] / 1.6, rates[-1] * 1.6)
            title = f"Best {column.split('_')[0]} rate: {_joined(bests)}"
            style.titled(ax, title, small=small(histories))
        low, high = panels[0].get_ylim()
        reach = high - low
        panels[0].set_ylim(low - 0.07 * reach, high + 0.03 * reach)
        for ax, *each in zip(panels, *lines.values(), strict=True):
            tops = [(line.min() if smaller else line.max()) for line in each]
            heights = low + style.apart(np.array(tops) - low, 0.1 * reach)
            for name, line, top, height in zip(lines, each, tops, heights, strict=True):
                at = float(line.idxmin() if smaller else line.idxmax()), float(height)
                words = f"{short(top)} {style.name(name)}"
                _beside(ax, words, at, (6.0, 0.0), name, va="center")
        panels[0].set_ylabel(_label(frame))
        note = f"{scale(histories)}. Marks: at the best of the other rate; hollow: one seed"
        note += "; ×: none trained" if frame["hatched"].any() else ""
        style.headed(figure, f"{_task(frame)}: {_alike(lines)}", note)
    return figure, frame


def _beside(
    ax: Axes, words: str, at: tuple[float, float], by: tuple[float, float], name: str, **how: Any
) -> None:
    """Words some points beside a place, in a method's colour."""
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": style.SMALL}
    ax.annotate(words, at, by, color=style.ink(style.look(name).color), **look, **how)


def _alike(lines: Mapping[str, Sequence[pd.Series]]) -> str:
    """The two methods whose lines are nearest to each other, if these are alike everywhere."""
    gaps = {}
    for pair in combinations(lines, 2):
        both = list(zip(*(lines[name] for name in pair), strict=True))
        if all(one.index.equals(other.index) for one, other in both):
            gaps[max((one - other).abs().max() for one, other in both)] = pair
    gap = min(gaps, default=math.inf)
    if gap > POINTS:
        return "what each rate can reach"
    names = style.listed([style.name(name) for name in gaps[gap]])
    return f"{names} are within {gap:.1f} points at every rate"


def against_tau(rule: str, histories: Sequence[History]) -> Drawing:
    """Test performance against tau, with a panel per task: means over seeds, with bars of ± one
    standard deviation. Hollow marks have one seed.

    Args:
        rule: how the learning rates are chosen for every tau: ``"train_loss"`` (the captions of
            Figures 3 and 13) or ``"test"``, the best afterwards (the text about Figure 13, E.5),
            with dotted lines for the rates by training loss, and what these cost.
    """
    frame = outcomes.collect(histories)
    frame = frame[frame["tau"].notna()]
    if frame.empty:
        raise Error("performance against tau: no run of an adaptive optimizer")
    chosen, groups = [], list(frame.groupby("task", sort=False))
    rows, columns = style.grid(len(groups), 3)
    size = (style.COLUMN if len(groups) == 1 else style.WIDTH, 0.3 + 2.0 * rows)
    with style.panels(rows, columns, size, len(groups)) as (figure, panels):
        for ax, (task, part) in zip(panels, groups, strict=True):
            runs = of_task(histories, str(task))
            tuned = outcomes.tuned(part, "train_loss", "algorithm", "tau")
            by_training = tuned.groupby(["algorithm", "tau"])["performance"].mean()
            if rule == "test":
                tuned = outcomes.tuned(part, "performance", "algorithm", "tau")
            for name, line in tuned.groupby("algorithm", sort=False):
                look, by_tau = style.look(str(name)), line.groupby("tau")["performance"]
                mean, std = by_tau.mean(), by_tau.std()
                one = (by_tau.size() == 1).all()
                thin = {"color": look.color, "linewidth": 0.8 if one else 1.2, "label": "_"}
                ax.plot(mean, **thin)
                if rule == "test":
                    ax.plot(by_training[name], linestyle=style.DOT, zorder=1, **thin)
                else:
                    at = mean.idxmin() if outcomes.smaller_is_better(part) else mean.idxmax()
                    ax.plot(at, mean[at], **RING, color=look.color)
                hollow = "white" if one else look.color
                marks = {**look.line(), "linestyle": "", "markerfacecolor": hollow}
                ax.errorbar(mean.index, mean, std, label=look.label, elinewidth=0.8, **marks)
                chosen.append(line)
            level, word = _level(runs, outcomes.over_seeds(part).assign(hatched=False), False)
            if len(word) > 1:
                style.level(ax, level, word[-1], x=0.01)
            taus = sorted(part["tau"].unique())
            chosen_by = "training loss" if rule == "train_loss" else "test result"
            ax.set(xscale="log", xlabel=f"τ (rates by {chosen_by})", ylabel=_label(part))
            ax.set_xticks(taus, style.powers(taus))
            ax.set_xticks([], minor=True)
            means = tuned.groupby(["algorithm", "tau"])["performance"].mean()
            smaller = outcomes.smaller_is_better(part)
            if smaller:
                ax.invert_yaxis()  # so that higher is better in every panel
            if rule == "train_loss":
                best_taus: dict[str, list[str]] = {}
                for name, at in means.groupby("algorithm", sort=False).agg(
                    pd.Series.idxmin if smaller else pd.Series.idxmax
                ):
                    best_taus.setdefault(style.power(at), []).append(style.name(name))
                found = f"best τ {_joined(best_taus)}"
            else:
                name, at = (means - by_training).abs().idxmax()
                ends = means[name, at], by_training[name, at]
                cost = abs(style.ahead(*ends))
                found = f"choosing by training loss costs up to {cost:.1f}"
                if cost > POINTS:  # else there is no room for an arrow
                    arrow = {"arrowstyle": "<->", "color": "0.35", "linewidth": 0.6}
                    arrow |= {"shrinkA": 2, "shrinkB": 0}
                    ax.annotate("", (at, ends[1]), (at, ends[0]), arrowprops=arrow)
                    words = f"{cost:.1f} "
                    style.say(ax, words, (at, sum(ends) / 2), style.look(name).color, ha="right")
            titled(ax, f"{SHORT.get(str(task), style.name(str(task)))}: {found}", runs)
        more = [{"label": "best τ", **RING}]
        if rule == "test":
            labels = ("rates by test result", "by training loss")
            ways = zip(labels, ("-", style.DOT), strict=True)
            more = [{"label": label, "linestyle": way} for label, way in ways]
        looks = [style.look(name) for name in frame["algorithm"].unique()]
        style.key(figure, looks, *(Line2D([], [], color="0.35", **each) for each in more))
    return figure, pd.concat(chosen, ignore_index=True)


def _joined(methods: Mapping[str, Sequence[str]]) -> str:
    """The choices of some methods: the most frequent, and the others with their methods.

    >>> _joined({"1": ["FedAvgM"], "0.1": ["FedAdam", "FedYogi"]})
    '0.1; FedAvgM 1'
    """
    first, *others = sorted(methods, key=lambda choice: -len(methods[choice]))
    return "; ".join([first, *(f"{style.listed(methods[each])} {each}" for each in others)])


def server_against_client(histories: Sequence[History]) -> Drawing:
    """Figure 12: the best server rate for every client rate, a row of panels per task, a panel per
    method.

    A bar spans the server rates around the best that are as good: within a point, or 5 % of errors.
    """
    frame = outcomes.over_seeds(outcomes.collect(histories))
    best = outcomes.best_server_rates(frame)
    if best.empty:
        raise Error("server against client rates: no run lowered the test loss by 10 %")
    groups, names = list(frame.groupby("task", sort=False)), list(frame["algorithm"].unique())
    tried = frame.set_index(["task", "algorithm"]).sort_index()
    best[["lowest", "highest"]] = [
        _as_good(tried.loc[[(at["task"], at["algorithm"])]], at) for at in best.to_dict("records")
    ]
    best["guessing"] = _whether_guessing(best, histories)
    size = (style.WIDTH, 0.75 + 1.4 * len(groups))
    with style.panels(len(groups), len(names), size, sharey="row", sharex="row") as (figure, axes):
        for row, (task, part) in zip(axes.reshape(len(groups), -1), groups, strict=True):
            points = best[best["task"] == task]
            for ax, name in zip(row, names, strict=True):
                line, look = points[points["algorithm"] == name], style.look(name)
                for at in line.to_dict("records"):
                    x, ends = at["client_lr"], (at["lowest"], at["highest"])
                    color = "0.5" if at["guessing"] else look.color
                    bar = {"linewidth": 5, "alpha": 0.35, "solid_capstyle": "round"}
                    ax.plot([x, x], ends, color=color, **bar)
                    hollow = color if at["seeds"] > 1 else "white"
                    dot = {"color": color, "markersize": 3.5, "markerfacecolor": hollow}
                    ax.plot(x, at["server_lr"], "o", **dot)
                if line.empty:
                    ax.text(0.5, 0.5, "none trained", transform=ax.transAxes, ha="center")
                ax.set(xscale="log", yscale="log")
                for axis, key in ((ax.xaxis, "client_lr"), (ax.yaxis, "server_lr")):
                    rates = sorted(part[key].unique())
                    axis.set_ticks(rates, style.powers(rates))
                    axis.set_ticks([], minor=True)
                ax.margins(0.12)
                below = f"{(~line['guessing']).sum()} of {len(line)} beat guessing"
                below = below if points["guessing"].any() else ""
                style.titled(ax, look.label, below, small=small(of_task(histories, str(task))))
            row[0].set_ylabel(f"{style.name(str(task))}\nbest server rate")
        axes[len(axes) - 1 - len(names) // 2].set_xlabel("client rate")
        near = f"{100 * SHARE:g} % of the error"
        near = near if (frame["metric"] == "mse_x1000").all() else "a point"
        note = f"dots: the best server rate; bars: rates within {near} of its result"
        long = best["highest"] > best["lowest"]
        title = "Where a bar is long, the server rate hardly matters"
        if (guessing := best["guessing"] & long).any():
            title = f"{guessing.sum()} of {long.sum()} bars are at the level of guessing the "
            title += "commonest tags"
            note += "; grey: less than a point above guessing"
        note += f"; {scale(of_task(histories, groups[0][0]))}" if len(groups) == 1 else ""
        style.headed(figure, title, note)
    return figure, best


def _whether_guessing(best: pd.DataFrame, histories: Sequence[History]) -> pd.Series:
    """Whether a best result is less than a point above the known level of a model that learned
    nothing.
    """
    guessing = pd.Series(False, best.index)
    for task, part in best.groupby("task"):
        level, word = _level(of_task(histories, str(task)), part.assign(hatched=False), False)
        if len(word) > 1:
            guessing[part.index] = part["performance"] - level < POINTS
    return guessing


def _as_good(runs: pd.DataFrame, best: dict[Hashable, Any]) -> tuple[float, float]:
    """The ends of the server rates around the best that are all as good at its client rate."""
    same = runs[runs["client_lr"] == best["client_lr"]].sort_values("server_lr")
    top = best["performance"]
    near = _near(same["performance"], top, outcomes.smaller_is_better(runs))
    good = outcomes.trained(same) & near
    stretches = (good != good.shift()).cumsum()
    around = stretches == stretches[same["server_lr"] == best["server_lr"]].iloc[0]
    rates = same.loc[around, "server_lr"]
    return rates.min(), rates.max()


def selected(table: str, names: Sequence[str], histories: Sequence[History]) -> Drawing:
    """Table 8 or 9: the paper's values (log10) beside the best ones here.

    The best run is the one with the smallest training loss, as in the paper.

    Args:
        table: a table of :mod:`fedlib.papers`.
        names: override keys. Ours are shown for all, the paper's if the table has them.
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
            word = f"log₁₀ {style.name(name)}"
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
