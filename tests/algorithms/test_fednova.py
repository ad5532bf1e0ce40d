"""FedNova against a NumPy recomputation that follows every gradient's coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fedlib

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]
BACKENDS = ["vectorized", "reference"]


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    roots = draw.standard_normal((M, D, D))
    A = roots @ roots.transpose(0, 2, 1) / D + 0.1 * np.eye(D)
    return A, draw.standard_normal((M, D)), draw.uniform(0.5, 3, M), draw.standard_normal(D)


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
            lr /= [1, 10, 100][(t >= ROUNDS / 2) + (t >= 3 * ROUNDS / 4)]
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
    history = fedlib.run(
        fedlib.quadratic_task(A, b, weights, x0),
        "fednova",
        rounds=ROUNDS,
        eval_every=ROUNDS,
        dtype="float64",
        backend=backend,
        overrides={**settings, "local_steps": STEPS},
    )
    expected = numpy_fednova(2, **settings)
    assert np.abs(history.params["x"].numpy() - expected).max() < 1e-8


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
    common: dict[str, Any] = {"rounds": 9, "dtype": "float64", "backend": backend}
    common["overrides"] = {"client_lr": 0.05, "local_steps": 4}
    nova, average = (fedlib.run(task, name, **common) for name in ("fednova", "fedavg"))
    assert torch.allclose(nova.params["x"], average.params["x"], atol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_one_client_is_its_own_sgd(nesterov: bool) -> None:
    """With one client tau_eff / ||a||_1 = 1, so the model is the client's."""
    A, b, _, x0 = problem(4)
    task = fedlib.quadratic_task(A[:1], b[:1], x0=x0)
    common: dict[str, Any] = {"rounds": 5, "dtype": "float64", "overrides": {"local_steps": 6}}
    nova = fedlib.run(
        task, fedlib.FedNova(client_lr=0.05, momentum=0.9, nesterov=nesterov), **common
    )
    sgdm = fedlib.SGDM(lr=0.05, momentum=0.9, nesterov=nesterov)
    average = fedlib.run(task, fedlib.FedOpt(client=sgdm), **common)
    assert torch.allclose(nova.params["x"], average.params["x"], atol=1e-12)


def test_unequal_steps_do_not_move_the_optimum() -> None:
    """From the optimum FedAvg drifts to where clients count p_i tau_i; FedNova stays near it."""
    A, b, weights, _ = problem(5)
    p = weights / weights.sum()
    optimum = np.linalg.solve(np.tensordot(p, A, 1), p @ b)
    task = fedlib.quadratic_task(A, b, weights, optimum)
    common: dict[str, Any] = {"rounds": 60, "dtype": "float64", "eval_every": 60}
    common["overrides"] = {"client_lr": 0.01, "local_steps": [1, 2, 3, 5, 1, 7]}
    average, nova = (
        np.linalg.norm(fedlib.run(task, name, **common).params["x"].numpy() - optimum)
        for name in ("fedavg", "fednova")
    )
    assert average > 0.1 and nova < 0.2 * average


def test_it_has_no_other_client_optimizer() -> None:
    with pytest.raises(fedlib.Error, match="fednova defines the clients' steps itself"):
        fedlib.run(fedlib.load_task("quadratic"), "fednova", overrides={"client_optimizer": "adam"})
