"""SCAFFOLD, option II, on batches: clients and server keep control variates (FedOpt, B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State, ValueAndGrad
from fedlib.algorithms.local import OwnSteps
from fedlib.component import NonNegative
from fedlib.errors import require_known


@dataclass(frozen=True)
class Scaffold(OwnSteps):
    """Local steps along g - c_i + c, which removes the clients' drift once the c_i are good.

    Client i takes K_i steps y <- y - client_lr (grad F_i(y; b) - c_i + c) from y = x_t, then::

        c_i^+ = c_i - c + (x_t - y_i) / (K_i client_lr),

    which is the mean of its gradients along the way. The server moves::

        x_{t+1} = x_t + server_lr sum_i p_i (y_i - x_t),
        c <- c + |S| / N sum_i p_i (c_i^+ - c_i),

    with p_i proportional to the examples for both x and c, N all clients and S the cohort.

    Source: FedOpt (Reddi et al.), Algorithm 6, after Karimireddy et al. (2020), who use plain
    means. As there, c starts at 0 and c_i at c the first time that client i takes part, so the
    first round, and every run in which no client comes twice, is FedAvg. Algorithm 6 divides by ``E
    |B_i|``, which is K_i. Its c_i^+ is hard to read (the sign, eta for eta_l), so it is taken from
    Karimireddy et al. A client that takes no step keeps its c_i. Only clients seen so far have a
    memory.

    ``means="plain"`` follows Karimireddy et al.: the clients of a cohort count the same, for x and
    for c, and c_i starts at 0 as in most public code. Then c is the mean of all clients' c_i in
    every round, and the corrections c - c_i cancel. If weights are examples and cohorts change, a
    client's part in c is added with one weight and subtracted with another. So c departs from the
    mean of the c_i, and the corrections pull all clients one way.

    Args:
        client_lr: learning rate of the clients' plain SGD, eta_l.
        server_lr: server learning rate eta.
        means: ``"weighted"`` (by examples, Algorithm 6) or ``"plain"``.
        client_schedule: factor on ``client_lr`` per round, see :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.Scaffold(client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {"means": "weighted"}
    remembers = True

    server_lr: NonNegative = 1.0
    means: str = "weighted"

    def validate(self) -> None:
        super().validate()
        require_known("means", self.means, ("weighted", "plain"))

    @property
    def uniform(self) -> bool:
        return self.means == "plain"

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "c": torch.zeros_like(params)}

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        return {"c": 0 * server["c"] if self.uniform else server["c"]}

    def client_init(self, server: State, client: Client) -> State:
        c_i = client.memory["c"]
        return {
            "x": server["x"],
            "c_i": c_i,
            "correction": server["c"] - c_i,
            "lr": self.rate(client),
            "steps": client.steps,
            "share": 0 * client.steps + client.cohort / client.population,
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        x = state["x"] - state["lr"] * (g + state["correction"])
        return {**state, "x": x, "loss": loss}

    def control(self, server: State, state: State) -> Tensor:
        """c_i^+, or c_i if the client has not moved."""
        length = state["steps"] * state["lr"]
        moved = length > 0
        mean = (server["x"] - state["x"]) / torch.where(moved, length, 1.0)
        return torch.where(moved, mean - state["correction"], state["c_i"])

    def client_final(self, server: State, state: State) -> State:
        change = self.control(server, state) - state["c_i"]
        return {"x": state["x"] - server["x"], "c": state["share"] * change}

    def client_remember(self, server: State, state: State) -> State:
        return {"c": self.control(server, state)}

    def server_update(self, server: State, mean: State) -> State:
        return {"x": server["x"] + self.server_lr * mean["x"], "c": server["c"] + mean["c"]}

    def communication(self, size: int) -> tuple[int, int]:
        """x and c down, and the changes of x and c_i up."""
        return 2 * size, 2 * size
