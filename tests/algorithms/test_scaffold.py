"""SCAFFOLD against a NumPy recomputation with dictionaries."""

import numpy as np
import pytest

import fedlib
from tests.algorithms.quadratics import cohort, descend, end, problem, step_decay

M, D = 6, 4
STEPS = [1, 0, 3, 4, 2, 2]


def numpy_scaffold(seed, rounds, size, client_lr, server_lr, decay=False, plain=False):
    """Algorithm 6 of FedOpt with exact gradients, control variates in a dictionary.

    Plainly, as Karimireddy et al. have it: all c_i are 0 at first, and clients count the same.
    """
    A, b, n, x = problem(seed)
    c = np.zeros(D)
    controls = {}
    if plain:
        controls, n = {i: c for i in range(M)}, np.ones(M)
    for t in range(rounds):
        sampled = cohort(seed, t, size)
        lr = client_lr * (step_decay(t, rounds) if decay else 1.0)
        total = sum(n[i] for i in sampled)
        dx, dc = np.zeros(D), np.zeros(D)
        for i in sampled:
            own = controls.setdefault(i, c)
            y = descend(A[i], b[i] + own - c, x, STEPS[i], lr)
            if STEPS[i]:
                controls[i] = own - c + (x - y) / (STEPS[i] * lr)
            dx += n[i] / total * (y - x)
            dc += n[i] / total * (controls[i] - own)
        x = x + server_lr * dx
        c = c + size / M * dc
        if plain:
            assert np.abs(c - np.mean([*controls.values()], axis=0)).max() < 1e-12
    return x


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("means", ["weighted", "plain"])
def test_equals_numpy_with_dictionaries(means, seed, size):
    for server_lr, schedule in ((1.0, "constant"), (0.6, "step_decay")):
        keys = {"client_lr": 0.05, "server_lr": server_lr, "client_schedule": schedule}
        how = {"seed": seed, "size": size, "means": means}
        task = fedlib.quadratic_task(*problem(seed))
        x = end(task, "scaffold", 40, **how, **keys, local_steps=STEPS)
        decay, plain = schedule != "constant", means == "plain"
        expected = numpy_scaffold(seed, 40, size, 0.05, server_lr, decay, plain)
        assert np.abs(x - expected).max() < 1e-9
