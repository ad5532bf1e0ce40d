"""Delta-SGD: clients that find their own step sizes (Kim et al., 2024, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib.component import non_negative, positive
from fedlib.errors import unknown
from fedlib.optimizers.client_optimizer import ClientOptimizer, Oracle, State

FIRST_STEPS = ("grown", "eta0")


@dataclass(frozen=True)
class DeltaSGD(ClientOptimizer):
    """x <- x - eta g, where eta follows the local smoothness of the client's objective.

    eta_k = min(gamma ||x_k - x_{k-1}|| / (2 ||g_k - g_{k-1}||), sqrt(1 + delta theta_{k-1})
    eta_{k-1}) + eps and theta_k = eta_k / eta_{k-1}; norms are over all parameters. Where the
    iterate or the gradient has not changed, eta_k = sqrt(1 + delta theta_{k-1}) eta_{k-1}. eta and
    theta start at eta0 and theta0 in every round.

    Paper and code differ, and the defaults are the code's, which gave the printed numbers:

    - ``first_step="grown"``: the first step is eta0 sqrt(1 + delta theta0). ``"eta0"``, as
      printed: it is eta0, and theta is theta0 after it.
    - g_{k-1} is taken again at x_{k-1} on the batch of step k, at the price of a second gradient
      per step. ``reuse_gradient`` keeps the gradient of step k - 1, on its own batch: the paper's
      remark that no gradient is evaluated twice is true of this.
    - The code adds eps, the print does not (``eps=0``).
    - The two gradients on one batch have dropout masks of their own, which adds to
      ||g_k - g_{k-1}||; ``shared_masks`` gives them the same.

    Args:
        delta: how fast the step size may grow; 0.1 in all experiments.
        gamma: 2 in all experiments; a smaller one gives smaller steps.
        eta0, theta0: 0.2 and 1 in all experiments.
        eps: added to the step size.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.DeltaSGD())
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    delta: float = 0.1
    gamma: float = 2.0
    eta0: float = 0.2
    theta0: float = 1.0
    eps: float = 1e-8
    first_step: str = "grown"
    reuse_gradient: bool = False
    shared_masks: bool = False

    def validate(self) -> None:
        non_negative(self.delta, "delta")
        positive(self.gamma, "gamma")
        positive(self.eta0, "eta0")
        non_negative(self.theta0, "theta0")
        non_negative(self.eps, "client eps")
        if self.first_step not in FIRST_STEPS:
            raise unknown("first_step", self.first_step, FIRST_STEPS)

    def init(self, x: Tensor) -> State:
        ones = torch.ones_like(x[..., :1])
        state = {"previous": x, "eta": self.eta0 * ones, "theta": self.theta0 * ones}
        if self.reuse_gradient:
            state["gradient"] = torch.zeros_like(x)
        if self.first_step == "eta0":
            state["fresh"] = ones
        return state

    def step_size(self, moved: Tensor, turned: Tensor, old: Tensor, theta: Tensor) -> Tensor:
        """eta_k, from eta_{k-1}, theta_{k-1} and how far x and its gradient have moved."""
        grown = old * (1 + self.delta * theta).sqrt()
        # In a round's first step nothing has moved, and only the growth counts.
        known = (moved > 0) & (turned > 0)
        bound = self.gamma * moved / (2 * torch.where(known, turned, 1))
        return torch.where(known, torch.minimum(grown, bound) + self.eps, grown)

    def advance(self, x: Tensor, g: Tensor, before: Tensor, state: State) -> tuple[Tensor, State]:
        """The new ``x`` and state, from the gradients at ``x`` and at the previous point."""
        moved = torch.linalg.vector_norm(x - state["previous"], dim=-1, keepdim=True)
        turned = torch.linalg.vector_norm(g - before, dim=-1, keepdim=True)
        old = state["eta"]
        eta = self.step_size(moved, turned, old, state["theta"])
        theta = eta / old
        new = {"previous": x}
        if self.first_step == "eta0":
            fresh = state["fresh"] > 0
            eta, theta = torch.where(fresh, old, eta), torch.where(fresh, state["theta"], theta)
            new["fresh"] = torch.zeros_like(state["fresh"])
        if self.reuse_gradient:
            new["gradient"] = g
        return x - eta * g, {**new, "eta": eta, "theta": theta}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        value, g = oracle(x)
        if self.reuse_gradient:
            before = state["gradient"]
        else:
            _, before = oracle(state["previous"], draw=0 if self.shared_masks else 1)
        return value, *self.advance(x, g, before, state)
