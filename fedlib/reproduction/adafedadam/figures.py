"""AdaFedAdam's figures and tables: curves and distributions over clients, the trade-off of mean
error and spread, setups, partitions and networks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from fedlib import models, papers, partitioners
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import draw_layers, layers, style
from fedlib.figures.curves import Drawing, client_density, client_values, smoothed
from fedlib.figures.partitions import label_panels
from fedlib.figures.scale import small, titled, whole
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import BETAS
from fedlib.reproduction.adafedadam.method import adafedadam_figure_1
from fedlib.reproduction.entry import Entry, of_task, of_these, printed_curves, printed_entry
from fedlib.results.reading import hyperparameter, split_of
from fedlib.results.selection import late, winners
from fedlib.tasks import Task, load_task


def best_fedprox(histories: Sequence[History]) -> list[History]:
    """The runs, with FedProx only at the mu with the smallest training loss, all its seeds.

    AdaFedAdam compares with FedProx "with optimal mu".
    """
    best = winners(h for h in histories if h.config.algorithm == "fedprox").get("fedprox", [])
    return [h for h in histories if h.config.algorithm != "fedprox" or h in best]


def adafedadam_figure_2(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """One row per setup that was run: average, worst 30 %, density of the final local accuracies.

    They are over all local data if all runs have them, see
    :func:`fedlib.results.reading.split_of`. Average and worst 30 % weight clients by examples, as
    in Table 5, whose values follow in brackets for runs of the paper preset. In the density all
    clients count the same.
    """
    printed = of_these(histories, "adafedadam", "Table 5")
    shown = [cells for _, cells in printed.groupby("task", sort=False)]
    frames = []
    size = (style.WIDTH, 0.3 + 1.75 * len(shown))
    with style.panels(len(shown), 3, size) as (figure, panels):
        for (left, middle, right), cells in zip(panels.reshape(-1, 3), shown, strict=True):
            runs = best_fedprox(of_task(histories, cells.iloc[0]["task"]))
            split, label = split_of(*runs), style.name(cells.iloc[0]["label"])
            leads: dict[str, str] = {}
            for ax, word, metric in ((left, "average", "avg"), (middle, "worst 30 %", "worst30")):
                how: dict[str, Any] = {"beside": whole(runs), "legend": False, "ax": ax}
                data = printed_curves(cells, runs, metric, **how)
                frames.append(data.assign(panel=word))
                ends = data.groupby("algorithm")["line"].last().nlargest(2)
                first = style.name(str(ends.index[0]))
                leads[word] = f"{first} +{style.ahead(ends.iloc[0], ends.iloc[-1]):.1f}"
                of_what = "accuracy, all data (%)" if split == "local" else "test accuracy (%)"
                ax.set_ylabel(of_what if ax is left else "")
            titled(left, f"{label}: {leads['average']}", runs)
            numbers = "; ours [Table 5]" if whole(runs) else ""
            title, told = f"Worst: {leads['worst 30 %']}", "worst 30 % of the clients"
            told += f"; +: ahead of the next{numbers}"
            style.titled(middle, title, told, small=small(runs))
            _, data = client_density(runs, split=split, ax=right)
            frames.append(data.assign(panel="clients"))
            clients = client_values(runs, "accuracy", split)
            medians = pd.Series({name: 100 * np.median(each) for name, each in clients.items()})
            first, *others = medians.nlargest(2).index
            lead = style.ahead(medians[first], medians[others[-1]]) if others else 0.0
            title = f"Median: {style.name(first)}" if lead else "Median: no lead"
            told = f"+{lead:.1f}; " * bool(lead) + "density of final accuracies"
            style.titled(right, title, told)
            right.set(xlabel="client accuracy (%)", ylabel="", yticks=[], xlim=(0, 100))
            if small(runs):
                right.set_facecolor(style.TINT)
        style.key(figure)
    data = pd.concat(frames, ignore_index=True)
    data = data.set_index(["task", "panel", "algorithm"]).reset_index()  # the first columns
    data = data.reindex(columns=[*dict.fromkeys([*data, "printed", "printed_rounds"])])
    return figure, data.astype({"round": "Int64", "seeds": "Int64", "printed_rounds": "Int64"})


# The curves are drawn after this share of the rounds.
LATE = 0.05
# Metrics: mean accuracy, and standard deviation of the clients' accuracies, around the mean of all
# examples and weighted by them, or with equal weights.
WEIGHTED = ("accuracy", "accuracy_std_weighted")
ALIKE = ("accuracy_unweighted", "accuracy_std")


def tradeoff(histories: Sequence[History]) -> pd.DataFrame:
    """Error and relative standard deviation of the clients' errors, one row per setting.

    Args:
        histories: runs of one task. Those that differ only in the seed are averaged.

    Returns:
        algorithm, setting (alpha or q, NaN for others), error (percent) and rsd, weighted by
        examples, error_alike and rsd_alike (equal weights), worst30_alike (mean accuracy in percent
        of the worst 30 % of the clients, equal weights), seeds, dominated (whether one of
        AdaFedAdam's rows has no larger error and no larger rsd, and one of them smaller),
        printed_error and printed_rsd of Table 5. Means are over the rounds of
        :func:`fedlib.results.selection.late`, over all local data if all runs have them, see
        :func:`fedlib.results.reading.split_of`.
    """
    split, rows = split_of(*histories), []
    for history in best_fedprox(histories):
        mean, spread, mean_alike, spread_alike, worst = (
            history.final(name, split, late(history))
            for name in (*WEIGHTED, *ALIKE, "accuracy_worst_30")
        )
        weighted = 100 * (1 - mean), spread / (1 - mean)
        alike = 100 * (1 - mean_alike), spread_alike / (1 - mean_alike)
        rows.append((history.config.algorithm, _setting(history), *weighted, *alike, 100 * worst))
    names = ["algorithm", "setting", "error", "rsd", "error_alike", "rsd_alike", "worst30_alike"]
    groups = pd.DataFrame(rows, columns=names).groupby(names[:2], sort=False, dropna=False)
    table = groups.mean().assign(seeds=groups.size()).reset_index()
    error, rsd = table["error"].to_numpy(), table["rsd"].to_numpy()
    front = (table["algorithm"] == "adafedadam").to_numpy()
    no_worse = (error[front] <= error[:, None]) & (rsd[front] <= rsd[:, None])
    better = (error[front] < error[:, None]) | (rsd[front] < rsd[:, None])
    table["dominated"] = (no_worse & better).any(axis=1)
    cells = tables.find("adafedadam", "Table 5", "synthetic")
    printed = cells.pivot(index="algorithm", columns="metric", values="printed")
    printed = printed.reindex(table["algorithm"]).reset_index(drop=True)
    printed = printed[table["setting"].isin([1.0]) | table["setting"].isna()]
    table["printed_error"] = 100 - printed["avg"]
    table["printed_rsd"] = printed["std"] / table["printed_error"]
    return table


def adafedadam_figure_3(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Mean error and relative standard deviation over rounds per alpha, and against each other."""
    adafedadam = [history for history in histories if history.config.algorithm == "adafedadam"]
    if not adafedadam:
        raise Error("adafedadam/figure_3: no runs of adafedadam among these")
    split = split_of(*histories)
    curves, table = _curves(adafedadam, split), tradeoff(histories)
    ratios = {"width_ratios": (1.75, 1, 1)}
    with style.panels(1, 3, (style.WIDTH, 2.3), gridspec_kw=ratios) as (figure, axes):
        alphas = sorted(curves["setting"].unique())
        colors = dict(zip(alphas, style.tints(len(alphas)), strict=True))
        of_what = {"local": "mean error, all local data (%)", "test": "mean test error (%)"}[split]
        _front(axes[0], table, _by_seed(adafedadam, split), colors, whole(histories))
        axes[0].set(xlabel=of_what, ylabel="RSD of the clients' errors")
        below = "thin: a seed each" + ("; squares: Table 5" if whole(histories) else "")
        name = style.name(adafedadam[0].config.task["name"])
        title = "α trades error for fairness"
        titled(axes[0], title, adafedadam, f"{name}; {below}")
        base = curves[curves["setting"] == 1.0].set_index("round")["error"]
        start = LATE * curves["round"].max()
        shown = {"rsd": "RSD", "error": "points above α = 1" if len(base) else of_what}
        ends: dict[str, float] = {}
        for ax, name in zip(axes[1:], ("error", "rsd"), strict=True):
            for alpha, part in curves[curves["round"] > start].groupby("setting"):
                line = part.set_index("round")[name]
                if name == "error" and len(base):
                    line = line - base[line.index]
                line = smoothed(line, int(2 * start) or 1)
                ax.plot(line, color=colors[float(str(alpha))], label=f"{alpha:g}")
                curves.loc[part.index, f"{name}_line"] = line.to_numpy()
                ends[name] = float(line.iloc[-1])
            ax.set(xlabel="round", xlim=(start, curves["round"].max()), ylabel=shown[name])
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
            ax.xaxis.set_major_formatter("{x:,.0f}")
            ax.margins(y=0.06)
            style.label_ends(ax, alike=0.0, numbers=False)
        note = f"means of {int(2 * start)} rounds"
        error = f"error {ends['error']:{'+' * bool(len(base))}.2f}".replace("-", "−")
        for ax, found in ((axes[1], error), (axes[2], f"RSD {style.short(ends['rsd'])}")):
            style.titled(ax, f"α = {alphas[-1]:g}: {found}", note, small=small(histories))
    seeds = pd.concat(_by_seed(adafedadam, split)).assign(algorithm="adafedadam", panel="seeds")
    curves, table = curves.assign(panel="curves"), table.assign(panel="front")
    data = pd.concat([curves, table, seeds], ignore_index=True)
    data = data.set_index(["panel", "algorithm", "setting", "round"]).reset_index()
    data["dominated"] = data["dominated"].astype("boolean")
    return figure, data.astype({"round": "Int64", "seeds": "Int64"})


def _setting(history: History) -> float:
    key = {"adafedadam": "alpha", "qfedavg": "q"}.get(history.config.algorithm)
    return float("nan") if key is None else float(hyperparameter(history, key))


def _curves(histories: Sequence[History], split: str) -> pd.DataFrame:
    """Error and RSD per alpha and round, means over the seeds."""
    frames = []
    for history in histories:
        mean, spread = (history.series(name, split) for name in WEIGHTED)
        frame = pd.DataFrame({"error": 100 * (1 - mean), "rsd": spread / (1 - mean)})
        frames.append(frame.reset_index().assign(setting=_setting(history)))
    groups = pd.concat(frames).groupby(["setting", "round"])
    return groups.mean().reset_index().assign(algorithm="adafedadam", seeds=groups.size().max())


def _by_seed(histories: Sequence[History], split: str) -> list[pd.DataFrame]:
    """For each seed AdaFedAdam's error and RSD at the end, by alpha."""
    rows = []
    for history in histories:
        mean, spread = (history.final(name, split, late(history)) for name in WEIGHTED)
        seed = history.config.seeds["init"]
        rows.append((seed, _setting(history), 100 * (1 - mean), spread / (1 - mean)))
    frame = pd.DataFrame(rows, columns=["seed", "setting", "error", "rsd"])
    return [part.sort_values("setting") for _, part in frame.groupby("seed")]


def _front(
    ax: Axes,
    table: pd.DataFrame,
    by_seed: Sequence[pd.DataFrame],
    colors: Mapping[float, Any],
    beside: bool,
) -> None:
    """AdaFedAdam's points, each seed's thinly, the region that their means dominate (shaded),
    and the other algorithms. At the paper's scale the paper's numbers are squares.
    """
    ours = table[table["algorithm"] == "adafedadam"].sort_values("setting")
    red = style.look("adafedadam").color
    for part in by_seed if len(by_seed) > 1 else ():
        ax.plot(part["error"], part["rsd"], color=red, linewidth=0.5, alpha=0.5, zorder=1)
    ax.plot(ours["error"], ours["rsd"], color=red, linewidth=1.2, zorder=1.5)
    names: list[tuple[float, float, str, str]] = []
    for name, part in table.groupby("algorithm", sort=False):
        look = style.look(str(name))
        points = part.sort_values("setting")
        if name != "adafedadam":
            ax.plot(points["error"], points["rsd"], "o-", color=look.color, markersize=4)
            setting = [f"{value:g}" for value in points["setting"].dropna()]
            label = look.label + (f", q = {', '.join(setting)}" if setting else "")
            names.append((*points[["error", "rsd"]].iloc[0], label, look.color))
        for row in points.to_dict("records"):
            if beside and not math.isnan(row["printed_error"]):
                theirs = (row["printed_error"], row["printed_rsd"])
                way = zip((row["error"], row["rsd"]), theirs, strict=True)
                ax.plot(*way, ":", color=look.color, linewidth=0.7, zorder=0.5)
                ax.plot(*theirs, "s", color=look.color, mfc="none", ms=4, mew=0.8, zorder=3)
    for row in ours.to_dict("records"):
        color = colors[row["setting"]]
        ax.plot(row["error"], row["rsd"], "o", color=color, markersize=5, mec="white", mew=0.6)
        words = "α = " if row["setting"] == ours["setting"].min() else ""
        # The smallest error is at a corner, between two branches: its number is above it.
        corner = row["error"] == ours["error"].min()
        place, side = ((2, 7), "center") if words else ((-4, 6) if corner else (-5, -3), "right")
        at = {"xytext": place, "ha": side}
        text, point = f"{words}{row['setting']:g}", (row["error"], row["rsd"])
        style.say(ax, text, point, "0.15", textcoords="offset points", **at)
    last = ours.iloc[-1]
    names.append((last["error"], last["rsd"], "AdaFedAdam", red))
    ax.margins(0.16, 0.1)
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    # The smallest rsd among settings with at most this error.
    ordered = ours.sort_values("error")
    edge = np.minimum.accumulate(ordered["rsd"].to_numpy())
    x = np.append(ordered["error"].to_numpy(), high)
    ax.fill_between(x, np.append(edge, edge[-1]), top, step="post", color="0.92", lw=0, zorder=0)
    free = low + 0.33 * (high - low), bottom + 0.8 * (top - bottom)
    style.say(ax, "dominated by\nAdaFedAdam", free, "0.45", ha="center")
    ax.set(xlim=(low, high), ylim=(bottom, top))
    _name(ax, names)


def _name(ax: Axes, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside points, joined for coinciding points, on the side with more space."""
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    joined: list[list[Any]] = []
    for point in points:
        far = [abs(one[0] - point[0]) / (high - low) for one in joined]
        apart = [abs(one[1] - point[1]) / (top - bottom) for one in joined]
        near = [i for i in range(len(joined)) if far[i] < 0.02 and apart[i] < 0.03]
        if near:
            joined[near[0]][2:] = f"{joined[near[0]][2]} = {point[2]}", style.MANY
        else:
            joined.append([*point])
    right = [one for one in joined if one[0] > low + 0.55 * (high - low)]
    for one in joined:
        # The highest point at the right has its name at the left, the others have it below.
        if one not in right:
            shift, side = (6, -4), "left"
        elif one == max(right, key=lambda point: point[1]):
            shift, side = (-6, 5), "right"
        else:
            shift, side = (0, -9), "center"
        way: dict[str, Any] = {"textcoords": "offset points", "ha": side, "xytext": shift}
        style.say(ax, one[2], tuple(one[:2]), one[3], **way)


def table_4(data_root: str | os.PathLike[str] | None = None) -> tuple[None, pd.DataFrame]:
    """Table 4, and our clients, examples, models and data under the paper preset.

    Args:
        data_root: folder of the prepared data sets. A setup whose data are missing has only the
            paper's columns.
    """
    printed = papers.table("adafedadam", "table4_setups")
    wide = printed.pivot(index="setup", columns="quantity", values="value")
    rows = []
    setups = tables.find("adafedadam", "Table 5").drop_duplicates("task")
    for label, task in zip(setups["label"], setups["task"], strict=True):
        stated, ours = wide.loc[label], _ours(task, data_root)
        rows.append(
            {
                "setup": label,
                "setting": ", ".join(stated[["scenario", "non_iid_type", "task_type"]]),
                "clients, printed": int(stated["n_clients"]),
                "clients, ours": ours.get("clients", ""),
                "data": style.name(ours.get("data", "not prepared")),
                "training + test examples": ours.get("examples", ""),
                "model, printed": stated["model"],
                "model, ours": ours.get("model", ""),
            }
        )
    return None, pd.DataFrame(rows)


def _ours(name: str, data_root: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Table 4's values for a task under the paper preset, or nothing without its data."""
    try:
        task = load_task(name, preset="paper", seed=0, data_root=data_root)
    except Error:
        return {}
    return {
        "clients": len(task.train.sizes),
        "examples": f"{int(task.train.sizes.sum()):,} + {int(task.test.sizes.sum()):,}",
        "model": _model(task),
        "data": task.options.get("data", "LEAF's generator"),
    }


def _model(task: Task) -> str:
    """The model's class and its number of trained parameters."""
    with torch.random.fork_rng(devices=[]):
        model = task.model()
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return f"{type(model).__name__}, {trained:,} parameters"


def figure_6() -> Drawing:
    """Label distributions of the 16 Cifar10 clients for four values of beta."""
    labels = np.repeat(np.arange(10), 5000)  # CIFAR-10's, which are balanced
    silos = {beta: sorted(partitioners.silos(labels, 16, beta, seed=0), key=len) for beta in BETAS}
    figure, data = label_panels(labels, silos, "β", rows=2, size=(style.WIDTH, 3.8), shares=False)
    for ax in figure.axes[::2]:
        ax.set(ylabel="clients, by size", yticks=[])
    return figure, data


def figure_4() -> Drawing:
    """VGG11 for the Cifar10 setup."""
    return _drawn("VGG11", models.VGG11, torch.zeros(1, 3, 32, 32))


def figure_5() -> Drawing:
    """The two-layer LSTM for the Sent140 setup, with the 400,000 words of the GloVe file."""
    # Padding and unknown words are one more word. A view of one zero takes no memory.
    vectors = torch.zeros(1).expand(400_001, 300)
    example = torch.zeros(1, 25, dtype=torch.int64)
    return _drawn("Two-layer LSTM", lambda: models.Sent140LSTM(vectors), example)


def _drawn(name: str, make: Callable[[], nn.Module], example: Tensor) -> Drawing:
    with torch.random.fork_rng(devices=[]):  # as making the model draws random initial values
        frame = layers(make(), example)
    frozen = frame["frozen"].sum()
    # The smallest number of layers with four fifths of the parameters.
    shares = (frame["parameters"] / frame["parameters"].sum()).sort_values(ascending=False).cumsum()
    few = int((shares < 0.8).sum())
    trained = frame["parameters"].sum()
    found = f"{trained:,} parameters, {100 * shares.iloc[few]:.0f} % in {few + 1} layers"
    if frozen:
        found = f"{100 * frozen / (frozen + trained):.1f} % of the numbers are frozen"
    return draw_layers(frame, f"{name}: {found}"), frame


_METHOD = {"": "20_fair_femnist"}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}
_TUNED: dict[str, Any] = {"clients": True, "parts": ("curves", "mu")}


def _variant(number: int, *parts: str) -> Entry:
    more: dict[str, Any] = {"cells": True, "clients": True, "parts": parts}
    return printed_entry("adafedadam", f"Table {number}", **more)


ENTRIES: tuple[Entry, ...] = (
    Entry("adafedadam/figure_1", _METHOD, lambda _: adafedadam_figure_1()),
    Entry("adafedadam/figure_2", tables.ADAFEDADAM, adafedadam_figure_2, **_TUNED),
    Entry("adafedadam/figure_3", {"synthetic": "34_fairness_tradeoff"}, adafedadam_figure_3),
    Entry("adafedadam/table_4", _METHOD, table_4),
    printed_entry("adafedadam", "Table 5", clients=True, parts=("curves", "mu", "splits")),
    Entry("adafedadam/figure_6", _PARTITIONS, lambda _: figure_6()),
    Entry("adafedadam/figure_4", _MODELS, lambda _: figure_4()),
    Entry("adafedadam/figure_5", _MODELS, lambda _: figure_5()),
    _variant(1, "epochs", "mu"),
    _variant(2, "levels"),
    _variant(3),
    _variant(6, "levels"),
    _variant(7),
)
