"""SGD with the stochastic Polyak step size (Loizou et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedlib.component import non_negative, positive
from fedlib.errors import require
from fedlib.optimizers.client_optimizer import ClientOptimizer, Oracle, State


@dataclass(frozen=True)
class SPS(ClientOptimizer):
    """x <- x - eta g with eta = (f(x) - f_star) / (c ||g||^2 + eps), on each batch.

    f is the whole local objective: with a proximal or contrastive term, f(x) and g have it too.
    Where f(x) < f_star there is no step. The step size has no upper bound, as in the code of the
    Delta-SGD paper's comparison; ``eta_max`` sets one.

    Args:
        f_star: the least value of every batch's objective; 0 in the Delta-SGD paper.
        c: 0.5 in the Delta-SGD paper.
        eta_max: upper bound of the step size; None for none.
        eps: in the denominator.

    Example:
        >>> import fedlib
        >>> A, b = [[[1.0]], [[3.0]]], [[0.0], [3.0]]
        >>> task = fedlib.quadratic_task(A, b, x0=[3.0], offset=[0.5, 2.0])
        >>> method = fedlib.FedOpt(client=fedlib.SPS(c=0.5))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        False
    """

    f_star: float = 0.0
    c: float = 0.5
    eta_max: float | None = None
    eps: float = 1e-8

    def validate(self) -> None:
        require(abs(self.f_star) < float("inf"), "f_star", self.f_star, "a finite number")
        positive(self.c, "c")
        non_negative(self.eps, "client eps")
        if self.eta_max is not None:
            positive(self.eta_max, "eta_max")

    def step_size(self, value: Tensor, square: Tensor) -> Tensor:
        """eta from the objective's value and its gradient's squared norm, all ``[..., 1]``."""
        eta = (value - self.f_star).clamp(min=0) / (self.c * square + self.eps)
        return eta if self.eta_max is None else eta.clamp(max=self.eta_max)

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        eta = self.step_size(value, g.square().sum(-1, keepdim=True))
        return value, x - eta * g, state
