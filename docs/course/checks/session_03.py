"""Session 3: the servers of FedAdagrad, FedAdam and FedYogi, against fedlib's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedlib import server

from .compare import results, same

SERVERS: dict[str, type[server.Adaptive]] = {
    "fedadagrad": server.Adagrad,
    "fedadam": server.Adam,
    "fedyogi": server.Yogi,
}


def server_step(
    function: Callable[..., Any],
    name: str,
    seed: int = 0,
    *,
    rounds: int = 3,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 0.01,
) -> None:
    """``function(x, delta, m, v, lr, tau, beta1, beta2)`` against fedlib's server of that name.

    The differences are sometimes zero in a coordinate, and of different sizes.
    """
    draw = np.random.default_rng(seed)
    right = SERVERS[name](lr=0.1, tau=tau, beta1=beta1, v0=tau**2, bias_correction=False)
    if name != "fedadagrad":
        right = replace(right, beta2=beta2)
    x, m, v = draw.standard_normal(6), np.zeros(6), np.full(6, tau**2)
    wanted, state = torch.tensor(x), right.init(torch.tensor(x))
    for t in range(1, rounds + 1):
        delta = draw.standard_normal(6) * draw.choice([0.0, 0.03, 1.0], 6)
        given = function(x.copy(), delta.copy(), m.copy(), v.copy(), 0.1, tau, beta1, beta2)
        x, m, v = results(name, given, "x, m, v")
        wanted, state = right.step(wanted, -torch.tensor(delta), state)
        same(f"{name}: v after round {t}", v, state["v"], "v remembers delta squared")
        same(f"{name}: m after round {t}", m, -state["m"], "m is a moving average of delta")
        hint = "x moves along m, by lr / (sqrt(v) + tau), with the new m and v"
        same(f"{name}: x after round {t}", x, wanted, hint)
