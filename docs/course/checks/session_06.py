"""Session 6: Mime's client step and server state with Adam as base, against fedlib's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fedlib import base

from .compare import expect, results, same


def client_step(
    function: Callable[..., Any], seed: int = 0, *, beta1: float = 0.9, eps: float = 0.01
) -> None:
    """``client_step(y, g_here, g_server, c, m, v, lr, beta1, eps)`` over three local steps."""
    draw = np.random.default_rng(seed)
    y, c, m = draw.standard_normal((3, 4))
    v = draw.random(4)
    state = {"m": torch.tensor(m), "v": torch.tensor(v)}
    for k in range(1, 4):
        g_here, g_server = draw.standard_normal((2, 4))
        kept = m.copy(), v.copy()
        given = function(y.copy(), g_here, g_server, c, kept[0], kept[1], 0.1, beta1, eps)
        frozen = np.array_equal(kept[0], m) and np.array_equal(kept[1], v)
        expect(frozen, "client_step changes the server's state; clients leave m and v as they are")
        step = base.Adam(beta1=beta1, eps=eps).step(torch.tensor(g_here - g_server + c), state)
        wanted = y - 0.1 * np.asarray(step)
        hint = "the gradient is g_here - g_server + c, the step ((1 - beta1) g + beta1 m) / (...)"
        same(f"y after step {k}", given, wanted, hint)
        y = wanted


def server_state(function: Callable[..., Any], seed: int = 0, *, beta2: float = 0.99) -> None:
    """``server_state(c, m, v, beta1, beta2)`` over three rounds."""
    draw = np.random.default_rng(seed)
    right, m, v = base.Adam(beta1=0.8, beta2=beta2), np.zeros(4), np.zeros(4)
    state = right.init(torch.zeros(4, dtype=torch.float64))
    for t in range(1, 4):
        c = draw.standard_normal(4)
        m, v = results("server_state", function(c, m.copy(), v.copy(), 0.8, beta2), "m, v")
        state = right.advance(torch.tensor(c), state)
        same(f"m after round {t}", m, state["m"], "beta1 m + (1 - beta1) c")
        same(f"v after round {t}", v, state["v"], "beta2 v + (1 - beta2) c^2")
