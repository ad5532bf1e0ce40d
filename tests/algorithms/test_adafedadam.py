"""AdaFedAdam against a NumPy recomputation written from the paper's pseudo-code."""

import numpy as np
import pytest

import fedlib
from tests.algorithms.quadratics import cohort, descend, end, positive_problem, step_decay

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 4]


def numpy_adafedadam(given, size, seed, **h):
    A, b, weights, x0, offset = given.values()
    x, m, v, c_m, c_v = x0, np.zeros(D), np.zeros(D), 1.0, 1.0

    def loss(k, x):
        return float(0.5 * x @ A[k] @ x - b[k] @ x + offset[k])

    for t in range(ROUNDS):
        rate = h["client_lr"]
        if h.get("client_schedule") == "step_decay":
            rate *= step_decay(t, ROUNDS)
        total, g, C = 0.0, np.zeros(D), 0.0
        for k in cohort(seed, t, size):
            delta = descend(A[k], b[k], x, STEPS[k], rate, h.get("momentum", 0.0)) - x
            if not delta.any():
                continue
            e = np.linalg.norm(delta) / np.linalg.norm(A[k] @ x - b[k])
            progress = loss(k, x) / (loss(k, x0) if h.get("relative_loss", True) else 1)
            w = weights[k] * progress ** h.get("alpha", 1.0)
            total += w
            g += w * -delta / e
            C += w * (np.log(e / rate) + 1)
        g, C = g / total, max(C / total, 0.1)
        b1, b2 = h.get("beta1", 0.9) ** C, h.get("beta2", 0.999) ** C
        c_m, c_v = c_m * b1, c_v * b2
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        printed = h.get("form") == "printed"
        v_hat = v / (1 - (c_m if printed else c_v))
        step = h["server_lr"] * (1 if printed else C)
        x = x - step * m / (1 - c_m) / (np.sqrt(v_hat) + h.get("eps", 1e-8))
    return x


CASES = [
    {},
    {"alpha": 0.0},
    {"alpha": 2.5, "beta1": 0.7, "beta2": 0.95, "eps": 0.01},
    {"form": "printed"},
    {"relative_loss": False, "alpha": 1.5},
    {"client_schedule": "step_decay"},
    {"client_optimizer": "sgdm", "momentum": 0.8},
]


@pytest.mark.parametrize("size", [M, 3])
@pytest.mark.parametrize("settings", CASES)
def test_equals_numpy(settings, size):
    given = positive_problem(size)
    settings = {"client_lr": 0.05, "server_lr": 0.05, **settings}
    task, how = fedlib.quadratic_task(**given), {"seed": 4, "size": size}
    x = end(task, "adafedadam", ROUNDS, **how, **settings, local_steps=STEPS)
    expected = numpy_adafedadam(given, size, 4, **settings)
    assert np.abs(x - expected).max() < 1e-8
    assert np.abs(expected - given["x0"]).max() > 0.1


def test_the_certainty_is_kept_above_a_tenth():
    """Two steps that nearly return make C about -2; uncorrected, beta^C would exceed 1."""
    A, b = np.eye(2)[None], np.zeros((1, 2))
    task = fedlib.quadratic_task(A, b, x0=[3.0, -4.0], offset=[1.0])
    keys = {"client_lr": 1.95, "server_lr": 0.1, "local_steps": 2}
    x = end(task, "adafedadam", 1, **keys)
    # The first step of Adam is lr in every coordinate, here C lr with C = 0.1.
    assert x == pytest.approx([2.99, -3.99], abs=1e-8)


def test_rounds_without_a_direction_change_nothing():
    """Nobody steps in one run; in the other, everybody starts at the minimum."""
    given = positive_problem(0)
    idle = end(fedlib.quadratic_task(**given), "adafedadam", 2, local_steps=[0] * M)
    assert np.allclose(idle, given["x0"])
    still = fedlib.quadratic_task(np.eye(2)[None], np.zeros((1, 2)), x0=[0.0, 0.0], offset=[1.0])
    assert end(still, "adafedadam", 2).tolist() == [0, 0]
