"""Which runs AdaFedAdam's Tables 1, 2, 3, 6 and 7 need: the same setups under other conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedlib import papers
from fedlib.experiments.adafedadam import FIVE, seeds
from fedlib.experiments.base import Plan, Request, given, grid, repeated, tuned

SIX = (*FIVE[:4], "fedprox", FIVE[4])
# A curve has about so many points, as in 21_fair_cifar10 and 23_fair_synthetic: runs that two of
# these notebooks need are trained once.
POINTS = 100
# 35_resource_heterogeneity on Synthetic, which is ours: as many rounds as Table 1 has.
SYNTHETIC_ROUNDS = 200


def solver_overrides(algorithm: str, solver: str) -> dict[str, Any]:
    """What makes an algorithm's clients use one of Table 7's local solvers.

    Args:
        solver: ``"SGD"``, ``"SGD+momentum"`` or ``"SGD+Nesterov"``, as the transcribed table says.
    """
    if solver == "SGD":
        return {}
    momentum = papers.settings("adafedadam")["experiments"]["local_solvers"]["momentum"]
    values = {"momentum": momentum, "nesterov": solver == "SGD+Nesterov"}
    # FedNova defines its clients' steps itself, because it counts what they accumulate.
    return values if algorithm == "fednova" else {"client_optimizer": "sgdm", **values}


def resource_heterogeneity(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """35_resource_heterogeneity. Numbers: rounds, examples, width, mus, seeds, synthetic_rounds.

    Parts: ``epochs`` and ``mu`` (FedProx over the paper's grid), Table 1's runs; ``synthetic``,
    ours: the Synthetic setup with 1 epoch, with U(1, 3) epochs and with 2.
    """
    stated = papers.settings("adafedadam")["experiments"]["resource_heterogeneity"]
    drawn = (stated["local_epochs_min"], stated["local_epochs_max"])
    common = {"seed": seed, **_cifar10(numbers), "overrides": {"local_epochs": drawn}}
    table = [
        *tuned("fair_cifar10", FIVE, "epochs", **common),
        *grid("fair_cifar10", "fedprox", "mu", {"mu": _mus(numbers)}, **common),
    ]
    rounds = given(numbers, "synthetic_rounds", SYNTHETIC_ROUNDS)
    synthetic = [
        Request("synthetic", name, "synthetic", {"local_epochs": epochs}, rounds=rounds, seed=seed)
        for epochs in (1, drawn, sum(drawn) // 2)
        for name in SIX
    ]
    return [*repeated(table, seeds(numbers)), *synthetic]


def noniid_levels(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """36_noniid_levels. Numbers: rounds, examples, width, seeds. Part: ``levels``."""
    common = {"seed": seed, **_cifar10(numbers)}
    requests = []
    for beta in papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]:
        options = {**common["options"], "beta": beta}
        requests += tuned("fair_cifar10", FIVE, "levels", **{**common, "options": options})
    return repeated(requests, seeds(numbers))


def local_solvers(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """37_local_solvers. Numbers: rounds, mus, seeds.

    Parts: ``solvers``, and ``mu``: FedProx over the paper's grid with each solver.
    """
    common = {"seed": seed, **_rounds("Synthetic", numbers)}
    requests = []
    for solver in papers.settings("adafedadam")["experiments"]["local_solvers"]["solvers"]:
        for name in FIVE:
            own = solver_overrides(name, solver)
            requests.append(Request("synthetic", name, "solvers", own, **common))
        own = solver_overrides("fedprox", solver)
        mus = {"mu": _mus(numbers)}
        requests += grid("synthetic", "fedprox", "mu", mus, overrides=own, **common)
    return repeated(requests, seeds(numbers))


def _cifar10(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Rounds and options of the Cifar10 setup."""
    given = {key: numbers[key] for key in ("examples", "width") if numbers.get(key) is not None}
    return {"options": given, **_rounds("Cifar10", numbers)}


def _rounds(setup: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The rounds, and how often the model is evaluated."""
    own = papers.settings("adafedadam")["setups"][setup]["rounds"]
    every = max(1, given(numbers, "rounds", own) // POINTS)
    return {"rounds": numbers.get("rounds"), "eval_every": every}


def _mus(numbers: Mapping[str, Any]) -> Sequence[float]:
    grid: Sequence[float] = papers.settings("adafedadam")["algorithms"]["FedProx"]["mu_grid"]
    return given(numbers, "mus", grid)


PLANS: dict[str, Plan] = {
    "35_resource_heterogeneity": resource_heterogeneity,
    "36_noniid_levels": noniid_levels,
    "37_local_solvers": local_solvers,
}
