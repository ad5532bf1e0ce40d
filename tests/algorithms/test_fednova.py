"""FedNova against a NumPy recomputation that follows every gradient's coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedlib
from tests.algorithms.quadratics import BACKENDS, end, problem, step_decay

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]


def coefficients(steps: int, lr: float, momentum: float, mu: float, nesterov: bool) -> np.ndarray:
    """a with x_t - x_i = lr * sum_k a_k g_k, by doing the steps on unit vectors for gradients."""
    x, u = np.zeros(steps), np.zeros(steps)
    for k in range(steps):
        g = np.eye(steps)[k] + mu * x
        u = momentum * u + g
        x = x - lr * (g + momentum * u if nesterov else u)
    return -x / lr


def numpy_fednova(seed: int, **h: Any) -> np.ndarray:
    A, b, weights, x = problem(seed)
    p = weights / weights.sum()
    momentum, mu, nesterov = h.get("momentum", 0.0), h.get("mu", 0.0), h.get("nesterov", False)
    for t in range(ROUNDS):
        lr = h["client_lr"]
        if h.get("client_schedule") == "step_decay":
            lr *= step_decay(t, ROUNDS)
        tau_eff, direction = 0.0, np.zeros(D)
        for i in range(M):
            y, u = x.copy(), np.zeros(D)
            for _ in range(STEPS[i]):
                g = A[i] @ y - b[i] + mu * (y - x)
                u = momentum * u + g
                y = y - lr * (g + momentum * u if nesterov else u)
            if STEPS[i]:
                a = coefficients(STEPS[i], lr, momentum, mu, nesterov)
                assert (a > 0).all()
                direction += p[i] * (x - y) / np.abs(a).sum()
                tau_eff += p[i] * np.abs(coefficients(STEPS[i], lr, momentum, 0, nesterov)).sum()
        x = x - h.get("server_lr", 1.0) * tau_eff * direction
    return x


CASES: list[dict[str, Any]] = [
    {},
    {"server_lr": 0.7},
    {"momentum": 0.9},
    {"momentum": 0.8, "nesterov": True},
    {"mu": 0.5},
    {"momentum": 0.6, "mu": 0.5},
    {"momentum": 0.6, "mu": 0.5, "nesterov": True},
    {"momentum": 0.5, "client_schedule": "step_decay", "mu": 0.1},
]


@pytest.mark.parametrize(
    ("settings", "backend"),
    [(case, "vectorized") for case in CASES] + [(case, "reference") for case in CASES[-3:]],
)
def test_equals_numpy(settings: dict[str, Any], backend: str) -> None:
    A, b, weights, x0 = problem(2)
    settings = {"client_lr": 0.05, **settings}
    task = fedlib.quadratic_task(A, b, weights, x0)
    x = end(task, "fednova", ROUNDS, backend=backend, **settings, local_steps=STEPS)
    assert np.abs(x - numpy_fednova(2, **settings)).max() < 1e-8


def test_the_accumulated_weights_of_the_published_code() -> None:
    """Plain: tau; momentum: sum of n with n <- rho n + 1; proximal: a <- (1 - lr mu) a + 1."""
    assert coefficients(5, 0.1, 0, 0, False).sum() == pytest.approx(5)
    n = a = 0.0
    for _ in range(5):
        n = 0.9 * n + 1
        a += n
    assert coefficients(5, 0.1, 0.9, 0, False).sum() == pytest.approx(a)
    a = 0.0
    for _ in range(5):
        a = (1 - 0.1 * 0.5) * a + 1
    assert coefficients(5, 0.1, 0, 0.5, False).sum() == pytest.approx(a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_plain_steps_are_fedavg(backend: str) -> None:
    A, b, weights, x0 = problem(3)
    task = fedlib.quadratic_task(A, b, weights, x0)
    keys = {"backend": backend, "client_lr": 0.05, "local_steps": 4}
    nova, average = (end(task, name, 9, **keys) for name in ("fednova", "fedavg"))
    assert np.abs(nova - average).max() < 1e-12


@pytest.mark.parametrize("nesterov", [False, True])
def test_one_client_is_its_own_sgd(nesterov: bool) -> None:
    """With one client tau_eff / ||a||_1 = 1, so the model is the client's."""
    A, b, _, x0 = problem(4)
    task = fedlib.quadratic_task(A[:1], b[:1], x0=x0)
    nova = fedlib.FedNova(client_lr=0.05, momentum=0.9, nesterov=nesterov)
    sgdm = fedlib.FedOpt(client=fedlib.SGDM(lr=0.05, momentum=0.9, nesterov=nesterov))
    a, b_ = (end(task, method, 5, local_steps=6) for method in (nova, sgdm))
    assert np.abs(a - b_).max() < 1e-12


def test_unequal_steps_do_not_move_the_optimum() -> None:
    """From the optimum FedAvg drifts to where clients count p_i tau_i; FedNova stays near it."""
    A, b, weights, _ = problem(5)
    p = weights / weights.sum()
    optimum = np.linalg.solve(np.tensordot(p, A, 1), p @ b)
    task = fedlib.quadratic_task(A, b, weights, optimum)
    keys = {"client_lr": 0.01, "local_steps": [1, 2, 3, 5, 1, 7]}
    average, nova = (
        np.linalg.norm(end(task, name, 60, **keys) - optimum) for name in ("fedavg", "fednova")
    )
    assert average > 0.1 and nova < 0.2 * average
