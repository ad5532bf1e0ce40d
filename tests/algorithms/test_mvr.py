"""MimeMVR and MimeLiteMVR against a NumPy recomputation, and what they must come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedlib
from fedlib.algorithms import build
from fedlib.randomness import numpy_generator
from tests.algorithms.quadratics import cohort, difference, end, problem

M, D, ROUNDS, SIZE = 6, 4, 30, 3
STEPS = [1, 2, 3, 3, 0, 2]
NAMES = ["mime_mvr", "mimelite_mvr"]


def numpy_mvr(name: str, seed: int, beta: float, lr: float, server_lr: float, split: bool) -> Any:
    """m formed from the cohort's gradients at x_t and x_{t-1}, then local steps from x_t."""
    A, b, weights, x = problem(seed)
    m, before = np.zeros(D), x

    def mean(clients: list[int], values: list[np.ndarray]) -> np.ndarray:
        return np.average(values, axis=0, weights=weights[clients])

    for t in range(ROUNDS):
        measuring = training = cohort(seed, t, SIZE)
        if split:
            mixed = numpy_generator(seed, "halves", t).permutation(training).tolist()
            measuring, training = mixed[: SIZE // 2], mixed[SIZE // 2 :]
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
@pytest.mark.parametrize("name", NAMES)
def test_equals_numpy(name: str, beta: float, server_lr: float, split: bool) -> None:
    A, b, weights, x0 = problem(5)
    settings = {"client_lr": 0.05, "server_lr": server_lr, "momentum": beta, "split": split}
    task, how = fedlib.quadratic_task(A, b, weights, x0), {"seed": 5, "size": SIZE}
    x = end(task, name, ROUNDS, **how, **settings, local_steps=STEPS)
    assert np.abs(x - numpy_mvr(name, 5, beta, 0.05, server_lr, split)).max() < 1e-9


@pytest.mark.parametrize(("name", "plain"), [("mime_mvr", "mime"), ("mimelite_mvr", "fedavg")])
def test_without_momentum_it_is_the_plain_method(name: str, plain: str) -> None:
    task = fedlib.load_task("synthetic", clients=6)
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 3}
    settings = {"client_lr": 0.02, "server_lr": 0.8}
    a = fedlib.run(task, name, overrides={**settings, "momentum": 0}, **common)
    assert difference(a, fedlib.run(task, plain, overrides=settings, **common)) < 1e-11
    b = fedlib.run(task, name, overrides={**settings, "momentum": 0.9}, **common)
    assert difference(a, b) > 1e-3


def test_what_is_sent() -> None:
    """x_t, x_{t-1}, m_t and c down; two gradients and a model up."""
    for name, c in (("mime_mvr", 1), ("mimelite_mvr", 0)):
        assert build(name).communication(10) == (10 * (3 + c), 30)
        split = build(name, split=True)
        assert split.communication(10) == (10 * (3 + c), 10)
        assert split.measure_communication(10) == (10 * (3 + c), 20)
        lean = build(name, split=True, lean=True)
        assert lean.communication(10) == (10 * (2 + c), 10)
        assert lean.measure_communication(10) == (20, 20)
