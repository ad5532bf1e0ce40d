"""The base optimizers on all data: against NumPy on the mean quadratic, and on real batches."""

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import NumpyBase, descend, end, problem, step_decay

D, STEPS = 4, 36


def numpy_steps(seed, base, lr, rounds, schedule, **h):
    """36 steps, U before V; where v starts at 0, V of the first gradient comes first of all."""
    A, b, weights, x = problem(seed)
    p = weights / weights.sum()
    H, h_mean = np.einsum("i,ijk->jk", p, A), p @ b
    s = NumpyBase(base, D, **h)
    for step in range(STEPS):
        g = H @ x - h_mean
        s.begin(g)
        rate = lr * step_decay(step * rounds // STEPS, rounds) if schedule else lr
        x = x - rate * s.U(g)
        s.V(g)
    return x


@pytest.mark.parametrize(("rounds", "schedule"), [(3, None), (36, None), (12, "step_decay")])
@pytest.mark.parametrize("base", ["sgd", "momentum", "adam", "adagrad", "yogi"])
def test_equals_numpy_however_the_steps_are_cut_into_rounds(base, rounds, schedule):
    """The optimizer's state lives on from step to step and from round to round."""
    numbers = {"eps": 0.01, "beta1": 0.8, "beta2": 0.95, "momentum": 0.8}
    keys = {"client_lr": 0.05, "base": base, **numbers, "local_steps": STEPS // rounds}
    keys["client_schedule"] = schedule or "constant"
    method = "centralized"
    if base == "adagrad":  # Mime's, where the name stands for a library's
        method, keys = fedlib.Centralized(base=fedlib.base.Adagrad(eps=0.01)), dict(keys)
        for name in ("base", *numbers):
            del keys[name]
    x = end(fedlib.quadratic_task(*problem(2)), method, rounds, **keys)
    assert np.abs(x - numpy_steps(2, base, 0.05, rounds, schedule, **numbers)).max() < 1e-10


@pytest.mark.parametrize("given", [{}, {"v0": 0.0, "eps": 0.01}])
def test_adagrad_by_name_is_torchs(given):
    """With a start of 0.1, as FedOpt's library had it, for all steps of all rounds."""
    A, b, weights, x = problem(2)
    p = weights / weights.sum()
    H, h_mean = torch.tensor(np.einsum("i,ijk->jk", p, A)), torch.tensor(p @ b)
    x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    start, eps = given.get("v0", 0.1), given.get("eps", 1e-10)
    torchs = torch.optim.Adagrad([x], lr=0.3, initial_accumulator_value=start, eps=eps)
    for _ in range(STEPS):
        torchs.zero_grad()
        (0.5 * x @ H @ x - h_mean @ x).backward()
        torchs.step()
    keys = {"client_lr": 0.3, "base": "adagrad", "local_steps": 4, **given}
    ours = end(fedlib.quadratic_task(*problem(2)), "centralized", STEPS // 4, **keys)
    assert np.abs(ours - x.detach().numpy()).max() < 1e-12


def test_sgd_on_batches_is_fedavg_with_one_client_that_holds_everything(synthetic):
    settings = {"rounds": 2, "dtype": "float64"}
    a = fedlib.run(synthetic, "centralized", overrides={"client_lr": 0.05}, **settings)
    b = fedlib.run(synthetic.centralized(), "fedavg", overrides={"client_lr": 0.05}, **settings)
    assert all(torch.allclose(a.params[n], b.params[n], atol=1e-12) for n in a.params)
    assert a.meta["configurations"] == 1 and len(a.clients) == len(b.clients)
    assert a.series("floats_down", "communication").tolist() == [0.0, 0.0]


OTHER = {"beta1": 0.5, "beta2": 0.9, "eps": 0.1, "client_lr": 0.2}


@pytest.mark.parametrize("settings", [{}, OTHER])
def test_n_accadam_equals_numpy(settings):
    A, b, weights, x = problem(6)
    task = fedlib.quadratic_task(A, b, weights, x)
    keys = {"client_lr": 0.05, "server_lr": 0.05, "local_steps": 4, **settings}
    ours = end(task, "n_accadam", 30, **keys)
    p = weights / weights.sum()
    A, b = np.tensordot(p, A, 1), p @ b
    h = {"client_lr": 0.05, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, **settings}
    m = v = np.zeros(D)
    for t in range(1, 31):
        delta = (x - descend(A, b, x, 4, h["client_lr"])) / h["client_lr"]
        m = (1 - h["beta1"]) * delta + h["beta1"] * m
        v = (1 - h["beta2"]) * delta**2 + h["beta2"] * v
        m_hat, v_hat = m / (1 - h["beta1"] ** t), v / (1 - h["beta2"] ** t)
        x = x - 0.05 * m_hat / (np.sqrt(v_hat) + h["eps"])
    assert np.abs(ours - x).max() < 1e-9
