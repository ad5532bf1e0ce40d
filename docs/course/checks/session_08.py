"""Session 8: FedNova's normalisation and its round, against fedlib's on quadratics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fedlib

from .compare import right, same


def accumulated(function: Callable[..., Any], momentum: float, most: int = 6) -> None:
    """``accumulated(steps, momentum)`` against what fedlib's clients accumulate.

    On a client whose gradient is 1 everywhere, SGD with momentum moves by the client rate times
    that number.
    """
    slope = fedlib.quadratic_task(np.zeros((1, 1, 1)), [[-1.0]])
    method = fedlib.FedOpt(client=fedlib.client.SGDM(lr=1.0, momentum=momentum))
    for steps in range(1, most + 1):
        wanted = -right(slope, method, local_steps=steps).item()
        hint = "momentum sums n <- momentum n + 1 over the steps" if momentum else "plain steps"
        same(f"accumulated({steps}, {momentum:g})", function(steps, momentum), wanted, hint)
    same(f"accumulated(0, {momentum:g})", function(0, momentum), 0.0, "no step, nothing")


def fednova_round(
    function: Callable[..., Any],
    seed: int = 0,
    *,
    steps: Sequence[int] = (1, 2, 5),
    momentum: float = 0.0,
) -> None:
    """``fednova_round(x, ends, a, p)`` over three rounds; ``a`` and the ends are made here."""
    draw, clients = np.random.default_rng(seed), len(steps)
    curvature, centres = draw.uniform(0.5, 2, clients), draw.standard_normal((clients, 2))
    p, x = draw.random(clients) + 0.2, draw.standard_normal(2)
    A, b = curvature[:, None, None] * np.eye(2), curvature[:, None] * centres
    task = fedlib.quadratic_task(A, b, p, x)
    p = p / p.sum()
    values = {"client_lr": 0.1, "momentum": momentum, "local_steps": list(steps)}
    for t in range(1, 4):
        ends, a = _local(x, curvature, centres, steps, momentum)
        x = np.asarray(function(x.copy(), ends, a, p.copy()))
        wanted = right(task, "fednova", t, **values)
        hint = "x moves by sum(p a) times the weighted mean of the normalised updates"
        same(f"x after round {t}", x, wanted, hint)


def idle_client(function: Callable[..., Any]) -> None:
    """A client that took no step has a = 0 and an update of zero."""
    ends, p = np.array([[1.0], [0.0]]), np.array([0.5, 0.5])
    given = function(np.array([0.0]), ends, np.array([2.0, 0.0]), p)
    same("x, with a client that took no step,", given, [0.25], "its normalised update is 0")


def _local(
    x: np.ndarray, curvature: np.ndarray, centres: np.ndarray, steps: Sequence[int], momentum: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where the clients end, and what they accumulate of gradients."""
    ends, a = np.empty_like(centres), np.zeros(len(steps))
    for i, count in enumerate(steps):
        y, u, n = x, np.zeros(2), 0.0
        for _ in range(count):
            u = momentum * u + curvature[i] * (y - centres[i])
            n = momentum * n + 1
            y, a[i] = y - 0.1 * u, a[i] + n
        ends[i] = y
    return ends, a
