"""Mime: local steps that mimic a centralised optimizer (Karimireddy et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State
from fedlib.algorithms.two_phase import TwoPhase
from fedlib.optimizers import mime as bases


@dataclass(frozen=True)
class Mime(TwoPhase):
    """A base optimizer (U, V) with state s on the server, frozen during the local steps.

    Each round, with c = sum_i p_i grad F_i(x_t) over the cohort, clients start at y = x_t and
    step::

        g_i = grad F_i(y; b) - grad F_i(x_t; b) + c,    y <- y - client_lr U(g_i, s),

    with both gradients on the same batch b and with the same dropout masks. Then the server sets
    s <- V(c, s), with c at the old x_t, and x_{t+1} = x_t + server_lr sum_i p_i (y_i - x_t).

    Source: Mime, Algorithm 1, with the means weighted by examples (section 3, end). Its published
    code (fedjax) also takes the same clients for c and for training. It takes c with dropout on,
    and has other U and V, see :mod:`fedlib.optimizers.mime`. If v would be 0 in the first U, s
    starts as V(c, s) with the first round's c, which clients send in any case.

    With one full-batch step this is the base optimizer on the cohort's loss, and
    :class:`Centralized` if all clients take part.

    Args:
        base: the base optimizer, for instance ``fedlib.base.Adam(eps=1e-3)``.
        client_lr, server_lr, client_schedule, split, lean: see :class:`TwoPhase`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.Mime(base=fedlib.base.Momentum(), client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    base: bases.Base = field(default_factory=bases.SGD)

    @property
    def state_vectors(self) -> int:
        return self.base.vectors

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "c": torch.zeros_like(params), "base": self.base.init(params)}

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        return {}, {"c": full(server["x"])[1]}

    def server_measured(self, server: State, mean: State) -> State:
        c = mean["c"]
        return {**server, "c": c, "base": self.base.begin(c, server["base"])}

    def client_init(self, server: State, client: Client) -> State:
        # U is linear and s frozen, so lr U(g_i, s) = lr a (g - g') + lr U(c, s).
        lr, (a, _) = self.rate(client), self.base.linear(server["base"])
        shift = lr * self.base.step(server["c"], server["base"])
        return {"x": server["x"], "anchor": server["x"], "scale": lr * a, "shift": shift}

    def server_update(self, server: State, mean: State) -> State:
        new = self.base.advance(server["c"], server["base"])
        return {"x": self.moved(server, mean), "c": server["c"], "base": new}
