"""The evidence of papers' claims: statements about one tidy frame, of runs or of papers' numbers.

A frame has one row per number: task, algorithm, the setting's other columns, seed, metric, round,
value (fractions, or a squared error x1000), late (whether it is in the last rounds, which are
averaged), sem (the ± of a paper's number). :func:`numbers` makes it from runs, :func:`printed` from
a paper's table, and the same function judges both. To add a claim, write its words into
``fedlib/papers/claims.toml`` and in ``claims.py`` of the paper's package::

    @decides("fedopt-cifar10", {"10_cifar10": ("curves",)})
    def ahead(frame: pd.DataFrame) -> Iterator[Statement]:
        end = finals(frame, "accuracy")
        yield above("FedAdam > FedAvg + 0.02", one(end, "fedadam"), one(end, "fedavg") + 0.02)
"""

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
from fedlib.results.selection import by_setting, late, merit, training_score, winners

Measure = Callable[[pd.DataFrame], Iterable["Statement"]]
HOLDS, FAILS, OPEN, NOT_RUN = "holds", "does not hold", "not resolved", "not run"
# Takes the place of a round: the mean over the last ones.
MEAN = -1


class Missing(Exception):
    """A claim has nothing to compare: no such runs, or no curves in the paper's numbers."""


class Untuned(Missing):
    """A method that the claim requires to be tuned has runs of one setting alone. If it is behind,
    that shows nothing.
    """


# ----------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Statement:
    """An inequality, and the margin by which each seed's runs satisfy it.

    Attributes:
        text: the comparison in words, with the requirement.
        margins: one per seed, in the metric's unit (accuracy: a fraction). >= 0 is satisfied. It is
            not finite, and so not satisfied, if a run never reached the target of its rounds.
        error: standard error of one seed's margin. NaN: unknown.
        level: whether it is enough to be no worse than the spread.
        printed: whether its numbers are taken from the paper.
    """

    text: str
    margins: tuple[float, ...]
    error: float = math.nan
    level: bool = False
    printed: bool = False

    @property
    def mean(self) -> float:
        """The mean over the seeds, -inf if one never reached its target."""
        finite = all(math.isfinite(margin) for margin in self.margins)
        return fmean(self.margins) if finite else -math.inf

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds (n - 1), or with one seed its error. 0 if a run never
        reached its target.
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
        """Not resolved unless the mean margin is larger than the spread, or from the paper.

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
    the last rounds, so runs are paired by round, or in order. See :func:`_paired`.

    Args:
        larger, smaller: rows of :func:`finals` or :func:`rounds_to`.
        level: for a statement that only asks for being level, the error if it is known (from the
            paper), or NaN.
        sampling: the standard error from the number of test examples, see :func:`sampling_error`.
            With one seed the larger of this and the error of the evaluations counts.
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
    """The standard error of an accuracy on this many test examples: √(a (1 - a) / n).

    The error of a difference of two methods is smaller if they are right on mostly the same
    examples. The number of these is not stored.

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
    """:func:`winners` of each task as one list, for a figure of tuned methods."""
    return [run for runs in winners(histories, "task", "algorithm").values() for run in runs]


def part_of(run: History) -> str:
    """The part of a plan that requested a run."""
    return str(run.meta["plan"]["part"])


def mean_final(runs: Sequence[History], metric: str = "accuracy") -> float:
    """A test metric at the end, over the rounds that judge claims (:func:`late`) and over the
    seeds. NaN if one diverged.
    """
    return fmean(run.final(metric, window=late(run)) for run in runs)


def numbers(
    histories: Iterable[History],
    columns: Mapping[str, Key] | None = None,
    score: Callable[[History], float] = training_score,
    window: Callable[[History], int] = late,
) -> pd.DataFrame:
    """The frame of the :func:`winners`' metrics, over all local data if all runs have them, else
    over the test examples. A run that diverged has the untrained model's metrics.

    Args:
        columns: keys that distinguish the settings, besides task and algorithm. A rate among them
            is not chosen.
        score: see :func:`winners`.
        window: number of last rounds to average.
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
    """:func:`numbers` with some keys as columns, and others by name."""
    return partial(numbers, columns={key.removeprefix("option."): key for key in keys} | columns)


def printed(paper: str, item: str) -> pd.DataFrame:
    """The frame of a paper's table, see :func:`fedlib.reproduction.tables.find`, without the
    numbers that our text copy of the paper lacks.
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
        One row per setting: algorithm, the rates, score (mean training loss over the last rounds
        and the seeds, infinite if one diverged), chosen, and edge: whether it is chosen and has the
        smallest or largest tried value of a rate.
    """
    keys = list(rates or ("client_lr", "server_lr"))
    rows = []
    for group in by_setting(histories):
        known = reading.hyperparameters(group[0])
        rows.append((group[0].config.algorithm, *(known[key] for key in keys), *merit(group)))
    frame = pd.DataFrame(rows, columns=["algorithm", *keys, "score", "ended"])
    best = frame.sort_values(["score", "ended"], kind="stable").drop_duplicates("algorithm")
    frame["chosen"] = frame.index.isin(best.index)
    return frame.drop(columns="ended").assign(edge=frame["chosen"] & _at_an_end(frame, keys))


def _at_an_end(search: pd.DataFrame, rates: list[str]) -> pd.Series:
    """The settings with the smallest or largest value that an algorithm tried, for any rate."""
    tried, by = search[rates], search.groupby("algorithm")[rates]
    low, high = by.transform("min"), by.transform("max")
    return (((tried == low) | (tried == high)) & (low < high)).any(axis=1)


def unsettled(search: pd.DataFrame) -> list[str]:
    """Algorithms whose search should be extended, as their winner has the smallest or largest rate.

    An algorithm is left out if a setting inside the grid is as good, within a hundredth of its
    score. If mostly the product of both rates matters, as with few local steps, the good settings
    form a ridge that leaves every grid.

    Args:
        search: result of :func:`searched`.
    """
    inside = search[~_at_an_end(search, [name for name in search if name.endswith("_lr")])]
    found = search.groupby("algorithm", sort=False).agg({"edge": "any", "score": "min"})
    least = inside.groupby("algorithm")["score"].min().reindex(found.index)
    return list(found.index[found["edge"] & ~(found["score"] > 0.99 * least)])


# -------------------------------------------------------------------------------------- numbers


def finals(frame: pd.DataFrame, metric: str, *keys: str) -> pd.DataFrame:
    """The means over the last rounds, and the values that they are means of.

    Args:
        keys: columns that distinguish the settings. Default: the algorithm.

    Returns:
        One row per setting, and one column per seed that all have and round of an evaluation, or
        :data:`MEAN`. See :func:`_paired` for settings that were evaluated at different rounds.

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
    """Settings' single evaluations, one column per round, or the mean if one setting has only that.

    If settings have different rounds, there are as many columns as all have evaluations. Settings
    with more have the means of successive ones.
    """
    counts = values.count(axis=1)
    several = counts > 1
    if values[several].isna().any(axis=None):
        least = counts[several].min()
        parts = np.full((len(values), least), np.nan)
        for place in np.flatnonzero(several):
            present = values.iloc[place].dropna().to_numpy()
            parts[place] = [part.mean() for part in np.array_split(present, least)]
        values = pd.DataFrame(parts, values.index, pd.RangeIndex(least, name="round"))
    return values.T.fillna(mean).T if values.isna().any(axis=None) else values


def one(table: pd.DataFrame, setting: Hashable) -> pd.Series:
    """A setting's row. NaN if there is none."""
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
    """The first evaluated round at which a metric reaches its target, or one more than the last.

    Args:
        target: a row of :func:`finals`.
        falling: whether the target is approached from above.

    Returns:
        One row per algorithm, with the target's columns. NaN for a seed that was not run.

    Raises:
        Missing: there is one evaluation per run, as in the paper's tables.
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
            # NaN never reaches the target.
            best = np.maximum.accumulate((sign * curve["value"]).fillna(-np.inf).to_numpy())
            places = np.searchsorted(best, sign * goals.to_numpy())
            at = np.append(curve["round"], math.nan if curve.empty else never)
            reached += at[places].tolist()
        rows[algorithm] = reached
    return pd.DataFrame.from_dict(rows, orient="index", columns=target.index)


@dataclass(frozen=True)
class Evidence:
    """The evidence of a claim.

    Attributes:
        id: id of the claim.
        sources: notebook -> the parts of its plan (empty: all) whose runs are measured.
        measure: makes statements from a frame.
        frame: makes the frame from a notebook's runs.
        printed: the frame of the paper's numbers. None: there are only curves.
        each: a column of that frame whose values are judged one by one. "": all as one.
        together: whether the notebooks' runs are measured as one. Otherwise each is separate.
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


# How each claim is decided, by its id. The papers' modules of claims fill it.
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
