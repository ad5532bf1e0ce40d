"""The papers' printed numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from fedlib.engine.history import History
from fedlib.reproduction.matching import Run, best_runs, departures, index, read
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.table import Cell, Table
from fedlib.reproduction.tables import TABLES
from fedlib.results.store import Store

# Percentage points between printed and ours that still count as the same number.
TOLERANCE = 1.5

NAN = float("nan")


def compare(store: Store | None = None) -> pd.DataFrame:
    """Every printed number that this fedlib can compute, beside ours.

    Args:
        store: the stored runs, and with them the published ones; default the standard store.

    Returns:
        one row per printed cell: paper, item, task, row and column (as printed), algorithm, metric,
        printed (NaN if illegible), ours (mean over seeds), ours_std (over seeds, n - 1), seeds (how
        many), difference (ours - printed), ours_unweighted (clients count alike instead of by their
        examples), comparable (False where the paper's definition is unclear or nothing is legible),
        preset, rounds, printed_rounds, data (``"real"``, ``"stand-in"``), runs (digests), note (how
        the runs depart from the paper's), unclear (what is uncertain about the printed number).
        Numbers are in the printed unit, mostly percent. A cell without a run has NaN and names its
        notebook.
    """
    store = Store() if store is None else store
    return cells(store.stored(published=True))


def cells(runs: Iterable[Run], tables: Sequence[Table] = TABLES) -> pd.DataFrame:
    """As :func:`compare`, from these runs and for these tables."""
    known = index(runs)
    histories: dict[tuple[str, ...], list[History]] = {}
    rows = []
    for table in tables:
        for cell in table.cells:
            chosen = best_runs(table, cell, known)
            digests = tuple(run.config.digest for run in chosen)
            if digests not in histories:
                histories[digests] = list(read(chosen))
            rows.append(_row(table, cell, histories[digests]))
    return pd.DataFrame(rows).astype({"rounds": "Int64", "printed_rounds": "Int64"})


def _row(table: Table, cell: Cell, histories: Sequence[History]) -> dict[str, Any]:
    metric = METRICS[cell.metric]
    measured = [metric(history) for history in histories]
    weighted = [metric.factor * value for value, _ in measured]
    ours = fmean(weighted) if weighted else NAN
    config = histories[0].config if histories else None
    return {
        "paper": table.paper,
        "item": table.name,
        "task": table.task,
        "row": cell.row,
        "column": cell.column,
        "algorithm": cell.algorithm,
        "metric": cell.metric,
        "printed": cell.printed,
        "ours": ours,
        "ours_std": stdev(weighted) if len(weighted) > 1 else NAN,
        "seeds": len(histories),
        "difference": ours - cell.printed,
        "ours_unweighted": metric.factor * fmean(v for _, v in measured) if measured else NAN,
        "comparable": not metric.unclear and not isnan(cell.printed),
        "preset": config.task["preset"] if config else "",
        "rounds": config.rounds if config else None,
        "printed_rounds": table.rounds,
        "data": ("stand-in" if config.task["stand_in"] else "real") if config else "",
        "runs": tuple(history.config.digest for history in histories),
        "note": "; ".join(_notes(table, cell, histories)),
        "unclear": cell.unclear,
    }


def _notes(table: Table, cell: Cell, histories: Sequence[History]) -> list[str]:
    if not histories:
        return [f"no run yet: {how_to_make(table.notebook)}"]
    diverged = [
        f"seed {history.config.seeds['init']} diverged in round {history.diverged}"
        for history in histories
        if history.diverged is not None
    ]
    unclear = METRICS[cell.metric].unclear
    return [
        *departures(table, cell, histories[0].config),
        *diverged,
        *([unclear] if unclear else []),
    ]


def how_to_make(notebook: str) -> str:
    """The sentence that says how missing runs are made: by a notebook, or by a command."""
    if not notebook[0].isdigit():
        return f"run: {notebook}"
    return f"run notebooks/{notebook}.ipynb or: fedlib reproduce {notebook}"


def summary(frame: pd.DataFrame, tolerance: float = TOLERANCE) -> pd.DataFrame:
    """Totals of :func:`compare`'s frame.

    Args:
        frame: from :func:`compare`.
        tolerance: in the printed unit, mostly percentage points.

    Returns:
        one row per paper, item, task and printed column: cells (printed numbers), run (of them),
        comparable (of those run), within (of those comparable, within the tolerance), unclear (of
        all cells, printed numbers that are not plainly legible), paper_best and our_best (row
        labels; among those run, by the column's first metric that ranks), same_best (None unless
        two rows or more were run).
    """
    rows = []
    keys = ["paper", "item", "task", "column"]
    for names, part in frame.groupby(keys, sort=False):
        fair = part[part["comparable"] & part["ours"].notna()]
        ranking = [name for name in fair["metric"].unique() if METRICS[name].ranks]
        ranked = fair[fair["metric"].isin(ranking[:1])]
        sign = -1 if ranking and METRICS[ranking[0]].smaller else 1
        best = [
            ranked.loc[(sign * ranked[column]).idxmax(), "row"] if len(ranked) > 1 else ""
            for column in ("printed", "ours")
        ]
        rows.append(
            {
                **dict(zip(keys, names, strict=True)),
                "cells": len(part),
                "run": int((part["seeds"] > 0).sum()),
                "comparable": len(fair),
                "within": int((fair["difference"].abs() <= tolerance).sum()),
                "unclear": int((part["unclear"] != "").sum()),
                "paper_best": best[0],
                "our_best": best[1],
                "same_best": best[0] == best[1] if best[0] else None,
            }
        )
    return pd.DataFrame(rows)
