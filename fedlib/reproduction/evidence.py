"""What decides a paper's claim: statements about one tidy frame, of runs or of printed numbers.

A frame has a row a number: task, algorithm, the setting's other columns, seed, metric, round, value
(fractions; a squared error x1000), late (whether it is of the last rounds, over which is averaged),
sem (a printed number's ±). :func:`numbers` makes it from runs, :func:`printed` from a paper's
table, and the same function judges both. How to add a claim, in ``claims.py`` of the paper's room.
Its words stand in ``fedlib/papers/claims.toml``::

    @decides("fedopt-cifar10", {"10_cifar10": ("curves",)})
    def ahead(frame: pd.DataFrame) -> Iterator[Statement]:
        end = finals(frame, "accuracy")
        yield above("FedAdam > FedAvg + 0.02", one(end, "fedadam"), one(end, "fedavg") + 0.02)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from fedlib.engine.history import History
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.tables import find
from fedlib.results import reading
from fedlib.results.reading import Key
from fedlib.results.selection import late, merit, settings, training_score, winners

Measure = Callable[[pd.DataFrame], Iterable["Statement"]]
HOLDS, FAILS, OPEN, NOT_RUN = "holds", "does not hold", "not resolved", "not run"
# In place of a round: the mean over the last ones.
MEAN = -1


class Missing(Exception):
    """Nothing that a claim compares: no such runs, or no curves of printed numbers."""


class Untuned(Missing):
    """A method that the claim asks to be tuned has runs of one setting alone: where it is behind,
    that shows nothing.
    """


# ----------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Statement:
    """An inequality, and by how much each seed's runs satisfy it.

    Attributes:
        text: what is compared, in words, with the requirement.
        margins: one a seed, in the metric's unit (accuracy: a fraction); >= 0: satisfied. Not
            finite, where a run never reached what rounds are counted to: not satisfied.
        error: of one seed's margin. NaN: unknown.
        level: whether it is enough to be no worse than the spread.
        printed: whether its numbers are taken as they are printed.
    """

    text: str
    margins: tuple[float, ...]
    error: float = math.nan
    level: bool = False
    printed: bool = False

    @property
    def mean(self) -> float:
        """Over the seeds; -inf if one never got there."""
        finite = all(math.isfinite(margin) for margin in self.margins)
        return fmean(self.margins) if finite else -math.inf

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds (n - 1); of one seed its error. 0 where a run never got
        there.
        """
        if not math.isfinite(self.mean):
            return 0.0
        return stdev(self.margins) if len(self.margins) > 1 else self.error

    @property
    def margin(self) -> str:
        """Mean and spread for people.

        >>> Statement("a > b", (0.02, 0.04)).margin, Statement("a > b", (0.02,)).margin
        ('+0.030 ± 0.014', '+0.020, spread unknown')
        """
        if math.isinf(self.mean):
            return "a run diverged or never got there"
        spread = "" if self.printed else f" ± {self.spread:.3f}"
        if spread and len(self.margins) == 1 and not self.spread > 0:
            unknown = math.isnan(self.spread)
            spread = ", spread unknown" if unknown else ", the same at every evaluation"
        return f"{self.mean:+.3f}{spread}"

    @property
    def verdict(self) -> str:
        """Not resolved unless the mean margin is larger than the spread, or printed.

        >>> Statement("a > b", (0.03, 0.02, 0.04)).verdict, Statement("a > b", (-0.1, 0.2)).verdict
        ('holds', 'not resolved')
        """
        if self.level and not math.isnan(self.spread):
            return HOLDS if self.mean >= -self.spread else FAILS
        if not self.printed and not self.spread <= abs(self.mean):
            return OPEN
        return HOLDS if self.mean >= 0 else FAILS


def above(
    text: str,
    larger: pd.Series,
    smaller: pd.Series | float = 0.0,
    *,
    level: float | None = None,
    sampling: float = math.nan,
) -> Statement:
    """The statement that one number is at least another.

    The error of one seed's margin is the standard error of the margins at the single evaluations of
    the last rounds, so that runs are paired by round, or in order. See :func:`_paired`.

    Args:
        larger, smaller: rows of :func:`finals` or :func:`rounds_to`.
        level: the error if it is known (printed), NaN if not, in a statement that asks for no more
            than being level.
        sampling: the standard error that so few test examples give, see :func:`sampling_error`. It
            counts for one seed where it is larger than that of the evaluations.
    """
    margins = larger - smaller
    mean = margins.xs(MEAN, level="round").dropna()
    single = margins.drop(MEAN, level="round")
    error, n = math.nan, len(single)
    if len(mean) == 1 and n > 1:
        error = math.sqrt(((single - mean.iloc[0]) ** 2).sum() / (n * (n - 1)))
    error = float(np.fmax(error, sampling))
    if level is not None and not math.isnan(level):
        error = level
    return Statement(text, tuple(mean.tolist()), error, level is not None)


def below(
    text: str, smaller: pd.Series, larger: pd.Series | float = 0.0, *, sampling: float = math.nan
) -> Statement:
    """The statement that one number is at most another. See :func:`above`."""
    return above(text, larger - smaller, sampling=sampling)


def sampling_error(accuracy: pd.Series, examples: float) -> float:
    """The standard error of an accuracy on so many test examples: √(a (1 - a) / n).

    That of the difference of two methods on the same examples is smaller where they are right on
    mostly the same ones. How many those are is not stored.

    Args:
        accuracy: a row of :func:`finals`.
        examples: NaN if unknown.

    Example:
        >>> index = pd.MultiIndex.from_tuples([(0, MEAN)], names=["seed", "round"])
        >>> round(sampling_error(pd.Series([0.75], index), 1685), 4)
        0.0105
    """
    mean = accuracy.xs(MEAN, level="round").mean()
    return math.sqrt(mean * (1 - mean) / examples)


# --------------------------------------------------------------------------------------- frames


def best_of(histories: Sequence[History]) -> list[History]:
    """:func:`winners` of each task as one list: what a figure of tuned methods shows."""
    return [run for runs in winners(histories, "task", "algorithm").values() for run in runs]


def part_of(run: History) -> str:
    """The part of a plan that a run was requested for."""
    return str(run.meta["plan"]["part"])


def mean_final(runs: Sequence[History], metric: str = "accuracy") -> float:
    """A test metric at the end, over the rounds by which claims are judged (:func:`late`), and over
    the seeds. NaN if one diverged.
    """
    return fmean(run.final(metric, window=late(run)) for run in runs)


def numbers(
    histories: Iterable[History],
    columns: Mapping[str, Key] | None = None,
    score: Callable[[History], float] = training_score,
    window: Callable[[History], int] = late,
) -> pd.DataFrame:
    """The frame of the :func:`winners`' metrics: of all local data where all runs have them, else
    of the test examples; of a run that diverged those of the untrained model.

    Args:
        columns: what tells the settings apart, beside task and algorithm. A rate among them is not
            chosen.
        score: see :func:`winners`.
        window: over how many last rounds is averaged.
    """
    keys = {"task": "task", "algorithm": "algorithm", **(columns or {})}
    histories = list(histories)
    split = reading.split_of(*histories)
    rows, curves = [], []
    for setting, runs in winners(histories, *keys.values(), score=score).items():
        for run in runs:
            rounds = run.config.rounds
            points = {name: run.points(name, split) for name in run.metrics(split)}
            if run.diverged is not None:
                points = {
                    name: (np.array([at[0], rounds]), value[[0, 0]])
                    for name, (at, value) in points.items()
                }
            last = max(at[-1] for at, _ in points.values())
            start = min(rounds - window(run), last - 1)
            named = dict(zip(keys, setting, strict=True)) | {"seed": run.config.seeds["init"]}
            for name, (at, value) in points.items():
                rows.append({**named, "metric": name})
                curves.append((at, value, at > start))
    if not rows:
        raise Missing("runs")
    frame = pd.DataFrame(rows)
    frame = frame.loc[np.repeat(frame.index, [len(at) for at, *_ in curves])]
    whole = map(np.concatenate, zip(*curves, strict=True))
    measured = dict(zip(("round", "value", "late"), whole, strict=True))
    return frame.reset_index(drop=True).assign(**measured)


def per(*keys: str, **columns: Key) -> partial[pd.DataFrame]:
    """:func:`numbers` whose columns are some keys, and others by name."""
    return partial(numbers, columns={key.removeprefix("option."): key for key in keys} | columns)


def printed(paper: str, item: str) -> pd.DataFrame:
    """The frame of a printed table: :func:`fedlib.reproduction.tables.find`, without the numbers
    that our text copy of the paper lacks.
    """
    cells = find(paper, item).dropna(subset="printed")
    unit = cells["metric"].map(lambda metric: 0.01 if METRICS[metric].factor == 100 else 1.0)
    return cells.assign(
        metric=cells["metric"].map(lambda metric: METRICS[metric].series),
        value=cells["printed"] * unit,
        sem=cells["printed_spread"] * unit,
        seed=0,
        round=0,
        late=True,
    )


def searched(histories: Sequence[History], *rates: str) -> pd.DataFrame:
    """The grids that :func:`winners` chose from.

    Args:
        rates: override keys. Default: ``client_lr`` and ``server_lr``.

    Returns:
        a row a setting: algorithm, the rates, score (mean training loss over the last rounds and
        the seeds, infinite if one diverged), chosen, and edge: whether it is chosen and at the end
        of what was tried for one of the rates.
    """
    keys = list(rates or ("client_lr", "server_lr"))
    rows = []
    for group in settings(histories):
        known = reading.hyperparameters(group[0])
        rows.append((group[0].config.algorithm, *(known[key] for key in keys), *merit(group)))
    frame = pd.DataFrame(rows, columns=["algorithm", *keys, "score", "ended"])
    best = frame.sort_values(["score", "ended"], kind="stable").drop_duplicates("algorithm")
    frame["chosen"] = frame.index.isin(best.index)
    return frame.drop(columns="ended").assign(edge=frame["chosen"] & _at_an_end(frame, keys))


def _at_an_end(search: pd.DataFrame, rates: list[str]) -> pd.Series:
    """Which settings are at the end of what an algorithm was tried with, of one of the rates."""
    tried, by = search[rates], search.groupby("algorithm")[rates]
    low, high = by.transform("min"), by.transform("max")
    return (((tried == low) | (tried == high)) & (low < high)).any(axis=1)


def unsettled(search: pd.DataFrame) -> list[str]:
    """Algorithms whose search would have to go on: their winner lies at an end of what was tried.

    Not those of which a setting inside is as good, within a hundredth of its score: where little
    but the product of both rates matters, as with few local steps, the good settings form a ridge
    that runs out of every grid.

    Args:
        search: from :func:`searched`.
    """
    inside = search[~_at_an_end(search, [name for name in search if name.endswith("_lr")])]
    found = search.groupby("algorithm", sort=False).agg({"edge": "any", "score": "min"})
    least = inside.groupby("algorithm")["score"].min().reindex(found.index)
    return list(found.index[found["edge"] & ~(found["score"] > 0.99 * least)])


# -------------------------------------------------------------------------------------- numbers


def finals(frame: pd.DataFrame, metric: str, *keys: str) -> pd.DataFrame:
    """The means over the last rounds, and what they are means of.

    Args:
        keys: columns that tell the settings apart. Default: the algorithm.

    Returns:
        a row a setting, a column a seed that all have and round of an evaluation, or
        :data:`MEAN`; see :func:`_paired` for settings that were evaluated at different rounds.

    Raises:
        Missing: no such numbers, or no seed that all have.
    """
    shown = frame[(frame["metric"] == metric) & frame["late"]]
    index: Any = keys[0] if len(keys) == 1 else list(keys) or "algorithm"
    wide = shown.pivot(index=index, columns=["seed", "round"], values="value")
    by_seed = {}
    for seed in wide.columns.unique("seed"):
        values = wide[seed]
        mean = values.mean(axis=1)
        if mean.notna().all():
            by_seed[seed] = pd.concat([mean.rename(MEAN), _paired(values, mean)], axis=1)
    if not by_seed:
        raise Missing(metric)
    return pd.concat(by_seed, axis=1, names=["seed", "round"])


def _paired(values: pd.DataFrame, mean: pd.Series) -> pd.DataFrame:
    """Settings' single evaluations, a column a round; of one that has one alone its mean.

    If settings have different rounds: as many columns as all have evaluations, of more than these
    the means of successive ones.
    """
    counts = values.count(axis=1)
    several = counts > 1
    if values[several].isna().any(axis=None):
        least = counts[several].min()
        parts = np.full((len(values), least), np.nan)
        for place in np.flatnonzero(several):
            there = values.iloc[place].dropna().to_numpy()
            parts[place] = [part.mean() for part in np.array_split(there, least)]
        values = pd.DataFrame(parts, values.index, pd.RangeIndex(least, name="round"))
    return values.T.fillna(mean).T if values.isna().any(axis=None) else values


def one(table: pd.DataFrame, setting: Hashable) -> pd.Series:
    """A setting's row. NaN where there is none."""
    return table.reindex([setting]).iloc[0]


def least(table: pd.DataFrame, settings: Iterable[Hashable]) -> pd.Series:
    """The smallest of some settings' numbers. NaN if one is missing."""
    return table.reindex(list(settings)).min(skipna=False)


def most(table: pd.DataFrame, settings: Iterable[Hashable]) -> pd.Series:
    """The largest of some settings' numbers. NaN if one is missing."""
    return table.reindex(list(settings)).max(skipna=False)


def rounds_to(
    frame: pd.DataFrame, metric: str, target: pd.Series, *, falling: bool = False
) -> pd.DataFrame:
    """The first evaluated round at which a metric reaches its target; never: one more than all.

    Args:
        target: a row of :func:`finals`.
        falling: whether it is reached from above.

    Returns:
        a row an algorithm, with the target's columns; NaN for a seed that was not run.

    Raises:
        Missing: one evaluation a run, as printed.
    """
    curves = frame[frame["metric"] == metric].sort_values("round")
    if curves["round"].nunique() < 2:
        raise Missing("curves")
    sign, never = -1 if falling else 1, curves["round"].max() + 1
    rows = {}
    for algorithm, run in curves.groupby("algorithm"):
        reached = []
        for seed, goals in target.groupby(level="seed", sort=False):
            curve = run[run["seed"] == seed]
            # NaN reaches nothing.
            best = np.maximum.accumulate((sign * curve["value"]).fillna(-np.inf).to_numpy())
            places = np.searchsorted(best, sign * goals.to_numpy())
            at = np.append(curve["round"], math.nan if curve.empty else never)
            reached += at[places].tolist()
        rows[algorithm] = reached
    return pd.DataFrame.from_dict(rows, orient="index", columns=target.index)


@dataclass(frozen=True)
class Evidence:
    """What decides a claim.

    Attributes:
        id: of the claim.
        sources: notebook -> the parts of its plan (none: all) whose runs are measured.
        measure: from a frame to statements.
        frame: from a notebook's runs to the frame.
        printed: the frame of the printed numbers. None: there are only curves.
        each: a column of that frame whose values are judged one by one. "": all as one.
        together: whether the notebooks' runs are measured as one; else each by itself.
        whole: whether a verdict names the parts among ``sources`` that have no runs.
    """

    id: str
    sources: Mapping[str, Sequence[str]]
    measure: Measure
    frame: Callable[[Sequence[History]], pd.DataFrame] = numbers
    printed: Callable[[], pd.DataFrame] | None = None
    each: str = ""
    together: bool = False
    whole: bool = False


# What the rooms' claims are decided by.
KNOWN: dict[str, Evidence] = {}


def decides(
    id: str,
    sources: Mapping[str, Sequence[str]],
    frame: Callable[[Sequence[History]], pd.DataFrame] = numbers,
    printed: Callable[[], pd.DataFrame] | None = None,
    **more: Any,
) -> Callable[[Measure], Measure]:
    """Have the function below decide a claim. The arguments are :class:`Evidence`'s."""

    def register(measure: Measure) -> Measure:
        KNOWN[id] = Evidence(id, sources, measure, frame, printed, **more)
        return measure

    return register
