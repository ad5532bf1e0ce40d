"""The papers' rule for choosing hyperparameters, and means over seeds.

FedOpt (section 5.1, appendix D): the setting with the smallest mean training loss over the last 100
rounds wins; what is plotted is its validation metric.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from fedlib.engine.config import RunConfig
from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.files import Stored
from fedlib.results.reading import value

Run = TypeVar("Run", bound=History | Stored)


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


def training_score(history: History, paper_rounds: int | None = None) -> float:
    """Mean training loss over the window; infinite if the run diverged. Smaller is better."""
    score = history.final("loss", "train", window(history.config.rounds, paper_rounds))
    return score if math.isfinite(score) else math.inf


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
