"""MimeLite: Mime without the correction of the local gradients (Karimireddy et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedlib.algorithms.base import Client, State, ValueAndGrad
from fedlib.algorithms.mime import Mime


@dataclass(frozen=True)
class MimeLite(Mime):
    """y <- y - client_lr U(grad F_i(y; b), s) with the server's s frozen, then s <- V(c, s).

    c = sum_i p_i grad F_i(x_t) at the old x_t, as in :class:`Mime`. The local gradients are not
    corrected with it. With ``SGD`` as base there is no state, clients send no gradients, ``split``
    has no effect, and this is FedAvg, as in the paper (Table 1).

    Source: Mime, Algorithm 1. Its published code (fedjax) differs as in :class:`Mime`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.MimeLite(base=fedlib.base.Momentum(), client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    corrects: ClassVar[bool] = False

    @property
    def measures(self) -> bool:
        return self.base.vectors > 0

    def client_init(self, server: State, client: Client) -> State:
        lr, (a, b) = self.rate(client), self.base.linear(server["base"])
        return {"x": server["x"], "scale": lr * a, "shift": lr * b}

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        return {**state, "x": state["x"] - state["scale"] * g - state["shift"], "loss": loss}
