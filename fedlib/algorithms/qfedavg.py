"""q-FedAvg: federated averaging that favours clients with a high loss (Li et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State
from fedlib.algorithms.local import LocalTraining
from fedlib.component import NonNegative, Positive
from fedlib.errors import Error, require

# Added to the losses before they are raised to a power, as in the authors' code.
TINY = 1e-10


@dataclass(frozen=True)
class QFedAvg(LocalTraining):
    """q-FedAvg ("Fair resource allocation in federated learning", Algorithm 2).

    Each client k of the cohort has the loss F_k at x_t on all of its data, the model x_k after
    local training and G_k = L (x_t - x_k)::

        Delta_k = F_k^q G_k
        h_k     = q F_k^(q-1) ||G_k||^2 + L F_k^q
        x_{t+1} = x_t - (sum_k Delta_k) / (sum_k h_k)

    All clients count the same, whatever their weights p_k. The paper instead samples them in
    proportion to p_k, and fedlib samples uniformly. F_k is 1e-10 larger, as in the authors' code.
    Losses must not be negative. A negative loss counts as 0.

    L defaults to 1 / client learning rate, as in the paper and its code. The AdaFedAdam paper gives
    a "q-FedAvg learning rate 1". Its tasks here set L = 1, as this agrees better with its Table 5.
    For the same reason ``synthetic`` measures F_k on all that a client holds, also on the examples
    that it does not train on.

    Args:
        q: exponent of the losses. 0 is FedAvg with equal weights.
        L: the Lipschitz constant that scales the steps. None takes 1 / client learning rate (before
            any schedule).
        measured_on: the data of F_k: ``"train"``, or a split of the task's ``evaluated`` that has
            the same clients and the same ``x`` and ``y``.
        client, objective, client_schedule: see :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> A, b = [[[1.0]], [[3.0]]], [[0.0], [3.0]]
        >>> task = fedlib.quadratic_task(A, b, x0=[3.0], offset=[0.5, 2.0])
        >>> method = fedlib.QFedAvg(q=1.0, client=fedlib.SGD(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {"measured_on": "train"}

    measures = True
    uniform = True

    q: NonNegative = 1.0
    L: Positive | None = None
    measured_on: str = "train"

    def validate(self) -> None:
        super().validate()
        if self.L is not None:
            return
        if not self.client.takes_lr:
            raise Error(
                f"L is None, which means 1 / client learning rate, but "
                f"{type(self.client).__name__} has none (allowed: a number > 0)"
            )
        rate = self.client.lr
        require(rate > 0, "client_lr (of q-FedAvg without L)", rate, "a finite number > 0")

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        return {"loss": full.loss(server["x"])}, {}

    def client_init(self, server: State, client: Client) -> State:
        return {**super().client_init(server, client), "F": client.measured["loss"]}

    def client_final(self, server: State, state: State) -> State:
        L = 1 / self.client.lr if self.L is None else self.L
        F: Tensor = state["F"].clamp(min=0) + TINY
        gradient = L * (server["x"] - state["x"])
        square = gradient.square().sum(-1, keepdim=True)
        h = self.q * F ** (self.q - 1) * square + L * F**self.q
        return {"delta": F**self.q * gradient, "h": h}

    def server_update(self, server: State, mean: State) -> State:
        # If the run's type cannot represent the power of losses so small, nothing is left to learn.
        none = mean["h"] == 0
        return {"x": server["x"] - torch.where(none, 0, mean["delta"] / mean["h"])}
