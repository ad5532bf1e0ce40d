"""Delta-SGD's figures and tables: eight client optimizers whose rates were tuned for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedlib import partitioners, tasks
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import learning_curves
from fedlib.figures.partitions import label_panels
from fedlib.figures.scale import note, scale, small, whole
from fedlib.reproduction.delta_sgd.step_size_paths import delta_sgd_figure_7
from fedlib.reproduction.delta_sgd.tables import (
    IMAGE_TASKS,
    RESNETS,
    STATED,
    TABLE_1,
    THREE,
    client_of,
)
from fedlib.reproduction.entry import Drawing, Entry, of_task, printed_curves, printed_entry
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.tables import ABLATION, IMAGES
from fedlib.results.reading import client_label, group, hyperparameters, option
from fedlib.results.selection import settings
from fedlib.tasks.auto_tuned import SMALLER

# The paper's names of tasks; that of a network of which there is one is left out.
LABELS = {task: label.removesuffix(" CNN") for label, task in IMAGE_TASKS.items()}
# A panel of curves: task and alpha. The text does not print the alphas of Figure 1. (A) is the
# tuned task; what is said of (B) fits Table 1 at 0.01 only, what is said of (C) at 0.1 and at 1.
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
# Table 1's numbers in the columns of those that were run.
PRINTED = TABLE_1.rename(columns={"printed": "value"}).assign(
    alpha=TABLE_1["options"].str["alpha"].astype(float),
    algorithm=TABLE_1["row"].map(client_of),
    source="printed",
    std=np.nan,
    seeds=0,
)
# So many points of accuracy a panel of Figure 4 shows at least: it says how little delta matters.
SPAN = 10.0
ALPHAS = dict(zip((0.01, 0.1, 1.0), style.tints(3), strict=True))


def problem(run: History) -> str:
    """What was trained: the table's task, or the small problem in its place."""
    task = run.config.task
    return SMALLER[task["name"]][-1] if small([run]) else LABELS[task["name"]]


def curves(
    panels: Sequence[tuple[str, float]], histories: Sequence[History], *, apart: bool = False
) -> Drawing:
    """Test accuracy over rounds (Figures 1 and 6), after runs at the paper's settings Table 1's
    numbers in brackets; several seeds as means and bands of ± one standard deviation.

    Args:
        panels: task and alpha of each; those without runs are left out.
        apart: of one task that was run, a panel for each method, in colour before the others.

    Raises:
        Error: no panel has runs.
    """
    shown = [(*panel, runs) for panel in panels if (runs := _at(histories, *panel))]
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    if apart and len(shown) == 1:
        return _one_by_one(*shown[0][1:])
    frames = []
    with _panels(len(shown), 3.2) as (figure, axes):
        for ax, (task, alpha, runs) in zip(axes, shown, strict=True):
            title = f"{problem(runs[0])}, α = {alpha:g}"
            cells = TABLE_1[(TABLE_1["task"] == task) & (TABLE_1["column"] == f"alpha {alpha:g}")]
            options: dict[str, Any] = {"by": client_label, "beside": whole(runs), "ax": ax}
            data = printed_curves(cells, runs, "avg", title=title, **options)
            ax.set_ylabel("test accuracy (%)" if ax is axes[0] else "")
            frames.append(data.assign(alpha=alpha))
    return figure, pd.concat(frames, ignore_index=True)


def _one_by_one(alpha: float, runs: Sequence[History]) -> Drawing:
    """A panel a method, before the grey curves of the others: eight bands would hide each other."""
    data = learning_curves(runs, by=client_label, window=1)[1].assign(alpha=alpha)
    groups = dict(list(data.groupby("algorithm", sort=False)))
    rows, columns = style.grid(len(groups), 4)
    size = (1.8 * columns, 1.5 * rows + 0.5)
    late = data.loc[data["round"] > 0.2 * data["round"].max(), "mean"]
    limits = (late.quantile(0.1) - 2, late.max() + 2)
    with style.panels(rows, columns, size, len(groups), sharex=True, sharey=True) as (figure, axes):
        for ax, (key, part) in zip(axes, groups.items(), strict=True):
            look, last = style.look(key), part.iloc[-1]
            for other in groups.values():
                ax.plot(other["round"], other["mean"], color="0.85", linewidth=0.6)
            style.band(ax, part["round"], part["mean"], part["std"], look.color, 0.25)
            ax.plot(part["round"], part["mean"], color=look.color, label=look.label)
            spread = "" if pd.isna(last["std"]) else f" ± {last['std']:.1f}"
            style.titled(ax, look.label, f"{last['mean']:.1f}{spread}", small=small(runs))
            ax.set(ylim=limits, xlim=(0, data["round"].max()))
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        told = f"{problem(runs[0])}, α = {alpha:g}: {scale(runs)}"
        figure.suptitle(told, fontsize=7, color="0.4")
        for ax in axes[-columns:]:
            ax.set_xlabel("round")
        figure.supylabel("test accuracy (%)", fontsize=8)
    return figure, data


def profiles(panels: Profiles, histories: Sequence[History]) -> Drawing:
    """Final accuracies along a panel's settings, a line per client optimizer (Figures 2 and 3);
    above runs on the paper's tasks a row of panels as Table 1 prints them.

    Args:
        panels: those without runs are left out.

    Raises:
        Error: no panel has runs.
    """
    tiny = small(histories)
    shown = {
        title: places
        for title, places in (_of_small(panels, histories) if tiny else panels).items()
        if any(_at(histories, *place) for place in places.values())
    }
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    frames = []
    lost: dict[Axes, set[str]] = {}  # of our runs' panels, the lines that end before the last place
    sources = ("ours",) if tiny else ("printed", "ours")
    # What is printed stands beside ours where there is one panel, else above.
    across, rows = (len(shown), len(sources)) if len(shown) > 1 else (len(sources), 1)
    size, common = (max(4.5, 3.0 * across), 2.8 * rows), "col" if rows > 1 else "row"
    with style.panels(rows, across, size, sharey=common) as (figure, axes):
        grid = axes.reshape(len(sources), -1)
        for column, (title, places) in zip(grid.T, shown.items(), strict=True):
            runs = [run for place in places.values() for run in _at(histories, *place)]
            *_, last = places.values()
            rounds = {tasks.rounds(run.config.task["name"], "paper") for run in runs}
            said = " and ".join(f"{number:,}" for number in sorted(rounds))
            told = {"printed": f"printed in Table 1, {said} rounds", "ours": note(runs)}
            frame = _profile(places, histories)
            frame = frame[frame["source"].isin(sources)]
            for ax, source in zip(column, sources, strict=True):
                lines = frame[frame["source"] == source].groupby("algorithm", sort=False)
                for key, part in lines:
                    look = style.look(str(key))
                    ax.plot(part["place"], part["value"], label=look.label, **look.line())
                    style.band(ax, part["place"], part["value"], part["std"], look.color, 0.12)
                style.titled(ax, title, told[source], small=tiny)
                ax.set_xticks(range(len(places)), list(places))
                ax.set(xlim=(-0.2, len(places) - 0.9), xlabel="α" if "over α" in title else "")
            frame.insert(0, "panel", title)
            frames.append(frame)
            gone = [run for run in _at(histories, *last) if run.diverged is not None]
            lost[column[-1]] = {style.look(client_label(run)).label for run in gone}
        for ax in axes:
            style.label_ends(ax, lost=lost.get(ax, ()), alike=0.002)
        axes[0].set_ylabel("final test accuracy (%)")
    return figure, pd.concat(frames, ignore_index=True)


def _of_small(panels: Profiles, histories: Sequence[History]) -> Profiles:
    """The panels of the small problems: over alpha as they are, and from task to task one for each
    alpha, with all problems that were run.
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
    """A panel's numbers: those of Table 1 that are legible, and those that were run."""
    frames = []
    for place, (label, (task, alpha)) in enumerate(places.items()):
        there = (PRINTED["task"] == task) & (PRINTED["alpha"] == alpha)
        both = pd.concat([PRINTED[there], _ends(_at(histories, task, alpha))])
        frames.append(both.assign(place=place, x=label))
    columns = ["place", "x", "task", "alpha", "algorithm", "source", "value", "std", "seeds"]
    return pd.concat(frames)[[*columns, "unclear"]].dropna(subset="value")


def _ends(histories: Sequence[History]) -> pd.DataFrame:
    """The last round's test accuracy in percent: mean and deviation over a setting's seeds."""
    rows = []
    for runs in settings(histories):
        config, metric = runs[0].config, METRICS["avg"]
        values = pd.Series([metric.factor * metric(run)[0] for run in runs], dtype=float)
        row = {"task": config.task["name"], "alpha": option(runs[0], "alpha")}
        row |= {"algorithm": client_label(runs[0]), "source": "ours", "unclear": ""}
        row |= {"value": values.mean(skipna=False), "std": values.std(skipna=False)}
        row |= {"seeds": len(values), "delta": hyperparameters(runs[0]).get("delta")}
        row |= {"preset": config.task["preset"], "rounds": config.rounds}
        rows.append({**row, "data": "stand-in" if config.task["stand_in"] else "real"})
    return pd.DataFrame(rows)


def delta_sgd_figure_4(histories: Sequence[History]) -> Drawing:
    """Delta-SGD's final accuracy over delta, a panel per task and a line per alpha."""
    by_task = group(histories, "task")
    # The numbers of deltas other than Table 1's are printed as a drawing only.
    printed = PRINTED[PRINTED["algorithm"] == "delta_sgd"].rename(columns={"value": "printed"})
    printed = printed.assign(preset="paper", delta=STATED["delta_sgd"]["delta"])
    keys, told = ["task", "alpha", "preset", "delta"], ["printed", "unclear"]
    printed, columns = printed[keys + told], [*keys[:2], "delta", "mean", "std", "seeds", *told]
    frames = []
    with _panels(len(by_task), 2.7) as (figure, panels):
        for ax, of_task in zip(panels, by_task.values(), strict=True):
            stated: dict[str, float] = {}
            ends = _ends(of_task).drop(columns="unclear").rename(columns={"value": "mean"})
            frame = ends.merge(printed, how="left").sort_values(["alpha", "delta"])[columns]
            for alpha, part in frame.groupby("alpha"):
                color, label = ALPHAS.get(float(str(alpha)), "0.4"), f"α = {alpha:g}"
                stated[label] = part["printed"].max()
                ax.semilogx(part["delta"], part["mean"], "o-", color=color, label=label)
                for delta, mean in zip(part["delta"], part["mean"], strict=True):
                    above = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
                    ax.annotate(f"{mean:.1f}", (delta, mean), (0, 5), color=color, **above)
                style.band(ax, part["delta"], part["mean"], part["std"], color, 0.2)
            deltas = sorted(frame["delta"].unique())
            ax.set(xlabel="δ, which bounds how fast the step size grows")
            style.titled(ax, problem(of_task[0]), scale(of_task), small=small(of_task))
            ax.set_xticks(deltas, [f"{delta:g}" for delta in deltas])
            ax.minorticks_off()
            ax.margins(x=0.12)  # the first point's number is not on the axis
            low, high = ax.get_ylim()
            room = max(0.0, SPAN - (high - low)) / 2
            ax.set_ylim(low - room, high + room)
            style.label_ends(ax, stated, numbers=False)
            frames.append(frame)
        panels[0].set_ylabel("final test accuracy (%)")
    return figure, pd.concat(frames, ignore_index=True)


def delta_sgd_figure_5(histories: Sequence[History]) -> Drawing:
    """Delta-SGD's test accuracy over rounds for several local epochs, a panel per alpha."""
    by_alpha = sorted(group(histories, "option.alpha").items())
    frames = []
    with _panels(len(by_alpha), 2.7) as (figure, panels):
        for ax, (alpha, runs) in zip(panels, by_alpha, strict=True):
            shades = zip(sorted(set(map(_epochs, runs))), style.tints(3), strict=False)
            looks = {name: style.Look(name, color) for name, color in shades}
            # The caption names the paper's task.
            title = f"α = {alpha:g}" if whole(runs) else f"{problem(runs[0])}, α = {alpha:g}"
            _, data = learning_curves(runs, title=title, by=_epochs, looks=looks, window=1, ax=ax)
            frames.append(data.assign(alpha=alpha))
    data = pd.concat(frames, ignore_index=True).rename(columns={"algorithm": "epochs"})
    return figure, data


def _epochs(history: History) -> str:
    return f"E = {history.config.local_epochs}"


def delta_sgd_table_7(histories: Sequence[History]) -> Drawing:
    """Means and standard deviations over seeds; the paper's numbers are not in its text."""
    frame = _ends(histories).rename(columns={"algorithm": "method", "value": "mean"})
    return None, frame[["task", "method", "mean", "std", "seeds", "preset", "rounds", "data"]]


def _panels(count: int, height: float) -> AbstractContextManager[tuple[Figure, np.ndarray]]:
    return style.panels(1, count, (max(4.5, 3.1 * count), height))


def _at(histories: Sequence[History], task: str, alpha: float) -> list[History]:
    """The runs of a task at an alpha."""
    return [run for run in of_task(histories, task) if option(run, "alpha") == alpha]


# A printed table, and the part of the plan that has its runs.
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
    for clients in parts.values():  # by their commonest label
        clients.sort(key=lambda client: np.bincount(labels[client], minlength=10).argmax())
    figure, data = label_panels(labels, parts, "alpha", rows=1, size=(5.5, 3.6))
    for ax in figure.axes:
        ax.set(xticks=[0, 0.5, 1], ylabel="")
    figure.axes[0].set(ylabel="client, by the commonest label", yticks=[])
    return figure, data


def _entry(
    name: str, tasks: Iterable[str], notebook: str, draw: Callable[..., Drawing], part: str
) -> Entry:
    """Of some tasks, whose runs a part of one notebook's plan has."""
    return Entry(f"delta_sgd/{name}", dict.fromkeys(tasks, notebook), draw, parts=(part,))


ENTRIES: tuple[Entry, ...] = (
    _entry("figure_1", dict(FIGURE_1), IMAGES, partial(curves, FIGURE_1), "table"),
    _entry("figure_2", OVER_ALPHA, IMAGES, partial(profiles, FIGURE_2), "table"),
    _entry("figure_3", IMAGE_TASKS.values(), IMAGES, partial(profiles, FIGURE_3), "table"),
    _entry("figure_4", RESNETS, ABLATION, delta_sgd_figure_4, "delta"),
    _entry("figure_5", ["cifar100_resnet50"], ABLATION, delta_sgd_figure_5, "epochs"),
    _entry("figure_6", THREE, ABLATION, partial(curves, FIGURE_6, apart=True), "seeds"),
    Entry("delta_sgd/figure_7", {"": "05_auto_tuned_clients"}, lambda _: delta_sgd_figure_7()),
    Entry("delta_sgd/figure_8", {"": "06_partitions"}, lambda _: class_distributions()),
    *(printed_entry("delta_sgd", name, parts=(part,)) for name, part in _PRINTED.items()),
    _entry("table_7", THREE, ABLATION, delta_sgd_table_7, "seeds"),
)
