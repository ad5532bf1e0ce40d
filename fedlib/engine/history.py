"""The results of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from fedlib.arguments import whole
from fedlib.engine.config import RunConfig
from fedlib.errors import Error, unknown
from fedlib.task import Task

# FedOpt averages the last 100 rounds of runs of 1500 to 4000. Shorter runs average the same share
# of 1500.
WINDOW_SHARE = 100 / 1500
WINDOW_ROUNDS = 100

# A metric's rounds and values, in order.
Points = tuple[np.ndarray, np.ndarray]


def mean_of_last(round: np.ndarray, value: np.ndarray, window: int) -> float:
    """The mean of a metric's values, given in order, over its last ``window`` rounds.

    The initial model's value, in round 0, counts in no other round.
    """
    return float(value[round > round[-1] - max(1, min(window, round[-1]))].mean())


@dataclass(eq=False)
class History:
    """The results of one run.

    Attributes:
        frame: tidy frame ``round, split, metric, value``. Round 0 is the initial model. Split
            ``"test"`` is the server model on the test data. Split ``"train"`` is the
            example-weighted mean of the cohort's batch losses during local training in that round.
        clients: tidy frame at the last evaluation: ``client, split, metric, value, examples``.
        params: the final server parameters by name, on the CPU. If the run diverged, the last
            finite ones.
        config: the run's configuration.
        meta: device, backend, threads, configurations (trained together), seconds,
            seconds_per_round, diverged (the round, or None), stopped (the round) if a callback
            ended the run, and the store's additions.
        task: the task, in the process that trained it.

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

    @property
    def stand_in(self) -> bool:
        """Whether the data are a stand-in for the paper's."""
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
        """One metric's rounds and values. It uses NumPy for speed, as tables need thousands."""
        columns = {name: self.frame[name].to_numpy() for name in self.frame}
        chosen = (columns["metric"] == metric) & (columns["split"] == split)
        if not chosen.any():
            names = self.frame["split"] + " " + self.frame["metric"]
            raise unknown("metric", f"{split} {metric}", names.unique())
        return columns["round"][chosen], columns["value"][chosen]

    def window(self) -> int:
        """The number of last rounds that :meth:`final` averages by default."""
        return min(WINDOW_ROUNDS, max(1, round(rounds_of(self) * WINDOW_SHARE)))

    def final(
        self, metric: str = "accuracy", split: str = "test", window: int | None = None
    ) -> float:
        """Mean over the evaluations in the last ``window`` rounds.

        Args:
            metric, split: the series.
            window: number of rounds. Default: FedOpt's 100, or for runs under 1500 rounds the same
                share of them.

        Returns:
            The mean, or NaN if the run diverged.
        """
        window = self.window() if window is None else whole("window", window, 1)
        if self.diverged is not None:
            return float("nan")
        return mean_of_last(*self.points(metric, split), window)

    def model(self, task: Task | None = None) -> nn.Module:
        """The trained model, in evaluation mode: the task's with :attr:`params`.

        Args:
            task: needed if the history comes from a store or another process.

        Raises:
            Error: the task is unknown, or its model has other parameters.

        Example:
            >>> import fedlib
            >>> history = fedlib.run(fedlib.load_task("synthetic"), "fedavg", rounds=1)
            >>> history.model().training
            False
        """
        task = self.task if task is None else task
        if task is None:
            raise Error("this history has no task: give it, as in history.model(task)")
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
    """The number of rounds of a run: as configured, or until a callback ended it."""
    rounds: int = history.meta.get("stopped", history.config.rounds)
    return rounds


# Columns of a frame of several histories.
COLUMNS = ("round", "split", "metric", "value", "diverged")


def frame_of(histories: Sequence[History], columns: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Concatenate histories' frames.

    Args:
        columns: for each history more columns by name, with one value for all its rows.

    Returns:
        These columns, then round, split, metric, value, diverged (round or NaN).
    """
    frames = []
    for history, named in zip(histories, columns, strict=True):
        rows = len(history.frame)
        whole = {
            name: [tuple(np.asarray(value).tolist()) if np.ndim(value) else value] * rows
            for name, value in named.items()  # a list or a function is one value, for every row
        }
        frame = history.frame.assign(**whole, diverged=history.diverged)
        frames.append(frame.astype({"diverged": "float64"}))
    return pd.concat(frames, ignore_index=True)[[*columns[0], *COLUMNS]]
