"""What a backend does: the local work of a cohort, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

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


class Backend(Protocol):
    """How clients' work is executed.

    ``methods`` are C configurations of one structure, ``server`` holds their states ``[C, .]``,
    ``clients`` are population numbers, ``weights [population]`` aggregation weights.
    """

    def enroll(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        round: Round,
        kept: Kept,
    ) -> None:
        """Let clients that take part for the first time make their memory."""

    def measure(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor,
        round: Round,
        kept: Kept,
    ) -> Sums:
        """Let clients evaluate their whole data."""

    def train(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor,
        round: Round,
        kept: Kept,
    ) -> Sums:
        """Let clients take their local steps."""
