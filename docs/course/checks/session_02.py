"""Session 2: a round of FedAvg and one of SCAFFOLD, against fedlib's on random quadratics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fedlib

from .compare import results, right, same


def _quadratics(seed: int, clients: int, dimension: int) -> tuple[np.ndarray, ...]:
    """A, b, weights p, and a start."""
    draw = np.random.default_rng(seed)
    root = draw.standard_normal((clients, dimension, dimension))
    A = root @ root.swapaxes(1, 2) / dimension + 0.3 * np.eye(dimension)
    p = draw.random(clients) + 0.2
    b, start = draw.standard_normal((clients, dimension)), draw.standard_normal(dimension)
    return A, b, p / p.sum(), start


def _gradients(A: np.ndarray, b: np.ndarray) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The clients' gradients, functions of x."""

    def gradient(x: np.ndarray, matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return matrix @ x - vector

    return [partial(gradient, matrix=a, vector=each) for a, each in zip(A, b, strict=True)]


def _right(problem: tuple[np.ndarray, ...], name: str, rounds: int, **values: Any) -> np.ndarray:
    """fedlib's x after some rounds."""
    A, b, p, start = problem
    return right(fedlib.quadratic_task(A, b, p, start), name, rounds, **values)


def fedavg_round(function: Callable[..., Any], seed: int = 0, *, clients: int = 3) -> None:
    """``fedavg_round(x, gradients, p, lr, steps)`` over three rounds."""
    A, b, p, x = problem = _quadratics(seed, clients, 2)
    for t in range(1, 4):
        x = function(x.copy(), _gradients(A, b), p.copy(), 0.1, 4)
        wanted = _right(problem, "fedavg", t, client_lr=0.1, local_steps=4)
        hint = "each client steps from the server's x, and p weighs where they end"
        same(f"x after round {t}", x, wanted, hint)


def scaffold_round(function: Callable[..., Any], seed: int = 0, *, clients: int = 3) -> None:
    """``scaffold_round(x, c, controls, gradients, p, lr, steps)`` over four rounds, and a
    fifth one of a single step."""
    A, b, p, x = problem = _quadratics(seed, clients, 2)
    c, controls = np.zeros(2), np.zeros((clients, 2))
    for t in range(1, 5):
        given = function(x.copy(), c.copy(), controls.copy(), _gradients(A, b), p.copy(), 0.1, 4)
        x, c, controls = results("scaffold_round", given, "x, c, controls")
        wanted = _right(problem, "scaffold", t, client_lr=0.1, local_steps=4)
        hint = "the first round is FedAvg's" if t == 1 else "look at the controls, signs and scale"
        same(f"x after round {t}", x, wanted, hint)
        same(f"c after round {t}", c, p @ controls, "with all clients c is their controls' mean")
    given = function(x.copy(), c.copy(), controls.copy(), _gradients(A, b), p.copy(), 0.1, 1)
    hint = "after one local step a control is the client's gradient at x, whatever it was before"
    wanted = np.array([gradient(x) for gradient in _gradients(A, b)])
    same("the controls", results("scaffold_round", given, "x, c, controls")[2], wanted, hint)
