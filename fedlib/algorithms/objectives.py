"""Local objectives: terms that a client minimises besides its own loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from fedlib.algorithms.base import State, ValueAndGrad
from fedlib.component import (
    Component,
    NonNegative,
    PerExample,
    PerFeature,
    PerParameter,
    Positive,
    Scalar,
)


class At(Protocol):
    """A client's own loss, the local objective (both ``[..., 1]``) and its gradient ``[..., P]``.

    Calls with the same ``draw`` share their dropout masks.
    """

    def __call__(self, x: PerParameter, draw: int = 0) -> tuple[Scalar, Scalar, PerParameter]: ...


@dataclass(frozen=True)
class Objective(Component):
    """The client's loss itself: F_i(x).

    Example:
        >>> import fedlib
        >>> fedlib.FedOpt().objective == fedlib.Objective()
        True
    """

    @property
    def plain(self) -> bool:
        """Whether this is the client's own loss and nothing else."""
        return type(self) is Objective

    @property
    def remembers(self) -> bool:
        """Whether the objective needs the client's last local model: ``"previous"`` in memory."""
        return False

    @property
    def needs_features(self) -> bool:
        """Whether the model must have ``features(x)`` and ``head(features)``."""
        return False

    def on(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> At:
        """The objective on one batch, as a function of ``x [..., P]``.

        The reported training loss is the client's own, so that methods can be compared.

        Args:
            state: the client's state. ``"anchor"`` is the server's model of this round and
                ``"memory"`` the client's memory.
            batch, value_and_grad: arguments of the local step.
        """

        def at(x: PerParameter, draw: int = 0) -> tuple[Scalar, Scalar, PerParameter]:
            loss, grad = value_and_grad(x, batch, draw=draw)
            return loss, loss, grad

        return at


@dataclass(frozen=True)
class Proximal(Objective):
    """F_i(x) + mu/2 ||x - x_t||^2, x_t the server's parameters (FedProx, Li et al., 2020).

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(objective=fedlib.Proximal(mu=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    mu: NonNegative = 0.01

    def on(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> At:
        def at(x: PerParameter, draw: int = 0) -> tuple[Scalar, Scalar, PerParameter]:
            loss, grad = value_and_grad(x, batch, draw=draw)
            drift = x - state["anchor"]
            value = loss + self.mu / 2 * torch.linalg.vector_norm(drift, dim=-1, keepdim=True) ** 2
            return loss, value, drift.mul_(self.mu).add_(grad)

        return at


@dataclass(frozen=True)
class Moon(Objective):
    """F_i(x) + mu * mean of l(z), the model-contrastive loss (MOON, Li, He and Song, 2021).

    l = -log(exp(cos(z, z_t)/temperature) / (exp(cos(z, z_t)/temperature) +
    exp(cos(z, z_prev)/temperature))) for an example's features z at x, z_t at the server's model
    of this round and z_prev at the client's model after its last round. z_t and z_prev are
    constants, without dropout. In a client's first round, when there is no z_prev, l = 0.

    z are the features that the model's head classifies, as in the Delta-SGD paper's code. The
    MOON paper adds a projection head to the model.

    Args:
        mu: weight of the term. The Delta-SGD paper's commands use 1. 0 gives FedAvg's objective.
        temperature: 0.5 in both papers' code.

    Example:
        >>> import fedlib
        >>> fedlib.FedOpt(objective=fedlib.Moon(mu=1.0, temperature=0.5)).needs_features
        True
    """

    remembers = True
    needs_features = True

    mu: NonNegative = 1.0
    temperature: Positive = 0.5

    def on(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> At:
        memory = state["memory"]
        anchor = value_and_grad.features(state["anchor"], batch)
        previous = value_and_grad.features(memory["previous"], batch)
        weight = self.mu * memory["seen"]

        def at(x: PerParameter, draw: int = 0) -> tuple[Scalar, Scalar, PerParameter]:
            terms = []

            def contrast(z: PerFeature) -> PerExample:
                toward = F.cosine_similarity(z, anchor, dim=-1)
                away = F.cosine_similarity(z, previous, dim=-1)
                term = weight * F.softplus((away - toward) / self.temperature)
                terms.append(term.detach())
                return term

            loss, grad = value_and_grad(x, batch, draw=draw, extra=contrast)
            return loss, loss + value_and_grad.reduce(terms[0], batch), grad

        return at
