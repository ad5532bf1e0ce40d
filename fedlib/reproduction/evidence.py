"""What decides a paper's claim: statements measured on runs, with a margin for each seed.

How to add one, in ``claims.py`` of the paper's room; the claim's words stand in
``fedlib/papers/claims.toml``::

    Evidence("fedopt-cifar10", {"10_cifar10": ("curves",)}, cifar10)

    def cifar10(runs: Runs) -> list[Statement]:
        ours, plain = finals(runs["fedadam"]), finals(runs["fedavg"])
        return [above("FedAdam > FedAvg + 0.02", ours, plain + 0.02)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fedlib.engine.history import History
from fedlib.results import reading, selection

Key = TypeVar("Key")
HOLDS, FAILS, OPEN, NOT_RUN = "holds", "does not hold", "not resolved", "not run"


class Missing(Exception):
    """No run of a label that a claim compares."""


class Runs(dict[Any, list[History]]):
    """A label, mostly an algorithm's name -> a run for each seed, of the seeds that all have.

    Raises:
        Missing: a label without runs.
    """

    def __init__(self, runs: Mapping[Any, Sequence[History]]) -> None:
        seeds = [{run.config.seeds["init"] for run in chosen} for chosen in runs.values()]
        common = set.intersection(*seeds) if seeds else set()
        super().__init__(
            (label, [run for run in chosen if run.config.seeds["init"] in common])
            for label, chosen in runs.items()
        )

    def __getitem__(self, label: Any) -> list[History]:
        runs = self.get(label)
        if not runs:
            raise Missing(label)
        return runs


def in_step(groups: Mapping[Key, Mapping[Any, Sequence[History]]]) -> dict[Key, Runs]:
    """The runs of several groups that are compared seed by seed, of the seeds that all have."""
    every = Runs(
        {(key, label): runs for key, group in groups.items() for label, runs in group.items()}
    )
    return {
        key: Runs({label: every.get((key, label), []) for label in group})
        for key, group in groups.items()
    }


@dataclass(frozen=True)
class Statement:
    """An inequality, and by how much each seed's runs satisfy it.

    Attributes:
        text: what is compared, in words, with the requirement.
        margins: one a seed, in the metric's unit (accuracy: a fraction); >= 0: satisfied. NaN,
            where a run diverged, counts as not satisfied.
    """

    text: str
    margins: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds; -inf if a run diverged, or never reached what rounds are counted to."""
        finite = all(math.isfinite(margin) for margin in self.margins)
        return fmean(self.margins) if finite else -math.inf

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds (n - 1); 0 for one seed or where a run diverged."""
        several = len(self.margins) > 1 and math.isfinite(self.mean)
        return stdev(self.margins) if several else 0.0

    @property
    def margin(self) -> str:
        """Mean and spread for people.

        >>> Statement("a > b", (0.02, 0.04)).margin, Statement("a > b", (-math.inf,)).margin
        ('+0.030 ± 0.014', 'a run diverged or never got there')
        """
        if math.isinf(self.mean):
            return "a run diverged or never got there"
        return f"{self.mean:+.3f} ± {self.spread:.3f}"

    @property
    def verdict(self) -> str:
        """Not resolved if the seeds spread more than the mean margin is away from zero.

        >>> Statement("a > b", (0.03, 0.02, 0.04)).verdict, Statement("a > b", (-0.1, 0.2)).verdict
        ('holds', 'not resolved')
        """
        if self.spread > abs(self.mean):
            return OPEN
        return HOLDS if self.mean >= 0 else FAILS


@dataclass(frozen=True)
class Evidence:
    """What decides a claim.

    Attributes:
        id: of the claim.
        sources: notebook -> the parts of its plan (none: all) whose runs are measured. Each
            notebook is measured by itself.
        measure: from a notebook's runs to statements.
        select: from the runs to what is measured, mostly :class:`Runs`; default: by algorithm, of
            each the setting with the smallest training loss (:func:`winners`).
        exceptions: why the claim does not hold, as far as we know; by preset, or by preset and
            notebook (``"quick/14_shakespeare"``) where others of its sources show it.
    """

    id: str
    sources: Mapping[str, Sequence[str]]
    measure: Callable[[Any], list[Statement]]
    select: Callable[[Sequence[History]], Any] | None = None
    exceptions: Mapping[str, str] = field(default_factory=dict)

    def exception(self, preset: str, notebook: str = "") -> str:
        """Why the claim does not hold at a preset, in a notebook or (none given) in any."""
        keys = [
            preset,
            *(f"{preset}/{name}" for name in ([notebook] if notebook else self.sources)),
        ]
        return "; ".join(self.exceptions[key] for key in keys if key in self.exceptions)


def winners(histories: Sequence[History], *keys: str) -> dict[Any, list[History]]:
    """Of each algorithm the setting with the smallest training loss, its runs by seed.

    The papers' rule, see :func:`fedlib.results.selection.best_setting`. A setting that diverged for
    some seed loses; if all of an algorithm's did, the one that got furthest is shown.

    Args:
        keys: what to choose within, see :func:`fedlib.results.reading.value`; default the
            algorithm.
    """
    chosen = {}
    for label, runs in reading.group(histories, *(keys or ("algorithm",))).items():
        groups = selection.settings(runs)
        best = min(groups, key=_merit)
        chosen[label] = sorted(best, key=lambda run: run.config.seeds["init"])
    return chosen


def _merit(group: Sequence[History]) -> tuple[float, float]:
    """Smaller is better: the training loss, then how long the runs went on."""
    survived = min(math.inf if run.diverged is None else run.diverged for run in group)
    return sum(map(selection.training_score, group)), -survived


def best_of(histories: Sequence[History]) -> list[History]:
    """:func:`winners` as one list: what a figure of tuned methods shows."""
    return [run for runs in winners(histories).values() for run in runs]


def searched(histories: Sequence[History], *rates: str) -> pd.DataFrame:
    """The grids that :func:`winners` chose from.

    Args:
        rates: override keys; default ``client_lr`` and ``server_lr``.

    Returns:
        a row a setting: algorithm, the rates, score (mean training loss over the last rounds and
        the seeds, infinite if one diverged), chosen, and edge: whether it is chosen and at the end
        of what was tried for one of the rates.
    """
    keys = list(rates or ("client_lr", "server_lr"))
    rows, groups = [], selection.settings(histories)
    for group in groups:
        known = reading.hyperparameters(group[0])
        score = fmean(map(selection.training_score, group))
        rows.append((group[0].config.algorithm, *(known[key] for key in keys), score))
    frame = pd.DataFrame(rows, columns=["algorithm", *keys, "score"])
    by = frame.groupby("algorithm")
    best = [min(places, key=lambda place: _merit(groups[place])) for places in by.groups.values()]
    frame["chosen"] = frame.index.isin(best)
    low, high = by[keys].transform("min"), by[keys].transform("max")
    ends = ((frame[keys] == low) | (frame[keys] == high)) & (low < high)
    return frame.assign(edge=frame["chosen"] & ends.any(axis=1))


def unsettled(search: pd.DataFrame, tolerance: float = 0.01) -> list[str]:
    """Algorithms whose search would have to go on: their winner lies at an end of what was tried.

    Not those of which a setting inside is as good: where little but the product of both rates
    matters, as with few local steps, the good settings form a ridge that runs out of every grid.

    Args:
        search: from :func:`searched`.
        tolerance: by which share of its score a winner must be better than all settings inside.
    """
    rates = [name for name in search if name.endswith("_lr")]
    labels = []
    for label, tried in search.groupby("algorithm", sort=False):
        low, high = tried[rates].min(), tried[rates].max()
        ends = ((tried[rates] == low) | (tried[rates] == high)) & (low < high)
        inside = tried.loc[~ends.any(axis=1), "score"].min()
        if tried["edge"].any() and not tried["score"].min() > (1 - tolerance) * inside:
            labels.append(str(label))
    return labels


def finals(runs: Sequence[History], metric: str = "accuracy", split: str = "test") -> np.ndarray:
    """Each seed's mean over the last rounds (:meth:`History.final`); NaN where it diverged."""
    return np.array([run.final(metric, split) for run in runs])


def rounds_to(
    runs: Sequence[History], target: float | np.ndarray, metric: str = "accuracy"
) -> np.ndarray:
    """Each seed's first evaluated round at which a metric reaches its target; inf: never.

    Args:
        target: the same for all seeds, or one a seed; reached from below.
    """
    goals = np.broadcast_to(target, len(runs))
    reached = []
    for run, goal in zip(runs, goals, strict=True):
        series = run.series(metric)
        there = series.index[series >= goal]
        reached.append(float(there[0]) if len(there) and run.diverged is None else math.inf)
    return np.array(reached)


def above(text: str, larger: np.ndarray | float, smaller: np.ndarray | float) -> Statement:
    """The statement that one number a seed is at least another.

    Raises:
        Missing: there are none.
    """
    margins = np.atleast_1d(np.asarray(larger, float) - np.asarray(smaller, float))
    if not margins.size:
        raise Missing(text)
    return Statement(text, tuple(margins.tolist()))


def below(text: str, smaller: np.ndarray | float, larger: np.ndarray | float) -> Statement:
    """The statement that one number a seed is at most another."""
    return above(text, larger, smaller)
