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
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from fedlib import models, papers, partitioners
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import draw_layers, layers, style
from fedlib.figures.curves import Drawing, client_density, client_values, smoothed
from fedlib.figures.partitions import label_panels
from fedlib.figures.scale import scale, small, titled, whole
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
            # The title has the data's name, and the first row what all rows have.
            data_of, first_row = scale(runs).removeprefix(f"{label}, "), not frames[2:]
            style.titled(left, f"{label}: {leads['average']}", data_of, small=small(runs))
            told = ["worst 30 % of the clients", "+: ahead of the next"] if first_row else []
            told += ["ours [Table 5]"] if whole(runs) else []
            title = f"Worst: {leads['worst 30 %']}"
            style.titled(middle, title, "; ".join(told), small=small(runs))
            _, data = client_density(runs, split=split, ax=right)
            frames.append(data.assign(panel="clients"))
            clients = client_values(runs, "accuracy", split)
            medians = pd.Series({name: 100 * np.median(each) for name, each in clients.items()})
            first, *others = medians.nlargest(2).index
            lead = style.ahead(medians[first], medians[others[-1]]) if others else 0.0
            title = f"Median: {style.name(first)}" if lead else "Median: no lead"
            told = [f"+{lead:.1f}"] if lead else []
            told += ["density of final accuracies"] if first_row else []
            style.titled(right, title, "; ".join(told))
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
    """Mean error and relative standard deviation against each other, and over rounds per alpha."""
    adafedadam = [history for history in histories if history.config.algorithm == "adafedadam"]
    if not adafedadam:
        raise Error("adafedadam/figure_3: no runs of adafedadam among these")
    split = split_of(*histories)
    curves, table = _curves(adafedadam, split), tradeoff(histories)
    by_seed = _by_seed(adafedadam, split)
    alphas = sorted(curves["setting"].unique())
    colors = dict(zip(alphas, style.tints(len(alphas)), strict=True))
    of_what = {"local": "mean error, all local data (%)", "test": "mean test error (%)"}[split]
    with style.panels(2, 2, (style.WIDTH, 4.3)) as (figure, axes):
        near = _near(axes[1], table, by_seed, colors)
        _far(axes[0], table, near, whole(histories))
        for ax in axes[:2]:
            ax.set(xlabel=of_what, ylabel="RSD of the clients' errors")
        name = style.name(adafedadam[0].config.task["name"])
        squares = ["squares: Table 5"] * whole(histories)
        titled(axes[0], _dominance(table), adafedadam, "; ".join([name, *squares]))
        style.titled(axes[1], *_trade(by_seed), small=small(histories))
        base, start = float(1.0 if 1.0 in alphas else alphas[0]), LATE * curves["round"].max()
        for ax, name in zip(axes[2:], ("error", "rsd"), strict=True):
            ends = {}
            wide = curves.pivot(index="round", columns="setting", values=name)
            wide = wide.sub(wide[base], axis=0) if name == "error" else wide
            for alpha, line in wide[wide.index > start].items():
                line = smoothed(line, int(2 * start) or 1)
                ax.plot(line, color=colors[float(str(alpha))], label=f"{alpha:g}")
                here = (curves["setting"] == alpha) & (curves["round"] > start)
                curves.loc[here, f"{name}_line"] = line.to_numpy()
                ends[alpha] = float(line.iloc[-1])
            ax.set(xlabel="round", xlim=(start, curves["round"].max()))
            ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            ax.xaxis.set_major_formatter("{x:,.0f}")
            ax.margins(y=0.06)
            style.label_ends(ax, alike=0.0, numbers=False)
            word, digits = {"error": ("Error", 1), "rsd": ("RSD", 2)}[name]
            ax.set_ylabel(f"error, points above α = {base:g}" if name == "error" else word)
            away = ends[alphas[-1]] - ends[base]
            far = f"{abs(away):.{digits}f} {'above' if away > 0 else 'below'} α = {base:g}"
            title = f"{word}: α = {alphas[-1]:g} ends {far}"
            title = title if len(alphas) > 1 else f"{word} over the rounds"
            note = f"a line for each α: means of {int(2 * start)} rounds"
            style.titled(ax, title, note, small=small(histories))
    seeds = pd.concat(by_seed).assign(algorithm="adafedadam", panel="seeds")
    curves, table = curves.assign(panel="curves"), table.assign(panel="front")
    data = pd.concat([curves, table, seeds], ignore_index=True)
    data = data.set_index(["panel", "algorithm", "setting", "round"]).reset_index()
    data["dominated"] = data["dominated"].astype("boolean")
    return figure, data.astype({"round": "Int64", "seeds": "Int64"})


def _dominance(table: pd.DataFrame) -> str:
    """A title: how many of the other methods AdaFedAdam dominates at all of their settings."""
    others = table[table["algorithm"] != "adafedadam"].groupby("algorithm")["dominated"].all()
    if others.empty:
        return "AdaFedAdam's error and RSD"
    number = f"{others.sum()} of {len(others)} others are"
    return f"{'Every other method is' if others.all() else number} dominated"


def _trade(by_seed: Sequence[pd.DataFrame]) -> tuple[str, str]:
    """A title and a line below: what a larger alpha changes from the one of the least error on."""
    mean = pd.concat(by_seed).groupby("setting")[["error", "rsd"]].mean()
    first = mean["error"].idxmin()
    steps = [part.set_index("setting").loc[first:, ["error", "rsd"]].diff() for part in by_seed]
    steps = [step.iloc[1:] for step in steps]
    each = all((step["error"] > 0).all() and (step["rsd"] < 0).all() for step in steps)
    title = "A larger α buys fairness with error" if each else "Error and RSD by α"
    last, (error, rsd) = mean.index[-1], mean.iloc[-1] - mean.loc[first]
    if first == last:
        return "Error and RSD by α", ""
    found = f"α = {first:g} to {last:g}: error {error:+.1f}, RSD {rsd:+.2f}"
    thin = "; thin: each seed" * (len(by_seed) > 1)
    return title, found.replace("-", "−") + thin


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


def _far(
    ax: Axes, table: pd.DataFrame, near: tuple[float, float, float, float], beside: bool
) -> None:
    """All methods, and as a frame the part that :func:`_near` draws.

    At the paper's scale the paper's numbers are squares.
    """
    names: list[tuple[float, float, str, str]] = []
    for name, part in table.groupby("algorithm", sort=False):
        look, points = style.look(str(name)), part.sort_values("setting")
        ax.plot(points["error"], points["rsd"], "o-", color=look.color, ms=3.5, lw=1)
        setting = [f"{value:g}" for value in points["setting"].dropna()]
        if name != "adafedadam":
            label = look.label + (f", q = {', '.join(setting)}" if setting else "")
            names.append((*points[["error", "rsd"]].iloc[0], label, look.color))
        for row in points.to_dict("records"):
            if beside and not math.isnan(row["printed_error"]):
                theirs = (row["printed_error"], row["printed_rsd"])
                way = zip((row["error"], row["rsd"]), theirs, strict=True)
                ax.plot(*way, ":", color=look.color, linewidth=0.7, zorder=0.5)
                ax.plot(*theirs, "s", color=look.color, mfc="none", ms=4, mew=0.8, zorder=3)
    ax.margins(0.14, 0.1)
    _shade(ax, table)
    left, right, under, over = near
    frame: dict[str, Any] = {"fill": False, "edgecolor": "0.4", "linewidth": 0.6}
    ax.add_patch(Rectangle((left, under), right - left, over - under, **frame))
    _name(ax, names)
    ours = style.look("adafedadam")
    words: dict[str, Any] = {"textcoords": "offset points", "xytext": (0, 2), "va": "bottom"}
    style.say(ax, f"{ours.label}, enlarged beside", (left, over), ours.color, **words)
    corner = table.loc[table["algorithm"] == "adafedadam", "error"].min(), ax.get_ylim()[1]
    words = {"textcoords": "offset points", "xytext": (3, -11)}
    style.say(ax, "dominated by\nAdaFedAdam", corner, "0.35", **words)


def _near(
    ax: Axes,
    table: pd.DataFrame,
    by_seed: Sequence[pd.DataFrame],
    colors: Mapping[float, Any],
) -> tuple[float, float, float, float]:
    """AdaFedAdam's points for each alpha and seed, and the other method of the least error.

    Returns:
        The drawn part: left, right, lower and upper border.
    """
    own = table["algorithm"] == "adafedadam"
    ours, others = table[own].sort_values("setting"), table[~own]
    red = style.look("adafedadam").color
    for part in by_seed if len(by_seed) > 1 else ():
        ax.plot(part["error"], part["rsd"], color=red, linewidth=0.5, alpha=0.6, zorder=1)
        shades = [colors[alpha] for alpha in part["setting"]]
        ax.scatter(part["error"], part["rsd"], s=4, color=shades, linewidth=0, zorder=1.2)
    ax.plot(ours["error"], ours["rsd"], color=red, linewidth=1.4, zorder=1.5)
    for row in ours.to_dict("records"):
        point, color = (row["error"], row["rsd"]), colors[row["setting"]]
        ax.plot(*point, "o", color=color, markersize=7, mec="white", mew=0.8)
        words = "α = " if row["setting"] == ours["setting"].iloc[-1] else ""
        place = (7, 5) if row["error"] > ours["error"].min() else (2, 9)
        how: dict[str, Any] = {"textcoords": "offset points", "xytext": place, "fontsize": 7}
        style.say(ax, f"{words}{row['setting']:g}", point, "0.1", **how)
    for name, error, rsd in others.nsmallest(1, "error")[["algorithm", "error", "rsd"]].to_numpy():
        look = style.look(name)
        ax.plot(error, rsd, "o", color=look.color, markersize=6)
        how = {"textcoords": "offset points", "xytext": (6, -11), "ha": "right"}
        style.say(ax, look.label, (error, rsd), look.color, **how)
    ax.margins(0.1, 0.12)
    _shade(ax, table)
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    return low, high, bottom, top


def _shade(ax: Axes, table: pd.DataFrame) -> None:
    """Shade what AdaFedAdam's means dominate, within the borders so far."""
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    # The smallest rsd among settings with at most this error.
    ordered = table[table["algorithm"] == "adafedadam"].sort_values("error")
    edge = np.minimum.accumulate(ordered["rsd"].to_numpy())
    x = np.append(ordered["error"].to_numpy(), high)
    ax.fill_between(x, np.append(edge, edge[-1]), top, step="post", color="0.93", lw=0, zorder=0)
    ax.set(xlim=(low, high), ylim=(bottom, top))


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
        ax.set(ylabel="16 clients, by size", yticks=[])
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
