"""Local objectives: what a client minimises besides its own loss."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedlib.component import Component, non_negative


@dataclass(frozen=True)
class Objective(Component):
    """The client's loss itself: F_i(x)."""

    def __call__(
        self, x: Tensor, anchor: Tensor, loss: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Loss ``[..., 1]`` and gradient ``[..., P]`` of the local objective at ``x``.

        Args:
            x: the client's parameters ``[..., P]``.
            anchor: the server's parameters at the start of the round.
            loss, grad: of the client's own loss at ``x`` on the current batch.
        """
        return loss, grad


@dataclass(frozen=True)
class Proximal(Objective):
    """F_i(x) + mu/2 ||x - x_t||^2, x_t the server's parameters (FedProx, Li et al., 2020).

    The reported training loss stays F_i's own, so that it compares with other methods'.
    """

    mu: float = 0.01

    def validate(self) -> None:
        non_negative(self.mu, "mu")

    def __call__(
        self, x: Tensor, anchor: Tensor, loss: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        return loss, grad + self.mu * (x - anchor)
