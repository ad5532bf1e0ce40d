"""Delta-SGD's figures and tables: eight client optimizers whose rates were tuned for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedlib import partitioners, tasks
from fedlib.engine.history import History, rounds_of
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import LABELLED, learning_curves
from fedlib.figures.partitions import label_panels
from fedlib.figures.scale import note, scale, small, whole
from fedlib.reproduction.compare import TOLERANCE
from fedlib.reproduction.delta_sgd.step_size_paths import delta_sgd_figure_7
from fedlib.reproduction.delta_sgd.tables import (
    IMAGE_TASKS,
    RESNETS,
    STATED,
    TABLE_1,
    THREE,
    client_of,
)
from fedlib.reproduction.entry import Drawing, Entry, of_task, printed_entry
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.tables import ABLATION, IMAGES
from fedlib.results.reading import client_label, group, hyperparameters, option
from fedlib.results.selection import by_setting, late
from fedlib.tasks.auto_tuned import SMALLER

# The paper's names of tasks, without the network if there is only one.
LABELS = {task: label.removesuffix(" CNN") for label, task in IMAGE_TASKS.items()}
# A panel of curves: task and alpha. The text does not give the alphas of Figure 1. (A) is the tuned
# task. The text about (B) fits Table 1 at 0.01 only, the text about (C) at 0.1 and at 1.
FIGURE_1 = (("cifar10_resnet18", 0.1), ("mnist", 0.01), ("cifar100_resnet50", 0.1))
FIGURE_6 = tuple((task, STATED["figure6_table7"]["alpha"]) for task in THREE)
# The tasks of Figure 2.
OVER_ALPHA = ("cifar10_resnet18", "fashion_mnist", "cifar100_resnet50")
# Panels of profiles: title -> label along x -> task and alpha.
Profiles = Mapping[str, Mapping[str, tuple[str, float]]]
FIGURE_2: Profiles = {
    f"{LABELS[task]}, over α": {
        f"{alpha:g}": (task, alpha) for alpha in sorted(STATED["federated"]["alphas"])
    }
    for task in OVER_ALPHA
}
FIGURE_3: Profiles = {
    "CIFAR-100, α = 0.1": {
        "ResNet-18": ("cifar100_resnet18", 0.1),
        "ResNet-50": ("cifar100_resnet50", 0.1),
    },
    "CNN, α = 0.01": {"MNIST": ("mnist", 0.01), "FMNIST": ("fashion_mnist", 0.01)},
    "ResNet-18, α = 0.01": {
        "CIFAR-10": ("cifar10_resnet18", 0.01),
        "CIFAR-100": ("cifar100_resnet18", 0.01),
    },
}
# Table 1's numbers in the columns that were run.
PRINTED = TABLE_1.rename(columns={"printed": "value"}).assign(
    alpha=TABLE_1["options"].str["alpha"].astype(float),
    algorithm=TABLE_1["row"].map(client_of),
    source="printed",
    std=np.nan,
    seeds=0,
)
# The largest distance from the best, in points of accuracy, at which a delta is a good value.
NEAR = 2.0
SEEN = 6.0  # points of accuracy that Figure 2 draws below the best method of any place
SIGNS = {"●": "o", "■": "s", "◆": "D", "▲": "^"}  # of Figure 3's places
FAR = 1.08  # place of a method that diverged, in panels' widths
ALPHAS = {0.01: "#000000", 0.1: style.COLORS["red"], 1.0: style.COLORS["amber"]}


def problem(run: History) -> str:
    """The problem of a run: the table's task, or the small problem that replaces it."""
    task = run.config.task
    return SMALLER[task["name"]][-1] if small([run]) else LABELS[task["name"]]


def _network(run: History) -> str:
    """The small problem of a run, or the network if the paper has several for the data."""
    return problem(run) if small([run]) else problem(run).partition(" ")[2]


def curves(
    panels: Sequence[tuple[str, float]], histories: Sequence[History], *, apart: bool = False
) -> Drawing:
    """Test accuracy over rounds (Figures 1 and 6), and beside each panel the numbers at the end.

    These are our numbers with their spread over the seeds, and at the paper's settings Table 1's.

    Args:
        panels: task and alpha of each. Panels without runs are left out.
        apart: if one task was run, one panel per method, in colour before the others.

    Raises:
        Error: no panel has runs.
    """
    shown = [(*panel, runs) for panel in panels if (runs := _at(histories, *panel))]
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    if apart and len(shown) == 1:
        return _one_by_one(*shown[0][1:])
    frames = []
    size = (style.WIDTH, 0.2 + 2.1 * len(shown))
    ratios = {"width_ratios": (1.65, 1)}
    with style.panels(len(shown), 2, size, gridspec_kw=ratios) as (figure, axes):
        for (ax, beside), (task, alpha, runs) in zip(axes.reshape(-1, 2), shown, strict=True):
            title = f"{problem(runs[0])}, α = {alpha:g}: {_leaders(_ends(runs))}"
            how: dict[str, Any] = {"by": client_label, "legend": None, "title": title, "ax": ax}
            _, data = learning_curves(runs, **how)
            ends = _profile({title: (task, alpha)}, histories)
            if whole(runs):
                printed = ends[ends["source"] == "printed"].set_index("algorithm")["value"]
                rounds = tasks.rounds(task, "paper")
                data = data.assign(printed=data["algorithm"].map(printed), printed_rounds=rounds)
            else:
                ends = ends[ends["source"] == "ours"]
            ax.set_ylabel("test accuracy (%)")
            near = _strip(beside, ends, runs, names=True)
            when = "After the last round"
            if data["line"].iloc[-1] != data["mean"].iloc[-1]:  # the lines are means
                when = f"After round {rounds_of(runs[0])} alone"
            about = f"{when.lower()}; {_marks(ends)}" if near else _marks(ends)
            style.titled(beside, near or when, about)
            beside.set_xlabel("test accuracy (%)")
            if whole(runs) and ends["value"].min() < 1.5 * _chance(task):
                style.level(ax, _chance(task), f"chance, {_chance(task):g} %")
                beside.set_xticks([_chance(task), 25, 50, 75, 100])
                beside.axvline(_chance(task), color="0.55", linewidth=0.7, linestyle=style.DOT)
                way: dict[str, Any] = {"textcoords": "offset points", "xytext": (3, 0)}
                style.say(beside, "chance", (_chance(task), 0), "0.35", fontsize=6, **way)
            frames.append(data.assign(alpha=alpha))
    return figure, pd.concat(frames, ignore_index=True)


def _marks(ends: pd.DataFrame) -> str:
    """What the marks of :func:`_strip` mean, of what occurs."""
    ours, printed = (ends[ends["source"] == source] for source in ("ours", "printed"))
    half = " (half: one seed)" if (ours["seeds"] == 1).any() else ""
    return f"filled: ours ± std{half}" + "; hollow: Table 1" * bool(len(printed))


def _leaders(ends: pd.DataFrame) -> str:
    """The methods that end within a point of the best, in words."""
    last = ends.set_index("algorithm")["value"].sort_values(ascending=False)
    names = [style.name(str(name)) for name in last[last >= last.max() - 1].index]
    return f"{style.listed(names)} lead{'s' * (len(names) == 1)}"


def _lead(ends: pd.DataFrame) -> str:
    """The lead of Δ-SGD's final number over the best of the others, or "" if it was not run.

    >>> two = {"algorithm": ["sgd", "delta_sgd"], "value": [80.0, 79.0]}
    >>> _lead(pd.DataFrame(two | {"std": np.nan})), _lead(pd.DataFrame(two | {"std": 1.0}))
    (': Δ-SGD −1.0', ': Δ-SGD level')
    """
    last = ends.set_index("algorithm")
    if "delta_sgd" not in last.index:
        return ""
    best = last.drop("delta_sgd")["value"].idxmax()
    two = last.loc[["delta_sgd", best]].round(1)  # as the numbers beside it
    ahead = two["value"].iloc[0] - two["value"].iloc[1]
    found = f"{ahead:+.1f}".replace("-", "−")
    if abs(ahead) <= np.hypot(*two["std"]):
        found = "level"
    return f": {style.name('delta_sgd')} {found}"


def _one_by_one(alpha: float, runs: Sequence[History]) -> Drawing:
    """One panel per method, before the grey curves of the others, as eight bands would overlap.

    The numbers are means over :func:`fedlib.results.selection.late`'s rounds, which are marked.
    """
    _, data = learning_curves(runs, by=client_label, legend=None, window=1)
    data = data.assign(alpha=alpha)
    ends = _ends(runs, late).set_index("algorithm")
    ends = ends.sort_values("value", ascending=False)
    data = data.join(ends[["value", "std"]].add_prefix("late_"), on="algorithm")
    groups = {name: data[data["algorithm"] == name] for name in ends.index}
    rows, columns = style.grid(len(groups), 4)
    size = (style.WIDTH, 0.35 + 1.35 * rows)
    seen = data.loc[data["round"] > 0.2 * data["round"].max(), "line"]
    limits, last = (seen.quantile(0.05) - 2, seen.max() + 2), data["round"].max()
    with style.panels(rows, columns, size, len(groups), sharex=True, sharey=True) as (figure, axes):
        for ax, (key, part) in zip(axes, groups.items(), strict=True):
            look, end = style.look(key), ends.loc[key]
            for other in groups.values():
                ax.plot(other["round"], other["line"], color="0.78", linewidth=0.5)
            style.band(ax, part["round"], part["line"], part["spread"], look.color, 0.25)
            ax.plot(part["round"], part["line"], color=look.color, label=look.label)
            over = [last - late(runs[0]), last]
            ax.axvspan(*over, color="#EBF0F6", linewidth=0, zorder=0)
            ax.plot(over, [end["value"]] * 2, color=style.ink(look.color), linewidth=0.7)
            spread = "" if pd.isna(end["std"]) else f" ± {end['std']:.1f}"
            style.titled(ax, look.label, f"{end['value']:.1f}{spread}", small=small(runs))
            ax.set(ylim=limits, xlim=(0, last))
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        about = filter(None, [_network(runs[0]), f"α = {alpha:g}"])
        below = f"{', '.join(about)}: {scale(runs)}; numbers and thin lines: means over"
        below += f" the last {late(runs[0])} rounds (shaded) ± std of the seeds"
        style.headed(figure, _leaders(ends.reset_index()), below)
        for ax in axes[-columns:]:
            ax.set_xlabel("round")
        figure.supylabel("test accuracy (%)", fontsize=7)
    return figure, data


def profiles(panels: Profiles, histories: Sequence[History]) -> Drawing:
    """Final accuracies along a panel's settings (Figures 2 and 3), in a row of strips.

    A strip has a line per client optimizer with our number and, on the paper's tasks, Table 1's.

    Args:
        panels: panels without runs are left out.

    Raises:
        Error: no panel has runs.
    """
    tiny, shown, frames = small(histories), _shown(panels, histories), []
    columns, cut = max(map(len, shown.values())), ""
    size = (style.WIDTH, 0.75 + 1.6 * len(shown))
    with style.panels(len(shown), columns, size, sharex="row", sharey="row") as (figure, axes):
        for row, (title, places) in zip(axes.reshape(len(shown), -1), shown.items(), strict=True):
            frame = _profile(places, histories)
            frame = frame[frame["source"].isin(("ours",) if tiny else ("printed", "ours"))]
            best = frame[frame["source"] == "ours"].groupby("x")["value"].max()
            low = best.min() - SEEN
            for ax, (place, at) in zip(row, places.items(), strict=False):
                runs, here = _at(histories, *at), frame[frame["x"] == place]
                near = _strip(ax, here, runs, names=ax is row[0], low=low)
                name = f"α = {place}" if "over α" in title else place.replace("\n", ", ")
                about = scale(runs).rpartition(", ")[-1] if runs else "not run"
                about = "; ".join(filter(None, [about, near]))
                if (tiny or len(shown) > 1) and ax is row[0]:
                    about = f"{title.removesuffix(', over α')}: {about}"
                lead = _lead(here[here["source"] == "ours"])
                style.titled(ax, name + lead, about, small=tiny)
            if (frame["value"] < low).any():
                cut = "; arrows: further down"
                row[0].set_xlim(left=low - 0.5)
            for ax in row[len(places) :]:
                ax.set_visible(False)
            frame.insert(0, "panel", title)
            frames.append(frame)
        data = pd.concat(frames, ignore_index=True)
        below = f"{note(histories)}; {_marks(data)}{cut};"
        below += " titles: Δ-SGD against the best other, level within their std"
        style.headed(figure, _farthest(data), below)
        middle, shift = axes[len(axes) - 1 - columns // 2], 0.5 if columns % 2 else 1.2
        middle.set_xlabel("test accuracy after the last round (%)", x=shift)
    return figure, data


def _farthest(data: pd.DataFrame) -> str:
    """A title: how far Δ-SGD is at most behind the best method of a panel's places."""
    ours = data[data["source"] == "ours"].groupby(["panel", "x"])
    gaps = [
        part["value"].max() - part.loc[part["algorithm"] == "delta_sgd", "value"].max()
        for _, part in ours
    ]
    if not gaps or np.isnan(gaps).any():
        return "Accuracy after the last round"
    far = f"at most {max(gaps):.1f} points behind the best"
    return f"{style.name('delta_sgd')} is {far if max(gaps) else 'the best everywhere'}"


def behind(panels: Profiles, histories: Sequence[History]) -> Drawing:
    """How far each method ends behind the best of each of a panel's settings (Figure 3).

    Args:
        panels: panels without runs are left out.

    Raises:
        Error: no panel has runs.
    """
    tiny, shown, frames = small(histories), _shown(panels, histories), []
    size = (style.COLUMN if len(shown) == 1 else style.WIDTH, 3.1)
    with style.panels(1, len(shown), size) as (figure, axes):
        for ax, (title, places) in zip(axes, shown.items(), strict=True):
            run = {place: _at(histories, *at) for place, at in places.items()}
            run = {place: runs for place, runs in run.items() if runs}
            frame = _profile(places, histories)
            frame = frame[frame["source"] == "ours"] if tiny else frame
            gaps = _behind(ax, frame, run)
            alpha = next(iter(places.values()))[1]
            named = (place.replace("\n", ", ") for place in run)
            signs = (f"{sign} {place}" for sign, place in zip(SIGNS, named, strict=False))
            seeds = sorted(map(int, frame.loc[frame["source"] == "ours", "seeds"].unique()))
            about = f"{', '.join(signs)}; {' to '.join(map(str, seeds))} seeds, ± std\n"
            about += f"α = {alpha:g}, last round"
            worst = gaps.max(axis=1).round(1)
            first, *others = [(style.name(str(name)), gap) for name, gap in worst.items()][:2]
            found = f"{first[0]} at most {first[1]:.1f} behind"
            found += "".join(f", {name} {gap:.1f}" for name, gap in others)
            style.titled(ax, found, about, small=tiny)
            far = gaps.melt(ignore_index=False, value_name="behind").reset_index()
            frame.insert(0, "panel", title)
            frames.append(frame.merge(far, how="left"))
    return figure, pd.concat(frames, ignore_index=True)


def _behind(ax: Axes, frame: pd.DataFrame, run: Mapping[str, Sequence[History]]) -> pd.DataFrame:
    """A row per method, with a mark and a number for each place that was run.

    Args:
        frame: result of :func:`_profile`.
        run: place -> its runs.

    Returns:
        The distances by method and place, the methods in order of their largest, NaN for those that
        diverged.
    """
    ours = frame[frame["source"] == "ours"].pivot(index="algorithm", columns="x")
    values = ours["value"].reindex(columns=[*run])
    lost = {place: _lost(runs) for place, runs in run.items()}
    known = {*values.index}.union(*lost.values())
    gaps = (values.max() - values).reindex([n for n in style.CLIENT_LOOKS if n in known])
    gaps = gaps.loc[gaps.max(axis=1, skipna=False).sort_values().index].rename_axis(columns="x")
    border = FAR * np.nanmax(gaps, initial=1.0)
    how: dict[str, Any]
    for y, name in enumerate(gaps.index):
        look, at = style.look(name), gaps.loc[name]
        # Places are below each other, so that no mark hides another.
        lines = y + 0.8 * ((np.arange(len(run)) + 0.5) / len(run) - 0.5)
        for sign, place, line in zip(SIGNS.values(), run, lines, strict=False):
            if name in lost[place]:
                how = {"ha": "right", "fontsize": 6}
                style.say(ax, "diverged", (border, line), look.color, **how)
                continue
            spread = ours["std"].reindex(columns=[*run])[place].get(name, np.nan)
            bar, right = np.nan_to_num(spread), at[place]
            ax.plot([right - bar, right + bar], [line] * 2, color=look.color, lw=2.5, alpha=0.35)
            ax.plot(right, line, sign, color=look.color, markersize=4, label=look.label)
            if len(run) <= 2 and place in at.index and not np.isnan(gaps.loc[name, place]):
                how = {"textcoords": "offset points", "fontsize": 6}
                spot = (right + bar, line)
                style.say(ax, f"{right:.1f}", spot, look.color, xytext=(4, 0), **how)
    ax.set(ylim=(len(gaps) - 0.5, -0.7), xlabel="points behind the best")
    if any(lost.values()):
        ax.set_xlim(right=1.02 * border)
    _method_ticks(ax, list(gaps.index))
    return gaps


def _method_ticks(ax: Axes, methods: Sequence[str], *, names: bool = True) -> None:
    """Methods' names in their colours in place of a y axis, the first at 0."""
    ax.set_yticks(range(len(methods)), [style.look(name).label for name in methods])
    for tick, name in zip(ax.get_yticklabels(), methods, strict=False):
        tick.set_color(style.ink(style.look(name).color))
    ax.tick_params(axis="y", length=0, labelleft=names)
    ax.grid(axis="x")
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)


def _lost(runs: Sequence[History]) -> set[str]:
    """Methods that diverged."""
    return {client_label(run) for run in runs if run.diverged is not None}


def _strip(
    ax: Axes, ends: pd.DataFrame, runs: Sequence[History], *, names: bool, low: float = -np.inf
) -> str:
    """One place's final numbers, one line per method: ours filled (half with one seed) with ± std,
    the paper's hollow, and both in figures at the right. A method that diverged is named as such.
    Below ``low`` there is an arrow at the border instead.

    Returns:
        How many of our numbers are near the paper's, in words, or "" if the paper has none.
    """
    ours = ends[ends["source"] == "ours"].set_index("algorithm")
    printed = ends[ends["source"] == "printed"].set_index("algorithm")["value"]
    lost = _lost(runs)
    known = [name for name in style.CLIENT_LOOKS if name in {*ours.index, *printed.index, *lost}]
    text: dict[str, Any] = {"va": "center", "ha": "right", "fontsize": 6.3}
    text |= {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    for y, name in enumerate(reversed(known)):
        look, value, theirs = style.look(name), ours["value"].get(name, np.nan), printed.get(name)
        color, theirs = look.color, np.nan if theirs is None else theirs
        ax.plot(np.maximum([theirs, value], low), [y, y], color=color, linewidth=0.8, alpha=0.6)
        ax.plot(theirs, y, "o", color=color, markersize=4, markerfacecolor="white")
        if np.fmin(value, theirs) < low:  # one may be absent
            ax.plot(low, y, "<", color=color, markersize=4, label=look.label)
        if value >= low:
            spread, one = ours["std"].get(name), ours["seeds"].get(name) == 1
            ax.plot([value - spread, value + spread], [y, y], color=color, linewidth=3, alpha=0.35)
            how: dict[str, Any] = {"markersize": 4.2, "fillstyle": "left" if one else "full"}
            ax.plot(value, y, "o", color=color, label=look.label, markerfacecoloralt="white", **how)
        said = "diverged" if name in lost else "–" if np.isnan(value) else f"{value:.1f}"
        ax.annotate(said, (1, y), (27, 0), color=style.ink(color), fontweight="bold", **text)
        if len(printed):
            said = "–" if np.isnan(theirs) else f"{theirs:.1f}"
            ax.annotate(said, (1, y), (48, 0), color="0.4", **text)
    top = len(known) - 0.15
    for word, right in (("ours", 27), ("paper", 48))[: 1 + bool(len(printed))]:
        ax.annotate(word, (1, top), (right, 0), color="0.3", **{**text, "fontsize": 6})
    _method_ticks(ax, known[::-1], names=names)
    ax.set_ylim(-0.6, top + 0.35)
    ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    compared = [name for name in printed.index if name in {*ours.index, *lost}]
    gap = (ours["value"] - printed).abs()
    near = f"{(gap <= TOLERANCE).sum()} of {len(compared)} within {TOLERANCE:g} of the paper"
    return near if compared else ""


def _shown(panels: Profiles, histories: Sequence[History]) -> Profiles:
    """The panels that have runs, or those of the small problems that do.

    Raises:
        Error: there is none.
    """
    meant = _of_small(panels, histories) if small(histories) else panels
    shown = {
        title: places
        for title, places in meant.items()
        if any(_at(histories, *place) for place in places.values())
    }
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    return shown


def _of_small(panels: Profiles, histories: Sequence[History]) -> Profiles:
    """The panels of the small problems. Panels over alpha stay, and panels over tasks become one
    for each alpha, with all problems that were run.
    """
    single, alphas = {}, set()
    for places in panels.values():
        names = {task for task, _ in places.values()}
        if len(names) == 1:
            single[f"{SMALLER[names.pop()][-1]}, over α"] = places
        else:
            alphas |= {alpha for _, alpha in places.values()}
    problems = [task for task in SMALLER if of_task(histories, task)]
    several = {
        f"α = {alpha:g}": {
            SMALLER[task][-1].replace(", ", "\n"): (task, alpha) for task in problems
        }
        for alpha in sorted(alphas, reverse=True)
    }
    return single | several


def _profile(places: Mapping[str, tuple[str, float]], histories: Sequence[History]) -> pd.DataFrame:
    """A panel's numbers: Table 1's, if they are legible, and our runs'."""
    frames = []
    for place, (label, (task, alpha)) in enumerate(places.items()):
        column = (PRINTED["task"] == task) & (PRINTED["alpha"] == alpha)
        both = pd.concat([PRINTED[column], _ends(_at(histories, task, alpha))])
        frames.append(both.assign(place=place, x=label))
    columns = ["place", "x", "task", "alpha", "algorithm", "source", "value", "std", "seeds"]
    return pd.concat(frames)[[*columns, "unclear"]].dropna(subset="value")


def _ends(
    histories: Sequence[History], window: Callable[[History], int] | None = None
) -> pd.DataFrame:
    """Test accuracy in percent, mean and deviation over a setting's seeds, as in Table 1 or as the
    mean over a window of last rounds.
    """
    rows = []
    for runs in by_setting(histories):
        config, metric = runs[0].config, METRICS["avg"]
        finals = [run.final(window=window(run)) if window else metric(run)[0] for run in runs]
        values = metric.factor * pd.Series(finals, dtype=float)
        row = {"task": config.task["name"], "alpha": option(runs[0], "alpha")}
        row |= {"algorithm": client_label(runs[0]), "source": "ours", "unclear": ""}
        row |= {"value": values.mean(skipna=False), "std": values.std(skipna=False)}
        row |= {"seeds": len(values), "delta": hyperparameters(runs[0]).get("delta")}
        row |= {"preset": config.task["preset"], "rounds": config.rounds}
        rows.append({**row, "data": "stand-in" if config.task["stand_in"] else "real"})
    return pd.DataFrame(rows)


def delta_sgd_figure_4(histories: Sequence[History]) -> Drawing:
    """Delta-SGD's test accuracy over rounds for several deltas, and beside it its end over delta,
    with a row per task.
    """
    by_task = group(histories, "task")
    # The paper gives the numbers of deltas other than Table 1's only as a drawing.
    printed = PRINTED[PRINTED["algorithm"] == "delta_sgd"].rename(columns={"value": "printed"})
    printed = printed.assign(preset="paper", delta=STATED["delta_sgd"]["delta"])
    keys, told = ["task", "alpha", "preset", "delta"], ["printed", "unclear"]
    printed, columns = printed[keys + told], [*keys[:2], "delta", "mean", "std", "seeds", *told]
    frames = []
    size = (style.WIDTH, 0.1 + 2.2 * len(by_task))
    ratios = {"width_ratios": (1.5, 1)}
    with style.panels(len(by_task), 2, size, gridspec_kw=ratios) as (figure, panels):
        for (ax, beside), runs in zip(panels.reshape(-1, 2), by_task.values(), strict=True):
            ends = _ends(runs).drop(columns="unclear").rename(columns={"value": "mean"})
            frame = ends.merge(printed, how="left").sort_values(["alpha", "delta"])[columns]
            shades, curves_of = _over_deltas(ax, runs, frame)
            _over_delta(beside, frame, shades)
            if small(runs):
                beside.set_facecolor(style.TINT)
            frames += [frame.assign(panel="ends"), curves_of.assign(panel="curves")]
    return figure, pd.concat(frames, ignore_index=True).astype({"round": "Int64"})


def _over_deltas(
    ax: Axes, runs: Sequence[History], frame: pd.DataFrame
) -> tuple[dict[float, Any], pd.DataFrame]:
    """A curve for each delta and alpha of one task.

    Returns:
        The colours of the deltas, and the drawn data.
    """
    several = frame["alpha"].nunique() > 1
    deltas = sorted(frame["delta"].unique())
    shades = dict(zip(deltas, style.tints(len(deltas)), strict=True))

    def named(run: History) -> str:
        delta = float(hyperparameters(run)["delta"])
        return f"δ = {delta:g}" + f", α = {option(run, 'alpha'):g}" * several

    looks = {
        named(run): style.Look(named(run), shades[float(hyperparameters(run)["delta"])])
        for run in sorted(runs, key=lambda run: float(hyperparameters(run)["delta"]))
    }
    spread = frame.groupby("alpha")["mean"].agg(np.ptp).max()
    title = f"δ from {deltas[0]:g} to {deltas[-1]:g} ends within {spread:.1f} points"
    alone = f", α = {frame['alpha'].iloc[0]:g}" * (not several)
    about = f"{_network(runs[0])}{alone}, {scale(runs)}"
    how: dict[str, Any] = {"by": named, "looks": looks, "legend": None, "shown": about}
    _, data = learning_curves(runs, title=title, window=1, ax=ax, **how)
    if not small(runs):
        chance = _chance(frame["task"].iloc[0])
        ax.set_ylim(bottom=chance - 1)
        style.level(ax, chance, f"chance, {chance:g} %")
    if len(looks) > LABELLED:
        ax.legend()
    else:
        style.label_ends(ax, numbers=False)
    return shades, data.rename(columns={"algorithm": "curve"})


def _over_delta(ax: Axes, frame: pd.DataFrame, shades: Mapping[float, Any]) -> None:
    """One task's final accuracies over delta, with a line per alpha."""
    usual, gaps = STATED["delta_sgd"]["delta"], []
    for alpha, part in frame.groupby("alpha"):
        color, best = ALPHAS.get(float(str(alpha)), "0.4"), part["mean"].max()
        ax.axhspan(best - NEAR, best, color=color, alpha=0.07, linewidth=0)
        ax.plot(part["delta"], part["mean"], color="0.6", linewidth=0.8, zorder=1)
        for row in part.to_dict("records"):
            at, shade = (row["delta"], row["mean"]), shades[row["delta"]]
            face = "white" if row["seeds"] == 1 else shade
            how: dict[str, Any] = {"fmt": "o", "color": shade, "markerfacecolor": face}
            ax.errorbar(*at, np.nan_to_num(row["std"]), markersize=5, **how)
            over: dict[str, Any] = {"textcoords": "offset points", "xytext": (4, 6)}
            style.say(ax, f"{row['mean']:.1f}", at, shade, **over)
        ax.plot(part["delta"], part["printed"], "s", color=color, markerfacecolor="white")
        if frame["alpha"].nunique() > 1:
            beside: dict[str, Any] = {"textcoords": "offset points", "xytext": (6, -5)}
            style.say(ax, f"α = {alpha:g}", part[["delta", "mean"]].iloc[-1], color, **beside)
        gaps += list(best - part.loc[part["delta"] == usual, "mean"])
    title = f"δ = {usual:g}: {max(gaps):.1f} behind the best" if gaps else "After the last round"
    hollow = "; hollow: one seed" * bool((frame["seeds"] == 1).any())
    square = "; square: Table 1" * bool(frame["printed"].notna().any())
    style.titled(ax, title, f"shaded: {NEAR:g} points{hollow}{square}")
    deltas = sorted(frame["delta"].unique())
    ax.set(xscale="log", xlabel="δ, which bounds growth")
    ax.set_xticks(deltas, [f"{delta:g}" for delta in deltas])
    ax.minorticks_off()
    ax.margins(x=0.22, y=0.2)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _chance(task: str) -> float:
    """The accuracy of guessing a paper's task, in percent."""
    return 1.0 if "100" in task else 10.0


def delta_sgd_figure_5(histories: Sequence[History]) -> Drawing:
    """Delta-SGD's test accuracy over rounds for several local epochs, with a panel per alpha."""
    by_alpha = sorted(group(histories, "option.alpha").items())
    frames = []
    size = (style.COLUMN if len(by_alpha) == 1 else style.WIDTH, 2.3)
    with style.panels(1, len(by_alpha), size, sharey=True) as (figure, panels):
        for ax, (alpha, runs) in zip(panels, by_alpha, strict=True):
            known = sorted(set(map(_epochs, runs)))
            shades = style.tints(len(known))
            looks = dict(zip(known, map(style.Look, known, shades), strict=True))
            _, data = learning_curves(runs, by=_epochs, looks=looks, window=1, ax=ax)
            ends = data.groupby("algorithm")[["line", "spread"]].last().loc[[known[0], known[-1]]]
            moved = style.ahead(*ends["line"].iloc[::-1])
            title = f"From {known[0]} to {known[-1]}: {moved:+.1f} at the end"
            if abs(moved) <= ends["spread"].max():
                low, high = ends["line"].min(), ends["line"].max()
                few = known[0].partition(" ")[0]
                title = f"{few} to {known[-1]} end alike: {low:.1f} to {high:.1f}"
            about = f"{_network(runs[0])}, α = {alpha:g}: {scale(runs)}"
            style.titled(ax, title.replace("-", "−"), about, small=small(runs))
            ax.set_ylabel(ax.get_ylabel() if ax is panels[0] else "")
            frames.append(data.assign(alpha=alpha))
    data = pd.concat(frames, ignore_index=True).rename(columns={"algorithm": "epochs"})
    return figure, data


def _epochs(history: History) -> str:
    epochs = history.config.local_epochs
    return f"{epochs} epoch{'s' * (epochs != 1)}"


def delta_sgd_table_7(histories: Sequence[History]) -> Drawing:
    """Means and standard deviations over seeds, of the means over the rounds of
    :func:`fedlib.results.selection.late`. The best method is first. Our text copy of the paper
    lacks its numbers.
    """
    frame = _ends(histories, late).rename(columns={"algorithm": "method", "value": "mean"})
    order = frame["task"].unique()
    frame = frame.sort_values("mean", ascending=False).set_index("task").loc[order].reset_index()
    return None, frame[["task", "method", "mean", "std", "seeds", "preset", "rounds", "data"]]


def _at(histories: Sequence[History], task: str, alpha: float) -> list[History]:
    """The runs of a task at an alpha."""
    return [run for run in of_task(histories, task) if option(run, "alpha") == alpha]


# A table of the paper, and the part of the plan that has its runs.
_PRINTED = {
    "Table 1": "table",
    "Table 2a": "table",
    "Table 2b": "fedprox",
    "Table 3": "sizes",
    "Table 4": "fedadam",
    "Table 5": "moon",
    "Table 6": "fedprox",
}


def class_distributions() -> Drawing:
    """Figure 8: class distributions of 100 clients of 500 examples for three values of alpha."""
    labels = np.repeat(np.arange(10), 5000)  # CIFAR-10's, which are balanced
    parts = {
        alpha: partitioners.dirichlet_overlapping(labels, 100, alpha, 500, seed=0)
        for alpha in (0.01, 0.1, 1.0)
    }
    for clients in parts.values():  # sorted by their most common label
        clients.sort(key=lambda client: np.bincount(labels[client], minlength=10).argmax())
    figure, data = label_panels(labels, parts, "α", rows=1, size=(5.5, 3.6))
    for ax in figure.axes:
        ax.set(xticks=[0, 0.5, 1], ylabel="")
    most = pd.Series(np.bincount(labels[client]).argmax() for client in parts[0.01])
    middles = most.index.to_series().groupby(most).mean()
    named = [f"mostly {label}" for label in middles.index]
    figure.axes[0].set_yticks(middles.to_list(), named)
    figure.axes[0].set_ylabel("100 clients, by the commonest label")
    return figure, data


def _entry(
    name: str, tasks: Iterable[str], notebook: str, draw: Callable[..., Drawing], part: str
) -> Entry:
    """An entry for some tasks, with the runs of one part of a notebook's plan."""
    return Entry(f"delta_sgd/{name}", dict.fromkeys(tasks, notebook), draw, parts=(part,))


ENTRIES: tuple[Entry, ...] = (
    _entry("figure_1", dict(FIGURE_1), IMAGES, partial(curves, FIGURE_1), "table"),
    _entry("figure_2", OVER_ALPHA, IMAGES, partial(profiles, FIGURE_2), "table"),
    _entry("figure_3", IMAGE_TASKS.values(), IMAGES, partial(behind, FIGURE_3), "table"),
    _entry("figure_4", RESNETS, ABLATION, delta_sgd_figure_4, "delta"),
    _entry("figure_5", ["cifar100_resnet50"], ABLATION, delta_sgd_figure_5, "epochs"),
    _entry("figure_6", THREE, ABLATION, partial(curves, FIGURE_6, apart=True), "seeds"),
    Entry("delta_sgd/figure_7", {"": "05_auto_tuned_clients"}, lambda _: delta_sgd_figure_7()),
    Entry("delta_sgd/figure_8", {"": "06_partitions"}, lambda _: class_distributions()),
    *(printed_entry("delta_sgd", name, parts=(part,)) for name, part in _PRINTED.items()),
    _entry("table_7", THREE, ABLATION, delta_sgd_table_7, "seeds"),
)
