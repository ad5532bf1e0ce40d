"""What a client optimizer is: how one client moves its model in a local step.

Each is written for one client whose parameters are one vector ``x [..., P]``; leading axes
(clients, configurations) broadcast. State starts afresh every round, as federated clients are
stateless, unless the optimizer says that clients keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from fedlib.component import Component, non_negative

State = dict[str, Any]


class Oracle(Protocol):
    """The value ``[..., 1]`` and gradient ``[..., P]`` of the local objective at ``x``.

    On the current batch; a method may ask at more than one point, first of all where it stands.
    Calls with the same ``draw`` share their dropout masks.

    Example:
        >>> import torch
        >>> import fedlib
        >>> oracle = lambda x, draw=0: (x.square().sum(-1, keepdim=True) / 2, x)
        >>> value, x, state = fedlib.SGD().step(torch.ones(2), {}, oracle, torch.tensor(0.5))
        >>> x.tolist()
        [0.5, 0.5]
    """

    def __call__(self, x: Tensor, draw: int = 0) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class ClientOptimizer(Component):
    """Base class of client optimizers.

    Example:
        >>> import fedlib
        >>> issubclass(fedlib.DeltaSGD, fedlib.client.ClientOptimizer), fedlib.DeltaSGD().takes_lr
        (True, False)
    """

    # Whether there is a learning rate to choose (client_lr, eta_l of the papers).
    takes_lr: ClassVar[bool] = False
    # Whether that rate is on SGD's scale, so that a task's rate for SGD is a sensible default.
    rate_of_sgd: ClassVar[bool] = False
    # Whether a step is x - lr * gradient and nothing else.
    descends: ClassVar[bool] = False

    @property
    def remembers(self) -> bool:
        """Whether a client's state lives on from one of its rounds to the next."""
        return False

    @property
    def lr(self) -> float:
        """The client learning rate; 1, without effect, where the method finds its own steps."""
        return 1.0

    def init(self, x: Tensor) -> State:
        """The optimizer's state at its start, at ``x [..., P]``: a dict of tensors."""
        return {}

    def step(
        self, x: Tensor, state: State, oracle: Oracle, lr: Tensor
    ) -> tuple[Tensor, Tensor, State]:
        """One local step with the scheduled learning rate ``lr``.

        Returns:
            the objective's value ``[..., 1]`` at ``x``, the new ``x`` and the new state.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class RatedOptimizer(ClientOptimizer):
    """Base class of those with a learning rate ``lr`` (eta_l of the papers).

    Example:
        >>> import fedlib
        >>> isinstance(fedlib.SGD(), fedlib.client.RatedOptimizer)
        True
    """

    takes_lr: ClassVar[bool] = True

    lr: float = 0.1

    def validate(self) -> None:
        non_negative(self.lr, "client_lr")
