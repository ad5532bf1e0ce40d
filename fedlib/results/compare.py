"""The papers' printed numbers beside ours.

A cell takes the best runs there are: the paper's own settings before reduced ones, real data before
stand-ins, then the longest and newest; always with the task's own hyperparameters (the paper's).
Several seeds of the same configuration are averaged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from fedlib import algorithms, papers
from fedlib.engine.config import RunConfig
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.results.store import Store, Stored

log = logging.getLogger("fedlib")

# Percentage points between printed and ours that still count as the same number.
TOLERANCE = 1.5
# AdaFedAdam's share of the worst clients.
WORST = 0.3

COLUMNS = (
    *("paper", "item", "task", "algorithm", "metric", "printed", "ours", "ours_std", "seeds"),
    *("difference", "ours_unweighted", "comparable", "preset", "rounds", "printed_rounds", "data"),
    *("runs", "note"),
)
NAN = float("nan")


@dataclass(frozen=True)
class Item:
    """One task's cells of a printed table, and the settings they were printed for.

    Attributes:
        paper, item: for instance ``"fedopt"``, ``"Table 1"``.
        task: fedlib's name of the task; ``label`` is the paper's.
        table: file of :mod:`fedlib.papers`; ``task_column`` names the column that holds ``label``.
        metrics: printed metric -> our name of it (a key of :data:`METRICS`).
        notebook: which makes the runs; until there is one, the command that does.
        rounds, clients_per_round (None: all), batch_size, local_epochs: the paper's.
        options: the task's options in the paper.
    """

    paper: str
    item: str
    task: str
    label: str
    table: str
    task_column: str
    metrics: Mapping[str, str]
    notebook: str
    rounds: int
    clients_per_round: int | None
    batch_size: int
    local_epochs: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def cells(self) -> list[tuple[str, str, str, float]]:
        """(algorithm, printed metric, our metric, printed number) that this fedlib can compute."""
        frame = papers.table(self.paper, self.table)
        value = "value" if "value" in frame.columns else "mean"
        rows = frame[frame[self.task_column] == self.label]
        return [
            (name, row["metric"], self.metrics[row["metric"]], float(row[value]))
            for row in rows.to_dict("records")
            if (name := algorithm_name(row["algorithm"])) in algorithms.METHODS
        ]


ITEMS = (
    Item(
        *("fedopt", "Table 1", "cifar10", "CIFAR-10", "table1_validation", "task"),
        metrics={"accuracy_percent": "accuracy"},
        notebook="10_cifar10",
        rounds=4000,
        clients_per_round=10,
        batch_size=20,
        options={"clients": 500, "examples_per_client": 100, "test_clients": 100}
        | {"alpha": 0.1, "width": 1.0, "groups": 2},
    ),
    Item(
        *("fedopt", "Table 1", "emnist_cr", "EMNIST CR", "table1_validation", "task"),
        metrics={"accuracy_percent": "accuracy"},
        notebook="fedlib run emnist_cr ALGORITHM --preset paper",
        rounds=1500,
        clients_per_round=10,
        batch_size=20,
        options={"clients": 3400, "width": 1.0},
    ),
    Item(
        *(
            "adafedadam",
            "Table 5",
            "synthetic",
            "Synthetic",
            "table5_convergence_fairness",
            "setup",
        ),
        metrics={"avg": "avg", "std": "std", "worst30": "worst30"},
        notebook="23_fair_synthetic",
        rounds=1000,
        clients_per_round=None,
        batch_size=10,
        options={"clients": 100, "data_seed": 931231},
    ),
)


def algorithm_name(label: str) -> str:
    """fedlib's name of an algorithm from the papers': ``"q-FedAvg"`` -> ``"qfedavg"``."""
    return label.lower().replace("-", "").replace(" ", "")


# ---------------------------------------------------------------- metrics, in percent


def _window(history: History) -> tuple[float, float]:
    """FedOpt: mean over the last 100 rounds; weighted by examples, and the mean over clients."""
    return history.final("accuracy"), _or_nan(history, "accuracy_unweighted", None)


def _average(history: History) -> tuple[float, float]:
    """AdaFedAdam: accuracy after the last round."""
    return history.final("accuracy", window=1), _or_nan(history, "accuracy_unweighted", 1)


def _or_nan(history: History, metric: str, window: int | None) -> float:
    try:
        return history.final(metric, window=window)
    except Error:  # test data without clients
        return NAN


def _spread(history: History) -> tuple[float, float]:
    """Standard deviation of the clients' accuracies around their mean (divided by n, not n - 1)."""
    value, size = _client_accuracy(history)
    if not len(value):
        return NAN, NAN
    mean = np.average(value, weights=size)
    return float(np.sqrt(np.average((value - mean) ** 2, weights=size))), float(value.std())


def _worst(history: History) -> tuple[float, float]:
    """Mean accuracy of the worst clients that hold 30 % of the examples; of 30 % of the clients."""
    value, size = _client_accuracy(history)
    if not len(value):
        return NAN, NAN
    order = np.argsort(value, kind="stable")
    value, size = value[order], size[order]
    # The client at the border counts with the examples that are still needed.
    room = np.clip(WORST * size.sum() - (np.cumsum(size) - size), 0, size)
    count = max(1, round(WORST * len(value)))
    return float(np.average(value, weights=room)), float(value[:count].mean())


def _client_accuracy(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and example counts of the clients that have test examples; none if it diverged."""
    frame = history.clients
    frame = frame[
        (frame["metric"] == "accuracy") & (frame["split"] == "test") & (frame["examples"] > 0)
    ]
    if history.diverged is not None:
        frame = frame[:0]
    return frame["value"].to_numpy(float), frame["examples"].to_numpy(float)


METRICS = {"accuracy": _window, "avg": _average, "std": _spread, "worst30": _worst}
# The printed spreads fit neither definition over clients (with and without weights), see the note.
UNCLEAR = {"std", "worst30"}
UNCLEAR_NOTE = (
    "not comparable: the paper's weighting of clients is not stated; ours weighs by examples"
)


# ---------------------------------------------------------------- choosing runs


def departures(item: Item, config: RunConfig) -> list[str]:
    """How a run's settings differ from the paper's, in words; empty if they are the paper's."""
    found = []
    if config.task["preset"] != "paper":
        found.append(f"{config.task['preset']} preset")
    if config.rounds != item.rounds:
        found.append(f"{config.rounds} of {item.rounds} rounds")
    options = config.task["options"]
    found += [
        f"{name} {options.get(name)} instead of {value}"
        for name, value in item.options.items()
        if options.get(name) != value
    ]
    cohort = item.clients_per_round or options.get("clients", config.clients_per_round)
    for name, own, wanted in (
        ("clients per round", config.clients_per_round, cohort),
        ("batch size", config.batch_size, item.batch_size),
        ("local epochs", config.local_epochs, item.local_epochs),
        ("local steps", config.local_steps, None),
    ):
        if own != wanted:
            found.append(f"{name} {own} instead of {wanted}")
    return found


def tuned(config: RunConfig, hyperparameters: Mapping[str, Any] | None) -> bool:
    """Whether a run's method is the named one with the task's own hyperparameters."""
    if config.algorithm not in algorithms.METHODS or hyperparameters is None:
        return False
    try:
        method = algorithms.build(config.algorithm, **hyperparameters).describe()
    except Error:  # stored by a version with other hyperparameters
        return False
    return bool(json.loads(json.dumps(method)) == json.loads(json.dumps(config.method)))


def _configuration(config: RunConfig) -> str:
    """What runs share that differ only in their seeds."""
    plain = config.as_dict()
    plain.pop("seeds")
    plain["task"].pop("seed")
    return json.dumps(plain, sort_keys=True)


def _rank(item: Item, runs: Sequence[Stored | History]) -> tuple[Any, ...]:
    config = runs[0].config
    return (
        not departures(item, config),
        not config.task["stand_in"],
        config.task["preset"] == "paper",
        config.rounds,
        -config.eval_every,
        len(runs),
        max(run.meta.get("created", "") for run in runs),
    )


def choose(item: Item, algorithm: str, runs: Iterable[Stored | History]) -> list[Stored | History]:
    """The best runs for an item's algorithm: one configuration, all its seeds; maybe none."""
    groups: dict[str, list[Stored | History]] = {}
    for run in runs:
        config = run.config
        if config.task["name"] == item.task and config.algorithm == algorithm:
            if tuned(config, run.meta.get("hyperparameters")):
                groups.setdefault(_configuration(config), []).append(run)
    return max(groups.values(), key=lambda group: _rank(item, group), default=[])


# ---------------------------------------------------------------- tables


def compare(store: Store | None = None) -> pd.DataFrame:
    """Every printed number that this fedlib can compute, beside ours.

    Args:
        store: the stored runs, and with them the published ones; default the standard store.

    Returns:
        one row per printed cell: paper, item, task, algorithm, metric, printed, ours (mean over
        seeds), ours_std (over seeds, n - 1), seeds (how many), difference (ours - printed),
        ours_unweighted (clients count alike instead of by their examples), comparable (False where
        the paper's definition is unclear), preset, rounds, printed_rounds, data (``"real"``,
        ``"stand-in"``), runs (digests), note. All numbers in percent. A cell without a run has NaN
        and names its notebook.
    """
    store = Store() if store is None else store
    return cells(store.stored(published=True))


def cells(runs: Sequence[Stored | History], items: Sequence[Item] = ITEMS) -> pd.DataFrame:
    """As :func:`compare`, from these runs and for these items of the papers."""
    rows = []
    for item in items:
        histories: dict[str, list[History]] = {}
        for algorithm, _, metric, printed in item.cells():
            if algorithm not in histories:
                chosen = choose(item, algorithm, runs)
                histories[algorithm] = list(_read(chosen))
            rows.append(_cell(item, algorithm, metric, printed, histories[algorithm]))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"rounds": "Int64", "printed_rounds": "Int64"})


def _read(runs: Iterable[Stored | History]) -> Iterator[History]:
    """The numbers of the runs; a damaged one is logged and left out."""
    for run in runs:
        if isinstance(run, History):
            yield run
            continue
        try:
            yield run.history(params=False)
        except Error as problem:
            log.warning("%s", problem)


def _cell(
    item: Item, algorithm: str, metric: str, printed: float, histories: Sequence[History]
) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "paper": item.paper,
        "item": item.item,
        "task": item.task,
        "algorithm": algorithm,
        "metric": metric,
        "printed": printed,
        "ours": NAN,
        "ours_std": NAN,
        "seeds": len(histories),
        "difference": NAN,
        "ours_unweighted": NAN,
        "comparable": metric not in UNCLEAR,
        "preset": "",
        "rounds": None,
        "printed_rounds": item.rounds,
        "data": "",
        "runs": tuple(history.config.digest for history in histories),
        "note": f"no run yet: {how_to_make(item.notebook)}",
    }
    if not histories:
        return cell
    values = [METRICS[metric](history) for history in histories]
    weighted = [100 * value for value, _ in values]
    config = histories[0].config
    notes = departures(item, config)
    notes += [
        f"seed {history.config.seeds['init']} diverged in round {history.diverged}"
        for history in histories
        if history.diverged is not None
    ]
    if metric in UNCLEAR:
        notes.append(UNCLEAR_NOTE)
    cell.update(
        ours=fmean(weighted),
        ours_std=stdev(weighted) if len(weighted) > 1 else NAN,
        difference=fmean(weighted) - printed,
        ours_unweighted=100 * fmean(value for _, value in values),
        preset=config.task["preset"],
        rounds=config.rounds,
        data="stand-in" if config.task["stand_in"] else "real",
        note="; ".join(notes),
    )
    return cell


def how_to_make(notebook: str) -> str:
    """The sentence that says how missing runs are made: by a notebook, or by a command."""
    if not notebook[0].isdigit():
        return f"run: {notebook}"
    return f"run notebooks/{notebook}.ipynb or: fedlib reproduce {notebook}"


def summary(frame: pd.DataFrame, tolerance: float = TOLERANCE) -> pd.DataFrame:
    """Totals of :func:`compare`'s frame.

    Args:
        frame: from :func:`compare`.
        tolerance: percentage points.

    Returns:
        one row per paper, item and task: cells (printed numbers), run (of them), comparable (of
            those
        run), within (of those comparable, within the tolerance), paper_best and our_best
        (algorithms; among those run, by accuracy), same_best (None unless two algorithms or more
        were run).
    """
    rows = []
    for (paper, item, task), part in frame.groupby(["paper", "item", "task"], sort=False):
        fair = part[part["comparable"] & part["ours"].notna()]
        ranked = fair[fair["metric"].isin(["accuracy", "avg"])]
        best = [
            ranked.loc[ranked[column].idxmax(), "algorithm"] if len(ranked) > 1 else ""
            for column in ("printed", "ours")
        ]
        rows.append(
            {
                "paper": paper,
                "item": item,
                "task": task,
                "cells": len(part),
                "run": int((part["seeds"] > 0).sum()),
                "comparable": len(fair),
                "within": int((fair["difference"].abs() <= tolerance).sum()),
                "paper_best": best[0],
                "our_best": best[1],
                "same_best": best[0] == best[1] if best[0] else None,
            }
        )
    return pd.DataFrame(rows)
