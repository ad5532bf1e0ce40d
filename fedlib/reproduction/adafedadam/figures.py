"""AdaFedAdam's figures and tables: curves and distributions over clients, the exchange of the mean
error against its spread, setups, partitions and networks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
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
from fedlib.figures.curves import Drawing, client_density
from fedlib.figures.partitions import label_panels
from fedlib.figures.scale import scale, small, whole
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.method import adafedadam_figure_1
from fedlib.reproduction.adafedadam.tables import BETAS
from fedlib.reproduction.entry import Entry, of_task, of_these, printed_curves, printed_entry
from fedlib.results.reading import hyperparameter, split_of
from fedlib.results.selection import late, winners
from fedlib.tasks import Task, load_task


def best_fedprox(histories: Sequence[History]) -> list[History]:
    """The runs, of FedProx those of one mu: the one with the smallest training loss, all its seeds.

    AdaFedAdam compares with FedProx "with optimal mu".
    """
    best = winners(h for h in histories if h.config.algorithm == "fedprox").get("fedprox", [])
    return [h for h in histories if h.config.algorithm != "fedprox" or h in best]


def adafedadam_figure_2(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """A row per setup that was run: average, worst 30 %, density of the final local accuracies,
    over all local data where all runs have them, see :func:`fedlib.results.reading.split_of`.

    Average and worst 30 % weigh clients by their examples, as Table 5 does, whose values stand in
    brackets after runs of the paper preset; in the density clients count alike.
    """
    printed = of_these(histories, "adafedadam", "Table 5")
    shown = [cells for _, cells in printed.groupby("task", sort=False)]
    frames = []
    with style.panels(len(shown), 3, (7.5, 2.1 * len(shown))) as (figure, panels):
        for (left, middle, right), cells in zip(panels.reshape(-1, 3), shown, strict=True):
            runs = best_fedprox(of_task(histories, cells.iloc[0]["task"]))
            split, label = split_of(*runs), style.name(cells.iloc[0]["label"])
            for ax, word, metric in ((left, "average", "avg"), (middle, "worst 30 %", "worst30")):
                title = f"{label}: {word}"
                data = printed_curves(cells, runs, metric, title=title, beside=whole(runs), ax=ax)
                frames.append(data.assign(panel=word))
                of_what = "accuracy, all data (%)" if split == "local" else "test accuracy (%)"
                ax.set_ylabel(of_what if ax is left else "")
            _, data = client_density(runs, split=split, ax=right)
            frames.append(data.assign(panel="clients"))
            style.titled(right, "all clients", "their final accuracies")
            right.set(xlabel="client accuracy (%)", ylabel="", yticks=[])
    data = pd.concat(frames, ignore_index=True)
    data = data.set_index(["task", "panel", "algorithm"]).reset_index()  # the first columns
    data = data.reindex(columns=[*dict.fromkeys([*data, "printed", "printed_rounds"])])
    return figure, data.astype({"round": "Int64", "seeds": "Int64", "printed_rounds": "Int64"})


# The curves are drawn for what comes after this share of the rounds.
LATE = 0.05
# Metrics: mean accuracy, and standard deviation of the clients' accuracies: around the mean of
# all examples, weighted by them, or with the clients alike.
WEIGHTED = ("accuracy", "accuracy_std_weighted")
ALIKE = ("accuracy_unweighted", "accuracy_std")
# Where names stand that would lie on other points, in points from their own: x, y, alignment.
PLACES = {
    "FedAvg": (0, 5, "center"),
    "FedNova": (0, 5, "center"),
    "FedProx": (0, -10, "center"),
    "FedAdam": (0, -10, "center"),
    "q-FedAvg, q = 1": (5, 6, "left"),
    "q = 2": (-5, -7, "right"),
    "α = 0": (5, -2, "left"),
    "α = 1": (0, 5, "center"),
}


def tradeoff(histories: Sequence[History]) -> pd.DataFrame:
    """Error and relative standard deviation of the clients' errors, one row per setting.

    Args:
        histories: runs of one task; those that differ in the seed only are averaged.

    Returns:
        algorithm, setting (alpha or q, NaN for others), error (percent) and rsd, weighted by
        examples, error_alike and rsd_alike (clients alike), worst30_alike (mean accuracy in
        percent of the worst 30 % of the clients, alike), seeds, dominated: whether one of
        AdaFedAdam's rows has no larger error and no larger rsd, and one of them smaller;
        printed_error and printed_rsd of Table 5. Means over the rounds of
        :func:`fedlib.results.selection.late`, over all local data where all runs have them, see
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
    with style.panels(1, 3, (8.5, 2.9), width_ratios=(1, 1, 1.3)) as (figure, axes):
        alphas = sorted(curves["setting"].unique())
        shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(alphas)))
        colors = dict(zip(alphas, map(tuple, shades), strict=True))
        titles = {"error": "mean error", "rsd": "relative spread (RSD)"}
        for ax, (name, title) in zip(axes, titles.items(), strict=False):
            for alpha, part in curves.groupby("setting"):
                label = f"α = {alpha:g}"
                ax.plot(part["round"], part[name], color=colors[alpha], label=label)
            seen = curves.loc[curves["round"] > LATE * curves["round"].max(), name]
            ax.set(xlabel="round", xlim=(0, curves["round"].max()), ylim=_around(seen))
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
            style.titled(ax, title, "AdaFedAdam, " + scale(adafedadam), small=small(histories))
            style.label_ends(ax, alike=0.0, numbers=False)
        of_what = {"local": "mean error, all local data (%)", "test": "mean test error (%)"}[split]
        axes[0].set_ylabel(of_what)
        axes[1].set_ylabel("RSD of the clients' errors")
        beside = whole(histories)
        _front(axes[2], table, colors, beside)
        axes[2].set(xlabel=of_what, ylabel="RSD of the clients' errors")
        below = "shaded: dominated by AdaFedAdam"
        below += "; line: from ours to the printed point (hollow)" if beside else ""
        style.titled(axes[2], "trade-off", below, small=small(histories))
    curves, table = curves.assign(panel="curves"), table.assign(panel="front")
    data = pd.concat([curves, table], ignore_index=True)
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


def _around(values: pd.Series) -> tuple[float, float]:
    """Limits of an axis that shows some values."""
    room = 0.05 * (values.max() - values.min())
    return values.min() - room, values.quantile(0.99) + room


def _front(
    ax: Axes, table: pd.DataFrame, colors: Mapping[float, tuple[float, ...]], beside: bool
) -> None:
    """AdaFedAdam's points and what they dominate (shaded), and the other algorithms; at the paper's
    scale a thin line from each to what is printed.
    """
    ours = table[table["algorithm"] == "adafedadam"].sort_values("setting")
    ax.plot(ours["error"], ours["rsd"], color=style.look("adafedadam").color, lw=0.6, zorder=1)
    for row in table.to_dict("records"):
        look, point = style.look(row["algorithm"]), (row["error"], row["rsd"])
        color = colors.get(row["setting"], look.color) if look.marker == "*" else look.color
        ax.plot(*point, look.marker, color=color, markersize=7 if look.marker == "*" else 4)
        if beside and not math.isnan(row["printed_error"]):
            theirs = (row["printed_error"], row["printed_rsd"])
            ax.plot(*zip(point, theirs, strict=True), color=look.color, linewidth=0.5, zorder=0.5)
            ax.plot(*theirs, look.marker, color=look.color, markerfacecolor="white", zorder=3)
        setting = {"adafedadam": "α", "qfedavg": "q"}.get(row["algorithm"])
        name = f"{setting} = {row['setting']:g}" if setting else look.label
        name = f"{look.label}, {name}" if setting == "q" and row["setting"] == 1 else name
        place = (-5, -4, "right") if setting == "α" else (5, -2, "left")
        dx, dy, side = PLACES.get(name, place) if beside or not setting else place
        text: dict[str, Any] = {"ha": side, "fontsize": 5.5, "color": color}
        ax.annotate(name, point, (dx, dy), textcoords="offset points", **text)
    ax.margins(0.16)
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    # The smallest rsd of those with at most this error.
    ordered = ours.sort_values("error")
    edge = np.minimum.accumulate(ordered["rsd"].to_numpy())
    x = np.append(ordered["error"].to_numpy(), high)
    ax.fill_between(x, np.append(edge, edge[-1]), top, step="post", color="C0", alpha=0.12, lw=0)
    ax.set(xlim=(low, high), ylim=(bottom, top))


def table_4(data_root: str | os.PathLike[str] | None = None) -> tuple[None, pd.DataFrame]:
    """Table 4, and our clients, examples, models and data under the paper preset.

    Args:
        data_root: of the prepared data sets; a setup whose data are missing has the printed
            columns alone.
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
                "clients (printed)": int(stated["n_clients"]),
                "clients": ours.get("clients", "-"),
                "training examples": ours.get("training examples", "-"),
                "test examples": ours.get("test examples", "-"),
                "model (printed)": stated["model"],
                "model": ours.get("model", "-"),
                "scenario (printed)": stated["scenario"],
                "non-IID type (printed)": stated["non_iid_type"],
                "task type (printed)": stated["task_type"],
                "data": ours.get("data", "not prepared"),
            }
        )
    return None, pd.DataFrame(rows)


def _ours(name: str, data_root: str | os.PathLike[str] | None) -> dict[str, Any]:
    """What Table 4 says of a task under the paper preset; nothing without its data."""
    try:
        task = load_task(name, preset="paper", seed=0, data_root=data_root)
    except Error:
        return {}
    return {
        "clients": len(task.train.sizes),
        "training examples": int(task.train.sizes.sum()),
        "test examples": int(task.test.sizes.sum()),
        "model": _model(task),
        "data": task.options.get("data", "LEAF's generator"),
    }


def _model(task: Task) -> str:
    """The model's class and its parameters that are trained."""
    with torch.random.fork_rng(devices=[]):
        model = task.model()
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return f"{type(model).__name__}, {trained:,} parameters"


def figure_6() -> Drawing:
    """Label distributions of the 16 Cifar10 clients for four values of beta."""
    labels = np.repeat(np.arange(10), 5000)  # CIFAR-10's, which are balanced
    silos = {beta: partitioners.silos(labels, 16, beta, seed=0) for beta in BETAS}
    figure, data = label_panels(labels, silos, "beta", rows=2, size=(5.5, 4.6), shares=False)
    figure.axes[0].set(yticks=range(0, 16, 5))
    return figure, data


def figure_4() -> Drawing:
    """VGG11 for the Cifar10 setup."""
    return _drawn("VGG11", models.VGG11, torch.zeros(1, 3, 32, 32))


def figure_5() -> Drawing:
    """The two-layer LSTM for the Sent140 setup, with the 400,000 words of the GloVe file."""
    # Padding and unknown words are one more. A view of one zero takes no memory.
    vectors = torch.zeros(1).expand(400_001, 300)
    example = torch.zeros(1, 25, dtype=torch.int64)
    return _drawn("Two-layer LSTM", lambda: models.Sent140LSTM(vectors), example)


def _drawn(name: str, make: Callable[[], nn.Module], example: Tensor) -> Drawing:
    with torch.random.fork_rng(devices=[]):  # random initial values are drawn in vain
        frame = layers(make(), example)
    frozen = frame["frozen"].sum()
    more = f" and {frozen:,} frozen" if frozen else ""
    return draw_layers(frame, f"{name}: {frame['parameters'].sum():,} parameters{more}"), frame


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
    printed_entry("adafedadam", "Table 5", **_TUNED),
    Entry("adafedadam/figure_6", _PARTITIONS, lambda _: figure_6()),
    Entry("adafedadam/figure_4", _MODELS, lambda _: figure_4()),
    Entry("adafedadam/figure_5", _MODELS, lambda _: figure_5()),
    _variant(1, "epochs", "mu"),
    _variant(2, "levels"),
    _variant(3),
    _variant(6, "levels"),
    _variant(7),
)
