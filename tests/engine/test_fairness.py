"""Fairness over clients, and local epochs that differ between clients and rounds."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine.batches import client_keys, drawn_epochs
from fedlib.engine.fairness import fairness
from tests.algorithms.quadratics import end


def oracle(accuracy, examples):
    """From the definitions, for one model."""
    own, n = accuracy[examples > 0], examples[examples > 0]
    mean = np.average(own, weights=n)
    low, worst = np.sort(own), np.argsort(own, kind="stable")[: math.ceil(0.3 * len(own))]
    return {
        "accuracy_unweighted": own.mean(),
        "accuracy_std": own.std(),
        "accuracy_std_weighted": math.sqrt(np.average((own - mean) ** 2, weights=n)),
        "accuracy_worst_30": low[: math.ceil(0.3 * len(low))].mean(),
        "accuracy_worst_10": low[: math.ceil(0.1 * len(low))].mean(),
        "accuracy_worst_30_weighted": np.average(own[worst], weights=n[worst]),
        "error_rsd": own.std() / (1 - own.mean()) if own.mean() < 1 else 0.0,
    }


@pytest.mark.parametrize("clients", [1, 2, 7, 10, 33])
def test_measures_equal_numpy(clients):
    draw = np.random.default_rng(clients)
    accuracy = draw.random((3, clients))
    accuracy[2] = 1.0
    examples = draw.integers(0, 6, clients)
    examples[0] = 4
    # A client whose labels are all ignored has examples, and no accuracy.
    measured = np.insert(accuracy, 1, np.nan, axis=1), np.insert(examples, 1, 5)
    found = fairness(*map(torch.from_numpy, measured))
    for row in range(3):
        expected = oracle(accuracy[row], examples)
        assert set(found) == set(expected)
        for name, value in expected.items():
            assert float(found[name][row]) == pytest.approx(value, abs=1e-12)


def test_drawn_epochs_are_uniform_and_keyed():
    clients = np.arange(3000)
    rounds = [drawn_epochs((1, 3), client_keys(0, number, clients)) for number in range(3)]
    counts = np.array([np.bincount(epochs, minlength=4)[1:] for epochs in rounds])
    assert counts.sum() == 9000 and set(np.unique(rounds)) == {1, 2, 3}
    # Chi-square with 2 degrees of freedom: above 13.8 once in a thousand.
    assert (((counts - 1000) ** 2 / 1000).sum(1) < 13.8).all()
    # Rounds are independent: each pair of values is drawn about as often.
    pairs = np.bincount(3 * rounds[0] + rounds[1] - 4, minlength=9)
    assert ((pairs - 3000 / 9) ** 2 / (3000 / 9)).sum() < 26.1
    # A client's draw depends on seed, round and client alone.
    some = np.array([5, 17, 2999])
    assert (drawn_epochs((1, 3), client_keys(0, 1, some)) == rounds[1][some]).all()
    assert (drawn_epochs((1, 3), client_keys(1, 0, clients)) != rounds[0]).any()
    assert (drawn_epochs((2, 2), client_keys(0, 0, clients)) == 2).all()


def test_drawn_epochs_give_the_steps_of_as_many_passes():
    """One example a client and one gradient everywhere: a client moves by its number of passes."""
    clients = 6
    task = fedlib.quadratic_task(np.zeros((clients, 1, 1)), -np.ones((clients, 1)))
    keys = [client_keys(9, number, np.arange(clients)) for number in range(3)]
    passes = np.cumsum([drawn_epochs((1, 3), each).mean() for each in keys])
    for rounds in range(1, 4):
        x = end(task, "fedavg", rounds, seed=9, local_epochs=(1, 3), client_lr=1.0)
        assert x == pytest.approx(-passes[rounds - 1])


def test_all_local_data_are_a_split_of_their_own():
    """A client's accuracy on all it holds is that of its two parts, weighted by their sizes; the
    run reports their spread.
    """
    task = fedlib.load_task("synthetic", preset="paper", clients=12, train_share=0.8)
    history = fedlib.run(task, "fedavg", rounds=3, dtype="float64")
    trained = dataclasses.replace(task, test=task.train, evaluated={})
    other = fedlib.run(trained, "fedavg", rounds=3, dtype="float64")

    def accuracies(run, split):
        own = run.clients.query(f"split == '{split}' and metric == 'accuracy'")
        return own["value"].fillna(0).to_numpy(), own["examples"].to_numpy()

    parts = accuracies(history, "test"), accuracies(other, "test")
    examples = parts[0][1] + parts[1][1]
    value, held = accuracies(history, "local")
    assert held.tolist() == examples.tolist()
    assert value == pytest.approx(sum(own * n for own, n in parts) / examples, abs=1e-9)
    for split, local, n in (("local", value, examples), ("test", *parts[0])):
        for name, number in oracle(local, n).items():
            assert history.series(name, split).iloc[-1] == pytest.approx(number, abs=1e-9)
