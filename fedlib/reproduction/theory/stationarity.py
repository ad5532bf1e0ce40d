"""Delta-SGD's Theorem 1: how fast the squared gradient norm falls, and for which step sizes.

The problem fulfils the theorem's Assumption 1 and is not convex. Client i has f_i(x) = a_i sum_j
x_j^2 / (1 + x_j^2), whose gradients are bounded; stochastic gradients add noise of bounded
variance; and as clients differ by the factors a_i alone, of mean 1, ||grad f_i - grad f||^2 is at
most max_i (a_i - 1)^2 ||grad f||^2, the strong growth of dissimilarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedlib.figures import style
from fedlib.figures.curves import Drawing
from fedlib.optimizers.client import DeltaSGD
from fedlib.randomness import key

CLIENTS, SIZE, REPETITIONS = 8, 16, 8
ROUNDS, STEPS = (16, 64, 256, 1024), (1, 5)
# gamma of K local steps and T rounds is this over K sqrt(T), eta_0 half of it.
CONSTANT = 4.0
FACTORS = 1 + 0.5 * torch.linspace(-1, 1, CLIENTS, dtype=torch.float64).unsqueeze(1)


def theorem_rule(steps: int, rounds: int) -> DeltaSGD:
    """Delta-SGD as the theorem has it: gamma of the order 1 / (K sqrt(T)), eta_0 of gamma's."""
    gamma = CONSTANT / (steps * sqrt(rounds))
    return DeltaSGD(gamma=gamma, eta0=gamma / 2, first_step="eta0")


def slope(x: Tensor) -> Tensor:
    """The gradient of f."""
    return 2 * x / (1 + x.square()).square()


def squared_gradients(rule: DeltaSGD, steps: int, rounds: int, seed: int = 0) -> np.ndarray:
    """||grad f(x_t)||^2 of the server's x_0 to x_{T-1}, ``[T, repetitions]``.

    All clients take part in every round, with ``steps`` local steps and new noise in each, the
    same for both gradients of the step.
    """
    draw = torch.Generator().manual_seed(key(seed, "noise"))
    x = torch.ones(REPETITIONS, SIZE, dtype=torch.float64)
    norms = []
    for _ in range(rounds):
        norms.append(slope(x).square().sum(-1))
        y = x.unsqueeze(1).expand(-1, CLIENTS, -1)
        state = rule.init(y)
        for _ in range(steps):
            noise = torch.randn(y.shape, generator=draw, dtype=y.dtype)
            g, before = (FACTORS * slope(at) + noise for at in (y, state["previous"]))
            y, state = rule.advance(y, g, before, state)
        x = y.mean(1)
    return torch.stack(norms).numpy()


def stationarity(seed: int = 0, rounds: Sequence[int] = ROUNDS) -> pd.DataFrame:
    """Theorem 1's left side for several numbers of rounds and of local steps.

    Returns:
        columns rule (``"Theorem 1"`` or ``"default"``), local_steps, rounds, mean: of the squared
        gradient norm over the rounds and the repetitions.
    """
    rows = []
    for steps in STEPS:
        default = squared_gradients(DeltaSGD(), steps, max(rounds), seed)
        for count in rounds:
            chosen = squared_gradients(theorem_rule(steps, count), steps, count, seed)
            rows.append(("Theorem 1", steps, count, chosen.mean()))
            rows.append(("default", steps, count, default[:count].mean()))
    frame = pd.DataFrame(rows, columns=["rule", "local_steps", "rounds", "mean"])
    return frame.sort_values(["rule", "local_steps", "rounds"], ignore_index=True)


def delta_sgd_rate(seed: int = 0) -> Drawing:
    """The mean squared gradient norm over the rounds, beside a line of slope -1/2."""
    data = stationarity(seed)
    with style.panels(1, 1, (5.5, 3.0)) as (figure, (ax,)):
        for number, ((rule, steps), part) in enumerate(data.groupby(["rule", "local_steps"])):
            gamma = "γ = 4 / (K √T)" if rule == "Theorem 1" else "γ = 2, default"
            line = "o-" if rule == "Theorem 1" else "s:"
            color, label = f"C{number % len(STEPS)}", f"{gamma}, K = {steps}"
            ax.loglog(part["rounds"], part["mean"], line, color=color, label=label)
        ends = np.array([min(ROUNDS), max(ROUNDS)])
        ax.loglog(ends, 8 / np.sqrt(ends), "--", color="0.5", label="slope -1/2")
        ax.set(xlabel="rounds T", ylabel="mean squared gradient norm")
        ax.legend(fontsize=7)
    return figure, data
