"""The papers' printed numbers beside ours, and when ours count as the same.

Only a fair comparison can be an agreement: a legible number beside runs with the paper's settings,
data, seeds and tuning. A number that a paper prints in two tables for the same runs counts once.
Then ours agrees with it if it is within :data:`TOLERANCE` of it and, where the paper prints a ± b,
also within 2 √(b² + s²), s the standard deviation of ours over seeds and, where there are such
runs, over other splits of the clients' data. Where one of our runs diverged it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan, nan
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

# What a comparison's frame says beyond the two numbers and their settings.
VERDICT = ("printed_spread", "splits_std", "repeats", "fair", "agrees")
COLUMNS = ["paper", "item", "task", "row", "column", "algorithm", "metric", "printed"]
COLUMNS += ["printed_spread", "ours", "ours_std", "splits_std", "seeds", "difference"]
COLUMNS += ["ours_unweighted", "comparable", "repeats", "fair", "agrees", "preset", "rounds"]
COLUMNS += ["printed_rounds", "data", "runs", "note", "unclear"]


def compare(store: Store | None = None) -> pd.DataFrame:
    """Every printed number that this fedlib can compute, beside ours.

    Args:
        store: the stored runs, and with them the published ones; default the standard store.

    Returns:
        one row per printed cell: paper, item, task, row and column (as printed), algorithm, metric,
        printed (NaN if illegible), printed_spread (its ±; NaN without), ours (mean over seeds),
        ours_std (over seeds, n - 1), splits_std (the same over splits of the clients' data, 0 where
        only one was trained on), seeds (how many), difference (ours - printed),
        ours_unweighted (clients count alike instead of by their examples), comparable (False
        where nothing is legible), repeats (the table that printed this number before, "" if none
        did), fair (whether the number counts: comparable, no repetition, and with runs that depart
        in nothing), agrees (whether it is fair and the same, see above), preset, rounds,
        printed_rounds, data (``"real"``, ``"stand-in"``), runs (digests), note (how the runs depart
        from the paper's, and which diverged), unclear (what is uncertain about the printed number).
        Numbers are in the printed unit, mostly percent. A cell without a run has NaN and names its
        notebook.
    """
    store = Store() if store is None else store
    return cells(store.stored(published=True))


def cells(runs: Iterable[Run], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """As :func:`compare`, from these runs.

    Args:
        printed: rows of :func:`fedlib.papers.cells`; default all.
    """
    known = Index(runs)
    printed = papers.cells() if printed is None else printed
    frame = pd.DataFrame([{**cell, **_ours(cell, known)} for cell in printed.to_dict("records")])
    frame["difference"] = frame["ours"] - frame["printed"]
    frame["comparable"] = frame["printed"].notna()
    # Cells that print the same number of the same runs.
    alike = ["paper", "task", "algorithm", "metric", "overrides", "options", "rounds"]
    alike += ["printed", "printed_spread"]
    keys = [str(values) for values in printed[alike].itertuples(index=False, name=None)]
    first = frame.groupby(keys)["item"].transform("first")
    before = (first != frame["item"]) & frame["comparable"]
    frame["repeats"] = first.where(before, "")
    frame["fair"] = frame["comparable"] & ~frame["departs"] & ~before
    # Within the tolerance and, where the paper prints ±, within both spreads.
    gap = frame["difference"].abs()
    percent = frame["metric"].map(lambda name: METRICS[name].factor == 100)
    near = gap <= (TOLERANCE / 100 * frame["printed"].abs()).mask(percent, TOLERANCE)
    spread = np.hypot(frame["printed_spread"], np.hypot(frame["ours_std"], frame["splits_std"]))
    within = frame["printed_spread"].isna() | (gap <= 2 * spread)
    frame["agrees"] = frame["fair"] & near & within
    return frame[COLUMNS].astype({"rounds": "Int64", "printed_rounds": "Int64"})


def _ours(cell: Cell, known: Index) -> dict[str, Any]:
    """What the runs of a printed number say; see :func:`compare`."""
    tried = matching.nearest(cell, known)
    setting = matching.best_setting(cell, tried)
    chosen = matching.of_one_split(setting)
    histories, splits = list(read(chosen)), read(matching.over_splits(chosen, setting))
    metric = METRICS[cell["metric"]]
    measured = [metric(history) for history in histories]
    weighted = [metric.factor * value for value, _ in measured]
    by_split = [metric.factor * metric(history)[0] for history in splits]
    config = histories[0].config if histories else None
    departs = _departures(cell, histories, weighted, tried)
    diverged = [
        f"seed {history.config.seeds['init']} diverged in round {history.diverged}"
        for history in histories
        if history.diverged is not None
    ]
    return {
        "ours": fmean(weighted) if weighted else nan,
        "ours_std": float(np.std(weighted, ddof=1)) if len(weighted) > 1 else nan,
        "splits_std": float(np.std(by_split, ddof=1)) if by_split else 0.0,
        "seeds": len(histories),
        "ours_unweighted": metric.factor * fmean(v for _, v in measured) if measured else nan,
        "preset": config.task["preset"] if config else "",
        "rounds": config.rounds if config else None,
        "printed_rounds": matching.printed_settings(cell)["rounds"],
        "data": ("stand-in" if config.task["stand_in"] else "real") if config else "",
        "runs": tuple(history.config.digest for history in histories),
        "departs": bool(departs),
        "note": "; ".join([*departs, *diverged]),
    }


def _departures(
    cell: Cell, histories: Sequence[History], measured: Sequence[float], tried: Sequence[list[Run]]
) -> list[str]:
    """How some runs depart from the paper's, in words; ``measured`` are their numbers."""
    if not histories:
        notebook = tables.notebook(cell["paper"], cell["item"], cell["task"])
        return [f"no run yet: {how_to_make(notebook)}"]
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


def how_to_make(notebook: str, preset: str = "quick") -> str:
    """The sentence that says how missing runs are made: by a notebook or a command."""
    switch = "" if preset == "quick" else f" --preset {preset}"
    return f"run notebooks/{notebook}.ipynb or: fedlib reproduce {notebook}{switch}"
