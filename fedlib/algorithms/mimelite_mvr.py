"""MimeLiteMVR: MimeMVR without the correction by c (Karimireddy et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedlib.algorithms.base import Client, State, ValueAndGrad
from fedlib.algorithms.mime_mvr import MimeMVR


@dataclass(frozen=True)
class MimeLiteMVR(MimeMVR):
    """MimeMVR with g_i = grad F_i(y; b). Clients step::

        y <- y - client_lr ((1 - beta) g_i + beta (m_t + g_i - grad F_i(x_t; b))),

    with m_t and everything else as in :class:`MimeMVR`. beta = 0 is FedAvg.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.MimeLiteMVR(momentum=0.9, client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    corrects: ClassVar[bool] = False

    def client_init(self, server: State, client: Client) -> State:
        lr = self.rate(client)
        shift = lr * self.momentum * server["m"]
        return {"x": server["x"], "anchor": server["x"], "scale": lr, "shift": shift}

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        _, at_anchor = value_and_grad(state["anchor"], batch)
        x = state["x"] - state["scale"] * (g - self.momentum * at_anchor) - state["shift"]
        return {**state, "x": x, "loss": loss}
