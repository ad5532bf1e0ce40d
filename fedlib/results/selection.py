"""The rules for choosing hyperparameters, and means over seeds.

FedOpt (section 5.1, appendix D): the setting with the smallest mean training loss over the last 100
rounds wins (:func:`training_score`); what is plotted is its validation metric. That loss is seen
during local training, so the rule rewards rates at which clients overfit locally.

On held-out clients (:func:`held_out_score`): the setting with the best test metric on one half of
the test clients wins, and the metric on the other half is reported (:func:`on_half`).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.reading import Key, Run, group

# What a run is judged by is a mean of at least so many evaluations.
EVALUATIONS = 6


def late(history: History) -> int:
    """Over how many last rounds a run is judged: a third of a small problem's, of others the 100,
    or as many as have six evaluations.

    With one or two labels a client FedAvg and SCAFFOLD jump from round to round: the paper's share
    of a small problem's rounds would be five of them, and a cut run is evaluated now and then.
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

    The clients are put into halves by the hashes of their names, so all runs of a task have the
    same ones.

    Args:
        choosing: the half that settings are chosen on. Default: the other one, which is reported.

    Returns:
        the mean weighted by examples, and with clients alike. NaN if the run diverged or was
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
        raise Error(f"task {task}: its test data have one client; two halves need at least two")
    hashes = [hashlib.sha256(client.encode()).hexdigest() for client in frame["client"]]
    half = frame.iloc[np.argsort(hashes)[0 if choosing else 1 :: 2]]
    half = half[half["examples"] > 0]
    if half.empty:
        return math.nan, math.nan
    return float(np.average(half["value"], weights=half["examples"])), float(half["value"].mean())


def held_out_score(history: History) -> float:
    """The accuracy on the half of the test clients that is not reported, counted negative: smaller
    is better. Infinite if the run diverged or was published without its values per client.
    """
    accuracy, _ = on_half(history, choosing=True)
    return math.inf if math.isnan(accuracy) else -accuracy


def winners(
    histories: Iterable[History], *keys: Key, score: Callable[[History], float] = training_score
) -> dict[Any, list[History]]:
    """Of each algorithm the setting whose mean score over its seeds is smallest: its runs by seed.

    A setting that diverged for some seed loses. If all of an algorithm's did, the one that got
    furthest is shown.

    Args:
        keys: what to choose within. Default: the algorithm.
        score: of the rules above. Smaller is better.
    """
    distinct: dict[str, History] = {}
    for run in histories:
        distinct.setdefault(run.config.digest, run)
    best = {
        name: min(settings(runs), key=lambda seeds: merit(seeds, score))
        for name, runs in group(distinct.values(), *(keys or ("algorithm",))).items()
    }
    return {
        name: sorted(seeds, key=lambda run: run.config.seeds["init"])
        for name, seeds in best.items()
    }


def merit(
    seeds: Sequence[History], score: Callable[[History], float] = training_score
) -> tuple[float, float]:
    """The number that a setting is chosen by, smaller is better: its mean score over its seeds,
    infinite without any; then how long the runs went on.
    """
    if not seeds:
        return math.inf, math.inf
    survived = min(math.inf if run.diverged is None else run.diverged for run in seeds)
    return sum(map(score, seeds)) / len(seeds), -survived


def settings(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs grouped so that those of a group differ in their seeds only, and in data that are
    made or divided anew for each seed. If a seed has several data, each have their own group.
    """
    groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in runs:
        task, data = run.config.task, run.config.task["data"]
        by_hand = "version" in task or data.startswith("task ")  # see Task.identity
        # Else other data are another data set, or a lossy copy.
        own = "" if by_hand or task["stand_in"] else data
        alike = groups.setdefault((run.config.setting, own), {})
        alike.setdefault(data, []).append(run)
    separate: list[list[Run]] = []
    for alike in groups.values():
        seeds = [{run.config.task["seed"] for run in runs} for runs in alike.values()]
        apart = sum(map(len, seeds)) > len(set().union(*seeds))
        separate += alike.values() if apart else [[*itertools.chain(*alike.values())]]
    return separate
