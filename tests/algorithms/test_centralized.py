"""The base optimizers on all data: against NumPy on the mean quadratic, and on real batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import end, problem

D, STEPS = 4, 36


def numpy_base(base: str, seed: int, lr: float, b1: float, b2: float, eps: float) -> np.ndarray:
    """36 steps, U before V; where v starts at 0, V of the first gradient comes first of all."""
    A, b, weights, x = problem(seed)
    p = weights / weights.sum()
    H, h = np.einsum("i,ijk->jk", p, A), p @ b
    m, v = np.zeros(D), np.zeros(D)

    def second(v: np.ndarray, g: np.ndarray) -> np.ndarray:
        if base == "adagrad":
            return v + g * g
        sign = np.sign(v - g * g)
        return b2 * v + (1 - b2) * g * g if base == "adam" else v - (1 - b2) * g * g * sign

    for step in range(STEPS):
        g = H @ x - h
        if base == "sgd":
            x = x - lr * g
            continue
        if step == 0 and base != "momentum":
            m, v = (1 - b1) * g, second(v, g)
        new = (1 - b1) * g + b1 * m
        if base == "momentum":
            x = x - lr * new
        else:
            x = x - lr * (g if base == "adagrad" else new) / (np.sqrt(v) + eps)
            v = second(v, g)
        m = new
    return x


@pytest.mark.parametrize("rounds", [3, 36])
@pytest.mark.parametrize("base", ["sgd", "momentum", "adam", "adagrad", "yogi"])
def test_equals_numpy_however_the_steps_are_cut_into_rounds(base: str, rounds: int) -> None:
    """The optimizer's state lives on from step to step and from round to round."""
    A, b, weights, x0 = problem(2)
    settings = {"client_lr": 0.05, "base": base, "eps": 0.01, "beta1": 0.8, "beta2": 0.95}
    task = fedlib.quadratic_task(A, b, weights, x0)
    keys = {**settings, "momentum": 0.8, "local_steps": STEPS // rounds}
    x = end(task, "centralized", rounds, **keys)
    assert np.abs(x - numpy_base(base, 2, 0.05, 0.8, 0.95, 0.01)).max() < 1e-10


def test_sgd_on_batches_is_fedavg_with_one_client_that_holds_everything() -> None:
    task = fedlib.load_task("synthetic", clients=5)
    settings: dict[str, Any] = {"rounds": 2, "dtype": "float64"}
    a = fedlib.run(task, "centralized", overrides={"client_lr": 0.05}, **settings)
    b = fedlib.run(task.centralized(), "fedavg", overrides={"client_lr": 0.05}, **settings)
    assert all(torch.allclose(a.params[n], b.params[n], atol=1e-12) for n in a.params)
    assert a.meta["configurations"] == 1 and len(a.clients) == len(b.clients)
    assert a.series("floats_down", "communication").tolist() == [0.0, 0.0]


def test_schedules_and_grids() -> None:
    A, b, _, x0 = problem(0)
    task = fedlib.quadratic_task(A[:1], b[:1], x0=x0)
    settings = {"client_lr": 0.1, "client_schedule": "step_decay", "local_steps": 2}
    ours, x = end(task, "centralized", 4, **settings), x0
    for rate in (0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001):
        x = x - rate * (A[0] @ x - b[0])
    assert np.abs(ours - x).max() < 1e-12
    grid = {"base": ["momentum", "adam"], "client_lr": [0.01, 0.1]}
    frame = fedlib.grid(task, "centralized", rounds=3, dtype="float64", **grid)
    ends = frame[(frame["round"] == 3) & (frame["metric"] == "loss") & (frame["split"] == "test")]
    assert ends["value"].nunique() == 4


def test_bias_correction_counts_the_passes_of_both_moments() -> None:
    """By hand on f(x) = x^2 / 2: after the first V, n = 1; U has one gradient more than n."""
    task = fedlib.quadratic_task([[[1.0]]], [[0.0]], x0=[1.0])
    settings = {"client_lr": 0.1, "base": "adam", "beta1": 0.5, "beta2": 0.75, "eps": 0.25}
    settings = {**settings, "bias_correction": True}
    first = end(task, "centralized", 1, **settings)
    # m = 0.5, v = 0.25 after V(1); m^ = 0.75 / 0.75 and v^ = 0.25 / 0.25 in the first U.
    assert float(first[0]) == pytest.approx(1 - 0.1 * 1 / (1 + 0.25), abs=1e-15)
    second = end(task, "centralized", 2, **settings)
    g = 0.92
    m, v = 0.75, 0.75 * 0.25 + 0.25  # after V(1) twice, n = 2
    up = (0.5 * g + 0.5 * m) / (1 - 0.5**3)
    down = np.sqrt(v / (1 - 0.75**2)) + 0.25
    assert float(second[0]) == pytest.approx(g - 0.1 * up / down, abs=1e-15)
