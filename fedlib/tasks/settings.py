"""The papers' hyperparameters for a task, read from the transcribed tables."""

from __future__ import annotations

from typing import Any

from fedlib import papers


def fedopt(label: str) -> dict[str, dict[str, Any]]:
    """FedOpt's tuned values for a task: learning rates of Table 8, tau of Table 9.

    Args:
        label: the task's name in the paper, for instance ``"CIFAR-10"``.
    """
    values: dict[str, dict[str, Any]] = {}
    rates = papers.table("fedopt", "table8_learning_rates")
    for row in rates[rates["task"] == label].itertuples():
        values[row.algorithm.lower()] = {
            "client_lr": 10**row.log10_client_lr,
            "server_lr": 10**row.log10_server_lr,
        }
    taus = papers.table("fedopt", "table9_tau")
    for row in taus[taus["task"] == label].itertuples():
        values[row.algorithm.lower()]["tau"] = 10.0**row.log10_tau
    return values
