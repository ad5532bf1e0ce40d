"""The papers' printed numbers beside ours, and what a comparison of the two says.

Compared are legible numbers with runs that have the paper's settings as far as they are known, its
data, seeds and tuning. A number of the same runs that a paper prints in two tables is compared
once, even where its digits differ: then the paper disagrees with itself. :func:`outcome` judges.
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

# How far ours may be from a printed percentage, in points; from another number, in percent of it.
TOLERANCE = 1.5

# What a comparison may say.
AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "cannot be told"

# What a comparison's frame says beyond the two numbers and their settings.
VERDICT = ("printed_spread", "splits", "splits_std", "chance", "repeats", "outcome")
COLUMNS = ["paper", "item", "task", "row", "column", "algorithm", "metric", "printed"]
COLUMNS += ["printed_spread", "ours", "ours_std", "seeds", "splits", "splits_std", "window"]
COLUMNS += ["difference", "chance", "ours_unweighted", "repeats", "outcome", "preset", "rounds"]
COLUMNS += ["printed_rounds", "data", "runs", "note", "unclear"]


def outcome(gap: float, chance: float, spread: float = inf, tolerance: float = TOLERANCE) -> str:
    """What a comparison of ours with a printed number says.

    Args:
        gap: how far they are apart; NaN: one of our runs diverged.
        chance: two standard deviations of what chance alone puts between them, see :func:`cells`;
            NaN: unknown.
        spread: 2 √(b² + s²) where the paper prints a ± b, s the deviation of ours; else infinite.
        tolerance: up to which they count as the same, if they are within the spread as well.

    Returns:
        ``"cannot be told"``: chance alone does more than the tolerance, so that being near would
        say nothing, and they are not further apart than that; else ``"agrees"`` or ``"differs"``,
        which are decisive.

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
    """Every printed number that this fedlib can compute, beside ours.

    Args:
        store: the stored runs, and with them the published ones; default the standard store.

    Returns:
        one row per printed cell: paper, item, task, row and column (as printed), algorithm, metric,
        printed (NaN: our text copy of the paper lacks it), printed_spread (its ±; NaN without),
        ours (mean over seeds, and over splits of the clients' data where several were trained on),
        ours_std (over the seeds of one split, n - 1), seeds and splits (how many), splits_std (over
        splits, n - 1; 0 of one), window (over how many last rounds ours is a mean), difference
        (ours - printed), chance (two standard deviations of what chance alone puts between the two,
        see :func:`cells`),
        ours_unweighted (clients count alike instead of by their examples), repeats (the table that
        printed a number of the same runs before, "" if none did), outcome (``"agrees"``,
        ``"differs"``, ``"cannot be told"``, see :func:`outcome`; "" where they are not compared:
        illegible, a repetition, or of runs that depart from the paper's but by a reading of it),
        preset, rounds, printed_rounds, data (``"real"``, ``"stand-in"``), runs (digests), note (how
        the runs depart from the paper's, a reading among it, and which diverged), unclear (what is
        uncertain about the printed number).
        Numbers are in the printed unit, mostly percent. A cell without a run has NaN and names its
        notebook.
    """
    store = Store() if store is None else store
    return cells(store.stored(published=True))


def cells(runs: Iterable[Run], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """As :func:`compare`, from these runs.

    What chance puts between a printed mean of k seeds and ours of n: with s the deviation of one of
    our runs' numbers, over its last rounds or over the seeds, whichever is larger, b the printed
    one (else s), and u that of m splits, 2 √(b² / k + s² / n + u² (1 + 1 / m)).

    Args:
        printed: rows of :func:`fedlib.papers.cells`; default all.
    """
    known = Index(runs)
    printed = papers.cells() if printed is None else printed
    frame = pd.DataFrame([{**cell, **_ours(cell, known)} for cell in printed.to_dict("records")])
    frame["difference"] = frame["ours"] - frame["printed"]
    # Cells of the same runs, as the paper describes them.
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
    # Within the tolerance and, where the paper prints ±, within both spreads.
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
    """What the runs of a printed number say; see :func:`compare`."""
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
    jitter = [metric.factor * metric.jitter(history) for history in histories]
    own = np.fmax(float(np.sqrt(np.mean(np.square(jitter)))) if jitter else nan, seeds_std)
    theirs = own if isnan(cell["printed_spread"]) else cell["printed_spread"]
    alone = hypot(theirs / sqrt(cell["seeds"]), own / sqrt(max(1, len(histories))))
    return {
        # The seeds' mean on one split, and one run on each of the others.
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
        "note": "; ".join([*departs, *_readings(cell, histories), *either, *diverged]),
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
    """How some runs depart from what the paper states, since its numbers do not seem to be of that.

    They are compared all the same; that they are, and how far, is said with them.
    """
    if cell["paper"] != "adafedadam" or split_of(*histories) != "local":
        return []
    stated = papers.settings("adafedadam")["general"]["local_split_train"]
    share = histories[0].config.task["options"].get("train_share", stated)
    share = "" if share == stated else f"{share} of a client's data trained on, "
    return [f"a reading: {share}all of them measured (paper: {stated} and the others)"]
