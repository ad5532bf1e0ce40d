"""Adam on the clients (Kingma and Ba, 2015), as torch.optim.Adam without weight decay."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib.component import decay, positive
from fedlib.optimizers.client_optimizer import Oracle, RatedOptimizer, State


def adam_state(x: Tensor) -> State:
    """m = v = 0 and the products of the betas so far, for parameters ``x [..., P]``."""
    ones = torch.ones_like(x[..., :1])
    return {
        "m": torch.zeros_like(x),
        "v": torch.zeros_like(x),
        "beta1_product": ones,
        "beta2_product": ones.clone(),
    }


def adam_step(
    x: Tensor,
    g: Tensor,
    state: State,
    lr: Tensor | float,
    beta1: Tensor | float,
    beta2: Tensor | float,
    eps: Tensor | float,
) -> tuple[Tensor, State]:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, x <- x - lr m^ / (sqrt(v^) +
    eps).

    m^ and v^ are m and v over one minus the product of their betas so far, so the betas may change
    from step to step.

    Returns:
        the new ``x [..., P]`` and state.
    """
    m = beta1 * state["m"] + (1 - beta1) * g
    v = beta2 * state["v"] + (1 - beta2) * g**2
    b1, b2 = state["beta1_product"] * beta1, state["beta2_product"] * beta2
    x = x - lr * (m / (1 - b1)) / ((v / (1 - b2)).sqrt() + eps)
    return x, {"m": m, "v": v, "beta1_product": b1, "beta2_product": b2}


@dataclass(frozen=True)
class Adam(RatedOptimizer):
    """Adam with bias correction; its state starts afresh every round.

    Args:
        lr: learning rate; 1e-3 in Delta-SGD's comparison and in torch.optim.Adam.
        beta1, beta2: decay of the first and of the second moment.
        eps: added to the root of the corrected second moment.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.client.Adam(lr=0.03))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def validate(self) -> None:
        super().validate()
        decay(self.beta1, "client beta1")
        decay(self.beta2, "client beta2")
        positive(self.eps, "client eps")

    def init(self, x: Tensor) -> State:
        return adam_state(x)

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        return value, *adam_step(x, g, state, lr, self.beta1, self.beta2, self.eps)
