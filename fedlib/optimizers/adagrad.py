"""Adagrad on the clients (Duchi et al., 2011), as torch.optim.Adagrad without decays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib.component import positive
from fedlib.optimizers.client_optimizer import Oracle, RatedOptimizer, State


@dataclass(frozen=True)
class Adagrad(RatedOptimizer):
    """v <- v + g^2, x <- x - lr g / (sqrt(v) + eps); v = 0 at the start of a round.

    Args:
        lr: learning rate; 1e-2 in Delta-SGD's comparison and in torch.optim.Adagrad.
        eps: added to the root.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.client.Adagrad(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    lr: float = 1e-2
    eps: float = 1e-10

    def validate(self) -> None:
        super().validate()
        positive(self.eps, "client eps")

    def init(self, x: Tensor) -> State:
        return {"v": torch.zeros_like(x)}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        v = state["v"] + g**2
        return value, x - lr * g / (v.sqrt() + self.eps), {"v": v}
