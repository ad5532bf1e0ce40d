"""Grids of learning rates and tau: one row per run, and the best ones by the papers' rules."""

import math
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.reproduction.metrics import METRICS
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import late, training_score

# A server rate trains the model if it lowers the untrained model's test loss by more than this.
TRAINED = 0.1
# The metrics that the paper gives, one per task.
PRINTED = ("recall_at_5", "mse_x1000", "accuracy")
_RATES = ("client_lr", "server_lr", "tau")
_NUMBERS = ["performance", "loss", "initial_loss", "train_loss"]


def collect(histories: Sequence[History]) -> pd.DataFrame:
    """The results of each run of a grid.

    Returns:
        One row per run: task, algorithm, client_lr, server_lr, tau (NaN if the method has none),
        metric (the one that the paper gives for the task), seed, performance (that test metric over
        the rounds of :func:`fedlib.results.selection.late`, in the paper's unit), loss (the same
        for the test loss), initial_loss, train_loss (the papers' rule minimises it, infinite if
        diverged), diverged (round or NaN).

        Performance and loss are NaN for a run that diverged.
    """
    rows = []
    for history in histories:
        metric = printed_metric(history.metrics())
        known = hyperparameters(history)
        rows.append(
            {
                "task": history.config.task["name"],
                "algorithm": history.config.algorithm,
                **{name: known.get(name, math.nan) for name in _RATES},
                "metric": metric,
                "seed": history.config.seeds["init"],
                "performance": METRICS[metric].factor * history.final(metric, window=late(history)),
                "loss": history.final("loss", window=late(history)),
                "initial_loss": float(history.points("loss")[1][0]),
                "train_loss": training_score(history),
                "diverged": math.nan if history.diverged is None else history.diverged,
            }
        )
    return pd.DataFrame(rows)


def printed_metric(recorded: Collection[str]) -> str:
    """The metric that the paper gives for a task, among the recorded ones."""
    return next(name for name in PRINTED if name in recorded)


def over_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: means over its seeds.

    Args:
        frame: result of :func:`collect`.

    Returns:
        Its columns, with seeds (their number) in place of seed, and diverged, the first round of
        any.

    Raises:
        Error: several runs of a setting and seed.
    """
    keys = ["task", "algorithm", *_RATES, "metric"]
    if frame.duplicated([*keys, "seed"]).any():
        raise Error("several runs for one pair of rates: choose one tau and one size of the task")
    by = frame.groupby(keys, sort=False, dropna=False)
    means = by[_NUMBERS].mean().assign(seed=by.size(), diverged=by["diverged"].min())
    lost = means["diverged"].notna()
    means.loc[lost, ["performance", "loss"]] = math.nan
    return means.reset_index()[frame.columns].rename(columns={"seed": "seeds"})


def useless(frame: pd.DataFrame) -> pd.Series:
    """Whether a run diverged or left the test loss above the untrained model's, for each row."""
    return frame["diverged"].notna() | ~(frame["loss"] <= frame["initial_loss"])


def smaller_is_better(frame: pd.DataFrame) -> bool:
    """Whether smaller performances are better for one task."""
    return METRICS[frame["metric"].iloc[0]].smaller


def best(frame: pd.DataFrame, column: str, *keys: str) -> pd.DataFrame:
    """The best row for each combination of the keys, in order. Groups that diverged are left out.

    Args:
        frame: result of :func:`collect`.
        column: ``"train_loss"`` (FedOpt, section 4), ``"performance"`` or ``"loss"``.
        keys: columns.
    """
    more = [column == "performance" and not METRICS[name].smaller for name in frame["metric"]]
    values = (np.where(more, -1, 1) * frame[column]).where(frame["diverged"].isna()).dropna()
    groups = values.groupby([frame[key] for key in keys], sort=False, dropna=False)
    return frame.loc[groups.idxmin()].reset_index(drop=True)


def tuned(frame: pd.DataFrame, column: str, *keys: str) -> pd.DataFrame:
    """For each combination of the keys the runs (one per seed) of the setting with the best mean.

    Args:
        frame: result of :func:`collect`.
        column, keys: see :func:`best`.
    """
    rates = ["task", "algorithm", *_RATES]
    chosen = best(over_seeds(frame), column, *keys)
    return chosen[rates].merge(frame, on=rates)


def trained(frame: pd.DataFrame, rule: str = "caption") -> pd.Series:
    """FedOpt's two readings of which runs of Figure 12 trained at all, for each row.

    Args:
        frame: result of :func:`collect`.
        rule: ``"caption"``: the test loss fell by more than 10 % of the untrained model's (the
            figure's caption says "change", but a rising loss is no training). ``"text"`` (appendix
            E.4): it is not within 10 % of the worst recorded loss, which one run that nearly
            diverged makes very large.

    Returns:
        bool, False for runs that diverged.
    """
    worst = frame.groupby("task")["loss"].transform("max")
    bad = frame["initial_loss"] if rule == "caption" else worst
    return frame["diverged"].isna() & (frame["loss"] < (1 - TRAINED) * bad)


def best_server_rates(frame: pd.DataFrame, rule: str = "caption") -> pd.DataFrame:
    """For each task, algorithm and client rate the best server rate (FedOpt, Figure 12).

    Client rates at which no server rate trained the model are left out.

    Args:
        frame: result of :func:`collect`.
        rule: see :func:`trained`.
    """
    successful = frame[trained(frame, rule)]
    return best(successful, "performance", "task", "algorithm", "client_lr")


def slopes(frame: pd.DataFrame) -> pd.Series:
    """Slope of the best log server rate over the log client rate, by seed and algorithm.

    It is fitted by least squares to the points of :func:`best_server_rates`. NaN for fewer than
    three.

    Args:
        frame: result of :func:`collect` for one task.
    """
    lines = []
    for seed, part in frame.groupby("seed", sort=False):
        for name, line in best_server_rates(part).groupby("algorithm", sort=False):
            x, y = np.log10(line["client_lr"]), np.log10(line["server_lr"])
            lines.append((seed, name, np.polyfit(x, y, 1)[0] if len(line) > 2 else math.nan))
    table = pd.DataFrame(lines, columns=["seed", "algorithm", "slope"])
    return table.set_index(["seed", "algorithm"])["slope"]
