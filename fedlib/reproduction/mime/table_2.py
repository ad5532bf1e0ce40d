"""Mime at equal communication: Table 2, and its methods' curves for each base optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import MARKERS, axis_label, shared_legend
from fedlib.reproduction import tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.printed import of_task
from fedlib.reproduction.theory.mimicking import base_of
from fedlib.results import reading, selection

Drawing = tuple[Figure | None, pd.DataFrame]

BASES = ("SGD", "Momentum", "Adam", "Adagrad")
LOOKS = {"FedAvg": "fedavg", "MimeLite": "mimelite", "Mime": "mime"}


def row_of(history: History) -> tuple[str, str]:
    """A run's row of Table 2: (base, "FedAvg", "MimeLite" or "Mime")."""
    names = {look: name for name, look in LOOKS.items()}
    return base_of(history), names.get(history.config.algorithm, "FedAvg")


def rows(histories: Sequence[History]) -> dict[tuple[str, str], History]:
    """Of each row the run with the smallest training loss, in the table's order.

    Args:
        histories: of one task and one seed.
    """
    found: dict[tuple[str, str], list[History]] = {}
    for history in histories:
        found.setdefault(row_of(history), []).append(history)
    order = [(base, name) for base in BASES for name in LOOKS if (base, name) in found]
    return {row: selection.best(found[row]) for row in order}


def base_panels(histories: Sequence[History], metric: str = "loss") -> Drawing:
    """A test metric over rounds, a panel per base optimizer, a line for FedAvg and the Mimes.

    Args:
        histories: of one task and one seed; several learning rates of a row are tuned.

    Returns:
        the figure, and base, method, round, value, client_lr, clients_per_round.
    """
    best = rows(histories)
    shown = [base for base in BASES if any(row[0] == base for row in best)]
    if not shown:
        raise Error("no runs to draw; give at least one history")
    frames = []
    percent = metric == "accuracy"
    with style.context():
        figure = Figure(figsize=(1.1 + 1.4 * len(shown), 2.7))
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        panels = dict(zip(shown, axes, strict=True))
        for (base, name), history in best.items():
            series = history.series(metric) * (100 if percent else 1)
            look, every = style.look(LOOKS[name]), max(1, len(series) // MARKERS)
            label = {"label": name, "markevery": every, **look.line()}
            panels[base].plot(series.index, series.to_numpy(), **label)
            frame = pd.DataFrame({"base": base, "method": name, "round": series.index})
            frame["value"] = series.to_numpy()
            frame["client_lr"] = reading.hyperparameter(history, "client_lr")
            frame["clients_per_round"] = history.config.clients_per_round
            frames.append(frame)
        for base, ax in panels.items():
            ax.set(title=base, xlabel="round")
            ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        panels[shown[0]].set_ylabel(axis_label(metric, "test", percent))
        if not percent:
            panels[shown[0]].set_yscale("log")
            panels[shown[0]].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panels[shown[0]].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            panels[shown[0]].yaxis.set_minor_locator(NullLocator())
        shared_legend(figure)
    return figure, pd.concat(frames, ignore_index=True)


def model_sizes(history: History, parameters: int) -> float:
    """What all clients of a round receive and send, in model sizes; the mean over the rounds."""
    sent = history.frame[history.frame["split"] == "communication"]
    return float(sent.groupby("round")["value"].sum().mean()) / parameters


def mime_table_2(histories: Sequence[History]) -> Drawing:
    """The printed rows of the tasks that were run beside ours, and what a round costs.

    Returns:
        None, and the columns of :func:`fedlib.reproduction.compare.cells`, with clients_per_round,
            model_sizes (what all clients of a round receive and send; NaN without FedAvgSGD, whose
            clients receive one) and log10_client_lr added.
    """
    shown = [item for item in tables.find("mime", "Table 2") if of_task(histories, item.task)]
    if not shown:
        raise Error("Mime's Table 2: none of these runs is of its tasks")
    frame = cells(histories, shown)
    known = {history.config.digest: history for history in histories}
    used = [known[runs[0]] if runs else None for runs in frame["runs"]]
    sizes = {task: _parameters(frame, used, task) for task in frame["task"].unique()}
    frame["clients_per_round"] = [h.config.clients_per_round if h else None for h in used]
    frame["model_sizes"] = [
        model_sizes(history, sizes[task]) if history is not None and sizes[task] else float("nan")
        for history, task in zip(used, frame["task"], strict=True)
    ]
    frame["log10_client_lr"] = [
        math.log10(reading.hyperparameter(h, "client_lr")) if h else float("nan") for h in used
    ]
    frame = frame.astype({"clients_per_round": "Int64"})
    gone = ["paper", "item", "runs", "algorithm", "metric", "ours_unweighted", "column", "unclear"]
    return None, frame.drop(columns=gone).rename(columns={"row": "method"})


def _parameters(frame: pd.DataFrame, used: Sequence[History | None], task: str) -> int:
    """The model's parameters: what a client of FedAvgSGD receives; 0 if that was not run."""
    for row, name, history in zip(frame["row"], frame["task"], used, strict=True):
        if row == "FedAvgSGD" and name == task and history is not None:
            sent = history.series("floats_down", "communication")
            return round(float(sent.iloc[0]) / history.config.clients_per_round)
    return 0
