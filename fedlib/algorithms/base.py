"""An algorithm: three functions of a client, two of the server, and its declarations.

All are pure functions on tensors, written for ONE client whose parameters are a vector ``x [P]``.
The engine calls them with leading axes, clients ``M`` and configurations ``C``: a server vector is
``[C, P]``, a client vector ``[M, C, P]``, a client scalar ``[M, 1, 1]``, a hyperparameter ``[C,
1]``. Plain arithmetic broadcasts them. Reductions over the parameters are over the last axis with
``keepdim=True``.

A round, for the clients of the cohort that have examples:

1. If ``remembers``: ``client_enroll`` for clients that take part for the first time.
2. If ``measures``: each client evaluates its whole data with ``client_measure``, and the server
   takes the mean of their reports in ``server_measured``.
3. ``client_init``, ``client_step`` for every local step, and ``client_final``. If ``remembers``:
   then ``client_remember``.
4. ``server_update`` with the weighted mean of the reports.

The server's random numbers from torch, NumPy or Python are a function of the run's seed and the
round, the same for all configurations. Clients draw by ``batch.keys``, or by ``client.keys``, see
:mod:`fedlib.randomness`. Any other draw on a client raises an error.

A method finds the parameters' places in ``x`` in ``self.layout``, and the server's functions find
the round in ``self.progress``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import torch

from fedlib import randomness
from fedlib.arguments import checked
from fedlib.component import Component, PerExample, PerFeature, PerParameter, Scalar, State
from fedlib.errors import Error, require, undefined

# Added to each example's loss, from the model's features [..., B, F] to [..., B].
Extra = Callable[[PerFeature], PerExample]


class ValueAndGrad(Protocol):
    """The loss ``[..., 1]`` and gradient ``[..., P]`` of a client at ``x [..., P]`` on a batch."""

    def __call__(
        self, x: PerParameter, batch: Any, *, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Scalar, PerParameter]:
        """Evaluate at ``x``.

        Args:
            draw: evaluations of one batch with the same ``draw`` share their dropout masks.
            extra: a term of the local objective that is a function of the model's features. It is
                in the returned gradient but not in the returned loss.
        """

    def descend(
        self, x: PerParameter, batch: Any, lr: Scalar, *, out: PerParameter | None = None
    ) -> tuple[Scalar, PerParameter]:
        """The loss at ``x``, and ``x - lr * gradient``: a step of SGD in one pass over memory.

        Args:
            lr: broadcasts to ``[..., 1]``.
            out: the tensor to write to, for instance ``x`` itself. Default: a new tensor.
        """

    def features(self, x: PerParameter, batch: Any) -> PerFeature:
        """The model's features ``[..., B, F]`` at ``x``, without dropout and without a graph."""

    def reduce(self, values: PerExample, batch: Any) -> Scalar:
        """Reduce per-example values ``[..., B]`` as the loss reduces them, to ``[..., 1]``."""


class FullBatch(Protocol):
    """The loss ``[..., 1]`` and gradient ``[..., P]`` of a client at ``x`` on all of its data.

    This is the exact local objective, without dropout and augmentation. If the task sums over a
    batch, it is in units of one batch (the mean over examples times the batch size).
    """

    def __call__(self, x: PerParameter) -> tuple[Scalar, PerParameter]: ...

    def loss(self, x: PerParameter) -> Scalar:
        """The loss alone, at a third of the cost."""


@dataclass(frozen=True)
class Client:
    """The information that a client has when a round starts.

    Attributes:
        examples: its number of training examples n_i, a scalar.
        steps: the local steps it will take this round, a scalar.
        round: the number of this round, from 0.
        rounds: how many rounds the run has.
        cohort: how many clients take part in a round.
        population: how many clients there are.
        memory: its memory from its last round (``client_enroll``, ``client_remember``).
        measured: its own part of ``client_measure`` in this round. Empty if ``halves``.
        number: the client's number in the task, from 0, in a scalar's shape.
        key: the key of this run and round. :attr:`keys` are the client's.
    """

    examples: Scalar
    steps: Scalar
    round: int
    rounds: int
    cohort: int = 1
    population: int = 1
    memory: State = field(default_factory=dict)
    measured: State = field(default_factory=dict)
    number: Scalar = field(default_factory=lambda: torch.zeros(1, 1, 1, dtype=torch.int64))
    key: int = 0

    @property
    def keys(self) -> Scalar:
        """Keys, int64 scalars, for draws of this client in this round.

        Store them in the client's state to use them in ``client_final``, for instance
        ``randomness.normal(state["keys"][..., 0], n)`` of shape ``[M, 1, n]``.
        """
        base = torch.full_like(self.number, self.key)
        return randomness.fold(randomness.fold(base, self.number), 4)


class Part(NamedTuple):
    """The place of a parameter in ``x``: ``x[..., slice]`` has its numbers, in this shape."""

    slice: slice
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Algorithm(Component):
    """Base class of federated algorithms.

    Example:
        >>> import fedlib
        >>> isinstance(fedlib.Mime(), fedlib.Algorithm)
        True
        >>> fedlib.Scaffold().communication(size=1000)  # floats down and up
        (2000, 2000)
    """

    # The places of the trained model's parameters in ``x``, by name.
    layout: ClassVar[Mapping[str, Part]] = {}
    # The current round, from 0, and the number of rounds, for the server's functions.
    progress: ClassVar[tuple[int, int]] = (0, 1)

    @property
    def remembers(self) -> bool:
        """Whether clients keep a state from one of their rounds to the next."""
        return False

    @property
    def measures(self) -> bool:
        """Whether clients evaluate all of their data at the server's model before local work."""
        return False

    @property
    def measured_on(self) -> str:
        """What a client's whole data are: ``"train"``, or a split of the task's ``evaluated``."""
        return "train"

    @property
    def halves(self) -> bool:
        """Whether one half of the cohort measures and the other half trains."""
        return False

    @property
    def needs_features(self) -> bool:
        """Whether the model must have ``features(x)`` and ``head(features)``."""
        return False

    @property
    def uniform(self) -> bool:
        """Whether all clients of a cohort count the same, whatever their weights."""
        return False

    @property
    def single_reports(self) -> bool:
        """Whether :meth:`server_update` gets the clients' reports ``[M, C, .]`` themselves, in the
        order of the clients' numbers, instead of their weighted mean. A median needs this.
        """
        return False

    @property
    def pooled(self) -> bool:
        """Whether one client holds all examples, so that nothing is federated."""
        return False

    def server_init(self, params: PerParameter) -> State:
        """The server's state before round 0. ``"x"`` holds the parameters ``[..., P]``."""
        return {"x": params}

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        """A client's memory before its first round."""
        return {}

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        """A client's measurements on all of its data before local work: (kept, sent).

        ``client.measured`` in :meth:`client_init` is the kept part. The sent part is averaged with
        the clients' weights for :meth:`server_measured`.
        """
        raise undefined(self, "client_measure")

    def server_measured(self, server: State, mean: State) -> State:
        """The server's state with the mean of the clients' measurements."""
        return server

    def client_init(self, server: State, client: Client) -> State:
        """The client's state at the start of a round. ``"x"`` holds its parameters."""
        raise undefined(self, "client_init")

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        """The state after one local step. ``"loss"`` holds the loss ``[..., 1]`` before it."""
        raise undefined(self, "client_step")

    def client_final(self, server: State, state: State) -> State:
        """The client's report: tensors that the engine averages with the clients' weights."""
        raise undefined(self, "client_final")

    def client_remember(self, server: State, state: State) -> State:
        """The client's memory until its next round. The fields of :meth:`client_enroll`."""
        return {}

    def server_update(self, server: State, mean: State) -> State:
        """The server's state after a round, from the weighted mean of the clients' reports.

        With :attr:`single_reports` ``mean`` holds all reports instead.
        """
        raise undefined(self, "server_update")

    def client_model(self, server: State, memory: State) -> PerParameter:
        """The parameters ``[.., P]`` that a client itself uses, from its memory.

        If a method defines it, histories have the clients' metrics on their own test data as the
        split ``personal``. A client that never took part uses the server's parameters.
        """
        x: PerParameter = server["x"]
        return x

    def communication(self, size: int) -> tuple[int, int]:
        """Floats that one training client receives and sends in a round, for ``size`` parameters.

        Everything that is always sent counts. Numbers per client that do not grow with the model (a
        loss, a norm) do not. If all examples are in one place, nothing is sent.
        """
        return (0, 0) if self.pooled else (size, size)

    def measure_communication(self, size: int) -> tuple[int, int]:
        """The same for a client that only measures (:attr:`halves`)."""
        return size, size


@checked
def clients_for_budget(method: Algorithm, budget: float) -> int:
    """Clients per round whose sending and receiving costs at most ``budget`` model sizes.

    Mime's Table 2 gives each method 40 model sizes a round (Stack Overflow: 100). FedAvg spends
    them on 20 (50) clients. The paper does not say how it counts. Here the cost of a client is its
    method's ``communication``. If the cohort is split in halves (``split=True``), it is the mean of
    both halves, which ``lean=True`` makes cheaper.

    Args:
        method: for instance ``fedlib.Mime(base=fedlib.base.Adam(), split=True)``.
        budget: floats of all clients of a round, up and down, in model sizes.

    Raises:
        Error: the method sends nothing, or the budget is too small for its smallest cohort.

    Example:
        >>> import fedlib
        >>> fedlib.clients_for_budget(fedlib.FedOpt(), 40)
        20
        >>> fedlib.clients_for_budget(fedlib.Mime(base=fedlib.base.Adam(), split=True), 40)
        8
    """
    require(0 < budget < math.inf, "budget", budget, "a finite number of model sizes > 0")
    cost = float(sum(method.communication(1)))
    if method.halves:
        cost = (cost + sum(method.measure_communication(1))) / 2
    if cost == 0:
        raise Error(f"{type(method).__name__} sends nothing, so any budget pays for all clients")
    clients, least = int(budget / cost), 2 if method.halves else 1
    if clients < least:
        raise Error(
            f"budget is {budget:g}, but {type(method).__name__} needs at least {least * cost:g} "
            f"model sizes, for {least} client{'s' if least > 1 else ''}"
        )
    return clients
