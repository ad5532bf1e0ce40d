"""Session 4: the papers' rule of selection, on grids whose winner was put there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .compare import expect, same

CLIENT_LRS, SERVER_LRS = (0.01, 0.03, 0.1, 0.3), (0.1, 0.3, 1.0, 3.0, 10.0)


def grid(
    winner: tuple[float, float], seed: int = 0, *, server_lrs: tuple[float, ...] = SERVER_LRS
) -> pd.DataFrame:
    """Runs of a grid, a row each: ``client_lr, server_lr, seed, train_loss, test_accuracy``.

    Another setting has the best run, another one diverged for one seed and is best for the others,
    and a third has the best test accuracy.
    """
    draw = np.random.default_rng(seed)
    pairs = [(c, s) for c in CLIENT_LRS for s in server_lrs]
    others = [pairs[i] for i in draw.permutation(len(pairs)) if pairs[i] != winner]
    lucky, diverged, tempting = others[:3]
    rows = []
    for pair in pairs:
        losses = 1.0 + 0.1 * draw.random(3)
        if pair == winner:
            losses = 0.7 + 0.02 * draw.random(3)
        elif pair == lucky:
            losses = np.array([0.3, 1.0, 1.1])
        elif pair == diverged:
            losses = np.array([0.2, 0.2, np.nan])
        accuracy = 0.9 if pair == tempting else 0.5 + 0.1 * draw.random()
        rows += [(*pair, number, loss, accuracy) for number, loss in enumerate(losses)]
    columns = ["client_lr", "server_lr", "seed", "train_loss", "test_accuracy"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


def select(function: Callable[..., Any], winner: tuple[float, float], seed: int = 0) -> None:
    """``select(runs)`` gives the pair of rates with the smallest mean training loss."""
    hint = "mean of train_loss over the seeds; a pair that diverged for one seed is out"
    same("the selected pair", function(grid(winner, seed)), winner, hint)


def at_edge(function: Callable[..., Any], seed: int = 0) -> None:
    """``at_edge(runs, pair)`` for pairs inside and at every end, and for a grid with one rate."""
    runs = grid((0.03, 1.0), seed)
    for pair in ((0.03, 1.0), (0.1, 0.3), (0.01, 1.0), (0.3, 3.0), (0.1, 0.1), (0.03, 10.0)):
        wanted = pair[0] in (0.01, 0.3) or pair[1] in (0.1, 10.0)
        message = f"at_edge is {not wanted} for {pair}, an {'end' if wanted else 'inner'} pair"
        expect(bool(function(runs, pair)) == wanted, message)
    single = grid((0.03, 1.0), seed, server_lrs=(1.0,))
    message = "server_lr had one value only: that axis has no ends"
    expect(not function(single, (0.03, 1.0)), message)
