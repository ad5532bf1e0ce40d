"""Which runs the notebooks of Adaptive Federated Optimization need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedlib import papers
from fedlib.errors import require
from fedlib.reproduction.request import Experiment, Request, grid, tuned

# The five optimizers of Table 1, of the heat maps and of Table 10.
OPTIMIZERS = ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi")


def rates(label: str, name: str) -> list[float]:
    """The exponents of a task's grid, for instance ``[-3.0, -2.5, ..., 0.5]`` (appendix D.2).

    Args:
        label: the task's name in the paper.
        name: ``"client_lr"`` or ``"server_lr"``.
    """
    table = papers.table("fedopt", "grids")
    chosen = table[(table["task"] == label) & (table["parameter"] == name)]
    return [float(value) for value in chosen["log10_value"]]


def around(label: str, name: str, reach: int | None) -> list[float]:
    """The learning rates of a task's grid that are near FedAvg's own (Table 8).

    Args:
        reach: in half-decades to both sides; 0: FedAvg's alone; None: the whole grid.
    """
    allowed = "a whole number >= 0, or None for the whole grid"
    require(reach is None or reach >= 0, "scaffold_grid", reach, allowed)
    table = papers.table("fedopt", "table8_learning_rates")
    own = table[(table["task"] == label) & (table["algorithm"] == "FedAvg")]
    centre = float(own[f"log10_{name}"].iloc[0])
    every = rates(label, name)
    return [10**one for one in every if reach is None or abs(one - centre) < 0.5 * reach + 0.1]


def convergence(
    task: str,
    label: str,
    seed: int,
    numbers: Mapping[str, Any],
    options: Sequence[str] = (),
) -> list[Request]:
    """The runs of a panel of Figure 1, of Figure 4 and of a column of Table 1.

    Parts: ``curves``: the five optimizers with the values of Tables 8 and 9. ``scaffold``: SCAFFOLD
    over the task's grid of learning rates, because the paper tunes it there (B.2) and does not
    print what it found. The rule of :mod:`fedlib.results.selection` chooses among them.

    Args:
        task, label: fedlib's name and the paper's.
        numbers: of the notebook: rounds, eval_every (None: 1), clients_per_round, scaffold_grid
            (how many half-decades around FedAvg's rates; None: the paper's whole grid), and
            ``options``.
        options: the task's options among them.
    """
    every = numbers.get("eval_every")
    common: dict[str, Any] = {
        "options": {key: numbers[key] for key in options if numbers.get(key) is not None},
        "rounds": numbers.get("rounds"),
        "seed": seed,
        "eval_every": 1 if every is None else every,
        "clients_per_round": numbers.get("clients_per_round"),
    }
    reach = numbers.get("scaffold_grid")
    axes = {name: around(label, name, reach) for name in ("client_lr", "server_lr")}
    return [
        *tuned(task, OPTIMIZERS, "curves", **common),
        *grid(task, "scaffold", "scaffold", axes, **common),
    ]


IMAGES = ("width", "examples_per_client", "test_clients")


def cifar10(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """10_cifar10. Numbers: those of :func:`convergence` and :data:`IMAGES`."""
    return convergence("cifar10", "CIFAR-10", seed, numbers, IMAGES)


def cifar100(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """11_cifar100. Numbers: those of :func:`convergence` and :data:`IMAGES`."""
    return convergence("cifar100", "CIFAR-100", seed, numbers, IMAGES)


def emnist_cr(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """12_emnist_cr. Numbers: those of :func:`convergence`, clients, width."""
    return convergence("emnist_cr", "EMNIST CR", seed, numbers, ("clients", "width"))


def emnist_ae(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """13_emnist_ae. Numbers: those of :func:`convergence`, clients, width."""
    return convergence("emnist_ae", "EMNIST AE", seed, numbers, ("clients", "width"))


EXPERIMENTS = (
    Experiment(
        "10_cifar10",
        {
            "rounds": 12,
            "width": 0.0625,
            "examples_per_client": 60,
            "test_clients": 5,
            "eval_every": 2,
            "scaffold_grid": 0,
        },
        cifar10,
    ),
    Experiment(
        "11_cifar100",
        {
            "rounds": 10,
            "width": 0.0625,
            "examples_per_client": 60,
            "test_clients": 5,
            "eval_every": 2,
            "scaffold_grid": 0,
        },
        cifar100,
    ),
    Experiment(
        "12_emnist_cr",
        {"rounds": 15, "width": 0.125, "eval_every": 3, "scaffold_grid": 0},
        emnist_cr,
    ),
    Experiment(
        "13_emnist_ae",
        {"rounds": 20, "width": 0.125, "eval_every": 2, "scaffold_grid": 0},
        emnist_ae,
    ),
)

from fedlib.reproduction.fedopt import (  # noqa: E402
    grids,
    items,
    items_decay,
    items_text,
    text_runs,
)

EXPERIMENTS: tuple[Experiment, ...] = (  # type: ignore
    *EXPERIMENTS,
    *text_runs.EXPERIMENTS,
    *grids.EXPERIMENTS,
)
TABLES = (
    *items.TABLES,
    *items_decay.TABLES,
    *items_text.TABLES,
)
