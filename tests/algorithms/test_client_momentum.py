"""Clients that keep their momentum between rounds, against one torch.optim.SGD for each client."""

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import cohort, end, positive_problem

ROUNDS, LR, RHO, SEED = 12, 0.05, 0.9, 3
STEPS = [1, 2, 3, 5, 0, 4]
METHODS = {"fedavg": {"server_lr": 0.8}, "fedprox": {"mu": 0.7}, "fednova": {}}


def overrides(name, nesterov, state="client"):
    shared = {"momentum": RHO, "nesterov": nesterov, "momentum_state": state}
    if name != "fednova":
        shared["client_optimizer"] = "sgdm"
    return {"client_lr": LR, **shared, **METHODS[name]}


def literal(name, nesterov, keep):
    """x after loops over clients, each with a torch optimizer that is never reset if it ``keeps``.

    What a step adds to FedNova's ||a||_1 is counted from nothing in every round.
    """
    A, b, weights, x, _ = positive_problem(5).values()
    models = [torch.zeros(4, dtype=torch.float64) for _ in STEPS]
    how = {"lr": LR, "momentum": RHO, "nesterov": nesterov}
    optimizers = [torch.optim.SGD([model], **how) for model in models]
    for t in range(ROUNDS):
        members = cohort(SEED, t, 4)
        p, moved, counted = weights[members] / weights[members].sum(), [], []
        for i in members:
            model, n, a = models[i], 0.0, 0.0
            model.copy_(torch.from_numpy(x))
            if not keep:
                optimizers[i] = torch.optim.SGD([model], **how)
            for _ in range(STEPS[i]):
                y = model.numpy()
                proximal = METHODS[name].get("mu", 0.0) * (y - x)
                model.grad = torch.from_numpy(A[i] @ y - b[i] + proximal)
                optimizers[i].step()
                n = RHO * n + 1
                a += 1 + RHO * n if nesterov else n
            moved.append(x - model.numpy())
            counted.append(a)
        if name == "fednova":
            moved = [(p @ counted) * own / (a or 1) for own, a in zip(moved, counted, strict=True)]
        x = x - METHODS[name].get("server_lr", 1.0) * (p @ np.array(moved))
    return x


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("name", list(METHODS))
def test_a_client_takes_its_momentum_up_again(name, nesterov):
    """Four of six clients a round, so that they come back after rounds without them."""
    task = fedlib.quadratic_task(**positive_problem(5))
    settings = {"seed": SEED, "size": 4, "local_steps": STEPS}
    kept = end(task, name, ROUNDS, **settings, **overrides(name, nesterov))
    assert np.abs(kept - literal(name, nesterov, keep=True)).max() < 1e-10
    forgotten = end(task, name, ROUNDS, **settings, **overrides(name, nesterov, "round"))
    assert np.abs(forgotten - literal(name, nesterov, keep=False)).max() < 1e-10
    assert np.abs(kept - forgotten).max() > 1e-3
