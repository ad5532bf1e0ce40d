"""Mime's Table 2: the methods of its rows, the cohorts of equal cost, and a run's row of it and its
line of Figures 1 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import algorithms, papers
from fedlib.engine.history import History
from fedlib.reproduction.tables import find
from fedlib.results.reading import hyperparameter, hyperparameters

BASES = ("SGD", "Momentum", "Adam", "Adagrad")
LOOKS = {"FedAvg": "fedavg", "MimeLite": "mimelite", "Mime": "mime"}


def method(name: str, base: str) -> tuple[str, dict[str, Any]]:
    """The algorithm and overrides of a row of Table 2, except for the client learning rate.

    Args:
        name: ``"FedAvg"``, ``"MimeLite"`` or ``"Mime"``. The Mimes split their cohort in halves.
        base: one of :data:`BASES`, as in the paper.

    >>> method("Mime", "Adam")
    ('mime', {'base': 'adam', 'split': True})
    """
    printed = papers.table("mime", "table2_accuracy").set_index(["method", "base_optimizer"])
    label = printed.loc[[(name, base)], "printed_name"].iloc[0]
    cells = find("mime", "Table 2").set_index("row")
    return tuple(cells.loc[[label], ["algorithm", "overrides"]].iloc[0])


def cohort(algorithm: str, overrides: Mapping[str, Any], model_sizes: float) -> int:
    """The number of clients that a method can pay for in a round with this communication."""
    return algorithms.clients_for_budget(algorithms.build(algorithm, **overrides), model_sizes)


def row_of(history: History) -> tuple[str, str]:
    """A run's row of Table 2: the base optimizer of Mime, or that of FedAvg's server, for instance
    ``"Adam"``, and "FedAvg", "MimeLite" or "Mime".
    """
    names = {algorithm: name for name, algorithm in LOOKS.items()}
    method = history.config.method
    base = method["base" if "base" in method else "server"]["type"]
    return str(base), names.get(history.config.algorithm, "FedAvg")


def line_of(history: History) -> str:
    """The line of Figure 1 that a run belongs to, one of :data:`LINES`. "mime_whole" is none of
    them: in that Mime all clients train and also send gradients.
    """
    name = history.config.algorithm
    if name != "mime":
        return name
    if not hyperparameter(history, "split"):
        return "mime_whole"
    return name if hyperparameter(history, "base") == "momentum" else "mime_sgd"


def mu_of(history: History) -> float:
    """FedProx' mu. 0 for other methods."""
    return float(hyperparameters(history).get("mu") or 0.0)


def mu_line(history: History) -> str:
    """``"mu 0.1"``, or ``"fedavg"`` without mu."""
    return f"mu {mu:g}" if (mu := mu_of(history)) else "fedavg"
