"""AdaFedAdam's Theorem 2 on a problem where its assumptions hold and its bound can be computed.

Four quadratic clients of curvature L = 1 take N steps of a small rate, without momentum and
fairness (beta1 = alpha = 0), as in the theorem's proof. Their updates, scaled to the length of
their gradients, are these gradients, so that g = grad F and R = 1, and all are equally certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedlib.figures import style
from fedlib.figures.curves import ABOVE

SHARES = np.array([0.4, 0.3, 0.2, 0.1])
CENTRES = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
START = np.array([2.0, -1.0])
CLIENT_LR, BETA2, EPS, ROUNDS = 1e-3, 0.999, 10.0, 400
STEPS = (1, 2, 3, 5, 8, 14, 25, 40)
DRAWN = (1, 3, 8, 40)
# How the server's rate is chosen: the largest that the theorem allows, and that divided by C.
RATES = {"ε / 2L": False, "ε / 2LC": True}


def certainty(steps: int) -> float:
    """C of a round of so many local steps."""
    return float(np.log((1 - (1 - CLIENT_LR) ** steps) / CLIENT_LR) + 1)


def server_lr(steps: int, divided: bool) -> float:
    """eps / 2L, or that divided by C."""
    return EPS / 2 / (certainty(steps) if divided else 1)


def squared_gradients(steps: int, divided: bool) -> np.ndarray:
    """||grad F||^2 at the server's models before each round, ``[ROUNDS]``."""
    C, lr, x = certainty(steps), server_lr(steps, divided), START
    v, b2, c_v, squares = np.zeros(2), BETA2**C, 1.0, []
    for _ in range(ROUNDS):
        g = x - SHARES @ CENTRES
        squares.append(g @ g)
        v, c_v = b2 * v + (1 - b2) * g**2, c_v * b2
        x = x - C * lr * g / (np.sqrt(v / (1 - c_v)) + EPS)
    return np.array(squares)


def mean_and_bound(steps: int, divided: bool) -> pd.DataFrame:
    """The mean of the squared gradients over T rounds and Theorem 2's bound, indexed by T.

    G is the largest gradient norm on the way; farther out F could be a straight line, and its
    gradients bounded everywhere, without a change here.
    """
    squares, T = squared_gradients(steps, divided), np.arange(1, ROUNDS + 1)
    G, gap = squares.max() ** 0.5, squares[0] / 2
    assert 1 - BETA2 <= EPS**2 / (16 * G**2), "the theorem's condition on beta2"
    bound = 2 * gap * (BETA2**0.5 * G + EPS) / (certainty(steps) * server_lr(steps, divided) * T)
    return pd.DataFrame({"mean": squares.cumsum() / T, "bound": bound}, pd.Index(T, name="T"))


def ratios(every: Sequence[int] = STEPS) -> pd.DataFrame:
    """Mean over bound after all rounds: a column per choice of the rate, indexed by C."""
    columns = {}
    for name, divided in RATES.items():
        last = {certainty(n): mean_and_bound(n, divided).iloc[-1] for n in every}
        columns[name] = {C: row["mean"] / row["bound"] for C, row in last.items()}
    return pd.DataFrame(columns).rename_axis("C")


def certainty_and_rate() -> tuple[Figure, pd.DataFrame]:
    """The mean squared gradient beside the bound, over the rounds; their ratio over C."""
    drawn = pd.concat({n: mean_and_bound(n, divided=False) for n in DRAWN}, names=["N"])
    table = ratios()
    with style.panels(1, 2, (5.5, 2.7)) as (figure, (left, right)):
        for number, (steps, part) in enumerate(drawn.groupby("N")):
            color = f"C{number}"
            rounds = part.index.get_level_values("T")
            left.loglog(rounds, part["mean"], color=color, label=f"N = {steps}")
            left.loglog(rounds, part["bound"], "--", color=color)
        left.set(xlabel="T", ylabel="mean squared gradient")
        left.legend(**ABOVE, title="dashed: the bound")
        for name in table:
            right.semilogy(table.index, table[name], "o-", label=name)
        right.axhline(1, color="0.5", linewidth=0.8)
        right.set(xlabel="certainty C", ylabel="mean / bound")
        right.legend(**ABOVE, title="server rate")
    data = [drawn.reset_index(), table.reset_index()]
    return figure, pd.concat(data, keys=["rounds", "ratios"], names=["panel"]).reset_index(0)
