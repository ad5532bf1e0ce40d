"""AdaAlter: clients with an Adagrad whose accumulator travels with the model (FedOpt, B.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, State, ValueAndGrad
from fedlib.algorithms.local import OwnSteps
from fedlib.component import NonNegative, Positive


@dataclass(frozen=True)
class AdaAlter(OwnSteps):
    """Local AdaAlter (Xie et al., 2019): all steps of a round divide by the server's accumulator.

    A client starts at y = x_t and a = B_t. Its step k = 1, 2, ... is::

        y <- y - client_lr g / sqrt(B_t + k eps^2),    a <- a + g^2,

    The term k eps^2 replaces the squares that B_t has not seen yet. The server averages both::

        x_{t+1} = x_t + server_lr sum_i p_i (y_i - x_t),    B_{t+1} = sum_i p_i a_i,

    starting from B_0 = v0. This is FedOpt with an SGD server and a client optimizer whose
    accumulator is averaged and sent on, which doubles the communication (FedOpt, B.3). FedOpt
    describes it in words. The formulas are Xie et al.'s if all weights are equal and ``server_lr``
    is 1.

    Args:
        client_lr: learning rate of the clients.
        server_lr: server learning rate.
        eps: replaces a step's gradient that B_t has not seen.
        v0: the initial accumulator B_0.
        client_schedule: factor on ``client_lr`` per round, see :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.AdaAlter(client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    server_lr: NonNegative = 1.0
    eps: Positive = 1.0
    v0: NonNegative = 1.0

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "B": torch.zeros_like(params) + self.v0}

    def client_init(self, server: State, client: Client) -> State:
        return {
            "x": server["x"],
            "B": server["B"],
            "a": server["B"],
            "k": torch.zeros_like(server["x"][..., :1]),
            "lr": self.rate(client),
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        k = state["k"] + 1
        x = state["x"] - state["lr"] * g / (state["B"] + k * self.eps**2).sqrt()
        return {**state, "x": x, "a": state["a"] + g**2, "k": k, "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": state["x"] - server["x"], "B": state["a"]}

    def server_update(self, server: State, mean: State) -> State:
        return {"x": server["x"] + self.server_lr * mean["delta"], "B": mean["B"]}

    def communication(self, size: int) -> tuple[int, int]:
        """The model and the accumulator, both ways."""
        return 2 * size, 2 * size
