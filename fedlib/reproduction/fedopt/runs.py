"""FedOpt's printed tables, and which runs its notebooks need; those of 30 to 32 are grids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fedlib import papers
from fedlib.reproduction.fedopt import grids
from fedlib.reproduction.fedopt.grids import ADAPTIVE, EVAL_EVERY, OPTIMIZERS, TASKS
from fedlib.reproduction.request import (
    Experiment,
    Numbers,
    Request,
    given,
    grid,
    number,
    repeated,
)
from fedlib.reproduction.table import Cell, Method, Table, named, printed_cells
from fedlib.tasks import settings

STATED = papers.settings("fedopt")
# The files' metrics and ours: the mean over the last rounds, or the last model's.
AVERAGED = {
    "accuracy_percent": "accuracy",
    "recall_at_5_x100": "recall_at_5",
    "mse_x1000": "mse_x1000",
}
LAST = {"accuracy_percent": "last_accuracy", "recall_at_5_x100": "last_recall_at_5"}
# ExpDecay, its steps at the thirds of however many rounds there are: at the paper's 1500 a tenth
# after 500 rounds, a hundredth after 1000.
DECAY = "exp_decay_thirds"
# Half-decades (log10) for the centralised optimizers of Table 11; the paper prints none.
CENTRALIZED: dict[str, tuple[float, float]] = {
    "adagrad": (-2.5, 0.0),
    "adam": (-3.5, -1.0),
    "yogi": (-3.5, -1.0),
    "momentum": (-1.0, 1.5),
    "sgd": (-2.0, 0.5),
}
# The same where a laptop trains the paper's networks: Adam at 1e-2 never leaves the start there.
CENTRALIZED_LAPTOP: dict[str, tuple[float, float]] = {
    "adagrad": (-1.5, -0.5),
    "adam": (-3.0, -2.0),
    "yogi": (-3.0, -2.0),
    "momentum": (-1.5, -0.5),
    "sgd": (-1.5, -0.5),
}
RATES = ("client_lr", "server_lr")
_DATA = STATED["datasets"]
# Both CIFARs (Table 2).
_CIFAR = {
    "clients": _DATA["cifar10"]["train_clients"],
    "examples_per_client": _DATA["cifar10"]["examples_per_client"],
    "test_clients": _DATA["cifar10"]["test_clients"],
    "width": 1.0,
    "groups": STATED["models"]["group_norm_groups"],
}
_EMNIST = {"data": "emnist", "clients": _DATA["emnist"]["clients"], "width": 1.0}
_PLAYS = {
    **{"clients": _DATA["shakespeare"]["clients"], "rows": 0, "width": 1.0},
    "length": _DATA["shakespeare"]["sequence_length"],
}
_USERS = _DATA["stackoverflow"]
_POSTS = {
    "data": "stackoverflow",
    **{"clients": _USERS["clients"], "words": _USERS["vocab_words"]},
    "cap": _USERS["nwp_max_sentences_per_client"],
    "validation": STATED["validation"]["stackoverflow_validation_examples"],
}


def _cifar100(data: str) -> bool:
    """Whether the data are CIFAR-100, dealt to clients by the authors or by us."""
    return data in ("cifar100", "fed_cifar100")


# The notebook of a task's column of Table 1, and the task's options in the paper.
SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "cifar10": ("10_cifar10", {**_CIFAR, "alpha": _DATA["cifar10"]["dirichlet_alpha"]}),
    # The authors' own partition, where that is prepared, has no concentrations.
    "cifar100": ("11_cifar100", {**_CIFAR, "data": _cifar100}),
    "emnist_cr": ("12_emnist_cr", _EMNIST),
    "emnist_ae": ("13_emnist_ae", {**_EMNIST, "reduction": "sum"}),
    "shakespeare": ("14_shakespeare", _PLAYS),
    "stackoverflow_lr": ("16_stackoverflow_lr", {**_POSTS, "tags": _USERS["lr_tags"]}),
    "stackoverflow_nwp": ("15_stackoverflow_nwp", {**_POSTS, "width": 1.0}),
}


def _table(number: int, task: str, cells: tuple[Cell, ...], **fields: Any) -> Table:
    """A table's part for a task, with the settings of section 4 and Table 7.

    Args:
        fields: that are not the task's usual ones.
    """
    label, (notebook, options) = TASKS[task], SETUPS[task]
    federated = STATED["federated"]
    cohort = federated["clients_per_round"].get(label, federated["clients_per_round_default"])
    usual = {
        **{"label": label, "notebook": notebook, "options": options, "clients_per_round": cohort},
        **{name: STATED[name][label] for name in ("rounds", "batch_size")},
    }
    return Table("fedopt", f"Table {number}", task, cells=cells, **{**usual, **fields})


def _table_1(task: str) -> Table:
    where = {"task": TASKS[task]}
    return _table(1, task, printed_cells("fedopt", "table1_validation", where, metrics=AVERAGED))


def _table_10(task: str) -> Table:
    """Runs that were tested on a sample of the posts (Table 1's) do not belong."""
    file, every = "table10_stackoverflow_test", {"validation": 0}
    cells = printed_cells("fedopt", file, {"task": TASKS[task]}, metrics=LAST, options=every)
    options = {key: value for key, value in SETUPS[task][1].items() if key not in every}
    return _table(10, task, cells, options=options)


def _tables_11() -> tuple[Table, Table]:
    """Centralised optimizers, after their last epoch; federated ones, constant and ExpDecay.

    The centralised rates are tuned, ExpDecay's on the grids of the constant rates; which ones won
    is not printed.
    """

    def base(label: str) -> Method:
        return "centralized", {"base": {"SGDM": "momentum"}.get(label, label.lower())}

    def falling(label: str) -> Method:
        return named(label)[0], {"client_schedule": DECAY}

    def cells(schedule: str, column: str, metrics: Mapping[str, str], **more: Any) -> Any:
        where = {"client_lr_schedule": schedule}
        file = "table11_lr_decay"
        return printed_cells("fedopt", file, where, metrics=metrics, column=column, **more)

    rate = {"centralized": {"client_lr": ()}}
    central = cells("tuned_constant", "centralized", LAST, method=base, tuned=rate)
    three = {name: {"client_lr": (), "server_lr": (), "tau": ()} for name in OPTIMIZERS}
    decay = cells("expdecay", "ExpDecay", AVERAGED, method=falling, tuned=three)
    task, notebook = "emnist_cr", "33_lr_decay_and_centralized"
    return (
        _table(
            *(11, task, central),
            label=f"{TASKS[task]}, centralized",
            notebook=notebook,
            rounds=STATED["lr_decay"]["centralized_epochs"],
            clients_per_round=1,
            options={**SETUPS[task][1], "centralized": True},
        ),
        _table(11, task, (*cells("constant", "constant", AVERAGED), *decay), notebook=notebook),
    )


TABLES_1 = {task: _table_1(task) for task in SETUPS}
TABLES_10 = {task: _table_10(task) for task in ("stackoverflow_nwp", "stackoverflow_lr")}
TABLES_11 = _tables_11()
TABLES: tuple[Table, ...] = (*TABLES_1.values(), *TABLES_11, *TABLES_10.values())


def convergence(task: str, preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """The runs of a panel of Figure 1, of Figure 4 and of a column of Table 1.

    Parts: ``curves``: Table 1's, at the paper's settings with the values of Tables 8 and 9; on a
    small problem a grid around its own rates, for several seeds. ``scaffold``: SCAFFOLD over the
    task's grid of learning rates, because the paper tunes it there (B.2) and does not print what it
    found; of both :func:`fedlib.reproduction.evidence.winners` chooses by the paper's rule.
    ``centralized``: on small problems whose clients are alike, and on a laptop, Adam on all data.
    ``full_test``: Table 10's, of Stack Overflow, at the paper preset: the last model, evaluated on
    all test posts. They train again what the curves train, because a run has one test set;
    randomness is keyed, so the models are the same. On a small problem of Stack Overflow the
    curves are tested on all posts already.

    Args:
        numbers: of the notebook: rounds, eval_every (None: 1), clients_per_round, options of the
            task that Table 1 has, seeds, epochs (of centralised training; None: there is none),
            reach (how many half-decades around the small problem's rates are searched; None: the
            rates are the paper's), and scaffold_grid: how many half-decades around FedAvg's rates
            (None: the paper's whole grid). On Stack Overflow a negative one leaves SCAFFOLD out: at
            the paper's scale it has to remember a model for each of the clients it has seen, tens
            of thousands.
    """
    table, full_test = TABLES_1[task], TABLES_10.get(task)
    common: dict[str, Any] = {
        "options": given(numbers, *table.options),
        "rounds": numbers.get("rounds"),
        "seed": seed,
        "eval_every": number(numbers, "eval_every", 1),
        "clients_per_round": numbers.get("clients_per_round"),
    }
    near = numbers.get("reach")
    if near is not None:
        return repeated(_searched(table, near, common, numbers), numbers.get("seeds"))
    requests = table.requests("curves", **common)
    reach = numbers.get("scaffold_grid")
    if full_test is None or reach is None or reach >= 0:
        requests += grid(task, "scaffold", "scaffold", grids.around(task, reach), **common)
    if numbers.get("epochs") is not None:
        rates = {"client_lr": _centralized_rates("adam", preset)}
        requests += _alone(task, rates, {**common, "eval_every": 1}, numbers)
    if full_test is not None and preset == "paper":
        requests += full_test.requests("full_test", **{**common, "eval_every": 0})
    return requests


def _searched(
    table: Table, reach: int, common: Mapping[str, Any], numbers: Numbers
) -> list[Request]:
    """A small problem's grids of learning rates around its own, for Table 1's rows and others."""
    own = settings.small(table.label)

    def near(algorithm: str) -> dict[str, list[float]]:
        rates = {side: own[algorithm][side] for side in RATES if side in own[algorithm]}
        return {side: grids.half_decades(rate, reach) for side, rate in rates.items()}

    requests = table.requests("curves", lambda cell: {"tuned": near(cell.algorithm)}, **common)
    requests += grid(table.task, "scaffold", "scaffold", near("scaffold"), **common)
    if numbers.get("epochs") is not None:
        requests += _alone(table.task, near("centralized"), common, numbers)
    return requests


def _alone(
    task: str, rates: Mapping[str, list[float]], common: Mapping[str, Any], numbers: Numbers
) -> list[Request]:
    """Adam on all clients' data, an epoch a round."""
    alone = {**common, "rounds": numbers["epochs"], "overrides": {"base": "adam"}}
    return grid(task, "centralized", "centralized", rates, **alone)


def _centralized_rates(base: str, preset: str) -> list[float]:
    """The half-decades that are tried for a centralised optimizer."""
    first, last = (CENTRALIZED_LAPTOP if preset == "laptop" else CENTRALIZED)[base]
    return [10 ** (first + half / 2) for half in range(round(2 * (last - first)) + 1)]


def decay(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """33_lr_decay_and_centralized: EMNIST CR with constant and decaying rates, and centralised.

    At the paper's settings the constant runs have the rates and tau of Tables 8 and 9, the best of
    the grids, and ExpDecay runs them too, and the same grids. On a small problem both are searched
    around its own rates.

    Numbers: rounds, clients_per_round, width, points (of each axis of ExpDecay's printed grid; 0:
    none), reach (half-decades around a small problem's rates; None: the paper's), epochs
    (centralised; the paper's 100), rates (how many of each centralised optimizer's, the middle
    ones), seeds. Parts: constant, decay, centralized.
    """
    centralized, federated = TABLES_11
    task, points, reach = federated.task, numbers.get("points"), numbers.get("reach")
    common = grids.shared(seed, numbers, 5 if preset == "quick" else EVAL_EVERY)
    common["options"] = given(numbers, "width")

    def printed_grid(cell: Cell) -> Numbers:
        taus = {"tau": grids.axis(task, "tau")} if cell.algorithm in ADAPTIVE else {}
        return {"tuned": {**grids.rates(task, points), **taus}}

    def small_grid(cell: Cell) -> Numbers:
        return {} if reach is None else {"tuned": grids.near(task, cell.algorithm, reach)}

    def centralized_grid(cell: Cell) -> Numbers:
        values = _centralized_rates(cell.overrides["base"], preset)
        return {"tuned": {"client_lr": grids.middle(values, numbers.get("rates"))}}

    def part(cell: Cell) -> str:
        return "decay" if cell.tuned else "constant"

    requests = federated.requests(part, small_grid, **common)
    if reach is None and points != 0:
        falling = tuple(cell for cell in federated.cells if cell.tuned)
        requests += replace(federated, cells=falling).requests("decay", printed_grid, **common)
    epochs = number(numbers, "epochs", centralized.rounds)
    common |= {"rounds": epochs, "eval_every": 1, "clients_per_round": None}
    requests += centralized.requests("centralized", centralized_grid, **common)
    return repeated(requests, numbers.get("seeds"))


# Small problems are tuned for themselves: the neighbours of their rates, three seeds.
SEARCHED = {"reach": 1, "seeds": 3}


def _of_table_1(task: str, laptop: Numbers, **quick: Any) -> Experiment:
    """The notebook of a column of Table 1; a laptop gives SCAFFOLD FedAvg's rates."""
    made = partial(convergence, task)
    return Experiment(
        TABLES_1[task].notebook, SEARCHED | quick, made, {"scaffold_grid": 0, **laptop}
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _of_table_1("cifar100", {"eval_every": 25}, eval_every=2),
    # At FedAvg's rates SCAFFOLD diverges here.
    _of_table_1(
        "emnist_cr", {"eval_every": 10, "scaffold_grid": 1, "epochs": 20}, epochs=15, eval_every=2
    ),
    # These two train longest: their own rates only; a search with reach 1 chose them.
    _of_table_1("emnist_ae", {"eval_every": 20, "rounds": 1000}, eval_every=10, reach=0),
    _of_table_1("shakespeare", {"eval_every": 20, "epochs": 20}, epochs=42, eval_every=10, reach=0),
    # SCAFFOLD would remember a model for each of thousands of users.
    _of_table_1("stackoverflow_nwp", {"eval_every": 20, "scaffold_grid": -1}, eval_every=5),
    _of_table_1("stackoverflow_lr", {"eval_every": 10, "scaffold_grid": -1}),
    *grids.EXPERIMENTS,
    # 400 rounds of 5 of 100 writers are 20 passes over the data.
    Experiment(
        TABLES_11[0].notebook,
        {**SEARCHED, "rounds": 400, "clients_per_round": 5, "epochs": 20},
        decay,
        {"points": 0, "epochs": 20},
    ),
)
