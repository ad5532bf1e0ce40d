"""What a backend does: the local work of a cohort, or of a part of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.feed import Round
from fedlib.engine.states import ClientStates, map_state


@dataclass
class Sums:
    """Sums over clients.

    Attributes:
        reports: for each field of what the clients send, sum_i w_i report_i, ``[C, .]``.
        loss: example-weighted sum of the batch losses seen in training, ``[C]``.
        seen: how many examples that were.
    """

    reports: State
    loss: Tensor
    seen: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        reports = map_state(torch.add, self.reports, other.reports)
        return Sums(reports, self.loss + other.loss, self.seen + other.seen)


@dataclass
class Kept:
    """What clients keep: from one of their rounds to the next, and within this round."""

    memory: ClientStates
    measured: ClientStates = field(init=False)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start a new round."""
        self.measured = ClientStates(len(self.memory.slots), self.memory.device)


@dataclass(frozen=True)
class Work:
    """What all clients of a round share.

    Attributes:
        methods: C configurations of one structure.
        method: all of them as one, with hyperparameters ``[C, 1]``.
        server: their server states, ``[C, .]``.
        weights: ``[population]``, aggregation weights.
        round: which round.
        kept: what clients keep; phases write to it.
    """

    methods: Sequence[Algorithm]
    method: Algorithm
    server: State
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

    def each(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Iterator[Sums]:
        """One phase (``"enroll"``, ``"measure"``, ``"train"``) of several chunks, in order."""
        for clients in chunks:
            yield getattr(self, phase)(work, clients)
