"""How a printed number is computed from a run: weighted by examples, and with clients alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fedlib.engine.fairness import worst
from fedlib.engine.history import History
from fedlib.results.reading import split_of
from fedlib.results.selection import on_half

NAN = float("nan")


@dataclass(frozen=True)
class Metric:
    """A number of a run: ``METRICS["avg"](history)`` gives it weighted and unweighted.

    Attributes:
        measure: from a history to (weighted by examples, clients counted alike; NaN if unknown).
        factor: from fedlib's unit to the printed one; 100 makes a fraction percent.
        smaller: whether smaller is better.
        series: the metric of a history that says it after each evaluation; default its name.
    """

    measure: Callable[[History], tuple[float, float]]
    factor: float = 100.0
    smaller: bool = False
    series: str = ""

    def __call__(self, history: History) -> tuple[float, float]:
        return self.measure(history)


def averaged(
    name: str, window: int | None = None, split: Callable[[History], str] = lambda _: "test"
) -> Callable[[History], tuple[float, float]]:
    """A metric's mean over the last rounds: None is :meth:`History.window`, 1 the last one."""

    def measure(history: History) -> tuple[float, float]:
        part, alike = split(history), f"{name}_unweighted"
        weighted = history.final(name, part, window)
        has_clients = alike in history.metrics(part)
        return weighted, history.final(alike, part, window) if has_clients else NAN

    return measure


def _spread(history: History) -> tuple[float, float]:
    """Standard deviation of the clients' accuracies around their mean (divided by n, not n - 1)."""
    value, size = _client_accuracy(history)
    if not len(value):
        return NAN, NAN
    mean = np.average(value, weights=size)
    return float(np.sqrt(np.average((value - mean) ** 2, weights=size))), float(value.std())


def _worst(history: History) -> tuple[float, float]:
    """Mean accuracy of the worst 30 % of the clients; see :func:`fedlib.engine.fairness.worst`."""
    value, size = map(torch.tensor, _client_accuracy(history))
    if not len(value):
        return NAN, NAN
    alike, weighted = worst(value.unsqueeze(0), size, 30)
    return float(weighted), float(alike)


def _client_accuracy(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and example counts of the clients that have examples; none if it diverged."""
    frame, split = history.clients, split_of(history)
    frame = frame[
        (frame["metric"] == "accuracy") & (frame["split"] == split) & (frame["examples"] > 0)
    ]
    if history.diverged is not None:
        frame = frame[:0]
    return frame["value"].to_numpy(float), frame["examples"].to_numpy(float)


METRICS: dict[str, Metric] = {
    # FedOpt: the last 100 rounds.
    "accuracy": Metric(averaged("accuracy")),
    "last_accuracy": Metric(averaged("accuracy", window=1), series="accuracy"),
    "recall_at_5": Metric(averaged("recall_at_5")),
    "last_recall_at_5": Metric(averaged("recall_at_5", window=1), series="recall_at_5"),
    "mse_x1000": Metric(averaged("mse_x1000"), factor=1.0, smaller=True),
    # AdaFedAdam, Delta-SGD: after the last round.
    "avg": Metric(averaged("accuracy", 1, split_of), series="accuracy"),
    "std": Metric(_spread, smaller=True, series="accuracy_std_weighted"),
    "worst30": Metric(_worst, series="accuracy_worst_30_weighted"),
    # Mime: after the last round, on the half of the clients on which no rate was chosen.
    "reported": Metric(on_half, series="accuracy"),
}
