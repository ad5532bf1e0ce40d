"""Mime's printed table, and which runs its notebooks need: Table 2, Figures 1 and 5."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedlib import algorithms, papers
from fedlib.reproduction.fedopt.tables import SETUPS
from fedlib.reproduction.request import (
    Experiment,
    Numbers,
    Request,
    given,
    grid,
    number,
    repeated,
)
from fedlib.reproduction.table import Cell, Method, Table, printed_cells
from fedlib.results.selection import held_out_score
from fedlib.tasks import settings

STATED = papers.settings("mime")
# "The learning rates were individually tuned", over grids of appendix C that the text does not
# have. These are ours: half-decades.
RATES = tuple(10.0 ** (half / 2) for half in range(-6, 2))
# Of "tuned beta" in Figure 1; beta = 0 is the base SGD, which is a line of its own.
BETAS = (0.9, 0.99)
# A curve of the paper's length has about so many points.
POINTS = 100
# Figure 1's panels and lines: algorithms, and two that differ from theirs in the base alone.
PANELS: dict[str, tuple[str, ...]] = {
    "all methods": ("mime", "mimelite", "fedavgm", "scaffold", "fedprox"),
    "with and without momentum": ("mime", "mime_sgd", "fedavgm", "fedavg"),
    "fixed and local state": ("mime", "loc_mime"),
}
LINES = (*PANELS["all methods"], "fedavg", "mime_sgd", "loc_mime")
_WITH_MOMENTUM = ("mime", "mimelite", "loc_mime", "fedavgm")
# Base optimizer, as printed -> FedAvg with it on the server.
SERVERS = {"SGD": "fedavg", "Momentum": "fedavgm", "Adam": "fedadam", "Adagrad": "fedadagrad"}
# Adagrad's second moment before the first round: the default of the libraries that the authors use,
# and what makes the printed Adagrad rows of Mime so like its SGD rows. From 0, weights of rare
# words, without a gradient in the first round, would take steps of 1 / eps in the second.
ADAGRAD_V0 = 0.1


def method(name: str, base: str) -> Method:
    """The algorithm and overrides of a row of Table 2, all but the client learning rate.

    Args:
        name: ``"FedAvg"``, ``"MimeLite"`` or ``"Mime"``; the Mimes with their cohort in halves.
        base: ``"SGD"``, ``"Momentum"``, ``"Adam"`` or ``"Adagrad"``, as printed.

    >>> method("Mime", "Adam")
    ('mime', {'base': 'adam', 'split': True})
    """
    start = {"v0": ADAGRAD_V0} if base == "Adagrad" else {}
    if name != "FedAvg":
        return name.lower(), {"base": base.lower(), "split": True, **start}
    server = settings.mime("EMNIST logistic")[SERVERS[base]]  # but for the rate as in all columns
    return SERVERS[base], {**{k: v for k, v in server.items() if k != "client_lr"}, **start}


def cohort(algorithm: str, overrides: Mapping[str, Any], model_sizes: float) -> int:
    """How many clients a method can pay for in a round that sends and receives so much."""
    return algorithms.clients_for_budget(algorithms.build(algorithm, **overrides), model_sizes)


def budget(column: str) -> float:
    """Model sizes that a round of a column of Table 2 sends and receives, of all clients."""
    sizes = STATED["table2"]["total_communication_per_round_model_sizes"]
    return float(sizes[column.split()[0]])


def _table_2(
    task: str, column: str, notebook: str, batches: str, options: Mapping[str, Any]
) -> Table:
    """A column of Table 2. Each row's rate is tuned, and its cohort is what 40 (Stack Overflow:
    100) model sizes per round pay for. The setup is FedOpt's, whose batch size this is.

    The paper prints validation accuracies and not how it chose the rates. Here half of the test
    clients choose a row's rate, by the accuracy after the last round, and the other half are
    reported. (The loss during local training, FedOpt's rule, would reward rates at which clients
    overfit.)
    """
    stated, sizes = STATED["table2"], budget(column)
    printed = papers.table("mime", "table2_accuracy")
    rows = {row.printed_name: (row.method, row.base_optimizer) for row in printed.itertuples()}
    cells = printed_cells(
        *("mime", "table2_accuracy", {"dataset": column}),
        metrics="reported",
        row="printed_name",
        method=lambda label: method(*rows[label]),
        tuned={name: {"client_lr": RATES} for name in algorithms.METHODS},
    )
    return Table(
        *("mime", "Table 2", task, column),
        cells=tuple(
            replace(cell, clients_per_round=cohort(cell.algorithm, cell.overrides, sizes))
            for cell in cells
        ),
        notebook=notebook,
        rounds=stated["rounds"],
        clients_per_round=cohort(*method("FedAvg", "SGD"), sizes),
        batch_size=papers.settings("fedopt")["batch_size"][batches],
        local_epochs=stated["local_epochs"],
        options=options,
        score=held_out_score,
    )


# TensorFlow Federated's data, as FedOpt has it; in the order in which a table's notes say them.
_WRITERS = given(SETUPS["emnist_cr"][1], "data", "clients", "width")
_ROLES = given(SETUPS["shakespeare"][1], "clients", "width", "rows", "length")
_USERS = given(SETUPS["stackoverflow_nwp"][1], "data", "clients", "words", "width", "cap")
_EMNIST, _TEXT = "24_mime_emnist", "25_mime_text"
LOGISTIC = _table_2(
    *("emnist_logistic", "EMNIST logistic", _EMNIST, "EMNIST CR"),
    given(_WRITERS, "data", "clients"),
)
CNN = _table_2("emnist_cr", "EMNIST CNN", _EMNIST, "EMNIST CR", _WRITERS)
SHAKESPEARE = _table_2("shakespeare", "Shakespeare", _TEXT, "Shakespeare", _ROLES)
STACKOVERFLOW = _table_2("stackoverflow_nwp", "StackOverflow", _TEXT, "StackOverflow NWP", _USERS)
TABLES: tuple[Table, ...] = (LOGISTIC, CNN, SHAKESPEARE, STACKOVERFLOW)


def rates(middle: float, count: int | None) -> list[float]:
    """The client learning rates that are tried: the whole grid, or those nearest to ``middle``.

    Args:
        count: how many; the smaller of two equally near ones first. None: all.
    """
    nearest = sorted(RATES, key=lambda rate: (round(abs(math.log10(rate / middle)), 6), rate))
    return sorted(nearest[:count])


def tried(name: str, middle: float, which: Any) -> list[float]:
    """The client learning rates of a line or row.

    Args:
        name: of the line or row.
        middle: of the grid for data at the paper's scale.
        which: None or how many, see :func:`rates`; or a small problem's rates by name.
    """
    return list(which[name]) if isinstance(which, Mapping) else rates(middle, which)


def _middle(column: str, cell: Cell) -> float:
    """The client learning rate around which a row's grid is searched, where not all of it is."""
    by_base = settings.MIME_CLIENT_LR[column]
    if "v0" in cell.overrides:  # Adagrad's first steps are SGD's, divided by sqrt(v0)
        return by_base["sgd"] * math.sqrt(ADAGRAD_V0)
    base = cell.overrides.get("base")
    return by_base[base] if base else settings.mime(column)[cell.algorithm]["client_lr"]


def table_runs(table: Table, part: str, seed: int, numbers: Numbers) -> list[Request]:
    """The twelve rows of a column of Table 2, each with its learning rates and its cohort.

    Args:
        numbers: ``rounds``, ``budget`` (model sizes of a round), ``rates`` (see :func:`tried`),
            and options of the task.
    """
    rounds = number(numbers, "rounds", table.rounds)
    sizes = number(numbers, "budget", budget(table.label))

    def fields(cell: Cell) -> Numbers:
        middle = _middle(table.label, cell)
        return {
            "tuned": {"client_lr": tried(cell.row, middle, numbers.get("rates"))},
            "clients_per_round": cohort(cell.algorithm, cell.overrides, sizes),
        }

    return table.requests(
        *(part, fields),
        options=given(numbers, *table.options),
        rounds=rounds,
        seed=seed,
        eval_every=max(1, rounds // POINTS),
    )


def line_runs(lines: Iterable[str], part: str, seed: int, numbers: Numbers) -> list[Request]:
    """Lines of Figure 1 on the EMNIST MLP, each over its rates; beta and mu are tuned, too.

    Args:
        lines: of :data:`LINES`.
        numbers: ``rounds``, ``width``, ``cohort`` (clients per round), ``rates`` (see
            :func:`tried`), ``betas``, ``mus``, ``seeds`` (how many).
    """
    by_base = settings.MIME_CLIENT_LR["EMNIST MLP"]
    mus = number(numbers, "mus", STATED["hyperparameters"]["fedprox_mu_grid"])
    common = {
        "options": given(numbers, "width"),
        "rounds": numbers.get("rounds"),
        "seed": seed,
        "eval_every": max(1, number(numbers, "rounds", STATED["figure1"]["rounds"]) // POINTS),
        "clients_per_round": numbers.get("cohort"),
    }
    requests = []
    for line in lines:
        base = "momentum" if line in _WITH_MOMENTUM else "sgd"
        axes = {"mu": mus} if line == "fedprox" else {}
        axes["client_lr"] = tried(line, by_base[base], numbers.get("rates"))
        for overrides in _line_overrides(line, number(numbers, "betas", BETAS)):
            name = line.removesuffix("_sgd")
            requests += grid("emnist_mlp", name, part, axes, overrides=overrides, **common)
    return repeated(requests, numbers.get("seeds"))


def _line_overrides(line: str, betas: Iterable[float]) -> list[dict[str, Any]]:
    """What sets a line of Figure 1 apart, once for each beta. Mime's cohort is in halves: section
    5.1 has clients send equally much in all methods.
    """
    if line == "fedavgm":  # (1 - beta) g + beta m at rate 1 is g + beta m at 1 - beta
        return [{"momentum": beta, "server_lr": round(1 - beta, 6)} for beta in betas]
    if line in _WITH_MOMENTUM:
        return [{"momentum": beta, "split": True} for beta in betas]
    return [{"base": "sgd", "split": True}] if line == "mime_sgd" else [{}]


# Small problems are tuned for themselves. The lines: the rates with the smallest training loss, of
# 1/8 to 8, with their neighbours in factors of 2; FedProx' best rate falls with mu.
_LINE_RATES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("mime", "mimelite"), (0.5, 1.0, 2.0)),
    "loc_mime": (2.0, 4.0, 8.0),
    **dict.fromkeys(("mime_sgd", "fedavg", "fedavgm"), (0.25, 0.5, 1.0)),
    "scaffold": (0.125, 0.25, 0.5),
    "fedprox": (0.125, 0.25, 0.5, 1.0),
}
# A laptop's 105 writers: three half-decades (of log10) for each line, the same at first, and one
# more where the best was at an edge.
_HALVES = {
    **dict.fromkeys(("mime", "scaffold"), range(-3, 0)),
    **dict.fromkeys(("mimelite", "mime_sgd", "loc_mime"), range(-4, 0)),
    **dict.fromkeys(("fedavg", "fedavgm", "fedprox"), range(-3, 1)),
}
_WRITERS_RATES = {line: [10.0 ** (half / 2) for half in halves] for line, halves in _HALVES.items()}
# The regression's rows: five half-decades (log10) around the best for three seeds.
_ROW_MIDDLES = {
    **{"FedAvgSGD": 0.0, "MimeLiteSGD": 0.0, "MimeSGD": 0.5},
    **{"FedAvgMom": 0.5, "MimeLiteMom": 0.5, "MimeMom": 0.5},
    **{"FedAvgAdam": -2.0, "MimeLiteAdam": -1.5, "MimeAdam": -1.5},
    **{"FedAvgAdagrad": 0.0, "MimeLiteAdagrad": 0.0, "MimeAdagrad": 0.0},
}
_ROW_RATES = {
    row: [10 ** (middle + half / 2) for half in range(-2, 3)]
    for row, middle in _ROW_MIDDLES.items()
}


# How much longer the small language models' steps are than the LSTMs' (log10), by FedAvg's rates.
_WINDOW_STEPS = {"shakespeare": 0.5, "stackoverflow_nwp": 1.5}


def _searched(preset: str, numbers: Numbers, **found: Mapping[str, Sequence[float]]) -> Numbers:
    """The numbers, with the rates found for a preset unless they say how many."""
    if preset in found and numbers.get("rates") is None:
        return {**numbers, "rates": found[preset]}
    return numbers


def emnist(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """24_mime_emnist. Numbers: rounds, budget, rates, width. Parts: logistic; paper: cnn."""
    requests = table_runs(LOGISTIC, "logistic", seed, _searched(preset, numbers, quick=_ROW_RATES))
    return requests + table_runs(CNN, "cnn", seed, numbers) if preset == "paper" else requests


def text(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """25_mime_text. Numbers: rounds, budget, rates, width, words. Parts: shakespeare,
    stackoverflow.
    """
    requests = []
    for table in (SHAKESPEARE, STACKOVERFLOW):
        longer = 10 ** _WINDOW_STEPS[table.task]
        near = {
            cell.row: [
                _middle(table.label, cell) * longer * 10 ** (half / 2) for half in (-1, 0, 1)
            ]
            for cell in table.cells
        }
        part = table.task.partition("_")[0]
        requests += table_runs(table, part, seed, _searched(preset, numbers, quick=near))
    return requests


def ablation(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """38_mime_ablation. Numbers: rounds, width, cohort, rates, betas, mus, seeds.

    Parts: ``curves``, all lines of Figure 1's panels, and ``prox``, those of Figure 5.
    """
    numbers = _searched(preset, numbers, quick=_LINE_RATES, laptop=_WRITERS_RATES)
    return [
        *line_runs(LINES, "curves", seed, numbers),
        *line_runs(("fedavg", "fedprox"), "prox", seed, numbers),
    ]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(_EMNIST, {"rounds": 40}, emnist, {"rates": 5}),
    Experiment(_TEXT, {"rounds": 20, "budget": 20}, text, {"rounds": 200, "rates": 1}),
    # A laptop's 105 writers come as often in 31 rounds as the paper's 3400 in its 1000.
    Experiment(
        *("38_mime_ablation", {"rounds": 40, "betas": [0.9], "seeds": 3}, ablation),
        {"rounds": 100, "betas": [0.9]},
    ),
)
