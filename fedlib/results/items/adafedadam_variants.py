"""AdaFedAdam's Tables 1, 2, 3, 6 and 7: its setups under other conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import papers
from fedlib.experiments.adafedadam_variants import solver_overrides
from fedlib.results.items.base import Cell, Item, Method, named, printed_cells

_FAIRNESS = {"avg": "avg", "std": "std", "worst30": "worst30"}
_STATED = papers.settings("adafedadam")
_EPOCHS = _STATED["experiments"]["resource_heterogeneity"]
DRAWN_EPOCHS = (_EPOCHS["local_epochs_min"], _EPOCHS["local_epochs_max"])


def _setup(name: str) -> dict[str, Any]:
    """Rounds, cohort, batch size and options of a setup."""
    stated = _STATED["setups"][name]
    options: dict[str, Any] = {"clients": stated["clients"]}
    if name == "Cifar10":
        options |= {"examples": 50_000, "width": 1.0, "augment": False}
    else:
        options |= {"data_seed": 931231}
    return {
        "rounds": stated["rounds"],
        "clients_per_round": None,
        "batch_size": stated["batch_size"],
        "options": options,
    }


def _tuned(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """FedProx has the best mu of a grid, which the paper does not print."""
    return tuple(
        dataclasses.replace(cell, tuned=("mu",)) if cell.algorithm == "fedprox" else cell
        for cell in cells
    )


def _levels(table: str) -> tuple[Cell, ...]:
    """The cells of Table 2 or 6: a printed column per concentration."""
    cells: list[Cell] = []
    for beta in _STATED["experiments"]["noniid"]["dirichlet_beta"]:
        cells += printed_cells(
            *("adafedadam", table, {"dirichlet_beta": beta}),
            metrics=_FAIRNESS,
            column=f"Dir({beta:g})",
            options={"beta": beta},
        )
    return tuple(cells)


def _solvers(table: str) -> tuple[Cell, ...]:
    """The cells of Table 3 or 7: a printed column per local solver."""
    cells: list[Cell] = []
    for solver in _STATED["experiments"]["local_solvers"]["solvers"]:

        def method(label: str, solver: str = solver) -> Method:
            name = named(label)[0]
            return name, solver_overrides(name, solver)

        cells += printed_cells(
            *("adafedadam", table, {"local_solver": solver}),
            metrics=_FAIRNESS,
            column=solver,
            method=method,
        )
    return _tuned(cells)


def _heterogeneity() -> tuple[Cell, ...]:
    """The cells of Table 1: epochs are drawn for each client and round."""
    overrides: Mapping[str, Any] = {"local_epochs": DRAWN_EPOCHS}
    return _tuned(
        printed_cells(
            *("adafedadam", "table1_resource_heterogeneity", {"setup": "Cifar10"}),
            metrics=_FAIRNESS,
            method=lambda label: (named(label)[0], overrides),
            options={"beta": _STATED["setups"]["Cifar10"]["dirichlet_beta"]},
        )
    )


ITEMS: tuple[Item, ...] = (
    Item(
        *("adafedadam", "Table 1", "fair_cifar10", "Cifar10"),
        cells=_heterogeneity(),
        notebook="35_resource_heterogeneity",
        local_epochs=DRAWN_EPOCHS,
        **_setup("Cifar10"),
    ),
    *(
        Item(
            *("adafedadam", item, "fair_cifar10", "Cifar10"),
            cells=_levels(table),
            notebook="36_noniid_levels",
            **_setup("Cifar10"),
        )
        for item, table in (("Table 2", "table2_noniid"), ("Table 6", "table6_noniid_full"))
    ),
    *(
        Item(
            *("adafedadam", item, "synthetic", "Synthetic"),
            cells=_solvers(table),
            notebook="37_local_solvers",
            **_setup("Synthetic"),
        )
        for item, table in (
            ("Table 3", "table3_local_solvers"),
            ("Table 7", "table7_local_momentum_full"),
        )
    ),
)
