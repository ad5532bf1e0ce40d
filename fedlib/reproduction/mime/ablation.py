"""Mime's ablation: Figure 1, and FedProx's regularizer (Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import MARKERS, axis_label, curve_data, shared_legend
from fedlib.results import reading, selection

Drawing = tuple[Figure | None, pd.DataFrame]

# The lines of Figure 1's panels: algorithms, and two that differ from theirs in the base alone.
PANELS: dict[str, tuple[str, ...]] = {
    "all methods": ("mime", "mimelite", "fedavgm", "scaffold", "fedprox"),
    "with and without momentum": ("mime", "mime_sgd", "fedavgm", "fedavg"),
    "fixed and local state": ("mime", "loc_mime"),
}
_MIME, _FEDAVG = style.look("mime"), style.look("fedavg")
LOOKS: dict[str, style.Look] = {
    "mime": _MIME,
    "mimelite": style.look("mimelite"),
    "fedavgm": style.Look("FedAvg", _FEDAVG.color, _FEDAVG.marker, "-"),
    "scaffold": style.look("scaffold"),
    "fedprox": style.look("fedprox"),
    "mime_sgd": style.Look("Mime, no momentum", style.look("fedyogi").color, "v", ":"),
    "fedavg": style.Look("FedAvg, no momentum", "#7F7F7F", "v", ":"),
    "loc_mime": style.look("loc_mime"),
}
# From FedAvg's black to the strongest regularizer.
SHADES = ("#000000", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#009E73")


def line_of(history: History) -> str:
    """Which line of Figure 1 a run belongs to, a key of :data:`LOOKS`."""
    name = history.config.algorithm
    momentum = name != "mime" or reading.hyperparameter(history, "base") == "momentum"
    return name if momentum else "mime_sgd"


def lines(histories: Sequence[History]) -> dict[str, list[History]]:
    """Of each line the best setting, all its seeds: rates, beta and mu are tuned.

    Raises:
        Error: no runs, a run that is none of the lines', or a line whose runs all diverged.
    """
    if not histories:
        raise Error("no runs to draw; give at least one history")
    found: dict[str, list[History]] = {}
    for history in histories:
        found.setdefault(line_of(history), []).append(history)
    for name in found:
        if name not in LOOKS:
            raise Error(f"a run of {name} is no line of Mime's Figure 1; its lines: {list(LOOKS)}")
    return {name: selection.best_setting(found[name]) for name in LOOKS if name in found}


def mime_figure_1(histories: Sequence[History]) -> Drawing:
    """Test accuracy over rounds: all methods, momentum, and where the state is updated.

    Only panels whose lines were all run are drawn.

    Returns:
        the figure, and panel, task, algorithm (the line), round, mean, std, seeds, client_lr,
            momentum and mu (of the setting that was chosen).

    Raises:
        Error: no panel has all its lines.
    """
    best = lines(histories)
    shown = {title: names for title, names in PANELS.items() if set(names) <= set(best)}
    if not shown:
        missing = sorted(set(PANELS["all methods"]) - set(best))
        raise Error(f"Mime's Figure 1: no panel is complete, the first lacks runs of {missing}")
    frames = []
    with style.context():
        size = (2.6 if len(shown) == 1 else 0.6) + 1.9 * len(shown)
        figure = Figure(figsize=(size, 3.1))
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for ax, (title, names) in zip(panels, shown.items(), strict=True):
            chosen = {name: best[name] for name in names}
            frames.append(_draw(ax, chosen, LOOKS).assign(panel=title))
            ax.set(title=title, ylabel="" if frames[1:] else axis_label("accuracy", "test", True))
        shared_legend(figure)
    return figure, _front(pd.concat(frames, ignore_index=True), "panel")


def mime_figure_5(histories: Sequence[History]) -> Drawing:
    """Test accuracy and loss over rounds: FedAvg, and FedProx for each mu, at FedAvg's best rate.

    Returns:
        the figure, and metric, task, algorithm ("fedavg", or for instance "mu 0.1"), round, mean,
            std, seeds, client_lr, momentum, mu (0 for FedAvg).

    Raises:
        Error: no FedAvg, or a mu without a run at its rate.
    """
    groups: dict[float, list[History]] = {}
    for history in histories:
        groups.setdefault(_mu(history), []).append(history)
    if 0.0 not in groups:
        raise Error("Mime's Figure 5: no runs of fedavg; its best rate is the one that is drawn")
    rate = _rate(selection.best_setting(groups[0.0])[0])
    same = {mu: [run for run in groups[mu] if _rate(run) == rate] for mu in sorted(groups)}
    best = {_mu_name(mu): selection.best_setting(runs) for mu, runs in same.items()}
    looks = {
        name: style.Look(
            "FedAvg (μ = 0)" if name == "fedavg" else f"FedProx, μ = {name.split()[1]}",
            SHADES[number % len(SHADES)],
            "osv^D<"[number % 6],
            "-" if number else "--",
        )
        for number, name in enumerate(best)
    }
    frames = []
    with style.context():
        figure = Figure(figsize=(5.5, 2.8))
        for ax, metric in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
            frames.append(_draw(ax, best, looks, metric).assign(metric=metric))
            ax.set(ylabel=axis_label(metric, "test", metric == "accuracy"))
        shared_legend(figure)
    return figure, _front(pd.concat(frames, ignore_index=True), "metric")


def _mu(history: History) -> float:
    if history.config.algorithm == "fedavg":
        return 0.0
    return float(reading.hyperparameter(history, "mu"))


def _rate(history: History) -> float:
    return float(reading.hyperparameter(history, "client_lr"))


def _mu_name(mu: float) -> str:
    return f"mu {mu:g}" if mu else "fedavg"


def _draw(
    ax: Axes,
    best: Mapping[str, Sequence[History]],
    looks: Mapping[str, style.Look],
    metric: str = "accuracy",
) -> pd.DataFrame:
    """Lines into some axes; what is drawn, with the settings."""
    frames = []
    for name, histories in best.items():
        percent = metric == "accuracy"
        data = curve_data(histories, metric, percent=percent, by=partial(_named, name))
        look, every = looks[name], max(1, len(data) // MARKERS)
        ax.plot(data["round"], data["mean"], label=look.label, markevery=every, **look.line())
        if (data["seeds"] > 1).any():
            low, high = data["mean"] - data["std"], data["mean"] + data["std"]
            ax.fill_between(data["round"], low, high, color=look.color, alpha=0.2, linewidth=0)
        own = reading.hyperparameters(histories[0])
        settings = {key: own.get(key, float("nan")) for key in ("client_lr", "momentum", "mu")}
        if name in ("mime_sgd", "fedavg"):
            settings |= {"momentum": 0.0}
        frames.append(data.assign(**settings))
    ax.set_xlabel("round")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return pd.concat(frames, ignore_index=True)


def _named(name: str, history: History) -> str:
    return name


def _front(data: pd.DataFrame, column: str) -> pd.DataFrame:
    """The frame with one column first."""
    return data[[column, *(name for name in data.columns if name != column)]]
