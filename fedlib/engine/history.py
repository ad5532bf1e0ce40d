"""The results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from fedlib.arguments import check_fields
from fedlib.engine.config import RunConfig
from fedlib.errors import Error, unknown
from fedlib.task import Task

# FedOpt averages the last 100 rounds of runs of 1500 to 4000; shorter runs average the same share
# of 1500.
WINDOW_SHARE = 100 / 1500
WINDOW_ROUNDS = 100

# A metric's rounds and values, in order.
Points = tuple[np.ndarray, np.ndarray]


def mean_of_last(round: np.ndarray, value: np.ndarray, window: int) -> float:
    """The mean of a metric's values, given in order, in the last ``window`` rounds that it has.

    The initial model's value, in round 0, counts in no other round.
    """
    return float(value[round > round[-1] - max(1, min(window, round[-1]))].mean())


@dataclass(eq=False)
class History:
    """The results of one run.

    Attributes:
        frame: tidy: ``round, split, metric, value``. Round 0 is the initial model. Split ``"test"``
            is the server model on the test data. Split ``"train"`` is the example-weighted mean of
            the batch losses that the cohort saw during local training in that round.
        clients: tidy, at the last evaluation: ``client, split, metric, value, examples``.
        params: the final server parameters by name, on the CPU. The last finite ones if the run
            diverged.
        config: the run's configuration.
        meta: device, backend, threads, configurations (trained together), seconds,
            seconds_per_round, diverged (the round, or None); stopped (the round) where a callback
            ended the run. What the store adds to it.
        task: what was trained on, in the process that did.

    Example:
        >>> import fedlib
        >>> history = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=4)
        >>> history.series("loss").index.tolist()
        [0, 1, 2, 3, 4]
        >>> list(history.params)
        ['x']
    """

    frame: pd.DataFrame
    clients: pd.DataFrame
    params: dict[str, Tensor]
    config: RunConfig
    meta: dict[str, Any]
    task: Task | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "task": None}  # a task may hold functions that cannot be pickled

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def stand_in(self) -> bool:
        """Whether the data stands in for the paper's."""
        return bool(self.config.task["stand_in"])

    @property
    def diverged(self) -> int | None:
        """The round in which the loss or the parameters ceased to be finite, or None."""
        round: int | None = self.meta["diverged"]
        return round

    def series(self, metric: str = "accuracy", split: str = "test") -> pd.Series:
        """One metric's values, indexed by round."""
        round, value = self.points(metric, split)
        return pd.Series(value, index=pd.Index(round, name="round"), name="value")

    def metrics(self, split: str = "test") -> list[str]:
        """The names of the metrics in a split."""
        names: list[str] = self.frame.loc[self.frame["split"] == split, "metric"].unique().tolist()
        return names

    def points(self, metric: str = "accuracy", split: str = "test") -> Points:
        """One metric's rounds and values. Tables ask for thousands: NumPy, not pandas."""
        columns = {name: self.frame[name].to_numpy() for name in self.frame}
        chosen = (columns["metric"] == metric) & (columns["split"] == split)
        if not chosen.any():
            names = self.frame["split"] + " " + self.frame["metric"]
            raise unknown("metric", f"{split} {metric}", names.unique())
        return columns["round"][chosen], columns["value"][chosen]

    def window(self) -> int:
        """Over how many last rounds :meth:`final` averages by default."""
        return min(WINDOW_ROUNDS, max(1, round(rounds_of(self) * WINDOW_SHARE)))

    def final(
        self, metric: str = "accuracy", split: str = "test", window: int | None = None
    ) -> float:
        """Mean over the evaluations in the last ``window`` rounds.

        Args:
            metric, split: which series.
            window: rounds. Default: FedOpt's 100, or for runs under 1500 rounds the same share of
                them.

        Returns:
            NaN if the run diverged.
        """
        if window is not None and window < 1:
            raise Error(f"window is {window}; allowed: a whole number of rounds >= 1")
        if self.diverged is not None:
            return float("nan")
        return mean_of_last(*self.points(metric, split), window or self.window())

    def model(self, task: Task | None = None) -> nn.Module:
        """The trained model, in evaluation mode: the task's with :attr:`params`.

        Args:
            task: needed if the history comes from a store or another process.

        Raises:
            Error: no task is known, or its model has other parameters.

        Example:
            >>> import fedlib
            >>> history = fedlib.run(fedlib.load_task("synthetic"), "fedavg", rounds=1)
            >>> history.model().training
            False
        """
        task = self.task if task is None else task
        if task is None:
            raise Error("this history knows no task; give the one it is of: history.model(task)")
        return task.trained(self.params)

    def __repr__(self) -> str:
        state = "" if self.diverged is None else f", diverged in round {self.diverged}"
        state += f", stopped after round {self.meta['stopped']}" if "stopped" in self.meta else ""
        data = ", stand-in data" if self.stand_in else ""
        return (
            f"History({self.config.algorithm} on {self.config.task['name']}, "
            f"{self.config.rounds} rounds{data}{state})"
        )


def rounds_of(history: History) -> int:
    """How many rounds a run has: as configured, or until a callback ended it."""
    rounds: int = history.meta.get("stopped", history.config.rounds)
    return rounds


# Of a frame of several histories.
COLUMNS = ("round", "split", "metric", "value", "diverged")


def frame_of(histories: Sequence[History], columns: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Histories' frames below each other.

    Args:
        columns: of each history more columns by name, with the value of all its rows.

    Returns:
        these columns, then round, split, metric, value, diverged (round or NaN).
    """
    frames = []
    for history, named in zip(histories, columns, strict=True):
        rows = len(history.frame)
        whole = {
            name: [tuple(np.asarray(value).tolist()) if np.ndim(value) else value] * rows
            for name, value in named.items()  # a list is one value, of every row; so is a function
        }
        frame = history.frame.assign(**whole, diverged=history.diverged)
        frames.append(frame.astype({"diverged": "float64"}))
    return pd.concat(frames, ignore_index=True)[[*columns[0], *COLUMNS]]
