"""Mime and its variants against NumPy recomputations, on one batch, and in halves."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib.randomness import numpy_generator
from tests.algorithms.quadratics import NumpyBase, end, halves, problem

M, D, ROUNDS, SIZE = 6, 4, 30, 3
STEPS = [1, 2, 3, 3, 0, 2]


def numpy_mime(name, seed, base, client_lr, server_lr, **h):
    """Algorithm 1 of Mime with weighted means, exact gradients and partial cohorts."""
    A, b, weights, x = problem(seed)
    split = h.pop("split", False) and not (name == "mimelite" and base == "sgd")
    s = NumpyBase(base, D, **h)
    for t in range(ROUNDS):
        measuring, training = halves(seed, t, SIZE, split)
        p = weights[measuring] / weights[measuring].sum()
        c = sum(q * (A[i] @ x - b[i]) for q, i in zip(p, measuring, strict=True))
        s.begin(c)
        moved = np.zeros(D)
        for i in training:
            y, own = x, copy.copy(s)
            for _ in range(STEPS[i]):
                g = A[i] @ y - b[i]
                if name != "mimelite":
                    g = g - (A[i] @ x - b[i]) + c
                y = y - client_lr * own.U(g)
                if name == "loc_mime":
                    own.V(g)
            moved += weights[i] / weights[training].sum() * (y - x)
        s.V(c)
        x = x + server_lr * moved
    return x


CASES = [
    ("sgd", {}),
    ("sgd", {"split": True}),
    ("momentum", {"server_lr": 0.7}),
    ("momentum", {"momentum": 0.5, "split": True}),
    ("adam", {}),
    ("adam", {"beta1": 0.5, "beta2": 0.8, "eps": 0.1, "split": True}),
    ("adam", {"v0": 0.2, "server_lr": 0.5}),
    ("adam", {"bias_correction": True}),
    ("adagrad", {}),
    ("adagrad", {"v0": 1.0, "split": True, "lean": True}),
    ("yogi", {"beta2": 0.9}),
    ("yogi", {"v0": 0.3, "eps": 1e-2}),
]


@pytest.mark.parametrize(("base", "settings"), CASES)
@pytest.mark.parametrize("name", ["mime", "mimelite", "loc_mime"])
def test_equals_numpy(name, base, settings):
    rate = 0.02 if base in ("adam", "adagrad", "yogi") else 0.05
    settings = {"client_lr": rate, "server_lr": 1.0, **settings}
    task, how = fedlib.quadratic_task(*problem(3)), {"seed": 3, "size": SIZE}
    keys = {**settings, "base": base, "local_steps": STEPS}
    x = end(task, name, ROUNDS, **how, **keys)
    numbers = {key: value for key, value in settings.items() if key != "lean"}
    assert np.abs(x - numpy_mime(name, 3, base, **numbers)).max() < 1e-9


def numpy_mvr(name, seed, beta, lr, server_lr, split):
    """m formed from the cohort's gradients at x_t and x_{t-1}, then local steps from x_t."""
    A, b, weights, x = problem(seed)
    m, before = np.zeros(D), x

    def mean(clients, values):
        return np.average(values, axis=0, weights=weights[clients])

    for t in range(ROUNDS):
        measuring, training = halves(seed, t, SIZE, split)
        c = mean(measuring, [A[i] @ x - b[i] for i in measuring])
        old = mean(measuring, [A[i] @ before - b[i] for i in measuring])
        m = (1 - beta) * c + beta * (m + c - old) if t else c
        ends = []
        for i in training:
            y = x
            for _ in range(STEPS[i]):
                here, there = A[i] @ y - b[i], A[i] @ x - b[i]
                g = here if name == "mimelite_mvr" else here - there + c
                y = y - lr * ((1 - beta) * g + beta * (m + here - there))
            ends.append(y - x)
        before, x = x, x + server_lr * mean(training, ends)
    return x


@pytest.mark.parametrize(("beta", "server_lr", "split"), [(0.9, 1.0, False), (0.3, 0.6, True)])
@pytest.mark.parametrize("name", ["mime_mvr", "mimelite_mvr"])
def test_with_variance_reduction_equals_numpy(name, beta, server_lr, split):
    settings = {"client_lr": 0.05, "server_lr": server_lr, "momentum": beta, "split": split}
    task, how = fedlib.quadratic_task(*problem(5)), {"seed": 5, "size": SIZE}
    x = end(task, name, ROUNDS, **how, **settings, local_steps=STEPS)
    assert np.abs(x - numpy_mvr(name, 5, beta, 0.05, server_lr, split)).max() < 1e-9


@pytest.mark.parametrize("name", ["mime", "loc_mime", "mime_mvr"])
def test_both_gradients_see_the_same_batch_and_dropout_masks(name):
    """At y = x they cancel, so one step on any batch is a step along c, which has no dropout."""
    model = lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(60, 10))  # noqa: E731
    task = replace(fedlib.load_task("synthetic", clients=5), model=model)
    common = {"rounds": 1, "dtype": "float64"}
    overrides = {"local_steps": 1, "batch_size": 3, "client_lr": 0.1}
    a = fedlib.run(task, name, overrides=overrides, **common)
    b = fedlib.run(task, name, overrides={**overrides, "batch_size": None}, **common)
    torch.testing.assert_close(a.params, b.params, rtol=0, atol=1e-12)
    c = fedlib.run(task, "fedavg", overrides=overrides, **common)
    assert (a.params["1.weight"] - c.params["1.weight"]).abs().max() > 1e-3


def test_clients_without_examples_exchange_nothing_and_those_with_one_do():
    sizes = np.array([1, 0, 2, 1, 0, 5])
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 3)))
    parts = np.split(np.arange(9), np.cumsum(sizes)[:-1])
    data = fedlib.ClientData(x, torch.arange(9) % 2, parts)
    task = fedlib.Task("t", lambda: torch.nn.Linear(3, 2), data, data, clients_per_round=6)
    settings = {"base": "adam", "split": True, "lean": True}
    history = fedlib.run(task, "mime", rounds=1, overrides=settings)
    mixed = numpy_generator(0, "halves", 0).permutation(6)
    measuring, training = (int((sizes[half] > 0).sum()) for half in (mixed[:3], mixed[3:]))
    assert measuring + training == 4 and measuring != 0 != training
    for way, sent in (("down", measuring + 4 * training), ("up", 4)):
        assert history.series(f"floats_{way}", "communication").tolist() == [8.0 * sent]
