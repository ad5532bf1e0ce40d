"""Session 9: Delta-SGD's rule and a client's round with it, against fedlib's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fedlib

from .compare import results, right, same


def step_size(
    function: Callable[..., Any], seed: int = 0, *, gamma: float = 2.0, delta: float = 0.1
) -> None:
    """``step_size(x, x_before, g, g_before, eta, theta, gamma, delta)`` against
    :meth:`fedlib.DeltaSGD.advance`, where either condition binds and where nothing moved."""
    draw = np.random.default_rng(seed)
    rule = fedlib.DeltaSGD(gamma=gamma, delta=delta, eps=0.0)
    for case, scale in (("steep", 30.0), ("flat", 0.01), ("first step", 0.0), ("no turn", 1.0)):
        x, g = draw.standard_normal((2, 5))
        moved, turned = draw.standard_normal((2, 5))
        x_before = x if case == "first step" else x - moved
        g_before = g if case in ("first step", "no turn") else g - scale * turned
        eta, theta = draw.uniform(0.1, 0.3), draw.uniform(0.5, 1.5)
        numbers = {"previous": x_before, "eta": [eta], "theta": [theta]}
        state = {key: torch.tensor(np.asarray(value)) for key, value in numbers.items()}
        tensors = [torch.tensor(each) for each in (x, g, g_before)]
        _, after = rule.advance(tensors[0], tensors[1], tensors[2], state)
        given = function(x, x_before, g, g_before, eta, theta, gamma, delta)
        got = results("step_size", given, "eta, theta")
        hint = "the smaller of both conditions; the second where nothing moved or turned"
        same(f"eta ({case})", got[0], float(after["eta"]), hint)
        same(f"theta ({case})", got[1], float(after["theta"]), "the new step over the old one")


def local_round(function: Callable[..., Any], seed: int = 0, *, steps: int = 6) -> None:
    """``local_round(gradient, x, steps, eta0, gamma, delta)`` against a round of fedlib's."""
    draw = np.random.default_rng(seed)
    A, b = np.diag([0.05, 1.0, 8.0])[None], draw.standard_normal((1, 3))
    start = draw.standard_normal(3)
    method = fedlib.FedOpt(client=fedlib.DeltaSGD(eps=0.0, eta0=0.15))
    wanted = right(fedlib.quadratic_task(A, b, x0=start), method, local_steps=steps)
    given = function(lambda x: A[0] @ x - b[0], start.copy(), steps, 0.15, 2.0, 0.1)
    hint = "theta starts at 1, and the first step already grows"
    same("x after the round", given, wanted, hint)
