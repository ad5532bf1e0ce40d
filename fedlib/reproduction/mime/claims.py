"""Mime's claims, as statements about a frame of runs or of the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from math import nan

import numpy as np
import pandas as pd

from fedlib import papers
from fedlib.engine.history import History
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
    printed,
    rounds_to,
    sampling_error,
)
from fedlib.reproduction.mime.tables import BASES, line_of, mu_line, mu_of, row_of
from fedlib.results.selection import late

# Share of FedAvg's final accuracy that the methods must reach.
TARGET = 0.95
RIVALS = {"fedavg": "FedAvg", "fedavgm": "FedAvg with momentum", "fedprox": "FedProx"}
# SCAFFOLD counts if a client takes part in fewer rounds.
VISITS = 6
_CURVES = {"38_mime_ablation": ("curves",)}


def reached(frame: pd.DataFrame) -> pd.DataFrame:
    """Each line's rounds to :data:`TARGET` of the final accuracy of FedAvg without momentum.

    The target is the mean over the seeds.
    """
    fedavg = frame[frame["algorithm"] == "fedavg"]
    if fedavg.empty:
        raise Missing("fedavg")
    target = finals(fedavg, "accuracy").loc["fedavg"]
    goal = TARGET * target.groupby(level="round").transform("mean")
    return rounds_to(frame, "accuracy", goal)


def lines(histories: Sequence[History]) -> pd.DataFrame:
    """Figure 1's lines, with FedProx for each mu ("mu 0.1"), and the rounds of a client."""
    # A shortened run still rises in the last third.
    table_of = partial(numbers, window=History.window)
    chosen = table_of(histories, {"algorithm": line_of, "visits": _visits})
    proximal = [run for run in histories if mu_of(run)]
    if not proximal:
        return chosen
    by_mu = table_of(proximal, {"algorithm": mu_line, "visits": _visits})
    return pd.concat([chosen, by_mu], ignore_index=True)


def _visits(run: History) -> float:
    clients = run.config.task["options"].get("clients") or math.inf
    return run.config.rounds * run.config.clients_per_round / clients


def _at_the_end(run: History) -> float:
    """The score that chooses a row's rate here: the end of the curve of all test clients, which is
    judged. The halves by which the table chooses have one evaluation, and so no spread.
    """
    accuracy = run.final(window=late(run))
    return math.inf if math.isnan(accuracy) else -accuracy


def _rows(histories: Sequence[History]) -> pd.DataFrame:
    """The rows' numbers, with a task's number of test examples."""
    columns: dict[str, Key] = {
        "base": lambda run: row_of(run)[0],
        "method": lambda run: row_of(run)[1],
    }
    frame = numbers(histories, columns, score=_at_the_end)
    tested = {run.config.task["name"]: run.clients for run in histories}
    examples = {
        task: clients.query("split == 'test' and metric == 'accuracy'")["examples"].sum() or nan
        for task, clients in tested.items()
    }
    return frame.assign(examples=frame["task"].map(examples))


def _table_2() -> pd.DataFrame:
    stated = papers.table("mime", "table2_accuracy").drop_duplicates("printed_name")
    names = {"printed_name": "row", "base_optimizer": "base"}
    rows = printed("mime", "Table 2").merge(stated.rename(columns=names)[["row", "base", "method"]])
    return rows.assign(task=rows["label"])


@decides("mime-beats", _CURVES, lines)
def beats(frame: pd.DataFrame) -> Iterator[Statement]:
    """Mime and MimeLite with momentum reach the target at least a round before the others."""
    needed = reached(frame)
    rivals = dict(RIVALS)
    if frame["visits"].max() < VISITS:
        rivals["scaffold"] = "SCAFFOLD"
    for line, ours in (("mime", "Mime"), ("mimelite", "MimeLite")):
        for other, name in rivals.items():
            text = f"rounds to the target: {ours} < {name}"
            yield below(text, one(needed, line), one(needed, other) - 1)


@decides("mime-momentum", _CURVES, lines)
def momentum(frame: pd.DataFrame) -> Iterator[Statement]:
    """Momentum saves Mime rounds, and more than it saves FedAvg."""
    needed = reached(frame)
    ours = one(needed, "mime_sgd") - one(needed, "mime")
    theirs = one(needed, "fedavg") - one(needed, "fedavgm")
    yield below("rounds saved by momentum: FedAvg's < Mime's", theirs, ours - 1)
    yield above("rounds saved by momentum: Mime's > 0", ours, 1)


@decides("mime-fixed-state", _CURVES, lines)
def fixed_state(frame: pd.DataFrame) -> Iterator[Statement]:
    """Mime gets there no later than Loc-Mime, whose state moves during local steps."""
    needed = reached(frame)
    moving = one(needed, "loc_mime").clip(upper=frame["round"].max())  # if it ever gets there
    yield below("rounds to the target: Mime <= Loc-Mime", one(needed, "mime"), moving)


@decides("mime-prox", {"38_mime_ablation": ("prox",)}, lines)
def proximal(frame: pd.DataFrame) -> Iterator[Statement]:
    """The rounds that FedProx needs grow with mu, by the slope of a line. mu = 0 is FedAvg."""
    needed = reached(frame)
    mus = {float(name.removeprefix("mu ")): name for name in needed.index if name.startswith("mu ")}
    if not mus:
        raise Missing("fedprox")
    rounds = needed.loc[["fedavg", *mus.values()]].dropna(axis=1)
    slopes = np.polyfit([0.0, *mus], rounds.to_numpy(), 1)[0]
    text = "rounds to the target grow with mu: slope > 0"
    yield above(text, pd.Series(slopes, index=rounds.columns))


@decides("mime-table", {"24_mime_emnist": (), "25_mime_text": ()}, _rows, _table_2)
def table(frame: pd.DataFrame) -> Iterator[Statement]:
    """Table 2: on EMNIST a Mime method is at most a point behind FedAvg with every base optimizer,
    and level with Adam. On text FedAvg with Adam has less than half of both Mimes' accuracy."""
    for task, part in frame.groupby("task", sort=False):
        end = finals(part, "accuracy", "base", "method")
        for base in BASES:
            fedavg = one(end, (base, "FedAvg"))
            error = sampling_error(fedavg, part["examples"].iloc[0] if "examples" in part else nan)
            mimes = [(base, "Mime"), (base, "MimeLite")]
            if str(task).lower().startswith("emnist"):
                text = f"{task}, {base}: max(Mime, MimeLite) >= FedAvg"
                best = most(end, mimes)
                yield above(f"{text} - 0.01", best, fedavg - 0.01, sampling=error)
                if base == "Adam":
                    yield above(text, best, fedavg, level=nan, sampling=error)
            elif base == "Adam":
                text = f"{task}: FedAvg, Adam < min(Mime, MimeLite) / 2"
                yield below(text, fedavg, least(end, mimes) / 2, sampling=error)
