"""Client optimizers: how one client moves its model in a local step.

Each is written for one client whose parameters are one vector ``x [..., P]``; leading axes
(clients, configurations) broadcast. ``oracle(x)`` returns the loss ``[..., 1]`` and gradient
``[..., P]`` of the local objective at ``x`` on the current batch, so a method may ask for it at
more than one point. State starts afresh every round: federated clients are stateless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedlib.component import Component, decay, non_negative


class Oracle(Protocol):
    """The loss ``[..., 1]`` and gradient ``[..., P]`` at ``x`` on the current batch.

    Calls with the same ``draw`` share their dropout masks.
    """

    def __call__(self, x: Tensor, draw: int = 0) -> tuple[Tensor, Tensor]: ...


State = dict[str, Any]


@dataclass(frozen=True)
class ClientOptimizer(Component):
    """Base class; ``lr`` is the client learning rate (eta_l of the papers)."""

    lr: float = 0.1

    def validate(self) -> None:
        non_negative(self.lr, "client_lr")

    def init(self, x: Tensor) -> State:
        """The optimizer's state at the start of a round, at ``x [..., P]``."""
        return {}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        """One local step with the scheduled learning rate ``lr``.

        Returns:
            the loss ``[..., 1]`` at ``x``, the new ``x`` and the new state.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(ClientOptimizer):
    """x <- x - lr g. The client optimizer of all main results of FedOpt (Algorithms 1 and 4)."""

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        loss, g = oracle(x)
        return loss, x - lr * g, state


@dataclass(frozen=True)
class SGDM(ClientOptimizer):
    """u <- momentum u + g; x <- x - lr u, as torch.optim.SGD; u = 0 at the start of a round."""

    momentum: float = 0.9

    def validate(self) -> None:
        super().validate()
        decay(self.momentum, "client momentum")

    def init(self, x: Tensor) -> State:
        return {"u": torch.zeros_like(x)}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        loss, g = oracle(x)
        u = self.momentum * state["u"] + g
        return loss, x - lr * u, {"u": u}
