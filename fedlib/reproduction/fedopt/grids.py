"""FedOpt's printed grids, and which runs notebooks 30 to 32 need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from fedlib import papers
from fedlib.errors import Error, require, unknown
from fedlib.reproduction.request import Experiment, Numbers, Request, grid, number, repeated
from fedlib.tasks import settings

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
RATES = ("client_lr", "server_lr")
# The quick preset searches these tasks' grids for several seeds: one with rare features, one dense.
REPEATED = ("stackoverflow_lr", "cifar10")
# And for every tau these, whose curves are calm enough for differences of 2 points.
CALM = ("stackoverflow_lr", "emnist_cr")
# Two cores search these in hours, in so many rounds: one with rare features; one dense, which
# Figure 12 is about.
LAPTOP = {"stackoverflow_lr": 500, "emnist_cr": 100}
LAPTOP_SPARSE = ("stackoverflow_lr",)
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
    return thinned([10.0**power for power in sorted(chosen["log10_value"])], points)


def rates(task: str, points: int | None = None) -> dict[str, list[float]]:
    """Client and server rates of a printed grid; see :func:`axis`."""
    return {name: axis(task, name, points) for name in RATES}


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


def near(task: str, algorithm: str, reach: int) -> dict[str, list[float]]:
    """A small problem's own rates for an algorithm, and their neighbours on both sides.

    Args:
        reach: in half-decades.
    """
    own = settings.small(TASKS[task])[algorithm]
    return {name: half_decades(own[name], reach) for name in RATES}


def common(task: str, reach: int, points: int | None = None) -> dict[str, list[float]]:
    """A small problem's rates for a grid that all optimizers share.

    Args:
        reach: how many half-decades beyond the smallest and the largest of the optimizers' own.
        points: of each axis, see :func:`axis`.
    """
    own = [settings.small(TASKS[task])[algorithm] for algorithm in OPTIMIZERS]
    axes = {}
    for name in RATES:
        powers = [round(2 * math.log10(values[name])) for values in own]
        halves = range(min(powers) - reach, max(powers) + reach + 1)
        axes[name] = thinned([10.0 ** (half / 2) for half in halves], points)
    return axes


def thinned(values: Sequence[float], points: int | None) -> list[float]:
    """So many of the values, evenly spread and with both ends; None: all."""
    if points is None or points >= len(values):
        return list(values)
    if points < 2:
        raise Error(f"points is {points}; allowed: a whole number >= 2")
    return [values[round(place * (len(values) - 1) / (points - 1))] for place in range(points)]


def learning_rate_grids(
    preset: str, seed: int, numbers: Numbers, laptop: Sequence[str] = tuple(LAPTOP)
) -> list[Request]:
    """30_learning_rate_grids and 32_client_server_lr: client against server rate, tau 1e-3.

    Numbers: rounds, clients_per_round, points (of each axis), reach (of a small problem's grid, see
    :func:`common`; None: the paper's), seeds (of the tasks in :data:`REPEATED`). Part: grid.

    Args:
        laptop: the tasks of the laptop preset.
    """
    requests = []
    for task in laptop if preset == "laptop" else problems(preset):
        reach, points = numbers.get("reach"), numbers.get("points")
        axes = rates(task, points) if reach is None else common(task, reach, points)
        how = _searched(task, preset, seed, numbers, 0 if preset == "quick" else EVAL_EVERY)
        runs = []
        for algorithm in OPTIMIZERS:
            fixed = {"tau": TAU} if algorithm in ADAPTIVE else {}
            runs += grid(task, algorithm, "grid", axes, overrides=fixed, **how)
        requests += repeated(runs, numbers.get("seeds") if task in REPEATED else None)
    return requests


def tau(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """31_tau: the adaptive optimizers' grids for every tau.

    Numbers: rounds, clients_per_round, points (of each axis of the paper's grid), reach (of a small
    problem's, see :func:`near`; None: the paper's grid), seeds. Part: tau.
    """
    requests = []
    for task in {"quick": CALM, "laptop": LAPTOP_SPARSE}.get(preset, tuple(TASKS)):
        for algorithm in ADAPTIVE:
            for value in axis(task, "tau"):
                axes = _for_tau(task, algorithm, value, numbers)
                how = _searched(task, preset, seed, numbers, 5 if preset == "quick" else EVAL_EVERY)
                requests += grid(task, algorithm, "tau", {**axes, "tau": [value]}, **how)
    return repeated(requests, numbers.get("seeds"))


def _for_tau(task: str, algorithm: str, value: float, numbers: Numbers) -> dict[str, list[float]]:
    """The rates that are tried for a tau.

    A small problem's are around its own, which belong to tau 1e-3. A step is divided by
    sqrt(v) + tau, so the server rate's are moved in proportion to 1e-3 + tau: differences of about
    1e-3 are what its own rate is good for.
    """
    reach = numbers.get("reach")
    if reach is None:
        return rates(task, numbers.get("points"))
    own = settings.small(TASKS[task])[algorithm]
    server = own["server_lr"] * (value + TAU) / (2 * TAU)
    return {
        "client_lr": half_decades(own["client_lr"], reach),
        "server_lr": half_decades(server, reach),
    }


def _searched(
    task: str, preset: str, seed: int, numbers: Numbers, eval_every: int
) -> dict[str, Any]:
    """What all requests of a task's grid share."""
    rounds = LAPTOP[task] if preset == "laptop" else None
    return shared(seed, {**numbers, "rounds": number(numbers, "rounds", rounds)}, eval_every)


def shared(seed: int, numbers: Numbers, eval_every: int) -> dict[str, Any]:
    """What all requests share."""
    return {
        "rounds": numbers.get("rounds"),
        "clients_per_round": numbers.get("clients_per_round"),
        "seed": seed,
        "eval_every": eval_every,
        "keep_params": False,
    }


def problems(preset: str) -> list[str]:
    """The tasks whose grids are searched: under quick those that have a small problem."""
    small = settings.small_problems()
    return [task for task in TASKS if preset != "quick" or TASKS[task] in small]


_QUICK = {"rounds": 30, "reach": 1, "seeds": 3}
_LAPTOP = {"points": 5}
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "30_learning_rate_grids",
        _QUICK,
        partial(learning_rate_grids, laptop=LAPTOP_SPARSE),
        _LAPTOP,
    ),
    Experiment("31_tau", {"rounds": 50, "reach": 1, "seeds": 3}, tau, {"points": 3}),
    Experiment("32_client_server_lr", _QUICK, learning_rate_grids, _LAPTOP),
)
