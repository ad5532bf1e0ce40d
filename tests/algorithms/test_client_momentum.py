"""Clients that keep their momentum between rounds, against one torch.optim.SGD for each client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine.config import configure
from fedlib.engine.run import execute
from tests.algorithms.quadratics import BACKENDS, cohort, difference, end, positive_problem
from tests.engine.test_checkpoint import interrupted, same

ROUNDS, LR, RHO, SEED = 12, 0.05, 0.9, 3
STEPS = [1, 2, 3, 5, 0, 4]
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"server_lr": 0.8},
    "fedprox": {"mu": 0.7},
    "fedadam": {"server_lr": 0.02, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
    "fednova": {},
    "qfedavg": {"q": 1.5, "L": 4.0},
    "adafedadam": {"server_lr": 0.02, "beta1": 0.9, "beta2": 0.99, "alpha": 2.0},
}


def overrides(name: str, nesterov: bool, state: str = "client") -> dict[str, Any]:
    shared = {"momentum": RHO, "nesterov": nesterov, "momentum_state": state}
    if name != "fednova":
        shared["client_optimizer"] = "sgdm"
    return {"client_lr": LR, **shared, **METHODS[name]}


class Literal:
    """The methods written down with loops, a torch optimizer per client that is never reset."""

    def __init__(self, name: str, nesterov: bool, keep: bool = True) -> None:
        self.name, self.nesterov, self.keep = name, nesterov, keep
        given = positive_problem(5)
        self.A, self.b, self.weights, x0, self.offset = (
            given[key] for key in ("A", "b", "weights", "x0", "offset")
        )
        self.x, self.x0 = x0.copy(), x0.copy()
        self.models = [torch.zeros(4, dtype=torch.float64) for _ in STEPS]
        self.optimizers = [self.fresh(i) for i in range(len(STEPS))]
        self.m, self.v, self.c_m, self.c_v = np.zeros(4), np.zeros(4), 1.0, 1.0

    def fresh(self, i: int) -> torch.optim.SGD:
        return torch.optim.SGD([self.models[i]], lr=LR, momentum=RHO, nesterov=self.nesterov)

    def loss(self, i: int, x: np.ndarray) -> float:
        return float(0.5 * x @ self.A[i] @ x - self.b[i] @ x + self.offset[i])

    def trained(self, i: int) -> np.ndarray:
        """Client i's model after its steps from the server's."""
        if not self.keep:
            self.optimizers[i] = self.fresh(i)
        model = self.models[i]
        model.copy_(torch.from_numpy(self.x))
        mu = METHODS["fedprox"]["mu"] if self.name == "fedprox" else 0.0
        for _ in range(STEPS[i]):
            y = model.numpy()
            model.grad = torch.from_numpy(self.A[i] @ y - self.b[i] + mu * (y - self.x))
            self.optimizers[i].step()
        return model.numpy().copy()

    def adam(self, g: np.ndarray, C: float, eps: float) -> None:
        b1, b2 = 0.9**C, 0.99**C
        self.c_m, self.c_v = self.c_m * b1, self.c_v * b2
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        if self.name == "fedadam":  # whose tau the bias correction does not rescale
            eps = eps / np.sqrt(1 - self.c_v)
        step = (self.m / (1 - self.c_m)) / (np.sqrt(self.v / (1 - self.c_v)) + eps)
        self.x = self.x - 0.02 * C * step

    def round(self, members: list[int]) -> None:
        ends = {i: self.trained(i) for i in members}
        p = {i: self.weights[i] / sum(self.weights[j] for j in members) for i in members}
        mean = sum(p[i] * (self.x - ends[i]) for i in members)
        if self.name == "fedadam":
            self.adam(mean, 1.0, 1e-3)
        elif self.name == "fednova":
            a = {i: sum(self.counted(STEPS[i])) for i in members}
            direction = sum(p[i] * (self.x - ends[i]) / a[i] for i in members if a[i])
            self.x = self.x - sum(p[i] * a[i] for i in members) * direction
        elif self.name == "qfedavg":
            q, L = METHODS["qfedavg"]["q"], METHODS["qfedavg"]["L"]
            F = {i: self.loss(i, self.x) + 1e-10 for i in members}
            G = {i: L * (self.x - ends[i]) for i in members}
            h = sum(q * F[i] ** (q - 1) * G[i] @ G[i] + L * F[i] ** q for i in members)
            self.x = self.x - sum(F[i] ** q * G[i] for i in members) / h
        elif self.name == "adafedadam":
            moved = [i for i in members if STEPS[i]]
            w = {i: p[i] * (self.loss(i, self.x) / self.loss(i, self.x0)) ** 2 for i in moved}
            e = {
                i: np.linalg.norm(ends[i] - self.x) / np.linalg.norm(self.A[i] @ self.x - self.b[i])
                for i in moved
            }
            total = sum(w.values())
            g = sum(w[i] * (self.x - ends[i]) / e[i] for i in moved) / total
            self.adam(g, sum(w[i] * (np.log(e[i] / LR) + 1) for i in moved) / total, 1e-8)
        else:
            self.x = self.x - METHODS[self.name].get("server_lr", 1.0) * mean

    def counted(self, steps: int) -> list[float]:
        """What each step of a round adds to FedNova's ||a||_1, counted from nothing."""
        n, each = 0.0, []
        for _ in range(steps):
            n = RHO * n + 1
            each.append(1 + RHO * n if self.nesterov else n)
        return each

    def run(self, size: int) -> np.ndarray:
        for t in range(ROUNDS):
            self.round(cohort(SEED, t, size))
        return self.x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("name", list(METHODS))
def test_a_client_takes_its_momentum_up_again(name: str, nesterov: bool, backend: str) -> None:
    """Four of six clients a round, so that they come back after rounds without them."""
    task = fedlib.quadratic_task(**positive_problem(5))
    settings = {"seed": SEED, "backend": backend, "size": 4, "local_steps": STEPS}
    kept = end(task, name, ROUNDS, **settings, **overrides(name, nesterov))
    literal = Literal(name, nesterov).run(4)
    assert np.abs(kept - literal).max() < 1e-10
    forgotten = end(task, name, ROUNDS, **settings, **overrides(name, nesterov, "round"))
    assert np.abs(forgotten - Literal(name, nesterov, keep=False).run(4)).max() < 1e-10
    assert np.abs(kept - forgotten).max() > 1e-3


@pytest.mark.parametrize("name", ["fedavg", "fednova", "adafedadam"])
def test_an_interrupted_run_continues_with_the_kept_momentum(name: str, tmp_path: Path) -> None:
    task = fedlib.quadratic_task(**positive_problem(5))
    given = {**overrides(name, False), "local_steps": STEPS}
    configured = [configure(task, name, rounds=8, clients_per_round=3, overrides=given)]
    (whole,) = execute(configured)
    (again,) = interrupted(task, configured, tmp_path, (3, 2))
    assert same(whole, again)


def test_moon_keeps_its_model_beside_the_momentum() -> None:
    """Both memories at once, and equal on both backends."""
    task = fedlib.load_task("synthetic", clients=6)
    task.model = lambda: fedlib.models.MLP(60, (5,), 10)
    given = {"client_optimizer": "sgdm", "client_lr": 0.01, "momentum_state": "client"}
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 4}
    a, b = (
        fedlib.run(task, "moon", overrides=given, backend=backend, **common) for backend in BACKENDS
    )
    assert difference(a, b) < 1e-10
    given["momentum_state"] = "round"
    assert difference(a, fedlib.run(task, "moon", overrides=given, **common)) > 1e-6


@pytest.mark.parametrize("name", ["fedavg", "fednova"])
def test_momentum_that_starts_afresh_is_described_as_before(name: str) -> None:
    """Stored runs from before the option stay what they say they are."""
    task = fedlib.load_task("quadratic")
    configs = [
        configure(task, name, overrides=overrides(name, False, state)).config
        for state in ("round", "client")
    ]
    described = [c.method if name == "fednova" else c.method["client"] for c in configs]
    assert "momentum_state" not in described[0]
    assert described[1]["momentum_state"] == "client"
    assert configs[0].digest != configs[1].digest


def test_what_cannot_keep_momentum_says_so() -> None:
    with pytest.raises(fedlib.Error, match="'round' or 'client'"):
        fedlib.SGDM(momentum_state="forever")
    with pytest.raises(fedlib.Error, match="Lookahead sends"):
        fedlib.algorithms.build("lookahead", client_optimizer="sgdm", momentum_state="client")
