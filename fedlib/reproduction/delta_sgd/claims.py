"""Delta-SGD's claims, as statements about a frame of runs or of the paper's numbers.

A column is a task at an alpha, as in Table 1. Its rows are the client optimizers.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from fedlib import tasks
from fedlib.engine.history import History
from fedlib.reproduction.delta_sgd.tables import client_of
from fedlib.reproduction.evidence import (
    Key,
    Missing,
    Statement,
    above,
    below,
    decides,
    finals,
    least,
    most,
    numbers,
    one,
    part_of,
    per,
    printed,
)
from fedlib.reproduction.tables import ABLATION, IMAGES, TEXTS
from fedlib.results.reading import client_label

OURS = "delta_sgd"
COLUMN = ["task", "alpha"]
FARTHEST, BEHIND, MORE = 0.03, 0.02, 0.03
CHANCE = 1.5  # up to this many times the share of one class is near chance
CLASSES = {"ag_news": 4, "dbpedia": 14}
# The methods of Table 2a that stay at chance.
AT_CHANCE = ("sgdm", "sgdm_decay", "adam", "adagrad")
# Parts of notebook 39 and the settings that they vary.
EPOCHS = {ABLATION: ("epochs", "more_epochs"), IMAGES: ("table",)}
VARIANTS = {"fedprox": "FedProx", "moon": "MOON", "fedadam": "FedAdam"}


_COLUMNS: dict[str, Key] = {"algorithm": client_label, "alpha": "option.alpha"}
_BY_PART = per(**_COLUMNS, part=part_of)


def compared(frame: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """The columns' accuracies, one row per key, task, alpha and client optimizer.

    Raises:
        Missing: a column lacks the runs of Delta-SGD or of a method that another column has, or all
            other methods. Numbers that our text copy of the paper lacks may be missing.
    """
    end = finals(frame, "accuracy", *keys, *COLUMN, "algorithm")
    names = end.index.to_frame()["algorithm"].unstack("algorithm")
    # A column with Delta-SGD alone belongs to another figure, and compares nothing.
    names = names[names.drop(columns=OURS, errors="ignore").notna().any(axis=1)]
    if OURS not in names or names.empty or ("sem" not in frame and names.isna().any(axis=None)):
        raise Missing("client optimizers")
    return end[end.index.droplevel("algorithm").isin(names.index)]


def second(column: pd.DataFrame) -> pd.Series:
    """The lead of Delta-SGD over the second best of the other methods. If it is >= 0, Delta-SGD is
    first or second. NaN if there are not two others.
    """
    others = column.drop(OURS)
    if len(others) < 2:
        return one(column, OURS) * math.nan
    best_but_one = np.sort(others.to_numpy(float), axis=0)[-2]
    return one(column, OURS) - pd.Series(best_but_one, others.columns)


def whole_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns with all optimizers at the paper's number of rounds, as fewer rounds favour
    schedules that fall within them.

    Raises:
        Missing: there are none.
    """
    methods = frame[~frame["cut"]].groupby(COLUMN)["algorithm"].transform("nunique")
    frame = frame.loc[methods.index[methods == frame["algorithm"].nunique()]]
    if frame.empty:
        raise Missing("a column at the paper's number of rounds")
    return frame


def _cut(run: History) -> bool:
    """Whether a run has fewer rounds than the paper's, which does not apply to small problems."""
    task = run.config.task
    return task["preset"] != "quick" and run.config.rounds < tasks.rounds(task["name"], "paper")


def _whole(histories: Sequence[History]) -> pd.DataFrame:
    return whole_columns(numbers(histories, {**_COLUMNS, "cut": _cut}))


def _ours(histories: Sequence[History]) -> pd.DataFrame:
    ours = [run for run in histories if client_label(run) == OURS]
    return numbers(ours, {**_COLUMNS, "local_epochs": "local_epochs"})


def _printed(item: str) -> pd.DataFrame:
    rows = printed("delta_sgd", item)
    return rows.assign(algorithm=rows["row"].map(client_of), alpha=rows["options"].str["alpha"])


def _printed_variants() -> pd.DataFrame:
    items = {"fedprox": "Table 6", "moon": "Table 5", "fedadam": "Table 4"}
    return pd.concat([_printed(item).assign(part=part) for part, item in items.items()])


@decides("delta-robust", {IMAGES: ("table",)}, _whole, partial(_printed, "Table 1"))
def robust(frame: pd.DataFrame) -> Iterator[Statement]:
    """Delta-SGD's largest distance from the best of a column is the smallest of all, and at most 3
    points. It is first or second in two thirds of the columns.
    """
    end = compared(frame)
    gaps = end.groupby(level=COLUMN).transform("max") - end
    farthest = gaps.groupby(level="algorithm").max()
    ours = one(farthest, OURS)
    others = least(farthest, [name for name in farthest.index if name != OURS])
    yield below("largest distance from a column's best: Delta-SGD < the others", ours, others)
    yield below(f"largest distance from a column's best: Delta-SGD <= {FARTHEST}", ours, FARTHEST)
    columns = [second(column.droplevel(COLUMN)) for _, column in end.groupby(level=COLUMN)]
    enough = math.ceil(2 * len(columns) / 3)
    margins = pd.concat(columns, axis=1)
    ordered = margins.apply(lambda row: row.nlargest(enough).iloc[-1], axis=1)
    yield above(f"first or second in {enough} of {len(columns)} columns", ordered)


@decides("delta-delta", {ABLATION: ("delta",)}, per("option.alpha", "delta"))
def best_delta(frame: pd.DataFrame) -> Iterator[Statement]:
    """delta = 0.1 is never more than 2 points behind the best of the tried values."""
    end = finals(frame, "accuracy", *COLUMN, "delta")
    for (task, alpha), column in end.groupby(level=COLUMN):
        deltas = column.droplevel(COLUMN)
        text = f"{task}, alpha {alpha:g}: delta 0.1 at most {BEHIND} behind the best"
        yield above(text, one(deltas, 0.1), deltas.max() - BEHIND)


@decides("delta-epochs", EPOCHS, _ours, together=True)
def epochs(frame: pd.DataFrame) -> Iterator[Statement]:
    """Delta-SGD with two or three local epochs ends at most 3 points above one."""
    for (task, alpha), column in frame.groupby(COLUMN, sort=False):
        if column["local_epochs"].max() > 1:
            end = finals(column, "accuracy", "local_epochs")
            for number in end.index.drop(1, errors="ignore"):
                text = f"{task}, alpha {alpha:g}: {number} local epochs at most {MORE} above one"
                yield below(text, one(end, number), one(end, 1) + MORE)


@decides("delta-variants", {ABLATION: tuple(VARIANTS)}, _BY_PART, _printed_variants, whole=True)
def variants(frame: pd.DataFrame) -> Iterator[Statement]:
    """By its mean rank over a variant's columns Delta-SGD is first or second, in each variant."""
    for part, end in compared(frame, "part").groupby(level="part", sort=False):
        ranks = end.groupby(level=COLUMN).rank(ascending=False)
        mean = ranks.groupby(level="algorithm").mean()
        yield above(f"{VARIANTS[str(part)]}: first or second by the mean rank", second(-mean))


@decides("delta-text", {TEXTS: ()}, per(**_COLUMNS), partial(_printed, "Table 2a"))
def text(frame: pd.DataFrame) -> Iterator[Statement]:
    """The methods that are at chance in the paper stay near it on every text. Delta-SGD is no more
    than 2 points behind the best.
    """
    for task, part in frame.groupby("task", sort=False):
        end, chance = finals(part, "accuracy"), 1 / CLASSES[str(task)]
        words = f"{task}: SGDM, Adam and Adagrad < {CHANCE:g} x chance"
        yield below(words, most(end, AT_CHANCE), CHANCE * chance)
        best = most(end, {*end.index, OURS, "sgd", "sps"})
        words = f"{task}: Delta-SGD at most {BEHIND} behind the best"
        yield above(words, one(end, OURS), best - BEHIND)
