"""q-FedAvg against a NumPy recomputation written from its pseudo-code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import BACKENDS, cohort, end, positive_problem

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]


def numpy_qfedavg(given: dict[str, np.ndarray], size: int, seed: int, **h: Any) -> np.ndarray:
    A, b, offset, x = given["A"], given["b"], given["offset"], given["x0"]
    q, lr = h.get("q", 1.0), h["client_lr"]
    L = h.get("L") or 1 / lr
    for t in range(ROUNDS):
        deltas, hs = np.zeros(D), 0.0
        for k in cohort(seed, t, size):
            F = 0.5 * x @ A[k] @ x - b[k] @ x + offset[k] + 1e-10
            y, u = x.copy(), np.zeros(D)
            for _ in range(STEPS[k]):
                u = h.get("momentum", 0.0) * u + A[k] @ y - b[k]
                y = y - lr * u
            nabla = L * (x - y)
            deltas += F**q * nabla
            hs += q * F ** (q - 1) * nabla @ nabla + L * F**q
        x = x - deltas / hs
    return x


CASES: list[dict[str, Any]] = [
    {},
    {"q": 0},
    {"q": 2, "L": 1.0},
    {"q": 0.5, "L": 7.0},
    {"q": 1.0, "L": 1.0, "client_optimizer": "sgdm", "momentum": 0.8},
]


@pytest.mark.parametrize(
    ("settings", "size", "backend"),
    [(case, size, "vectorized") for case in CASES for size in (M, 3)]
    + [(case, 3, "reference") for case in CASES[::2]],
)
def test_equals_numpy(settings: dict[str, Any], size: int, backend: str) -> None:
    given = positive_problem(size)
    settings = {"client_lr": 0.05, **settings}
    task, how = fedlib.quadratic_task(**given), {"seed": 3, "backend": backend, "size": size}
    x = end(task, "qfedavg", ROUNDS, **how, **settings, local_steps=STEPS)
    expected = numpy_qfedavg(given, size, 3, **settings)
    assert np.abs(x - expected).max() < 1e-8
    assert np.abs(expected - given["x0"]).max() > 0.01


@pytest.mark.parametrize("L", [None, 1.0])
def test_without_fairness_it_is_fedavg_with_equal_weights(L: float | None) -> None:
    given = positive_problem(1)
    steps = {"client_lr": 0.1, "local_steps": [1, 2, 3, 4, 5, 6]}
    fair = end(fedlib.quadratic_task(**given), "qfedavg", 7, **steps, q=0, L=L)
    equal = fedlib.quadratic_task(**{**given, "weights": None})
    assert np.abs(fair - end(equal, "fedavg", 7, **steps)).max() < 1e-12


def test_the_loss_is_that_of_all_local_data() -> None:
    """Two clients with several batches each, one batch size apart."""
    draw = np.random.default_rng(0)
    x, y = torch.from_numpy(draw.normal(size=(40, 3))), torch.from_numpy(draw.integers(4, size=40))
    data = fedlib.ClientData(x, y, [np.arange(25), np.arange(25, 40)])
    task = fedlib.Task("t", lambda: torch.nn.Linear(3, 4), data, data)
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": None}
    runs = [
        fedlib.run(task, "qfedavg", overrides={"batch_size": 7, "q": 2}, backend=backend, **common)
        for backend in BACKENDS
    ]
    assert torch.allclose(runs[0].params["weight"], runs[1].params["weight"], atol=1e-12)
    # One round by hand, with full batches, where the order of examples does not count.
    common = {**common, "rounds": 1, "overrides": {"batch_size": None, "q": 2, "client_lr": 0.1}}
    after = fedlib.run(task, "qfedavg", **common).params
    before = fedlib.run(task, "qfedavg", **{**common, "rounds": 0}).params
    top = [torch.zeros_like(before["weight"]), torch.zeros_like(before["bias"])]
    bottom = torch.zeros(())
    for part in (slice(0, 25), slice(25, 40)):
        own = [before[name].clone().requires_grad_() for name in ("weight", "bias")]
        F = torch.nn.functional.cross_entropy(x[part] @ own[0].T + own[1], y[part])
        grads = torch.autograd.grad(F, own)  # one step: L (x - x_k) is the gradient
        square = sum(g.square().sum() for g in grads)
        top = [t + F.detach() ** 2 * g for t, g in zip(top, grads, strict=True)]
        bottom = bottom + 2 * F.detach() * square + 10 * F.detach() ** 2
    assert torch.allclose(after["weight"], before["weight"] - top[0] / bottom, atol=1e-8)
    assert torch.allclose(after["bias"], before["bias"] - top[1] / bottom, atol=1e-8)


def test_L_is_needed_where_clients_have_no_learning_rate() -> None:
    with pytest.raises(fedlib.Error, match=r"L is None.*DeltaSGD has none"):
        fedlib.QFedAvg(client=fedlib.DeltaSGD())
    settings = {"client_optimizer": "delta_sgd", "L": 1.0, "local_steps": 3}
    task = fedlib.quadratic_task(**positive_problem(2))
    history = fedlib.run(task, "qfedavg", rounds=20, overrides=settings)
    assert history.series("loss").iloc[-1] < history.series("loss").iloc[0]
