"""q-FedAvg against a NumPy recomputation written from its pseudo-code."""

import numpy as np
import pytest

import fedlib
from tests.algorithms.quadratics import cohort, descend, end, positive_problem

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]


def numpy_qfedavg(given, size, seed, **h):
    A, b, offset, x = given["A"], given["b"], given["offset"], given["x0"]
    q, lr = h.get("q", 1.0), h["client_lr"]
    L = h.get("L") or 1 / lr
    for t in range(ROUNDS):
        deltas, hs = np.zeros(D), 0.0
        for k in cohort(seed, t, size):
            F = max(0.5 * x @ A[k] @ x - b[k] @ x + offset[k], 0) + 1e-10
            nabla = L * (x - descend(A[k], b[k], x, STEPS[k], lr, h.get("momentum", 0.0)))
            deltas += F**q * nabla
            hs += q * F ** (q - 1) * nabla @ nabla + L * F**q
        x = x - deltas / hs
    return x


CASES = [
    {},
    {"q": 0},
    {"q": 2, "L": 1.0},
    {"q": 0.5, "L": 7.0},
    {"q": 1.0, "L": 1.0, "client_optimizer": "sgdm", "momentum": 0.8},
]


@pytest.mark.parametrize("size", [M, 3])
@pytest.mark.parametrize("settings", CASES)
def test_equals_numpy(settings, size):
    given = positive_problem(size)
    given["offset"] -= 3  # some losses are below 1, and some below 0
    settings = {"client_lr": 0.05, **settings}
    task, how = fedlib.quadratic_task(**given), {"seed": 3, "size": size}
    x = end(task, "qfedavg", ROUNDS, **how, **settings, local_steps=STEPS)
    expected = numpy_qfedavg(given, size, 3, **settings)
    assert np.abs(x - expected).max() < 1e-8
    assert np.abs(expected - given["x0"]).max() > 0.01


@pytest.mark.parametrize("q", [1.0, 10.0])
def test_it_stands_still_where_no_client_has_a_loss(q):
    task = fedlib.quadratic_task([[[1.0]], [[3.0]]], [[0.0], [0.0]])
    history = fedlib.run(task, "qfedavg", rounds=3, overrides={"q": q})
    assert history.diverged is None and history.params["x"].item() == 0
