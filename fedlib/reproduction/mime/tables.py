"""Mime's Table 2: which runs belong to which printed number, and the cohorts that cost the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedlib import algorithms, papers
from fedlib.reproduction.fedopt.tables import SETUPS
from fedlib.reproduction.table import Method, Table, printed_cells
from fedlib.results.selection import held_out_score
from fedlib.tasks import settings

STATED = papers.settings("mime")["table2"]
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
    sizes = STATED["total_communication_per_round_model_sizes"][column.split()[0]]
    printed = papers.table("mime", "table2_accuracy")
    rows = {row.printed_name: (row.method, row.base_optimizer) for row in printed.itertuples()}
    cells = printed_cells(
        *("mime", "table2_accuracy", {"dataset": column}),
        metrics="reported",
        row="printed_name",
        method=lambda label: method(*rows[label]),
        tuned={name: {"client_lr": ()} for name in algorithms.METHODS},
    )
    return Table(
        *("mime", "Table 2", task, column),
        cells=tuple(
            replace(cell, clients_per_round=cohort(cell.algorithm, cell.overrides, sizes))
            for cell in cells
        ),
        notebook=notebook,
        rounds=STATED["rounds"],
        clients_per_round=cohort(*method("FedAvg", "SGD"), sizes),
        batch_size=papers.settings("fedopt")["batch_size"][batches],
        local_epochs=STATED["local_epochs"],
        options=options,
        score=held_out_score,
    )


def _setup(task: str, *names: str) -> dict[str, Any]:
    """Options of FedOpt's setup of a task, TensorFlow Federated's data."""
    return {name: SETUPS[task][1][name] for name in names}


_EMNIST, _TEXT = "24_mime_emnist", "25_mime_text"
# Options in the order in which a table's notes say them.
TABLES: tuple[Table, ...] = (
    _table_2(
        *("emnist_logistic", "EMNIST logistic", _EMNIST, "EMNIST CR"),
        _setup("emnist_cr", "data", "clients"),
    ),
    _table_2(
        *("emnist_cr", "EMNIST CNN", _EMNIST, "EMNIST CR"),
        _setup("emnist_cr", "data", "clients", "width"),
    ),
    _table_2(
        *("shakespeare", "Shakespeare", _TEXT, "Shakespeare"),
        _setup("shakespeare", "clients", "width", "rows", "length"),
    ),
    _table_2(
        *("stackoverflow_nwp", "StackOverflow", _TEXT, "StackOverflow NWP"),
        _setup("stackoverflow_nwp", "data", "clients", "words", "width", "cap"),
    ),
)
