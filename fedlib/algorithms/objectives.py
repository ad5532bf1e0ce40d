"""Local objectives: what a client minimises besides its own loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedlib.algorithms.base import State, ValueAndGrad
from fedlib.component import Component, non_negative


@dataclass(frozen=True)
class Objective(Component):
    """The client's loss itself: F_i(x)."""

    @property
    def remembers(self) -> bool:
        """Whether the objective needs the client's last local model: ``"previous"`` in memory."""
        return False

    @property
    def needs_features(self) -> bool:
        """Whether the model must have ``features(x)`` and ``head(features)``."""
        return False

    def __call__(
        self, x: Tensor, state: State, batch: Any, value_and_grad: ValueAndGrad, draw: int = 0
    ) -> tuple[Tensor, Tensor]:
        """The client's own loss ``[..., 1]`` and the local objective's gradient ``[..., P]``.

        Args:
            x: where, ``[..., P]``.
            state: the client's state; ``"anchor"`` is the server's model of this round and
                ``"memory"`` what the client remembers.
            batch, value_and_grad: of the local step.
            draw: of the dropout masks; see :class:`fedlib.algorithms.base.ValueAndGrad`.
        """
        return value_and_grad(x, batch, draw=draw)


@dataclass(frozen=True)
class Proximal(Objective):
    """F_i(x) + mu/2 ||x - x_t||^2, x_t the server's parameters (FedProx, Li et al., 2020).

    The reported training loss stays F_i's own, so that it compares with other methods'.
    """

    mu: float = 0.01

    def validate(self) -> None:
        non_negative(self.mu, "mu")

    def __call__(
        self, x: Tensor, state: State, batch: Any, value_and_grad: ValueAndGrad, draw: int = 0
    ) -> tuple[Tensor, Tensor]:
        loss, grad = value_and_grad(x, batch, draw=draw)
        return loss, grad + self.mu * (x - state["anchor"])
