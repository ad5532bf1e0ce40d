"""N-AccAdam against its pseudo-code, and N = 1 against torch.optim.Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import end, problem

ROUNDS = 30
M, D = 5, 4


def run(steps: int, **settings: Any) -> np.ndarray:
    keys = {"client_lr": 0.05, "server_lr": 0.05, "local_steps": steps, **settings}
    return end(fedlib.quadratic_task(*problem(6, M)), "n_accadam", ROUNDS, **keys)


@pytest.mark.parametrize(
    "settings", [{}, {"beta1": 0.5, "beta2": 0.9, "eps": 0.1}, {"client_lr": 0.2}]
)
def test_equals_numpy_on_the_pooled_objective(settings: dict[str, Any]) -> None:
    A, b, weights, x = problem(6, M)
    p = weights / weights.sum()
    A, b = np.tensordot(p, A, 1), p @ b
    h = {"client_lr": 0.05, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, **settings}
    m = v = np.zeros(D)
    for t in range(1, ROUNDS + 1):
        y = x
        for _ in range(4):
            y = y - h["client_lr"] * (A @ y - b)
        delta = (x - y) / h["client_lr"]
        m = (1 - h["beta1"]) * delta + h["beta1"] * m
        v = (1 - h["beta2"]) * delta**2 + h["beta2"] * v
        m_hat, v_hat = m / (1 - h["beta1"] ** t), v / (1 - h["beta2"] ** t)
        x = x - 0.05 * m_hat / (np.sqrt(v_hat) + h["eps"])
    assert np.abs(run(4, **settings) - x).max() < 1e-9


def test_one_step_is_adam() -> None:
    A, b, weights, x0 = problem(6, M)
    p = weights / weights.sum()
    matrix, vector = torch.tensor(np.tensordot(p, A, 1)), torch.tensor(p @ b)
    x = torch.tensor(x0, requires_grad=True)
    adam = torch.optim.Adam([x], lr=0.05)
    for _ in range(ROUNDS):
        adam.zero_grad()
        (0.5 * x @ matrix @ x - vector @ x).backward()
        adam.step()
    assert np.abs(run(1) - x.detach().numpy()).max() < 1e-10
