"""FedOpt: any client optimizer under any server optimizer (Reddi et al., Algorithms 1 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, FullBatch, State, ValueAndGrad
from fedlib.algorithms.objectives import Objective
from fedlib.errors import unknown
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers
from fedlib.optimizers.schedules import SCHEDULES


@dataclass(frozen=True)
class FedOpt(Algorithm):
    """Adaptive federated optimization, composed of three parts and a schedule.

    Each round t, every client i of the cohort starts at x_t, takes its local steps with the client
    optimizer on the local objective, and sends Delta_i = x_i - x_t. The server averages them with
    weights p_i (the client's examples, unless the task says otherwise) and gives the
    pseudo-gradient -sum_i p_i Delta_i to the server optimizer.

    Args:
        client: the client optimizer, for instance ``fedlib.client.SGD(lr=0.1)``.
        server: the server optimizer, for instance ``fedlib.server.Adam(lr=0.01)``.
        objective: the local objective; ``fedlib.Proximal(mu)`` makes it FedProx's.
        client_schedule: factor on the client learning rate per round: ``"constant"``,
            ``"exp_decay"`` (FedOpt E.6) or ``"step_decay"``.

    Example:
        >>> import fedlib
        >>> method = fedlib.FedOpt(client=fedlib.SGD(lr=0.1), server=fedlib.server.Adam(lr=0.01))
        >>> method.server.tau
        0.001
    """

    client: clients.ClientOptimizer = field(default_factory=clients.SGD)
    server: servers.ServerOptimizer = field(default_factory=servers.SGD)
    objective: Objective = field(default_factory=Objective)
    client_schedule: str = "constant"

    def validate(self) -> None:
        if self.client_schedule not in SCHEDULES:
            raise unknown("client_schedule", self.client_schedule, SCHEDULES)

    @property
    def remembers(self) -> bool:
        return self.objective.remembers

    @property
    def needs_features(self) -> bool:
        return self.objective.needs_features

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "optimizer": self.server.init(params)}

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        # Before its first round a client has no model of its own; "seen" says whether it has.
        return {"previous": server["x"], "seen": 0 * client.examples}

    def client_init(self, server: State, client: Client) -> State:
        factor = SCHEDULES[self.client_schedule](client.round, client.rounds)
        x = server["x"]
        return {
            "x": x,
            "anchor": x,
            "lr": factor * self.client.lr,
            "optimizer": self.client.init(x),
            "memory": client.memory,
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        def oracle(x: Tensor, draw: int = 0) -> tuple[Tensor, Tensor]:
            return self.objective(x, state, batch, value_and_grad, draw)

        loss, x, optimizer = self.client.step(state["x"], state["optimizer"], oracle, state["lr"])
        return {**state, "x": x, "optimizer": optimizer, "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": state["x"] - server["x"]}

    def client_remember(self, server: State, state: State) -> State:
        return {"previous": state["x"], "seen": 0 * state["memory"]["seen"] + 1}

    def server_update(self, server: State, mean: State) -> State:
        x, optimizer = self.server.step(server["x"], -mean["delta"], server["optimizer"])
        return {"x": x, "optimizer": optimizer}
