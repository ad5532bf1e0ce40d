"""Lookahead on clients: any inner optimizer, and an outer step with its own rate (FedOpt, B.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, State
from fedlib.algorithms.fedopt import FedOpt
from fedlib.errors import Error, require
from fedlib.optimizers import server as servers


@dataclass(frozen=True)
class Lookahead(FedOpt):
    """FedOpt with an SGD server: x_{t+1} = x_t + server.lr sum_i p_i (y_i - x_t).

    Lookahead (Zhang et al., 2019) takes k steps of an inner optimizer from its slow weights x and
    moves them a fraction alpha = ``server.lr`` toward the result y. With one client the two are the
    same. FedOpt (B.3) spreads it over clients with an adaptive inner optimizer as client optimizer,
    and says that the optimizer's accumulators travel with the model. The server averages them as it
    averages the models, and the next cohort starts from the mean. So an inner optimizer with one
    vector of state (SGDM, Adagrad) doubles the communication, and Adam with two triples it. SGD has
    no state, so Lookahead with SGD is FedAvg with server rate alpha.

    Args:
        client: the inner optimizer.
        server: ``fedlib.server.SGD(lr=alpha)``.
        objective, client_schedule: see :class:`fedlib.FedOpt`.
        reset: whether the inner optimizer starts afresh every round, as in plain FedOpt.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> slow = fedlib.server.SGD(lr=0.5)
        >>> method = fedlib.Lookahead(client=fedlib.SGDM(lr=0.05), server=slow)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    reset: bool = False

    def validate(self) -> None:
        super().validate()
        name = type(self.server).__name__
        require(isinstance(self.server, servers.SGD), "server of Lookahead", name, "SGD")
        if self.client.remembers:
            raise Error(
                "momentum_state is 'client', but Lookahead sends the clients' momentum to the "
                "server (allowed: 'round')"
            )

    def server_init(self, params: Tensor) -> State:
        inner = {} if self.reset else self.client.init(params)
        return {**super().server_init(params), "inner": inner}

    def client_init(self, server: State, client: Client) -> State:
        state = super().client_init(server, client)
        return state if self.reset else {**state, "optimizer": server["inner"]}

    def client_final(self, server: State, state: State) -> State:
        inner = {} if self.reset else state["optimizer"]
        return {**super().client_final(server, state), "inner": inner}

    def server_update(self, server: State, mean: State) -> State:
        return {**super().server_update(server, mean), "inner": mean["inner"]}

    def communication(self, size: int) -> tuple[int, int]:
        """The model and the inner optimizer's vectors, both ways."""
        state = {} if self.reset else self.client.init(torch.zeros(2))
        vectors = 1 + sum(leaf.shape[-1] == 2 for leaf in state.values())
        return vectors * size, vectors * size


def lookahead() -> Lookahead:
    """:class:`Lookahead` with SGD inside. Its authors use an outer rate ``server_lr`` of 0.5."""
    return Lookahead(server=servers.SGD(lr=0.5))
