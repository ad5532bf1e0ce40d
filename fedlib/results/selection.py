"""The rules for choosing hyperparameters, and means over seeds.

FedOpt (section 5.1, appendix D): the setting with the smallest mean training loss over the last 100
rounds wins (:func:`training_score`); what is plotted is its validation metric. That loss is seen
during local training, so the rule rewards rates at which clients overfit locally.

On held-out clients (:func:`held_out_score`): the setting with the best test metric on one half of
the test clients wins, and what is reported is the metric on the other half (:func:`on_half`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fedlib.engine.config import RunConfig
from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.files import Stored
from fedlib.results.reading import value

Run = TypeVar("Run", bound=History | Stored)
# What a run is judged by is a mean of at least so many evaluations.
EVALUATIONS = 6


def window(rounds: int, paper_rounds: int | None = None) -> int:
    """Over how many last rounds to average: the paper's 100, scaled with the rounds.

    Args:
        rounds: of the run.
        paper_rounds: of the paper's run; default the rule of :meth:`History.window`.

    >>> window(4000), window(150), window(150, paper_rounds=4000)
    (100, 10, 4)
    """
    paper = 1500 if paper_rounds is None else paper_rounds
    return min(WINDOW_ROUNDS, max(1, round(rounds * WINDOW_ROUNDS / paper)))


def late(history: History) -> int:
    """Over how many last rounds a run is judged: a third of a small problem's, of others the 100,
    or as many as have six evaluations.

    With one or two labels a client FedAvg and SCAFFOLD jump from round to round: the paper's share
    of a small problem's rounds would be five of them, and a cut run is evaluated now and then.
    """
    least = max(WINDOW_ROUNDS, EVALUATIONS * history.config.eval_every)
    return max(history.window(), min(history.config.rounds // 3, least))


def training_score(history: History, paper_rounds: int | None = None) -> float:
    """Mean training loss over the window; infinite if the run diverged. Smaller is better."""
    score = history.final("loss", "train", window(history.config.rounds, paper_rounds))
    return score if math.isfinite(score) else math.inf


def on_half(
    history: History, metric: str = "accuracy", choosing: bool = False
) -> tuple[float, float]:
    """A test metric of the last model on one half of the test clients.

    The clients are put into halves by the hashes of their names, so all runs of a task have the
    same ones.

    Args:
        metric: a test metric, or the loss.
        choosing: the half that settings are chosen on; default the other one, which is reported.

    Returns:
        the mean weighted by examples, and with clients alike. NaN if the run diverged or was
        published without its values per client.

    Raises:
        Error: the test data have fewer than two clients, so there are no halves.
    """
    frame = history.clients
    if history.diverged is not None or frame.empty:
        return math.nan, math.nan
    frame = frame[(frame["metric"] == metric) & (frame["split"] == "test")]
    if len(frame) < 2:
        task = history.config.task["name"]
        raise Error(f"task {task}: its test data have one client; two halves need at least two")
    hashes = [hashlib.sha256(client.encode()).hexdigest() for client in frame["client"]]
    half = frame.iloc[np.argsort(hashes)[0 if choosing else 1 :: 2]]
    half = half[half["examples"] > 0]
    if half.empty:
        return math.nan, math.nan
    return float(np.average(half["value"], weights=half["examples"])), float(half["value"].mean())


def held_out_score(history: History, metric: str = "accuracy", smaller: bool = False) -> float:
    """A test metric on the half of the test clients that is not reported. Smaller is better.

    Args:
        metric: see :func:`on_half`.
        smaller: whether small values of the metric are the good ones; else it is counted negative.

    Returns:
        infinite if the run diverged or was published without its values per client.
    """
    value, _ = on_half(history, metric, choosing=True)
    return math.inf if math.isnan(value) else value if smaller else -value


def best(histories: Iterable[History], by: Callable[[History], float] = training_score) -> History:
    """The history with the smallest score; the first of equals.

    Raises:
        Error: no histories, or all of them diverged.
    """
    scored = [(by(history), history) for history in histories]
    if not scored:
        raise Error("no runs to choose from; give at least one history")
    score, winner = min(scored, key=lambda pair: pair[0])
    if not math.isfinite(score):
        raise Error(f"all {len(scored)} runs diverged; try smaller learning rates")
    return winner


def best_setting(
    histories: Iterable[History], by: Callable[[History], float] = training_score
) -> list[History]:
    """All seeds of the setting whose mean score over its seeds is smallest.

    Raises:
        Error: no histories, or every setting diverged for a seed.
    """
    groups = settings(histories)
    if not groups:
        raise Error("no runs to choose from; give at least one history")
    scores = [sum(map(by, group)) / len(group) for group in groups]
    if not math.isfinite(min(scores)):
        raise Error(f"each of the {len(groups)} settings diverged; try smaller learning rates")
    return groups[scores.index(min(scores))]


def settings(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs grouped so that those of a group differ in their seeds only."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(shared(run.config), []).append(run)
    return list(groups.values())


def shared(config: RunConfig, *without: str) -> str:
    """What runs share that differ only in their seeds, and in these fields of a configuration."""
    plain: dict[str, Any] = config.as_dict()
    for name in ("seeds", *without):
        plain.pop(name)
    plain["task"].pop("seed")
    return json.dumps(plain, sort_keys=True)


def over_seeds(
    histories: Sequence[History],
    metric: str | Mapping[str, Callable[[History], float]] = "accuracy",
    *keys: str,
) -> pd.DataFrame:
    """Means and standard deviations over seeds, one row per setting.

    Args:
        metric: a test metric, averaged over :meth:`History.window`; or names and functions of a
            history, for instance ``{"spread": spread}``: a row for each.
        keys: columns that tell the settings apart, see :func:`fedlib.results.reading.value`;
            default task and algorithm.

    Returns:
        the keys' columns, metric, mean, std (n - 1, NaN for one seed), seeds. NaN where a seed
        diverged.
    """
    keys = keys or ("task", "algorithm")
    measures: Mapping[str, Callable[[History], float]] = (
        {metric: lambda history: history.final(metric)} if isinstance(metric, str) else metric
    )
    rows = []
    for group in settings(histories):
        labels = [value(group[0], key) for key in keys]
        for name, measure in measures.items():
            values = pd.Series([measure(history) for history in group], dtype=float)
            mean, std = values.mean(skipna=False), values.std(skipna=False)
            rows.append((*labels, name, mean, std, len(group)))
    columns = [key.removeprefix("option.") for key in keys]
    return pd.DataFrame(rows, columns=[*columns, "metric", "mean", "std", "seeds"])
