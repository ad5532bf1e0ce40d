"""N-AccAdam: centralised Adam on the sum of N steps of SGD (AdaFedAdam, Theorem 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State, ValueAndGrad
from fedlib.component import Decay, NonNegative, Positive
from fedlib.optimizers.client import adam_state, adam_step


@dataclass(frozen=True)
class NAccAdam(Algorithm):
    """N-AccAdam (Algorithms 3 and 4 of "Accelerating Fair Federated Learning", appendix B).

    It is not federated: one client holds all examples. In every round it takes N steps of minibatch
    SGD from x_t to y. N is the run's ``local_steps``. Then Adam steps along Delta = (x_t - y) /
    client_lr::

        m <- beta1 m + (1 - beta1) Delta,  v <- beta2 v + (1 - beta2) Delta^2
        x_{t+1} = x_t - server_lr * m^ / (sqrt(v^) + eps)

    with both moments corrected for their bias. N = 1 is Adam itself. FedAdam becomes this method if
    all clients have the same data.

    Args:
        client_lr: learning rate of the SGD steps, eta_s.
        server_lr: learning rate of Adam, eta.
        beta1, beta2, eps: hyperparameters of Adam.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.NAccAdam(server_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    pooled = True

    client_lr: Positive = 0.1
    server_lr: NonNegative = 1e-3
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    eps: Positive = 1e-8

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "adam": adam_state(params)}

    def client_init(self, server: State, client: Client) -> State:
        return {"x": server["x"]}

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        return {"x": state["x"] - self.client_lr * g, "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": (server["x"] - state["x"]) / self.client_lr}

    def server_update(self, server: State, mean: State) -> State:
        x, delta, adam = server["x"], mean["delta"], server["adam"]
        x, adam = adam_step(x, delta, adam, self.server_lr, self.beta1, self.beta2, self.eps)
        return {"x": x, "adam": adam}
