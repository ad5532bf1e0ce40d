"""FedOpt's printed grids, and which runs notebooks 30 to 32 need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedlib import papers
from fedlib.errors import Error, require, unknown
from fedlib.reproduction.request import Experiment, Numbers, Request, grid, number

# fedlib's task -> the paper's, in the order of Figures 5 to 11.
TASKS: dict[str, str] = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "emnist_ae": "EMNIST AE",
    "emnist_cr": "EMNIST CR",
    "shakespeare": "Shakespeare",
    "stackoverflow_lr": "StackOverflow LR",
    "stackoverflow_nwp": "StackOverflow NWP",
}
# The printed order of Tables 1, 8, 10 and 11, and of the heat maps; the first three have a tau.
ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
OPTIMIZERS = (*ADAPTIVE, "fedavgm", "fedavg")
# Heat maps and Figure 12 fix it.
TAU: float = papers.settings("fedopt")["tuning"]["tau_fixed_in_lr_heatmaps"]
# The paper evaluates every round and averages the last 100; ten of these hundred say the same.
EVAL_EVERY = 10


def axis(task: str, parameter: str, points: int | None = None) -> list[float]:
    """The values of a printed grid (FedOpt, appendix D.2), smallest first.

    Args:
        task: one of :data:`TASKS`.
        parameter: ``"client_lr"``, ``"server_lr"`` or ``"tau"``.
        points: how many of them, evenly spread and with both ends; default all.

    Raises:
        Error: a task without a grid, or fewer than two points.

    >>> axis("emnist_ae", "tau")
    [1e-05, 0.0001, 0.001, 0.01, 0.1]
    """
    if task not in TASKS:
        raise unknown("task with a grid in FedOpt", task, TASKS)
    table = papers.table("fedopt", "grids")
    chosen = table[(table["task"] == TASKS[task]) & (table["parameter"] == parameter)]
    values = [10.0**power for power in sorted(chosen["log10_value"])]
    if points is None or points >= len(values):
        return values
    if points < 2:
        raise Error(f"points is {points}; allowed: a whole number >= 2")
    return [values[round(place * (len(values) - 1) / (points - 1))] for place in range(points)]


def rates(task: str, points: int | None = None) -> dict[str, list[float]]:
    """Client and server rates of a printed grid; see :func:`axis`."""
    return {name: axis(task, name, points) for name in ("client_lr", "server_lr")}


def around(task: str, reach: int | None) -> dict[str, list[float]]:
    """Client and server rates of a printed grid that are near FedAvg's own (Table 8).

    Args:
        reach: in half-decades to both sides; 0: FedAvg's alone; None: the whole grid.
    """
    allowed = "a whole number >= 0, or None for the whole grid"
    require(reach is None or reach >= 0, "scaffold_grid", reach, allowed)
    where = {"task": TASKS[task], "algorithm": "FedAvg"}
    near = {}
    for name, values in rates(task).items():
        centre = papers.printed("fedopt", "table8_learning_rates", column=f"log10_{name}", **where)
        steps = {value: round(2 * abs(math.log10(value) - centre)) for value in values}
        near[name] = [value for value in values if reach is None or steps[value] <= reach]
    return near


def half_decades(centre: float, reach: int) -> list[float]:
    """The powers of the root of ten around one of them, ``reach`` to both sides.

    >>> [round(rate, 3) for rate in half_decades(0.1, 1)]
    [0.032, 0.1, 0.316]
    """
    power = round(2 * math.log10(centre))
    return [10.0 ** (half / 2) for half in range(power - reach, power + reach + 1)]


def middle(values: Sequence[float], count: int | None) -> list[float]:
    """The ``count`` values in the middle, of two such choices the larger values; None: all.

    >>> middle([1, 2, 3, 4], 1), middle([1, 2, 3, 4], 2)
    ([3], [2, 3])
    """
    if count is None or count >= len(values):
        return list(values)
    if count < 1:
        raise Error(f"number of learning rates is {count}; allowed: a whole number >= 1")
    start = (len(values) - count + 1) // 2
    return list(values[start : start + count])


def learning_rate_grids(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """30_learning_rate_grids and 32_client_server_lr: client against server rate, tau 1e-3.

    Numbers: rounds, clients_per_round, points (of each axis). Part: grid.
    """
    requests = []
    for task in TASKS:
        common = shared(task, preset, seed, numbers)
        for algorithm in OPTIMIZERS:
            fixed = {"tau": TAU} if algorithm in ADAPTIVE else {}
            axes = rates(task, numbers.get("points"))
            requests += grid(task, algorithm, "grid", axes, overrides=fixed, **common)
    return requests


def tau(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """31_tau: the adaptive optimizers' grids for every tau.

    Numbers: rounds, clients_per_round, points (of each axis of learning rates), rates (how many of
    these client and server rates, the middle ones). Part: tau.
    """
    counts = number(numbers, "rates", (None, None))
    requests = []
    for task in TASKS:
        axes = {"tau": axis(task, "tau")}
        listed = rates(task, numbers.get("points")).items()
        for (name, values), count in zip(listed, counts, strict=True):
            axes[name] = middle(values, count)
        for algorithm in ADAPTIVE:
            requests += grid(task, algorithm, "tau", axes, **shared(task, preset, seed, numbers))
    return requests


def shared(task: str, preset: str, seed: int, numbers: Numbers) -> dict[str, Any]:
    """What all requests of a task share."""
    return {
        "options": dict(SMALL[task]) if preset == "quick" else {},
        "rounds": numbers.get("rounds"),
        "clients_per_round": numbers.get("clients_per_round"),
        "seed": seed,
        # A quick run's window is its last round.
        "eval_every": 0 if preset == "quick" else EVAL_EVERY,
        "keep_params": False,
    }


# The quick preset's tasks: the narrowest networks and little data.
_SMALL_CIFAR = {"clients": 30, "examples_per_client": 10, "test_clients": 3, "width": 1 / 32}
_SMALL_NWP = {"clients": 10, "words": 100, "cap": 8, "validation": 50, "width": 1 / 16}
SMALL: dict[str, dict[str, Any]] = {
    "cifar10": _SMALL_CIFAR,
    "cifar100": _SMALL_CIFAR,
    "emnist_ae": {"clients": 10, "width": 1 / 64},
    "emnist_cr": {"clients": 10, "width": 1 / 32},
    "shakespeare": {"clients": 10, "rows": 8, "length": 10, "width": 1 / 16},
    "stackoverflow_lr": {"clients": 10, "words": 100, "cap": 30, "validation": 200},
    "stackoverflow_nwp": _SMALL_NWP,
}
_QUICK = {"rounds": 8, "clients_per_round": 2, "points": 4}
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("30_learning_rate_grids", _QUICK, learning_rate_grids),
    Experiment("31_tau", {**_QUICK, "rates": [1, 2]}, tau),
    Experiment("32_client_server_lr", _QUICK, learning_rate_grids),
)
