"""Lookahead and AdaAlter, which send the clients' state on (FedOpt, B.3)."""

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import end, problem

M, D, ROUNDS = 5, 4, 30
STEPS = [1, 2, 3, 0, 2]


def test_lookahead_averages_and_broadcasts_the_inner_state():
    A, b, weights, x = problem(0, M)
    task = fedlib.quadratic_task(A, b, weights, x)
    keys = {"client_lr": 0.05, "server_lr": 0.6, "client_optimizer": "sgdm", "momentum": 0.7}
    ours = end(task, "lookahead", ROUNDS, **keys, local_steps=STEPS)
    p, mean = weights / weights.sum(), np.zeros(D)
    for _ in range(ROUNDS):
        ends, states = [], []
        for i in range(M):
            y, u = x, mean
            for _ in range(STEPS[i]):
                u = 0.7 * u + A[i] @ y - b[i]
                y = y - 0.05 * u
            ends.append(y)
            states.append(u)
        x = x + 0.6 * (p @ np.array(ends) - x)
        mean = p @ np.array(states)
    assert np.abs(ours - x).max() < 1e-10


INNER = {
    "sgdm": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adagrad": (torch.optim.Adagrad, {}),
}


@pytest.mark.parametrize("inner", list(INNER))
def test_lookahead_with_one_client_is_lookahead(inner):
    """Slow weights around a torch optimizer that keeps its state, k = 4, alpha = 0.5."""
    A, b, _, x0 = problem(1, M)
    task = fedlib.quadratic_task(A[:1], b[:1], x0=x0)
    ours = end(task, "lookahead", ROUNDS, client_lr=0.05, client_optimizer=inner, local_steps=4)
    slow = torch.tensor(x0)
    fast = slow.clone().requires_grad_()
    matrix, vector = torch.tensor(A[0]), torch.tensor(b[0])
    kind, settings = INNER[inner]
    optimizer = kind([fast], lr=0.05, **settings)
    for _ in range(ROUNDS):
        for _ in range(4):
            optimizer.zero_grad()
            (0.5 * fast @ matrix @ fast - vector @ fast).backward()
            optimizer.step()
        slow = slow + 0.5 * (fast.detach() - slow)
        fast.data.copy_(slow)
    assert np.abs(ours - slow.numpy()).max() < 1e-9


def test_lookahead_that_resets_is_fedopt_with_an_sgd_server():
    task = fedlib.quadratic_task(*problem(2, M))
    keys = {"client_lr": 0.05, "server_lr": 0.6, "client_optimizer": "adam", "local_steps": STEPS}
    plain = end(task, "fedavg", ROUNDS, **keys)
    assert np.abs(end(task, "lookahead", ROUNDS, **keys, reset=True) - plain).max() == 0
    assert np.abs(end(task, "lookahead", ROUNDS, **keys) - plain).max() > 1e-4


def test_adaalter_equals_numpy():
    A, b, weights, x = problem(3, M)
    task = fedlib.quadratic_task(A, b, weights, x)
    keys = {"client_lr": 0.3, "server_lr": 0.9, "eps": 0.5, "v0": 0.2}
    ours = end(task, "adaalter", ROUNDS, **keys, local_steps=STEPS)
    p, B = weights / weights.sum(), np.full(D, 0.2)
    for _ in range(ROUNDS):
        ends, sums = [], []
        for i in range(M):
            y, total = x, B
            for k in range(1, STEPS[i] + 1):
                g = A[i] @ y - b[i]
                y = y - 0.3 * g / np.sqrt(B + k * 0.5**2)
                total = total + g**2
            ends.append(y)
            sums.append(total)
        x = x + 0.9 * (p @ np.array(ends) - x)
        B = p @ np.array(sums)
    assert np.abs(ours - x).max() < 1e-10
