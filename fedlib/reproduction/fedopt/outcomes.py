"""Grids of learning rates and tau: one row per run, and what is best by the papers' rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from fedlib.engine.history import History
from fedlib.errors import Error, unknown
from fedlib.figures.curves import axis_label
from fedlib.reproduction.fedopt.runs import AVERAGED
from fedlib.reproduction.metrics import METRICS
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import training_score

# A server rate counts as one that trains if it lowers the untrained model's test loss by more.
TRAINED = 0.1
_RATES = ("client_lr", "server_lr", "tau")


def collect(histories: Sequence[History]) -> pd.DataFrame:
    """What came out of each run of a grid.

    Returns:
        one row per run: task, algorithm, client_lr, server_lr, tau (NaN where the method has none),
        preset, metric (the one that the paper prints for the task), performance (that test metric
        over the last 100 rounds, in the printed unit), loss (test, likewise), initial_loss,
        train_loss (what the papers' rule minimises; infinite if diverged), diverged (round or NaN).
        Performance and loss are NaN for a run that diverged.

    Raises:
        Error: no runs, or one without a printed metric.
    """
    if not histories:
        raise Error("no runs; give at least one history")
    rows = []
    for history in histories:
        recorded = set(history.frame["metric"].to_numpy())
        metric = next((name for name in AVERAGED.values() if name in recorded), None)
        if metric is None:
            raise unknown("printed metric of a run", "none", AVERAGED.values())
        known = hyperparameters(history)
        rows.append(
            {
                "task": history.config.task["name"],
                "algorithm": history.config.algorithm,
                **{name: known.get(name, math.nan) for name in _RATES},
                "preset": history.config.task["preset"],
                "metric": metric,
                "performance": METRICS[metric].factor * history.final(metric),
                "loss": history.final("loss"),
                "initial_loss": float(history.series("loss").iloc[0]),
                "train_loss": training_score(history),
                "diverged": math.nan if history.diverged is None else history.diverged,
            }
        )
    return pd.DataFrame(rows)


def measure(frame: pd.DataFrame) -> str:
    """The column by which runs are compared on test data: the printed metric, or the loss.

    A few rounds of a quick run leave the accuracy of most tasks at chance; the loss moves.
    """
    return "performance" if (frame["preset"] == "paper").all() else "loss"


def label(frame: pd.DataFrame, column: str) -> str:
    """What an axis says of ``"performance"`` or ``"loss"``, for the runs of one task."""
    metric = frame["metric"].iloc[0]
    if column == "loss":
        return axis_label("loss", "test", percent=False)
    return axis_label(metric, "test", percent=METRICS[metric].factor == 100)


def smaller_is_better(frame: pd.DataFrame, column: str) -> bool:
    """Whether the small values of a column of :func:`collect` are the good ones."""
    return column != "performance" or METRICS[frame["metric"].iloc[0]].smaller


def best(frame: pd.DataFrame, column: str, *keys: str) -> pd.DataFrame:
    """The best row for each combination of the keys, in order; groups that diverged are left out.

    Args:
        frame: from :func:`collect`.
        column: ``"train_loss"`` (FedOpt, section 4), ``"performance"`` or ``"loss"``.
        keys: columns.
    """
    rows = []
    for _, part in frame.groupby(list(keys), sort=False, dropna=False):
        values = part[column].where(part["diverged"].isna())
        if values.notna().any():
            small = smaller_is_better(part, column)
            rows.append(values.idxmin() if small else values.idxmax())
    return frame.loc[rows].reset_index(drop=True)


def trained(frame: pd.DataFrame, rule: str = "caption") -> pd.Series:
    """FedOpt's two readings of which runs of Figure 12 trained at all, for each row.

    Args:
        frame: from :func:`collect`, of one task.
        rule: ``"caption"``: the test loss fell by more than 10 % of the untrained model's (the
            figure's caption says "change"; a loss that rises is no training). ``"text"`` (appendix
            E.4): it is not within 10 % of the worst that was recorded, which one run that nearly
            diverged makes very large.

    Returns:
        bool, False for runs that diverged.

    Raises:
        Error: unknown rule.
    """
    if rule not in ("caption", "text"):
        raise unknown("rule", rule, ("caption", "text"))
    bad = frame["initial_loss"] if rule == "caption" else frame["loss"].max()
    return frame["diverged"].isna() & (frame["loss"] < (1 - TRAINED) * bad)


def best_server_rates(frame: pd.DataFrame, rule: str = "caption") -> pd.DataFrame:
    """For each task, algorithm and client rate the best server rate (FedOpt, Figure 12).

    Client rates at which no server rate trained the model are left out.

    Args:
        frame: from :func:`collect`.
        rule: see :func:`trained`.
    """
    parts = []
    for _, part in frame.groupby("task", sort=False):
        kept = part[trained(part, rule)]
        if len(kept):
            parts.append(best(kept, measure(part), "task", "algorithm", "client_lr"))
    return pd.concat(parts, ignore_index=True) if parts else frame[:0]
