"""Runs that the tests draw."""

import pytest

import fedlib

ALGORITHMS = ("fedavg", "fedadam")


@pytest.fixture(scope="session")
def synthetic():
    return fedlib.load_task("synthetic", clients=10)


@pytest.fixture(scope="session")
def histories(synthetic):
    """Two seeds of FedAvg, then two of FedAdam."""
    pairs = [(name, seed) for name in ALGORITHMS for seed in (0, 1)]
    return [fedlib.run(synthetic, name, rounds=4, seed=seed) for name, seed in pairs]
