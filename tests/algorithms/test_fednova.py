"""FedNova against a NumPy recomputation that follows every gradient's coefficient."""

import numpy as np
import pytest

import fedlib
from tests.algorithms.quadratics import descend, end, problem, step_decay

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]


def coefficients(steps, lr, momentum, mu, nesterov):
    """a with x_t - x_i = lr * sum_k a_k g_k, by doing the steps on unit vectors for gradients."""
    x, u = np.zeros(steps), np.zeros(steps)
    for k in range(steps):
        g = np.eye(steps)[k] + mu * x
        u = momentum * u + g
        x = x - lr * (g + momentum * u if nesterov else u)
    return -x / lr


def numpy_fednova(seed, **h):
    A, b, weights, x = problem(seed)
    p = weights / weights.sum()
    momentum, mu, nesterov = h.get("momentum", 0.0), h.get("mu", 0.0), h.get("nesterov", False)
    counted = nesterov and h.get("nesterov_count") != "heavy_ball"
    for t in range(ROUNDS):
        lr = h["client_lr"]
        if h.get("client_schedule") == "step_decay":
            lr *= step_decay(t, ROUNDS)
        tau_eff, direction = 0.0, np.zeros(D)
        for i in range(M):
            own = A[i] + mu * np.eye(D), b[i] + mu * x
            y = descend(*own, x, STEPS[i], lr, momentum, nesterov)
            if STEPS[i]:
                a = coefficients(STEPS[i], lr, momentum, mu, counted)
                assert (a > 0).all()
                direction += p[i] * (x - y) / np.abs(a).sum()
                tau_eff += p[i] * np.abs(coefficients(STEPS[i], lr, momentum, 0, counted)).sum()
        x = x - h.get("server_lr", 1.0) * tau_eff * direction
    return x


CASES = [
    {},
    {"server_lr": 0.7},
    {"momentum": 0.9},
    {"momentum": 0.8, "nesterov": True},
    {"momentum": 0.8, "nesterov": True, "nesterov_count": "heavy_ball"},
    {"momentum": 0.8, "nesterov_count": "heavy_ball"},
    {"mu": 0.5},
    {"momentum": 0.6, "mu": 0.5},
    {"momentum": 0.6, "mu": 0.5, "nesterov": True},
    {"momentum": 0.5, "client_schedule": "step_decay", "mu": 0.1},
]


@pytest.mark.parametrize("settings", CASES)
def test_equals_numpy(settings):
    settings = {"client_lr": 0.05, **settings}
    task = fedlib.quadratic_task(*problem(2))
    x = end(task, "fednova", ROUNDS, **settings, local_steps=STEPS)
    assert np.abs(x - numpy_fednova(2, **settings)).max() < 1e-8
