"""Mime, MimeLite and Loc-Mime against a NumPy recomputation, and what they must come to."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib.algorithms import build
from fedlib.randomness import numpy_generator
from tests.algorithms.quadratics import NumpyBase, cohort, difference, end, problem

M, D, ROUNDS, SIZE = 6, 4, 30, 3
STEPS = [1, 2, 3, 3, 0, 2]
BASES = ["sgd", "momentum", "adam", "adagrad", "yogi"]


def cohorts(seed: int, round: int, split: bool) -> tuple[list[int], list[int]]:
    """Who sends gradients and who trains."""
    sampled = cohort(seed, round, SIZE)
    if not split:
        return sampled, sampled
    mixed = numpy_generator(seed, "halves", round).permutation(sampled)
    return mixed[: SIZE // 2].tolist(), mixed[SIZE // 2 :].tolist()


def numpy_mime(
    name: str, seed: int, base: str, client_lr: float, server_lr: float, **h: Any
) -> np.ndarray:
    """Algorithm 1 of Mime with weighted means, exact gradients and partial cohorts."""
    A, b, weights, x = problem(seed)
    split = h.pop("split", False) and not (name == "mimelite" and base == "sgd")
    s = NumpyBase(base, D, **h)
    for t in range(ROUNDS):
        measuring, training = cohorts(seed, t, split)
        p = weights[measuring] / weights[measuring].sum()
        c = sum(q * (A[i] @ x - b[i]) for q, i in zip(p, measuring, strict=True))
        s.begin(c)
        moved = np.zeros(D)
        for i in training:
            y, own = x, copy.copy(s)
            for _ in range(STEPS[i]):
                g = A[i] @ y - b[i]
                if name != "mimelite":
                    g = g - (A[i] @ x - b[i]) + c
                y = y - client_lr * own.U(g)
                if name == "loc_mime":
                    own.V(g)
            moved += weights[i] / weights[training].sum() * (y - x)
        s.V(c)
        x = x + server_lr * moved
    return x


CASES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"split": True}),
    ("momentum", {"server_lr": 0.7}),
    ("momentum", {"momentum": 0.5, "split": True}),
    ("adam", {}),
    ("adam", {"beta1": 0.5, "beta2": 0.8, "eps": 0.1, "split": True}),
    ("adam", {"v0": 0.2, "server_lr": 0.5}),
    ("adam", {"bias_correction": True}),
    ("adagrad", {}),
    ("adagrad", {"v0": 1.0, "split": True, "lean": True}),
    ("yogi", {"beta2": 0.9}),
]


@pytest.mark.parametrize(("base", "settings"), CASES)
@pytest.mark.parametrize("name", ["mime", "mimelite", "loc_mime"])
def test_equals_numpy(name: str, base: str, settings: dict[str, Any]) -> None:
    A, b, weights, x0 = problem(3)
    rate = 0.02 if base in ("adam", "adagrad", "yogi") else 0.05
    settings = {"client_lr": rate, "server_lr": 1.0, **settings}
    task, how = fedlib.quadratic_task(A, b, weights, x0), {"seed": 3, "size": SIZE}
    keys = {**settings, "base": base, "local_steps": STEPS}
    x = end(task, name, ROUNDS, **how, **keys)
    numbers = {key: value for key, value in settings.items() if key != "lean"}
    assert np.abs(x - numpy_mime(name, 3, base, **numbers)).max() < 1e-9


FULL: dict[str, Any] = {"batch_size": None, "local_steps": 1}
ONE_STEP = [
    *({"base": base} for base in BASES),
    {"base": "adam", "bias_correction": True, "beta1": 0.5},
    {"base": "adagrad", "v0": 0.1},
    {"base": "yogi", "v0": 0.3, "eps": 1e-2},
]


@pytest.mark.parametrize("settings", ONE_STEP)
def test_one_full_batch_step_is_the_centralised_base_optimizer(settings: dict[str, Any]) -> None:
    A, b, weights, x0 = problem(1)
    quadratic = fedlib.quadratic_task(A, b, weights, x0)
    synthetic = fedlib.load_task("synthetic", clients=5)
    for task, tolerance in ((quadratic, 1e-12), (synthetic, 1e-11)):
        common: dict[str, Any] = {"rounds": 6, "dtype": "float64", "eval_every": 6}
        common["overrides"] = {**settings, **FULL, "client_lr": 0.02}
        alone = fedlib.run(task, "centralized", **common)
        for name in ("mime", "loc_mime"):
            assert difference(alone, fedlib.run(task, name, **common)) < tolerance


@pytest.mark.parametrize("split", [False, True])
def test_mimelite_with_sgd_is_fedavg(split: bool) -> None:
    task = fedlib.load_task("synthetic", clients=6)
    common: dict[str, Any] = {"rounds": 3, "clients_per_round": 4}
    settings = {"client_lr": 0.03, "server_lr": 0.9, "client_schedule": "step_decay"}
    a = fedlib.run(task, "fedavg", overrides=settings, **common)
    b = fedlib.run(task, "mimelite", overrides={**settings, "split": split}, **common)
    # SGD's step rounds once, x - lr U of the base optimizers twice.
    assert difference(a, b) < 1e-6
    assert np.allclose(a.frame["value"], b.frame["value"], rtol=1e-5)


class Dropping(nn.Module):
    """Half of the inputs are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(60, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(x))


@pytest.mark.parametrize("name", ["mime", "loc_mime", "mime_mvr"])
def test_both_gradients_see_the_same_batch_and_dropout_masks(name: str) -> None:
    """At y = x they cancel, so one step on any batch is a step along c, which has no dropout."""
    task = dataclasses.replace(fedlib.load_task("synthetic", clients=5), model=Dropping)
    common: dict[str, Any] = {"rounds": 1, "dtype": "float64"}
    overrides = {"local_steps": 1, "batch_size": 3, "client_lr": 0.1}
    a = fedlib.run(task, name, overrides=overrides, **common)
    b = fedlib.run(task, name, overrides={**overrides, "batch_size": None}, **common)
    assert difference(a, b) < 1e-12
    c = fedlib.run(task, "fedavg", overrides=overrides, **common)
    assert difference(a, c) > 1e-3


# |s|, [c]: model sizes received are 1 + |s| + [c].
COUNTS = {
    ("mimelite", "momentum"): (1, 0),
    ("mimelite", "adam"): (2, 0),
    ("mimelite", "adagrad"): (1, 0),
    ("mime", "sgd"): (0, 1),
    ("mime", "momentum"): (1, 1),
    ("mime", "adam"): (2, 1),
    ("mime", "adagrad"): (1, 1),
    ("loc_mime", "adam"): (2, 1),
}


@pytest.mark.parametrize(("name", "base"), list(COUNTS))
def test_what_is_sent(name: str, base: str) -> None:
    s, c = COUNTS[name, base]
    assert build(name, base=base).communication(10) == (10 * (1 + s + c), 20)
    split = build(name, base=base, split=True)
    assert split.communication(10) == (10 * (1 + s + c), 10)
    assert split.measure_communication(10) == (10 * (1 + s + c), 10)
    lean = build(name, base=base, split=True, lean=True)
    assert lean.communication(10) == (10 * (1 + s + c), 10)
    assert lean.measure_communication(10) == (10, 10)


def test_clients_without_examples_exchange_nothing_and_those_with_one_do() -> None:
    sizes = np.array([1, 0, 2, 1, 0, 5])
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 3)))
    parts = np.split(np.arange(9), np.cumsum(sizes)[:-1])
    data = fedlib.ClientData(x, torch.arange(9) % 2, parts)
    task = fedlib.Task("t", lambda: torch.nn.Linear(3, 2), data, data, clients_per_round=6)
    settings = {"base": "adam", "split": True, "lean": True}
    history = fedlib.run(task, "mime", rounds=1, overrides=settings)
    mixed = numpy_generator(0, "halves", 0).permutation(6)
    measuring, training = (int((sizes[half] > 0).sum()) for half in (mixed[:3], mixed[3:]))
    assert measuring + training == 4 and measuring != 0 != training
    sent = {
        way: history.series(f"floats_{way}", "communication").tolist() for way in ("down", "up")
    }
    assert sent == {"down": [8.0 * (measuring + 4 * training)], "up": [8.0 * 4]}


LEAN = [("mimelite", "momentum", 16), ("mimelite", "adam", 13), ("mime", "adam", 11)]


def test_clients_that_a_budget_pays_for() -> None:
    budget = fedlib.clients_for_budget
    assert (budget(fedlib.FedOpt(), 40), budget(fedlib.FedOpt(), 100)) == (20, 50)
    for (name, base), (s, c) in COUNTS.items():  # everybody receives everything
        method = build(name, base=base, split=True)
        assert (budget(method, 40), budget(method, 100)) == (40 // (2 + s + c), 100 // (2 + s + c))
    for name, base, small in LEAN:
        assert budget(build(name, base=base, split=True, lean=True), 40) == small
    mime = build("mime", base="adam", split=True)
    assert (budget(mime, 10), budget(mime, 14.9), budget(mime, 15)) == (2, 2, 3)
    assert (budget(fedlib.FedOpt(), 2), budget(fedlib.FedOpt(), 3.9)) == (1, 1)
