"""Loc-Mime: Mime whose optimizer state moves during the local steps (Mime, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedlib.algorithms.base import Client, State, ValueAndGrad
from fedlib.algorithms.mime import Mime


@dataclass(frozen=True)
class LocMime(Mime):
    """An ablation of Mime's frozen state. The paper finds that it is worse (Figure 1).

    A client starts with the server's s and steps::

        g_i = grad F_i(y; b) - grad F_i(x_t; b) + c,    y <- y - client_lr U(g_i, s_i),
        s_i <- V(g_i, s_i).

    After the round s_i is dropped. The server's state becomes V(c, s), as in :class:`Mime`. The
    paper does not say which gradient updates s_i. Here it is the corrected gradient, which the
    client also steps along. With ``SGD`` as base this is Mime.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.LocMime(base=fedlib.base.Momentum(), client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    def client_init(self, server: State, client: Client) -> State:
        return {
            "x": server["x"],
            "anchor": server["x"],
            "c": server["c"],
            "base": server["base"],
            "lr": self.rate(client),
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        _, at_anchor = value_and_grad(state["anchor"], batch)
        g = g - at_anchor + state["c"]
        x = state["x"] - state["lr"] * self.base.step(g, state["base"])
        return {**state, "x": x, "base": self.base.advance(g, state["base"]), "loss": loss}
