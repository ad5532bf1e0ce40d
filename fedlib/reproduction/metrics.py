"""Computation of papers' numbers from a run, weighted by examples and with equal weights."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fedlib.engine.fairness import worst
from fedlib.engine.history import History
from fedlib.results.reading import split_of
from fedlib.results.selection import late, on_half


@dataclass(frozen=True)
class Metric:
    """A number of a run: ``METRICS["avg"](history)`` gives it weighted and unweighted.

    Attributes:
        series: the metric of a history with its values after each evaluation.
        window: number of last rounds that it averages. None is
            :func:`fedlib.results.selection.late`.
        split: split of the evaluation. Default: the test examples.
        factor: from fedlib's unit to the paper's. 100 makes a fraction percent.
        smaller: whether smaller is better.
        measure: from a history to (weighted by examples, equal weights, NaN if unknown). Default:
            the mean of the series.
    """

    series: str
    window: int | None = None
    split: Callable[..., str] = lambda *_: "test"
    factor: float = 100.0
    smaller: bool = False
    measure: Callable[[History], tuple[float, float]] | None = None

    def __call__(self, history: History) -> tuple[float, float]:
        if self.measure is not None:
            return self.measure(history)
        split, alike = self.split(history), f"{self.series}_unweighted"
        weighted = history.final(self.series, split, self.over(history))
        has_clients = alike in history.metrics(split)
        return weighted, history.final(alike, split, self.over(history)) if has_clients else np.nan

    def over(self, history: History) -> int:
        """The number of last rounds that a run's number averages."""
        return self.window or late(history)

    def jitter(self, history: History) -> float:
        """The standard deviation of the number from round to round: that of the series over the
        rounds of :func:`fedlib.results.selection.late`, divided by the root of the number of
        averaged evaluations. NaN if there are fewer than two, or the run diverged.
        """
        if history.diverged is not None or self.series not in history.metrics(self.split(history)):
            return np.nan
        rounds, values = history.points(self.series, self.split(history))
        values = values[rounds > rounds[-1] - late(history)]
        averaged = 1 if self.window == 1 else len(values)
        return float(values.std(ddof=1) / averaged**0.5) if len(values) > 1 else np.nan


def _spread(history: History) -> tuple[float, float]:
    """Standard deviation of the clients' accuracies around their mean (divided by n, not n - 1)."""
    value, size = _client_accuracy(history)
    if not len(value):
        return np.nan, np.nan
    mean = np.average(value, weights=size)
    return float(np.sqrt(np.average((value - mean) ** 2, weights=size))), float(value.std())


def _worst(history: History) -> tuple[float, float]:
    """Mean accuracy of the worst 30 % of the clients, see :func:`fedlib.engine.fairness.worst`."""
    value, size = map(torch.tensor, _client_accuracy(history))
    if not len(value):
        return np.nan, np.nan
    alike, weighted = worst(value.unsqueeze(0), size, 30)
    return float(weighted), float(alike)


def _client_accuracy(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and example counts of the clients that have examples, or none if it diverged."""
    frame, split = history.clients, split_of(history)
    if history.diverged is not None:
        frame = frame[:0]
    value, size = (frame[name].to_numpy(float) for name in ("value", "examples"))
    measured = (frame["metric"] == "accuracy") & (frame["split"] == split)
    chosen = measured.to_numpy(bool) & (size > 0)
    return value[chosen], size[chosen]


METRICS: dict[str, Metric] = {
    # FedOpt uses the last 100 rounds.
    "accuracy": Metric("accuracy"),
    "last_accuracy": Metric("accuracy", window=1),
    "recall_at_5": Metric("recall_at_5"),
    "last_recall_at_5": Metric("recall_at_5", window=1),
    "mse_x1000": Metric("mse_x1000", factor=1.0, smaller=True),
    # AdaFedAdam and Delta-SGD use the last round.
    "avg": Metric("accuracy", 1, split_of),
    "std": Metric("accuracy_std_weighted", 1, split_of, smaller=True, measure=_spread),
    "worst30": Metric("accuracy_worst_30_weighted", 1, split_of, measure=_worst),
    # Mime uses the last round, here on the half of the clients that did not choose a rate.
    "reported": Metric("accuracy", 1, measure=on_half),
}
