"""Runs that the tests draw."""

import dataclasses

import pytest

import fedlib

ALGORITHMS = ("fedavg", "fedadam")


def lines(ax):
    """The labelled lines of a drawing."""
    return {line.get_label(): line for line in ax.get_lines() if line.get_label()[0] != "_"}


def as_task(history, **changes):
    """The same numbers under another task's settings."""
    task = {**history.config.task, **changes}
    return dataclasses.replace(history, config=dataclasses.replace(history.config, task=task))


@pytest.fixture(scope="session")
def histories(synthetic):
    """Two seeds of FedAvg, then two of FedAdam."""
    pairs = [(name, seed) for name in ALGORITHMS for seed in (0, 1)]
    return [fedlib.run(synthetic, name, rounds=4, seed=seed) for name, seed in pairs]
