"""AdaFedAdam's printed tables, and which runs its notebooks need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import papers
from fedlib.errors import require
from fedlib.reproduction.request import (
    Experiment,
    Numbers,
    Request,
    given,
    grid,
    number,
    repeated,
    tuned,
)
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
# Figure 3. The text says "from 1 to 4" and "alpha > 4" and prints no list; 0 is without fairness.
ALPHAS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0)
# Sent140's word vectors, as a run says them; those of FedProx.
GLOVE = "word vectors of glove.6B.300d.txt"
# A curve has about so many points.
POINTS = 100
# The options of a task that a notebook's numbers may give.
OPTIONS = ("clients", "examples", "tokens", "width", "lr_factor")
# Table 6's concentrations.
BETAS: list[float] = STATED["experiments"]["noniid"]["dirichlet_beta"]


def solver_overrides(algorithm: str, solver: str) -> dict[str, Any]:
    """What makes an algorithm's clients use one of Table 7's local solvers.

    Momentum lives on with the client between its rounds, as in the authors' code. In a round most
    clients of Synthetic take a step or two, in which momentum that starts at 0 hardly acts:
    ``momentum_state="round"`` is that other form.

    Args:
        solver: ``"SGD"``, ``"SGD+momentum"`` or ``"SGD+Nesterov"``, as the transcribed table says.
    """
    if solver == "SGD":
        return {}
    momentum = STATED["experiments"]["local_solvers"]["momentum"]
    nesterov = solver == "SGD+Nesterov"
    values = {"momentum": momentum, "nesterov": nesterov, "momentum_state": "client"}
    # FedNova defines its clients' steps itself, because it counts what they accumulate.
    return values if algorithm == "fednova" else {"client_optimizer": "sgdm", **values}


def _cells(table: str, where: Mapping[str, Any], **settings: Any) -> tuple[Cell, ...]:
    """Average, spread and worst 30 % of each row. FedProx' mu comes from a grid, and the winner is
    not printed.
    """
    metrics = {name: name for name in ("avg", "std", "worst30")}
    tuned = {"fedprox": {"mu": MUS}}
    return printed_cells("adafedadam", table, where, metrics=metrics, tuned=tuned, **settings)


def _table(
    number: int, setup: str, cells: Iterable[Cell], notebook: str, options: Numbers, **more: Any
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


def table_runs(table: Table, part: str, seed: int, numbers: Numbers) -> list[Request]:
    """A table's runs, each for the paper's seeds; those of FedProx are the part ``mu``.

    Args:
        numbers: ``rounds``, ``mus``, ``seeds``, ``split``, ``points`` (see :func:`_common`), and
            options of the task.
    """

    def fields(cell: Cell) -> Numbers:
        return {"tuned": {"mu": number(numbers, "mus", MUS)} if cell.tuned else {}}

    requests = table.requests(
        lambda cell: "mu" if cell.tuned else part, fields, **_common(table.label, seed, numbers)
    )
    # A part's runs follow each other: what is trained together depends on the order.
    requests.sort(key=lambda request: request.part == "mu")
    return repeated(requests, seeds(numbers))


def tradeoff(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """34_fairness_tradeoff. Numbers: rounds, alphas, seeds, split.

    Parts: ``alpha``, AdaFedAdam's fairness; ``q``, q-FedAvg's; ``baselines``, the others. They are
    the runs of 23_fair_synthetic where both notebooks have them.
    """
    common = _common("Synthetic", seed, numbers)
    qs = [float(q) for q in STATED["algorithms"]["q-FedAvg"]["q_in_figure_3"]]
    alphas = number(numbers, "alphas", ALPHAS)
    requests = [
        *grid("synthetic", "adafedadam", "alpha", {"alpha": alphas}, **common),
        *grid("synthetic", "qfedavg", "q", {"q": qs}, **common),
        *tuned("synthetic", ("fedavg", "fedadam", "fednova", "fedprox"), "baselines", **common),
    ]
    return repeated(requests, seeds(numbers))


def noniid_levels(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """36_noniid_levels. Numbers: those of :func:`table_runs`.

    Parts: ``levels``, the runs of Tables 2 and 6; ``iid``, those of the IID partition that the text
    names beside Table 6's levels and for which no number is printed; at the paper preset.
    """
    levels = table_runs(TABLE_6, "levels", seed, numbers)
    if preset != "paper":
        return levels
    common = _common("Cifar10", seed, numbers)
    common["options"] = {**common["options"], "partition": "iid"}
    iid = tuned("fair_cifar10", FIVE, "iid", **common)
    return [*levels, *repeated(iid, seeds(numbers))]


def resource_heterogeneity(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """35_resource_heterogeneity. Numbers: those of :func:`table_runs`.

    Parts: ``epochs`` and ``mu``, Table 1's runs; ``even``, ours: the same work on average, two
    epochs for every client.
    """
    even = {"local_epochs": sum(DRAWN_EPOCHS) // 2}
    common = _common("Cifar10", seed, numbers)
    requests = tuned("fair_cifar10", FIVE, "even", overrides=even, **common)
    return [
        *table_runs(TABLE_1, "epochs", seed, numbers),
        *repeated(requests, seeds(numbers)),
    ]


def _common(setup: str, seed: int, numbers: Numbers) -> dict[str, Any]:
    """Seed, the options among the numbers, the rounds, and how often the model is evaluated:
    ``points`` times.

    The data are partitioned and divided once, by the first seed; the seeds vary initial parameters,
    batches and cohorts: the printed deviations are those of runs on one split. With the number
    ``split="seed"`` every seed has a split of its own.
    """
    split = number(numbers, "split", "once")
    require(split in ("once", "seed"), "split", split, "'once' or 'seed'")
    fixed = {"seed": seed} if split == "once" else {}
    rounds = number(numbers, "rounds", STATED["setups"][setup]["rounds"])
    return {
        "options": {**fixed, **given(numbers, *OPTIONS)},
        "rounds": numbers.get("rounds"),
        "eval_every": max(1, rounds // number(numbers, "points", POINTS)),
        "seed": seed,
    }


def seeds(numbers: Numbers) -> Any:
    """How many seeds, or which, as in the numbers or the paper's."""
    return number(numbers, "seeds", STATED["general"]["seeds"])


def _of_table(table: Table, part: str, laptop: Numbers, **quick: Any) -> Experiment:
    """A notebook that runs a printed table. Numbers: those of :func:`table_runs`."""

    def requests(preset: str, seed: int, numbers: Numbers) -> list[Request]:
        return table_runs(table, part, seed, numbers)

    return Experiment(table.notebook, quick, requests, laptop)


# Of the small problems: three seeds, points on a curve, and FedProx' mu.
SMALL: Numbers = {"seeds": 3, "points": 20, "mus": [0.01]}
SMALL_ROUNDS = {"Femnist": 100, "Cifar10": 100, "Sent140": 40, "Synthetic": 120}
# Two cores: FedProx' mu in the middle of its grid where a run takes an hour, and one seed there.
LAPTOP: dict[str, Numbers] = {
    "Femnist": {"seeds": 3, "mus": [0.01], "points": 50},
    "Cifar10": {"seeds": 1, "mus": [0.01], "points": 40},
    "Sent140": {"seeds": 1, "mus": [0.01], "points": 50},
    "Synthetic": {"seeds": 3},
}
EXPERIMENTS: tuple[Experiment, ...] = (
    *(
        _of_table(TABLES_5[setup], "curves", LAPTOP[setup], rounds=SMALL_ROUNDS[setup], **SMALL)
        for setup in SETUPS
    ),
    Experiment(
        "36_noniid_levels",
        {"rounds": SMALL_ROUNDS["Cifar10"], "seeds": SMALL["seeds"], "points": SMALL["points"]},
        noniid_levels,
        {key: value for key, value in LAPTOP["Cifar10"].items() if key != "mus"},
    ),
    _of_table(TABLE_7, "solvers", {"seeds": 3}, rounds=100, **SMALL),
    Experiment(
        "34_fairness_tradeoff",
        {
            **{"rounds": SMALL_ROUNDS["Synthetic"], "alphas": [0.0, 1.0, 2.0, 4.0, 8.0]},
            **{"seeds": SMALL["seeds"], "points": SMALL["points"]},
        },
        tradeoff,
        {"seeds": 3},
    ),
    Experiment(
        "35_resource_heterogeneity",
        {"rounds": SMALL_ROUNDS["Cifar10"], **SMALL},
        resource_heterogeneity,
        # At the factor 10 of the other notebooks FedAvg, FedNova and AdaFedAdam diverge with two
        # epochs a round (in rounds 79, 97 and 79), FedAvg with drawn ones, too (59).
        {**LAPTOP["Cifar10"], "lr_factor": 5.0},
    ),
)
