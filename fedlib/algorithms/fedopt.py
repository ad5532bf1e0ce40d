"""FedOpt: any client optimizer under any server optimizer (Reddi et al., Algorithms 1 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from fedlib.algorithms.base import State
from fedlib.algorithms.local import LocalTraining
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers
from fedlib.optimizers.schedules import Schedule, factor, require_schedule


@dataclass(frozen=True)
class FedOpt(LocalTraining):
    """Adaptive federated optimization, composed of three parts and a schedule.

    Each round t, every client i of the cohort starts at x_t, takes its local steps with the client
    optimizer on the local objective, and sends Delta_i = x_i - x_t. The server averages them with
    weights p_i (the client's examples, unless the task says otherwise) and gives the
    pseudo-gradient -sum_i p_i Delta_i to the server optimizer.

    Args:
        client: the client optimizer, for instance ``fedlib.client.SGD(lr=0.1)``.
        server: the server optimizer, for instance ``fedlib.server.Adam(lr=0.01)``.
        objective: the local objective. ``fedlib.Proximal(mu)`` gives FedProx and
            ``fedlib.Moon(mu)`` gives MOON.
        client_schedule: factor on the client learning rate per round: ``"constant"``,
            ``"exp_decay"`` (FedOpt E.6), ``"exp_decay_thirds"`` (the same for any number of
            rounds), ``"step_decay"``, or a function of the round, from 0, and of the number of
            rounds. Runs with a function are stored only if it has a ``version``, as for your own
            classes.
        server_schedule: the same for the server's learning rate.

    Example:
        >>> import fedlib
        >>> method = fedlib.FedOpt(client=fedlib.SGD(lr=0.1), server=fedlib.server.Adam(lr=0.01))
        >>> method.server.tau
        0.001
    """

    client: clients.ClientOptimizer = field(default_factory=clients.SGD)
    server: servers.ServerOptimizer = field(default_factory=servers.SGD)

    server_schedule: str | Schedule = field(default="constant", kw_only=True)
    HISTORICAL: ClassVar[dict[str, Any]] = {"server_schedule": "constant"}

    def validate(self) -> None:
        super().validate()
        require_schedule("server_schedule", self.server_schedule)

    def program(self) -> str:
        """The structure without the server, as clients' work is the same under every server.

        The structure of a user's class contains the server, as the class may read its server or
        draw random numbers.
        """
        return (self if self.versions() else replace(self, server=servers.SGD())).structure()

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "optimizer": self.server.init(params)}

    def server_update(self, server: State, mean: State) -> State:
        x, optimizer = self.server.step(server["x"], -mean["delta"], server["optimizer"])
        if self.server_schedule != "constant":  # the rate is a factor of every server's step
            share = factor(self.server_schedule, *self.progress)
            x = server["x"] + share * (x - server["x"])
        return {"x": x, "optimizer": optimizer}
