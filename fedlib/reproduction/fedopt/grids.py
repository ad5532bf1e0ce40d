"""Which runs FedOpt's grids need: heat maps, tau, client against server rates, decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedlib.errors import Error, unknown
from fedlib.reproduction.fedopt.runs import rates
from fedlib.reproduction.request import Experiment, Request, grid, tuned

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
OPTIMIZERS = ("fedadagrad", "fedadam", "fedyogi", "fedavgm", "fedavg")
ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
# Heat maps and Figure 12 fix it.
TAU = 1e-3
# The paper evaluates every round and averages the last 100; ten of these hundred say the same.
EVAL_EVERY = 10
# ExpDecay, its steps at the thirds of however many rounds there are.
DECAY = "exp_decay_thirds"
# The quick preset's tasks: the narrowest networks and little data.
SMALL: dict[str, dict[str, Any]] = {
    "cifar10": {"clients": 30, "examples_per_client": 10, "test_clients": 3, "width": 1 / 32},
    "cifar100": {"clients": 30, "examples_per_client": 10, "test_clients": 3, "width": 1 / 32},
    "emnist_ae": {"clients": 10, "width": 1 / 64},
    "emnist_cr": {"clients": 10, "width": 1 / 32},
    "shakespeare": {"clients": 10, "rows": 8, "length": 10, "width": 1 / 16},
    "stackoverflow_lr": {"clients": 10, "words": 100, "cap": 30, "validation": 200},
    "stackoverflow_nwp": {
        **{"clients": 10, "words": 100, "cap": 8, "validation": 50},
        **{"width": 1 / 16},
    },
}
# Half-decades (log10) for the centralised optimizers of Table 11; the paper prints none.
CENTRALIZED: dict[str, tuple[float, float]] = {
    "adagrad": (-2.5, 0.0),
    "adam": (-3.5, -1.0),
    "yogi": (-3.5, -1.0),
    "momentum": (-1.0, 1.5),
    "sgd": (-2.0, 0.5),
}


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
    values = [10.0**power for power in sorted(rates(TASKS[task], parameter))]
    if points is None or points >= len(values):
        return values
    if points < 2:
        raise Error(f"points is {points}; allowed: a whole number >= 2")
    return [values[round(place * (len(values) - 1) / (points - 1))] for place in range(points)]


def middle(values: Sequence[float], count: int | None) -> list[float]:
    """The ``count`` values about the middle, rather the larger ones; None: all.

    >>> middle([1, 2, 3, 4], 1), middle([1, 2, 3, 4], 2)
    ([3], [2, 3])
    """
    if count is None or count >= len(values):
        return list(values)
    if count < 1:
        raise Error(f"number of learning rates is {count}; allowed: a whole number >= 1")
    start = (len(values) - count + 1) // 2
    return list(values[start : start + count])


def learning_rate_grids(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """30_learning_rate_grids and 32_client_server_lr: client against server rate, tau 1e-3.

    Numbers: rounds, clients_per_round, points (of each axis). Part: grid.
    """
    requests = []
    for task in TASKS:
        axes = {
            name: axis(task, name, numbers.get("points")) for name in ("client_lr", "server_lr")
        }
        for algorithm in OPTIMIZERS:
            fixed = {"tau": TAU} if algorithm in ADAPTIVE else {}
            common = _common(task, preset, seed, numbers)
            requests += grid(task, algorithm, "grid", axes, overrides=fixed, **common)
    return requests


def tau(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """31_tau: the adaptive optimizers' grids for every tau.

    Numbers: rounds, clients_per_round, points (of each axis of learning rates), rates (how many of
    these client and server rates, the middle ones). Part: tau.
    """
    counts = numbers.get("rates") or (None, None)
    requests = []
    for task in TASKS:
        axes = {"tau": axis(task, "tau")}
        for name, count in zip(("client_lr", "server_lr"), counts, strict=True):
            axes[name] = middle(axis(task, name, numbers.get("points")), count)
        for algorithm in ADAPTIVE:
            requests += grid(task, algorithm, "tau", axes, **_common(task, preset, seed, numbers))
    return requests


def decay(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """33_lr_decay_and_centralized: EMNIST CR with constant and decaying rates, and centralised.

    The constant runs have the rates and tau of Tables 8 and 9, the best of the grids. ExpDecay runs
    them too, and the same grids.

    Numbers: rounds, clients_per_round, width, points (of each axis of ExpDecay's grid; 0: none),
    epochs (centralised; the paper's 100), rates (how many of each centralised optimizer's, the
    middle ones). Parts: constant, decay, centralized.
    """
    task, points = "emnist_cr", numbers.get("points")
    common = _common(task, preset, seed, numbers)
    if numbers.get("width") is not None:
        common["options"] = {**common["options"], "width": numbers["width"]}
    common["eval_every"] = 1 if preset == "quick" else EVAL_EVERY
    falling = {"overrides": {"client_schedule": DECAY}}
    requests = tuned(task, OPTIMIZERS, "constant", **common)
    requests += tuned(task, OPTIMIZERS, "decay", **falling, **common)
    for algorithm in OPTIMIZERS if points != 0 else ():
        axes = {name: axis(task, name, points) for name in ("client_lr", "server_lr")}
        axes |= {"tau": axis(task, "tau")} if algorithm in ADAPTIVE else {}
        requests += grid(task, algorithm, "decay", axes, **falling, **common)
    epochs = numbers.get("epochs")
    own = {**common, "rounds": 100 if epochs is None else epochs, "eval_every": 1}
    own.pop("clients_per_round")
    for base, (first, last) in CENTRALIZED.items():
        values = [10 ** (first + half / 2) for half in range(round(2 * (last - first)) + 1)]
        axes = {"client_lr": middle(values, numbers.get("rates"))}
        requests += grid(task, "centralized", "centralized", axes, overrides={"base": base}, **own)
    return requests


def _common(task: str, preset: str, seed: int, numbers: Mapping[str, Any]) -> dict[str, Any]:
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


EXPERIMENTS = (
    Experiment(
        "30_learning_rate_grids",
        {"rounds": 8, "clients_per_round": 2, "points": 4},
        learning_rate_grids,
    ),
    Experiment("31_tau", {"rounds": 8, "clients_per_round": 2, "points": 4, "rates": [1, 2]}, tau),
    Experiment(
        "32_client_server_lr",
        {"rounds": 8, "clients_per_round": 2, "points": 4},
        learning_rate_grids,
    ),
    Experiment(
        "33_lr_decay_and_centralized",
        {
            "rounds": 20,
            "clients_per_round": 2,
            "points": 0,
            "width": 0.125,
            "epochs": 6,
            "rates": 2,
        },
        decay,
    ),
)
