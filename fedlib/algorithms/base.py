"""What an algorithm is: three functions of a client and two of the server.

All are pure functions on tensors, written for ONE client whose parameters are a vector ``x [P]``.
The engine calls them with leading axes, clients ``M`` and configurations ``C``: a server vector is
``[C, P]``, a client vector ``[M, C, P]``, a client scalar ``[M, 1, 1]``, a hyperparameter ``[C,
1]``; plain arithmetic broadcasts them. Reductions over the parameters are over the last axis with
``keepdim=True``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedlib.component import Component

State = dict[str, Any]
ValueAndGrad = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Client:
    """What a client knows when a round starts.

    Attributes:
        examples: its number of training examples n_i, a scalar.
        steps: the local steps it will take this round, a scalar.
        round: the number of this round, from 0.
        rounds: how many rounds the run has.
    """

    examples: Tensor
    steps: Tensor
    round: int
    rounds: int


@dataclass(frozen=True)
class Algorithm(Component):
    """Base class of federated algorithms."""

    def server_init(self, params: Tensor) -> State:
        """The server's state before round 0; ``"x"`` holds the parameters ``[..., P]``."""
        return {"x": params}

    def client_init(self, server: State, client: Client) -> State:
        """The client's state at the start of a round; ``"x"`` holds its parameters."""
        raise NotImplementedError

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        """The state after one local step; ``"loss"`` holds the batch loss ``[..., 1]`` before it.

        ``value_and_grad(x, batch)`` gives the loss ``[..., 1]`` and gradient ``[..., P]`` at ``x``.
        """
        raise NotImplementedError

    def client_final(self, server: State, state: State) -> State:
        """What the client sends: tensors that the engine averages with the clients' weights."""
        raise NotImplementedError

    def server_update(self, server: State, mean: State) -> State:
        """The server's state after a round, from the weighted mean of the clients' reports."""
        raise NotImplementedError
