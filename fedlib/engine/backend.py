"""What a backend does: the local work of a cohort, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.feed import Round
from fedlib.engine.replicas import Replicas
from fedlib.engine.states import ClientStates, map_state


@dataclass
class Sums:
    """Sums over clients.

    Attributes:
        reports: for each field of what the clients send, sum_i w_i report_i, ``[S C, .]``.
        loss: example-weighted sum of the batch losses seen in training, ``[S C]``.
        seen: ``[S]``, how many examples of each replica that were; slots: how many were computed
            on, with padding.
        scale: what the reports of one client are still to be multiplied by, or None. Adding them
            does it on the way.
    """

    reports: State
    loss: Tensor
    seen: np.ndarray
    slots: int = 0
    scale: float | None = None

    def __iadd__(self, other: Sums) -> Sums:
        self.scaled()
        factor = 1.0 if other.scale is None else other.scale
        map_state(lambda own, t: own.add_(t, alpha=factor), self.reports, other.reports)
        self.loss += other.loss
        self.seen = self.seen + other.seen
        self.slots += other.slots
        return self

    def scaled(self) -> Sums:
        """Multiply the reports now, in new memory, as theirs may still be the client's."""
        if self.scale is not None:
            self.reports = map_state(lambda t: self.scale * t, self.reports)
            self.scale = None
        return self


@dataclass
class Kept:
    """What clients keep: from one of their rounds to the next, and within this round."""

    memory: ClientStates
    measured: ClientStates = field(init=False)

    def __post_init__(self) -> None:
        self.measured = ClientStates(len(self.memory.slots), self.memory.device)

    def forget(self) -> None:
        """Start a new round."""
        if self.measured.count:
            self.measured.clear()


@dataclass(frozen=True)
class Work:
    """What all clients of a round share.

    Attributes:
        methods: C configurations of one structure, the same for each of S replicas.
        method: all of them as one, with hyperparameters ``[C, 1]``.
        server: server states ``[S C, .]``, replica by replica.
        replicas: whose the clients are.
        weights: ``[all clients]``, aggregation weights.
        round: which round.
        kept: what clients keep; phases write to it.
    """

    methods: Sequence[Algorithm]
    method: Algorithm
    server: State
    replicas: Replicas
    weights: Tensor
    round: Round
    kept: Kept


class Backend:
    """How clients' work is executed; ``clients`` are numbers of clients that have examples."""

    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients that take part for the first time make their memory; the sums are empty."""
        raise NotImplementedError

    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients evaluate their whole data."""
        raise NotImplementedError

    def train(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients take their local steps."""
        raise NotImplementedError

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """The sums of one phase (``"enroll"``, ``"measure"``, ``"train"``) over several chunks."""
        first, *others = chunks
        sums: Sums = getattr(self, phase)(work, first)
        for clients in others:
            sums += getattr(self, phase)(work, clients)
        return sums.scaled()
