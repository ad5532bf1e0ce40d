"""Distributions of a metric over clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedlib.arguments import checked
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing, algorithm, axis_label, figure_of, line_of

BANDWIDTH = 5.0  # standard deviation of a density's kernel, in percentage points


@checked
def client_density(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    *,
    title: str = "",
    legend: bool = True,
    by: Callable[[History], str] = algorithm,
    ax: Axes | None = None,
) -> Drawing:
    """The density of the clients' final values, a line per algorithm (seeds pooled).

    A Gaussian kernel with a standard deviation of 5 points around each client's value, reflected at
    0 and at 100 %, so that the density is one between them (seaborn's ``kdeplot`` cannot reflect).
    Clients count alike.

    Args:
        metric: per client, a fraction.

    Returns:
        the figure, and what is drawn: task, algorithm, value (percent), density (per point).

    Raises:
        Error: no runs, or one without values per client.
    """
    at = np.linspace(0.0, 100.0, 201)
    frames = []
    with style.axes(ax) as ax:
        for key, values in _client_values(histories, metric, split, by).items():
            density = _density(100.0 * values, at)
            look = style.look(key)
            ax.plot(at, density, look.linestyle, color=look.color, label=look.label)
            frames.append(pd.DataFrame({"algorithm": key, "value": at, "density": density}))
        ax.set(xlabel=f"client {axis_label(metric, split, True)}", ylabel="density", title=title)
        ax.set_ylim(bottom=0)
        if legend:
            ax.legend()
    data = pd.concat(frames, ignore_index=True)
    data.insert(0, "task", histories[0].config.task["name"])
    return figure_of(ax), data


def _client_values(
    histories: Sequence[History], metric: str, split: str, by: Callable[[History], str]
) -> dict[str, np.ndarray]:
    """The clients' final values by line, those of several seeds one after the other."""
    if not histories:
        raise Error("no runs to draw; give at least one history")
    parts: dict[str, list[np.ndarray]] = {}
    for history in histories:
        frame = history.clients
        chosen = frame[(frame["metric"] == metric) & (frame["split"] == split)]["value"].dropna()
        if chosen.empty:
            raise Error(
                f"{history!r} has no {split} {metric} per client; draw runs of another task"
            )
        parts.setdefault(line_of(history, by), []).append(chosen.to_numpy(float))
    return {key: np.concatenate(values) for key, values in parts.items()}


def _density(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    mirrored = np.concatenate([values, -values, 200.0 - values])
    kernels = np.exp(-0.5 * ((at[:, None] - mirrored) / BANDWIDTH) ** 2)
    return kernels.sum(1) / (len(values) * BANDWIDTH * np.sqrt(2 * np.pi))
