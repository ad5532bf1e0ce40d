"""The rules for choosing hyperparameters, and means over seeds.

FedOpt (section 5.1, appendix D) chooses the setting with the smallest mean training loss over the
last 100 rounds (:func:`training_score`) and plots its validation metric. The loss is measured
during local training, so the rule rewards rates at which clients overfit locally.

On held-out clients (:func:`held_out_score`) the setting with the best test metric on one half of
the test clients is chosen, and the metric on the other half is reported (:func:`on_half`).
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.reading import Key, Run, group

# A run is judged by a mean over at least this many evaluations.
EVALUATIONS = 6


def late(history: History) -> int:
    """The number of last rounds that judge a run: a third of a small problem's rounds. For other
    runs it is 100, or enough for six evaluations.

    With one or two labels a client FedAvg and SCAFFOLD jump from round to round. The paper's share
    of a small problem's rounds would be only five, and a shortened run has few evaluations.
    """
    each = history.config.eval_last >= EVALUATIONS
    least = WINDOW_ROUNDS if each else max(WINDOW_ROUNDS, EVALUATIONS * history.config.eval_every)
    return max(history.window(), min(history.config.rounds // 3, least))


def training_score(history: History) -> float:
    """Mean training loss over :meth:`History.window`. Infinite if the run diverged. Smaller is
    better.
    """
    score = history.final("loss", "train")
    return score if math.isfinite(score) else math.inf


def on_half(history: History, choosing: bool = False) -> tuple[float, float]:
    """The accuracy of the last model on one half of the test clients.

    The clients are split into halves by the hashes of their names, so all runs of a task have the
    same halves.

    Args:
        choosing: take the half that settings are chosen on. Default: the half that is reported.

    Returns:
        The mean weighted by examples, and with equal weights. NaN if the run diverged or was
        published without its values per client.

    Raises:
        Error: the test data have fewer than two clients, so there are no halves.
    """
    frame = history.clients
    if history.diverged is not None or frame.empty:
        return math.nan, math.nan
    frame = frame[(frame["metric"] == "accuracy") & (frame["split"] == "test")]
    if len(frame) < 2:
        task = history.config.task["name"]
        raise Error(f"task {task}: its test data have one client, but two halves need two clients")
    hashes = [hashlib.sha256(client.encode()).hexdigest() for client in frame["client"]]
    half = frame.iloc[np.argsort(hashes)[0 if choosing else 1 :: 2]]
    half = half[half["examples"] > 0]
    if half.empty:
        return math.nan, math.nan
    return float(np.average(half["value"], weights=half["examples"])), float(half["value"].mean())


def held_out_score(history: History) -> float:
    """The negative accuracy on the half of the test clients that is not reported, so that smaller
    is better. Infinite if the run diverged or was published without its values per client.
    """
    accuracy, _ = on_half(history, choosing=True)
    return math.inf if math.isnan(accuracy) else -accuracy


def winners(
    histories: Iterable[History], *keys: Key, score: Callable[[History], float] = training_score
) -> dict[Any, list[History]]:
    """For each algorithm, the runs by seed of the setting with the smallest mean score.

    A setting that diverged for some seed loses. If all settings of an algorithm did, the one that
    got furthest is shown.

    Args:
        keys: choose one setting for each value of these keys. Default: the algorithm.
        score: one of the rules above. Smaller is better.
    """
    distinct: dict[str, History] = {}
    for run in histories:
        distinct.setdefault(run.config.digest, run)
    best = {
        name: min(by_setting(runs), key=lambda seeds: merit(seeds, score))
        for name, runs in group(distinct.values(), *(keys or ("algorithm",))).items()
    }
    return {
        name: sorted(seeds, key=lambda run: run.config.seeds["init"])
        for name, seeds in best.items()
    }


def merit(
    seeds: Sequence[History], score: Callable[[History], float] = training_score
) -> tuple[float, float]:
    """The number that a setting is chosen by, where smaller is better: its mean score over its
    seeds, infinite without any, and then how long the runs lasted.
    """
    if not seeds:
        return math.inf, math.inf
    survived = min(math.inf if run.diverged is None else run.diverged for run in seeds)
    return sum(map(score, seeds)) / len(seeds), -survived


def by_setting(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs in groups that differ only in their seeds, and in data that are made or split anew
    for each seed. If a seed has several data, each has its own group.
    """
    groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in runs:
        task, data = run.config.task, run.config.task["data"]
        by_hand = "version" in task or data.startswith("task ")  # see Task.identity
        # Otherwise other data are another data set, or another edition.
        own = "" if by_hand or task["stand_in"] else data
        alike = groups.setdefault((run.config.setting, own), {})
        alike.setdefault(data, []).append(run)
    separate: list[list[Run]] = []
    for alike in groups.values():
        seeds = [{run.config.task["seed"] for run in runs} for runs in alike.values()]
        apart = sum(map(len, seeds)) > len(set().union(*seeds))
        separate += alike.values() if apart else [[*itertools.chain(*alike.values())]]
    return separate
