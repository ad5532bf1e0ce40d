"""AdaFedAdam's printed tables: which runs belong to which printed number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import papers
from fedlib.reproduction.table import Cell, Method, Table, named, printed_cells

STATED = papers.settings("adafedadam")
# The paper's setups: fedlib's task, the notebook of Table 5, and the task's options in the paper.
SETUPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Femnist": ("fair_femnist", "20_fair_femnist", {"width": 1.0, "init": "torch"}),
    "Cifar10": (
        *("fair_cifar10", "21_fair_cifar10"),
        {"examples": 50_000, "width": 1.0, "augment": False, "init": "torch"},
    ),
    "Sent140": (
        *("fair_sent140", "22_fair_sent140"),
        {"data": "sent140", "examples": 0, "tokens": 25, "width": 1.0},
    ),
    "Synthetic": (
        *("synthetic", "23_fair_synthetic"),
        {"data_seed": 931231, "init": "torch"},
    ),
}
MUS: list[float] = STATED["algorithms"]["FedProx"]["mu_grid"]
_EPOCHS = STATED["experiments"]["resource_heterogeneity"]
DRAWN_EPOCHS = (_EPOCHS["local_epochs_min"], _EPOCHS["local_epochs_max"])
# The algorithms of Figure 2 in Table 5's order, but FedProx: its mu comes from a grid.
FIVE = ("fedavg", "fedadam", "qfedavg", "fednova", "adafedadam")
SIX = (*FIVE[:4], "fedprox", FIVE[4])
# Sent140's word vectors, as a run says them; those of FedProx.
GLOVE = "word vectors of glove.6B.300d.txt"
# Table 6's concentrations.
BETAS: list[float] = STATED["experiments"]["noniid"]["dirichlet_beta"]


def solver_overrides(algorithm: str, solver: str) -> dict[str, Any]:
    """What makes an algorithm's clients use one of Table 7's local solvers.

    Momentum lives on with the client between its rounds, as in the authors' code. In a round most
    clients of Synthetic take a step or two, in which momentum that starts at 0 hardly acts. Only
    FedNova's starts anew in every round, as its own authors' code has it.

    Args:
        solver: ``"SGD"``, ``"SGD+momentum"`` or ``"SGD+Nesterov"``, as the transcribed table says.
    """
    if solver == "SGD":
        return {}
    momentum = STATED["experiments"]["local_solvers"]["momentum"]
    nesterov = solver == "SGD+Nesterov"
    values = {"momentum": momentum, "nesterov": nesterov}
    # FedNova defines its clients' steps itself, because it counts what they accumulate.
    if algorithm == "fednova":
        return {**values, "momentum_state": "round"}
    return {"client_optimizer": "sgdm", **values, "momentum_state": "client"}


def _cells(table: str, where: Mapping[str, Any], **settings: Any) -> tuple[Cell, ...]:
    """Average, spread and worst 30 % of each row. FedProx' mu comes from a grid, and the winner is
    not printed.
    """
    metrics = {name: name for name in ("avg", "std", "worst30")}
    tuned = {"fedprox": {"mu": MUS}}
    return printed_cells("adafedadam", table, where, metrics=metrics, tuned=tuned, **settings)


def _table(
    number: int,
    setup: str,
    cells: Iterable[Cell],
    notebook: str,
    options: Mapping[str, Any],
    **more: Any,
) -> Table:
    stated, (task, _, common) = STATED["setups"][setup], SETUPS[setup]
    return Table(
        *("adafedadam", f"Table {number}", task, setup),
        cells=tuple(cells),
        notebook=notebook,
        rounds=stated["rounds"],
        clients_per_round=None,
        batch_size=stated["batch_size"],
        options={"clients": stated["clients"], **common, **options},
        seeds=STATED["general"]["seeds"],
        one_split=True,
        **more,
    )


def _table_5(setup: str) -> Table:
    beta = STATED["setups"][setup].get("dirichlet_beta")
    partition = {} if beta is None else {"beta": beta}
    cells = _cells("table5_convergence_fairness", {"setup": setup}, options=partition)
    data = {"Femnist": {"data": "femnist"}, "Sent140": {"glove": GLOVE}}.get(setup, {})
    return _table(5, setup, cells, SETUPS[setup][1], data)


def _table_1() -> Table:
    """Epochs are drawn for each client and round."""

    def method(label: str) -> Method:
        return named(label)[0], {"local_epochs": DRAWN_EPOCHS}

    options = {"beta": STATED["setups"]["Cifar10"]["dirichlet_beta"]}
    where = {"setup": "Cifar10"}
    cells = _cells("table1_resource_heterogeneity", where, method=method, options=options)
    notebook = "35_resource_heterogeneity"
    return _table(1, "Cifar10", cells, notebook, {}, local_epochs=DRAWN_EPOCHS)


def _levels(number: int, file: str) -> Table:
    """Tables 2 and 6: a printed column per concentration."""
    cells = [
        cell
        for beta in BETAS
        for cell in _cells(
            file, {"dirichlet_beta": beta}, column=f"Dir({beta:g})", options={"beta": beta}
        )
    ]
    return _table(number, "Cifar10", cells, "36_noniid_levels", {})


def _solvers(number: int, file: str) -> Table:
    """Tables 3 and 7: a printed column per local solver."""

    def column(solver: str) -> tuple[Cell, ...]:
        def method(label: str) -> Method:
            name = named(label)[0]
            return name, solver_overrides(name, solver)

        return _cells(file, {"local_solver": solver}, column=solver, method=method)

    solvers = STATED["experiments"]["local_solvers"]["solvers"]
    cells = [cell for solver in solvers for cell in column(solver)]
    return _table(number, "Synthetic", cells, "37_local_solvers", {})


TABLE_1 = _table_1()
TABLES_5 = {setup: _table_5(setup) for setup in SETUPS}
TABLE_6 = _levels(6, "table6_noniid_full")
TABLE_7 = _solvers(7, "table7_local_momentum_full")
TABLES: tuple[Table, ...] = (
    *TABLES_5.values(),
    TABLE_1,
    _levels(2, "table2_noniid"),
    TABLE_6,
    _solvers(3, "table3_local_solvers"),
    TABLE_7,
)
