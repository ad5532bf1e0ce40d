"""Comparison of the papers' numbers with ours.

Legible numbers are compared with runs that have the paper's settings as far as known, its data,
seeds and tuning. If a paper gives a number of the same runs in two tables, it is compared once,
even if its digits differ: then the paper disagrees with itself. :func:`outcome` judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot, inf, isnan, nan, sqrt
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from fedlib import papers
from fedlib.engine.history import History
from fedlib.reproduction import matching, tables
from fedlib.reproduction.matching import Cell, Index, Run
from fedlib.reproduction.metrics import METRICS
from fedlib.results.reading import read, split_of
from fedlib.results.store import Store

# Largest distance of ours from a percentage, in points, and from other numbers, in percent of them.
TOLERANCE = 1.5

# The outcomes of a comparison.
AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "cannot be told"

# Columns of a comparison's frame besides the two numbers and their settings.
VERDICT = ("printed_spread", "splits", "splits_std", "chance", "repeats", "outcome")
COLUMNS = ["paper", "item", "task", "row", "column", "algorithm", "metric", "printed"]
COLUMNS += ["printed_spread", "ours", "ours_std", "seeds", "splits", "splits_std", "window"]
COLUMNS += ["difference", "chance", "ours_unweighted", "repeats", "outcome", "preset", "rounds"]
COLUMNS += ["printed_rounds", "data", "runs", "note", "unclear"]


def outcome(gap: float, chance: float, spread: float = inf, tolerance: float = TOLERANCE) -> str:
    """The outcome of a comparison of our number with the paper's.

    Args:
        gap: their distance. NaN if one of our runs diverged.
        chance: two standard deviations of the distance that chance alone gives, see :func:`cells`.
            NaN if unknown.
        spread: 2 √(b² + s²) if the paper gives a ± b, with s the deviation of ours, else infinite.
        tolerance: up to this distance they count as the same, if also within the spread.

    Returns:
        ``"cannot be told"`` if chance alone exceeds the tolerance, so that being near would say
        nothing, and they are not further apart than chance. Otherwise ``"agrees"`` or
        ``"differs"``, which are decisive.

    Example:
        >>> outcome(1.0, 0.4), outcome(1.0, 4.0), outcome(9.0, 4.0), outcome(1.0, 0.4, 0.8)
        ('agrees', 'cannot be told', 'differs', 'differs')
    """
    if isnan(gap):
        return DIFFERS
    if isnan(chance) or tolerance < chance >= gap:
        return UNDECIDED
    return AGREES if gap <= max(min(tolerance, spread), chance) else DIFFERS


def compare(store: Store | None = None) -> pd.DataFrame:
    """Every number of the papers that this fedlib can compute, beside ours.

    Args:
        store: the stored and the published runs. Default: the standard store.

    Returns:
        One row per cell of the papers' tables: paper, item, task, row and column (as in the paper),
        algorithm, metric, printed (NaN: our text copy of the paper lacks it), printed_spread (its
        ±, NaN without), ours (mean over seeds, and over splits of the clients' data if there are
        several), ours_std (over the seeds of one split, n - 1), seeds and splits (their numbers),
        splits_std (over splits, n - 1, 0 for one), window (number of last rounds in our mean),
        difference (ours - printed), chance (two standard deviations of the distance that chance
        alone gives, see :func:`cells`), ours_unweighted (clients have equal weights instead of
        their examples), repeats (the earlier table with a number of the same runs, or ""), outcome
        (``"agrees"``, ``"differs"``, ``"cannot be told"``, see :func:`outcome`, or "" if they are
        not compared, because the number is illegible or repeated, or the runs depart from the paper
        by more than a reading of it), preset, rounds, printed_rounds, data (``"real"``,
        ``"stand-in"``), runs (digests), note (how the runs depart from the paper's, including
        readings, and which diverged), unclear (the uncertainty about the paper's number).

        Numbers are in the paper's unit, mostly percent. A cell without a run has NaN and names its
        notebook.
    """
    store = Store() if store is None else store
    return cells(store.stored(published=True))


def cells(runs: Iterable[Run], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """As :func:`compare`, from these runs.

    Chance separates the paper's mean of k seeds and ours of n as follows. s is the deviation of one
    of our runs' numbers, over its last rounds or over the seeds, whichever is larger. b is the
    paper's deviation (or s), and u the deviation over m splits. Then chance is
    2 √(b² / k + s² / n + u² (1 + 1 / m)).

    Args:
        printed: rows of :func:`fedlib.papers.cells`. Default: all.
    """
    known = Index(runs)
    printed = papers.cells() if printed is None else printed
    frame = pd.DataFrame([{**cell, **_ours(cell, known)} for cell in printed.to_dict("records")])
    frame["difference"] = frame["ours"] - frame["printed"]
    # Cells of the same runs, by the paper's description.
    alike = ["paper", "task", "algorithm", "metric", "overrides", "options", "rounds"]
    keys = [str(values) for values in printed[alike].itertuples(index=False, name=None)]
    legible = frame["printed"].notna()
    first = frame["item"].where(legible).groupby(keys).transform("first")
    once = frame["printed"].groupby(keys).transform("first")
    again = legible & (first != frame["item"])
    frame["repeats"] = first.where(again, "")
    other = again & (once != frame["printed"])
    said = "other digits of the same runs in " + first + ": " + once.map("{:g}".format)
    joined = (frame["unclear"] + "; " + said).where(frame["unclear"] != "", said)
    frame["unclear"] = frame["unclear"].mask(other, joined)
    # Within the tolerance and, if the paper gives ±, within both spreads.
    percent = frame["metric"].map(lambda name: METRICS[name].factor == 100)
    near = (TOLERANCE / 100 * frame["printed"].abs()).mask(percent, TOLERANCE)
    spread = 2 * np.hypot(frame["printed_spread"], np.hypot(frame["ours_std"], frame["splits_std"]))
    spread = spread.mask(frame["printed_spread"].isna(), inf)
    numbers = zip(frame["difference"].abs(), frame["chance"], spread, near, strict=True)
    judged = pd.Series([outcome(*each) for each in numbers], frame.index, dtype=object)
    frame["outcome"] = judged.where(legible & ~frame["departs"] & ~again, "")
    whole = dict.fromkeys(("rounds", "printed_rounds", "window"), "Int64")
    return frame[COLUMNS].astype(whole)


def _ours(cell: Cell, known: Index) -> dict[str, Any]:
    """The values of the runs of a paper's number, see :func:`compare`."""
    tried = known.nearest(cell)
    setting = matching.best_setting(cell, tried)
    chosen = matching.of_one_split(setting)
    histories, splits = list(read(chosen)), read(matching.over_splits(chosen, setting))
    metric = METRICS[cell["metric"]]
    measured = [metric(history) for history in histories]
    weighted = [metric.factor * value for value, _ in measured]
    by_split = [metric.factor * metric(history)[0] for history in splits]
    config = histories[0].config if histories else None
    departs = _departures(cell, histories, weighted, tried)
    either = matching.left_open(cell, histories[0]) if histories else []
    diverged = [
        f"seed {history.config.seeds['init']} diverged in round {history.diverged}"
        for history in histories
        if history.diverged is not None
    ]
    seeds_std = float(np.std(weighted, ddof=1)) if len(weighted) > 1 else nan
    splits_std = float(np.std(by_split, ddof=1)) if by_split else 0.0
    apart = seeds_std > abs(fmean(weighted)) / 2 if weighted else False
    by_seed = [f"by seed {', '.join(f'{value:.1f}' for value in sorted(weighted))}"] * apart
    jitter = [metric.factor * metric.jitter(history) for history in histories]
    own = np.fmax(float(np.sqrt(np.mean(np.square(jitter)))) if jitter else nan, seeds_std)
    theirs = own if isnan(cell["printed_spread"]) else cell["printed_spread"]
    alone = hypot(theirs / sqrt(cell["seeds"]), own / sqrt(max(1, len(histories))))
    return {
        # The seeds' mean on one split, and one run on each other split.
        "ours": fmean([fmean(weighted), *by_split[1:]]) if weighted else nan,
        "ours_std": seeds_std,
        "splits": max(len(by_split), min(1, len(histories))),
        "splits_std": splits_std,
        "chance": 2 * hypot(alone, splits_std * sqrt(1 + 1 / max(1, len(by_split)))),
        "window": metric.over(histories[0]) if histories else None,
        "seeds": len(histories),
        "ours_unweighted": metric.factor * fmean(v for _, v in measured) if measured else nan,
        "preset": config.task["preset"] if config else "",
        "rounds": config.rounds if config else None,
        "printed_rounds": matching.printed_settings(cell)["rounds"],
        "data": ("stand-in" if config.task["stand_in"] else "real") if config else "",
        "runs": tuple(history.config.digest for history in histories),
        "departs": bool(departs),
        "note": "; ".join([*departs, *_readings(cell, histories), *either, *diverged, *by_seed]),
    }


def _departures(
    cell: Cell, histories: Sequence[History], measured: Sequence[float], tried: Sequence[list[Run]]
) -> list[str]:
    """How some runs depart from the paper's, in words. ``measured`` are their numbers."""
    if not histories:
        notebook = tables.notebook(cell["paper"], cell["item"], cell["task"])
        return [f"no run yet: {tables.how_to_make(notebook)}"]
    local = cell["paper"] == "adafedadam"  # see split_of
    test_only = local and split_of(*histories) == "test"
    unmeasured = any(
        isnan(value) and history.diverged is None
        for history, value in zip(histories, measured, strict=True)
    )
    return [
        *matching.departures(cell, histories[0].config),
        *matching.shortfalls(cell, histories, tried),
        *(["values per client not kept"] if unmeasured else []),
        *(["over the clients' test examples, not all their data"] if test_only else []),
    ]


def _readings(cell: Cell, histories: Sequence[History]) -> list[str]:
    """How some runs depart from the paper's statements, if its numbers seem to have other settings.

    They are compared all the same, with a note of the departure.
    """
    if cell["paper"] != "adafedadam" or split_of(*histories) != "local":
        return []
    stated = papers.settings("adafedadam")["general"]["local_split_train"]
    share = histories[0].config.task["options"].get("train_share", stated)
    share = "" if share == stated else f"{share} of a client's data trained on, "
    also = histories[0].config.method.get("measured_on") == "local"
    reading = f"a reading: {share}all of them measured (paper: {stated} and the others)"
    return [reading, *(["client losses over all local data"] * also)]
