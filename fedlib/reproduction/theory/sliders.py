"""Pictures for the theory notebooks' sliders: one parameter, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.optimizers import server
from fedlib.task import Task

ROUNDS, SEEN = 100, 10  # the rare coordinate has a gradient in every tenth round


def rare_coordinate(tau: float = 1e-3, server_lr: float = 0.03) -> pd.DataFrame:
    """FedAdam on a common and a rare coordinate, both to be 1; draws and returns their paths.

    Args:
        tau: of FedAdam.
        server_lr: its rate.
    """
    optimizer = server.Adam(lr=server_lr, tau=tau)
    x = torch.zeros(2, dtype=torch.float64)
    state, path = optimizer.init(x), [x.numpy()]
    for number in range(ROUNDS):
        present = torch.tensor([1.0, float(number % SEEN == 0)], dtype=torch.float64)
        x, state = optimizer.step(x, present * (x - 1), state)
        path.append(x.numpy())
    frame = pd.DataFrame(path, columns=["common", "rare"]).rename_axis("round")
    _, ax = plt.subplots(figsize=(4.5, 2.8))
    frame.plot(ax=ax, title=rf"$\tau$ = {tau:g}, server rate {server_lr:g}")
    ax.axhline(1, color="0.6", linestyle=":")
    ax.set(ylabel="coordinate", ylim=(-0.1, 1.6))
    return frame


def fixed_point(alpha: float = 1.0, weight: float = 0.9) -> float:
    """AdaFedAdam's fixed point between two clients that want 0 and 1; draws it on their losses.

    With weights $p_i \\propto w_i I_i^{\\alpha}$ and the losses $x^2/2$ and $(1-x)^2/2$, which
    start at 1/2, the point satisfies $x / (1 - x) = ((1 - w) / w)^{1/(2 alpha + 1)}$.

    Args:
        alpha: of AdaFedAdam.
        weight: w, the first client's share of the examples.
    """
    ratio = ((1 - weight) / weight) ** (1 / (2 * alpha + 1))
    point = ratio / (1 + ratio)
    line = np.linspace(0, 1, 101)
    _, ax = plt.subplots(figsize=(4.5, 2.8))
    ax.plot(line, line**2 / 2, label=f"{weight:.0%} of the examples")
    ax.plot(line, (1 - line) ** 2 / 2, label=f"{1 - weight:.0%}")
    ax.plot(line, weight * line**2 / 2 + (1 - weight) * (1 - line) ** 2 / 2, "k--", label="mean")
    ax.axvline(point, color="0.4", linestyle=":")
    ax.set(xlabel="x", ylabel="loss", title=rf"$\alpha$ = {alpha:g}: fixed point {point:.2f}")
    ax.legend(loc="upper center")
    return float(point)


def losses_by_round(
    problem: Callable[[float], tuple[Task, float, float]],
    methods: Mapping[str, Mapping[str, Any]],
    rounds: int,
    scale: float,
) -> pd.DataFrame:
    """FedAvg's loss over rounds with several client optimizers; draws and returns it.

    Args:
        problem: scale of the losses -> a task, its least and its first mean loss.
        methods: label -> overrides.
        rounds: of each run; they are not stored.
        scale: of the losses.

    Returns:
        a column a method: the loss above the least one, as a share of the first.
    """
    task, least, first = problem(scale)
    shares = {}
    for label, overrides in methods.items():
        run = engine.run(task, "fedavg", rounds=rounds, dtype="float64", overrides=overrides)
        shares[label] = (run.series("loss") - least) / (first - least)
    frame = pd.DataFrame(shares)
    _, ax = plt.subplots(figsize=(4.5, 2.8))
    frame.clip(1e-12, 1e6).plot(ax=ax, logy=True, ylim=(1e-3, 10), title=f"losses times {scale:g}")
    ax.set(xlabel="round", ylabel="share of the first loss")
    return frame
