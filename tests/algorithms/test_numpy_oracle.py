"""The five FedOpt methods against a NumPy recomputation written from the paper's pseudo-code."""

import numpy as np
import pytest

import fedlib
from fedlib.optimizers import schedules
from tests.algorithms.quadratics import descend, end, problem, step_decay

ROUNDS = 20
M, D = 6, 4
STEPS = [1, 2, 3, 5, 2, 4]


def numpy_fedopt(name, **h):
    """x after all rounds of Algorithm 5, full participation, gradients exact."""
    A, b, weights, x = problem(0)
    p = weights / weights.sum()
    printed = h.get("form") == "printed"
    adaptive = name in ("fedadagrad", "fedadam", "fedyogi")
    b1 = h.get("beta1", 0.0 if name == "fedadagrad" else 0.9)
    b2 = h.get("beta2", 0.99)
    tau = h.get("tau", 1e-3)
    v = np.full(D, h.get("v0", tau**2 if printed else 0.0))
    correct = h.get("bias_correction", not printed) and name != "fedadagrad"
    m = np.zeros(D)
    for t in range(1, ROUNDS + 1):
        rate = h["client_lr"] * (step_decay(t - 1, ROUNDS) if "client_schedule" in h else 1)
        delta = np.zeros(D)
        for i in range(M):
            mu = h.get("mu", 0.0)  # of the proximal term, mu / 2 |y - x|^2
            y = descend(A[i] + mu * np.eye(D), b[i] + mu * x, x, STEPS[i], rate)
            delta += p[i] * (y - x)
        if not adaptive:
            m = h.get("momentum", 0.9 if name == "fedavgm" else 0.0) * m + delta
            x = x + h["server_lr"] * m
            continue
        m = b1 * m + (1 - b1) * delta
        square = m**2 if printed else delta**2
        if name == "fedadagrad":
            v = v + square
        elif name == "fedyogi":
            v = v - (1 - b2) * square * np.sign(v - square)
        else:
            v = b2 * v + (1 - b2) * square
        factor = np.sqrt(1 - b2**t) / (1 - b1**t) if correct else 1.0
        x = x + h["server_lr"] * factor * m / (np.sqrt(v) + tau)
    return x


CASES = [
    ("fedavg", {}),
    ("fedavg", {"server_lr": 0.7, "client_schedule": "step_decay"}),
    ("fedavgm", {}),
    ("fedavgm", {"momentum": 0.5, "server_lr": 0.3}),
    ("fedprox", {"mu": 0.5}),
    ("fedadagrad", {"server_lr": 0.1}),
    ("fedadagrad", {"server_lr": 0.1, "form": "printed", "tau": 0.1}),
    ("fedadam", {"server_lr": 0.05}),
    ("fedadam", {"server_lr": 0.05, "bias_correction": False}),
    ("fedadam", {"server_lr": 0.05, "v0": 0.3, "tau": 0.01, "beta1": 0.5, "beta2": 0.9}),
    ("fedadam", {"server_lr": 0.05, "form": "printed", "tau": 0.01}),
    ("fedadam", {"server_lr": 0.05, "form": "printed", "bias_correction": True, "v0": 0.2}),
    ("fedyogi", {"server_lr": 0.05}),
    ("fedyogi", {"server_lr": 0.05, "bias_correction": False, "v0": 0.1}),
    ("fedyogi", {"server_lr": 0.05, "form": "printed", "tau": 0.01}),
]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_equals_numpy(name, settings):
    task = fedlib.quadratic_task(*problem(0))
    settings = {"client_lr": 0.05, "server_lr": 1.0, **settings}
    x = end(task, name, ROUNDS, **settings, local_steps=STEPS)
    assert np.abs(x - numpy_fedopt(name, **settings)).max() < 1e-9


def test_client_schedules():
    assert [schedules.constant(t, 4000) for t in (0, 3999)] == [1, 1]
    falling = pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01], rel=1e-12)
    assert [schedules.exp_decay_thirds(t, 100) for t in (0, 33, 34, 66, 67, 99)] == falling
    assert [schedules.exp_decay(t, 1500) for t in (0, 499, 500, 999, 1000, 1499)] == falling
    assert [schedules.step_decay(t, 8) for t in (0, 3, 4, 5, 6, 7)] == falling
