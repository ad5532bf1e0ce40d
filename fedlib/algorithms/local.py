"""Local training: a client optimizer on a local objective, or steps that a method defines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fedlib.algorithms.base import Algorithm, Client, FullBatch, State, ValueAndGrad
from fedlib.algorithms.objectives import Objective
from fedlib.component import NonNegative, PerParameter, Scalar
from fedlib.errors import Error
from fedlib.optimizers import client as clients
from fedlib.optimizers.schedules import Schedule, factor, require_schedule


@dataclass(frozen=True, kw_only=True)
class LocalTraining(Algorithm):
    """Base of methods whose clients start at x_t and train with a client optimizer.

    Attributes:
        client: the client optimizer.
        objective: the local objective.
        client_schedule: factor on the client learning rate per round, see :class:`fedlib.FedOpt`.
    """

    client: clients.ClientOptimizer = field(default_factory=clients.SGD)
    objective: Objective = field(default_factory=Objective)
    client_schedule: str | Schedule = "constant"

    def validate(self) -> None:
        require_schedule("client_schedule", self.client_schedule)
        if self.client_schedule != "constant" and not self.client.takes_lr:
            raise Error(
                f"client_schedule is {self.client_schedule!r}, but {type(self.client).__name__} "
                "has no learning rate to schedule (allowed: 'constant')"
            )

    @property
    def remembers(self) -> bool:
        return self.objective.remembers or self.client.remembers

    @property
    def needs_features(self) -> bool:
        return self.objective.needs_features

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        memory: State = {}
        if self.objective.remembers:
            # Before its first round a client has no model of its own. "seen" says whether it has.
            memory = {"previous": server["x"], "seen": 0 * client.examples}
        if self.client.remembers:
            memory["optimizer"] = self.client.init(server["x"])
        return memory

    def client_init(self, server: State, client: Client) -> State:
        rate = factor(self.client_schedule, client.round, client.rounds) * self.client.lr
        x, memory = server["x"], dict(client.memory)
        optimizer = memory.pop("optimizer", None)
        return {
            "x": x,
            "anchor": x,
            "lr": rate * torch.ones_like(x[..., :1]),
            "optimizer": self.client.init(x) if optimizer is None else optimizer,
            "memory": memory,
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        if self.objective.plain and self.client.descends:
            # Before its first step x is the server's. After it, the client may overwrite its own x,
            # unless a class of the user's may still hold it.
            x = state["x"]
            held = x.data_ptr() == state["anchor"].data_ptr() or self.of_user
            out = None if held else x
            loss, x = value_and_grad.descend(x, batch, state["lr"], out=out)
            return {**state, "x": x, "loss": loss}
        objective = self.objective.on(state, batch, value_and_grad)
        losses = []

        def oracle(x: PerParameter, draw: int = 0) -> tuple[Scalar, PerParameter]:
            loss, value, grad = objective(x, draw)
            losses.append(loss)
            return value, grad

        _, x, optimizer = self.client.step(state["x"], state["optimizer"], oracle, state["lr"])
        # Every optimizer evaluates its current point first.
        return {**state, "x": x, "optimizer": optimizer, "loss": losses[0]}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": state["x"] - server["x"]}

    def client_remember(self, server: State, state: State) -> State:
        memory: State = {}
        if self.objective.remembers:
            memory = {"previous": state["x"], "seen": 0 * state["memory"]["seen"] + 1}
        if self.client.remembers:
            memory["optimizer"] = state["optimizer"]
        return memory


@dataclass(frozen=True)
class OwnSteps(Algorithm):
    """Base of methods that define the clients' steps themselves.

    Attributes:
        client_lr: learning rate of the clients, eta_l.
        client_schedule: factor on it per round, see :class:`fedlib.FedOpt`.
    """

    client_lr: NonNegative = 0.1
    client_schedule: str | Schedule = field(default="constant", kw_only=True)

    def validate(self) -> None:
        require_schedule("client_schedule", self.client_schedule)

    def rate(self, client: Client) -> float:
        """The clients' learning rate in this round. It is a tensor if ``client_lr`` is one."""
        return factor(self.client_schedule, client.round, client.rounds) * self.client_lr
