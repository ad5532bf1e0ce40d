"""SGD on the clients, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedlib.component import decay
from fedlib.optimizers.client_optimizer import Oracle, RatedOptimizer, State


@dataclass(frozen=True)
class SGD(RatedOptimizer):
    """x <- x - lr g. The client optimizer of all main results of FedOpt (Algorithms 1 and 4)."""

    rate_of_sgd: ClassVar[bool] = True
    descends: ClassVar[bool] = True

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        return value, torch.addcmul(x, g, lr, value=-1), state


@dataclass(frozen=True)
class SGDM(RatedOptimizer):
    """u <- momentum u + g; x <- x - lr u, as torch.optim.SGD; u = 0 at the start of a round.

    With ``nesterov`` the step is g + momentum u (AdaFedAdam, Tables 3 and 7).
    """

    rate_of_sgd: ClassVar[bool] = True

    momentum: float = 0.9
    nesterov: bool = False

    def validate(self) -> None:
        super().validate()
        decay(self.momentum, "client momentum")

    def init(self, x: Tensor) -> State:
        return {"u": torch.zeros_like(x)}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        u = self.momentum * state["u"] + g
        direction = g + self.momentum * u if self.nesterov else u
        return value, torch.addcmul(x, direction, lr, value=-1), {"u": u}
