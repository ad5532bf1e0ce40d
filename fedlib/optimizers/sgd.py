"""SGD on the clients, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedlib.component import decay
from fedlib.errors import require
from fedlib.optimizers.client_optimizer import Oracle, RatedOptimizer, State

MOMENTUM_STATES = ("round", "client")


def check_momentum_state(value: str) -> None:
    """Require one of :data:`MOMENTUM_STATES`."""
    require(value in MOMENTUM_STATES, "momentum_state", value, "'round' or 'client'")


@dataclass(frozen=True)
class SGD(RatedOptimizer):
    """x <- x - lr g. The client optimizer of all main results of FedOpt (Algorithms 1 and 4).

    Example:
        >>> import fedlib
        >>> fedlib.SGD(lr=0.03).lr
        0.03
    """

    rate_of_sgd: ClassVar[bool] = True
    descends: ClassVar[bool] = True

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        return value, torch.addcmul(x, g, lr, value=-1), state  # x - lr g


@dataclass(frozen=True)
class SGDM(RatedOptimizer):
    """u <- momentum u + g; x <- x - lr u, as torch.optim.SGD.

    Args:
        lr: learning rate.
        momentum: decay of u.
        nesterov: the step is g + momentum u (AdaFedAdam, Tables 3 and 7).
        momentum_state: ``"round"``: u = 0 at the start of every round. ``"client"``: every client
            keeps its u and takes it up again in its next round, as in the code of AdaFedAdam's
            authors, where each client has one torch optimizer; u = 0 at the start of its first.

    Example:
        >>> import fedlib
        >>> fedlib.FedOpt(client=fedlib.SGDM(lr=0.03, momentum=0.9)).client.momentum
        0.9
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {"momentum_state": "round"}
    rate_of_sgd: ClassVar[bool] = True

    momentum: float = 0.9
    nesterov: bool = False
    momentum_state: str = "round"

    def validate(self) -> None:
        super().validate()
        decay(self.momentum, "client momentum")
        check_momentum_state(self.momentum_state)

    @property
    def remembers(self) -> bool:
        return self.momentum_state == "client"

    def init(self, x: Tensor) -> State:
        return {"u": torch.zeros_like(x)}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        u = self.momentum * state["u"] + g
        direction = g + self.momentum * u if self.nesterov else u
        return value, torch.addcmul(x, direction, lr, value=-1), {"u": u}  # x - lr direction
