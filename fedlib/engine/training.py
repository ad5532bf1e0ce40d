"""Rounds of configurations that train together: the cohort's local work, the servers' updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.batches import Feed, chunks
from fedlib.engine.config import RunConfig
from fedlib.engine.states import ClientStates, carry_statistics, map_state
from fedlib.engine.vectorized import Parallel, Sums, Vectorized, Work


class Training:
    """Does rounds.

    Args:
        config: what the configurations share.
        methods: of one structure.
        feed: the clients' data; backend: how their work is executed.
        size: parameters of a model; tracked: its running statistics.
        chunk_clients: most clients that train at once.

    Attributes:
        memory, measured: what clients keep from one of their rounds to the next, and within one.
        floats: received and sent by the cohort in the last round.
    """

    def __init__(
        self,
        config: RunConfig,
        methods: Sequence[Algorithm],
        feed: Feed,
        backend: Vectorized | Parallel,
        size: int,
        tracked: int,
        chunk_clients: int,
    ) -> None:
        self.config, self.methods, self.feed, self.backend = config, methods, feed, backend
        self.size, self.tracked, self.chunk_clients = size, tracked, chunk_clients
        self.examples = feed.data.sizes
        weights = torch.from_numpy(feed.data.client_weights())
        weights = torch.ones_like(weights) if methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(self.examples > 0)
        self.memory = ClientStates(len(self.examples), feed.device)
        self.measured = ClientStates(len(self.examples), feed.device)
        self.floats = 0, 0
        self._stacked: dict[tuple[int, ...], Algorithm] = {}

    def stack(self, alive: list[int]) -> Algorithm:
        """The configurations at these positions as one method with hyperparameters ``[C, 1]``."""
        if tuple(alive) not in self._stacked:
            if len(self._stacked) > 1:  # of configurations that have left
                self._stacked.clear()
            methods = [self.methods[position] for position in alive]
            stacked = type(methods[0]).stack(methods, self.feed.dtype, self.feed.device)
            self._stacked[tuple(alive)] = stacked
        return self._stacked[tuple(alive)]

    def round(self, alive: list[int], server: State, number: int) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None where no client of the cohort took a step.

        Args:
            alive: positions of the configurations that take part; server: their states.
        """
        method = self.stack(alive)
        cohort = measuring = training = self.feed.cohort(number, self.config.clients_per_round)
        if method.halves:
            measuring, training = self.feed.halves(cohort, number)
        if self.measured.count:
            self.measured.clear()
        self.floats = self._exchanged(measuring, training)
        methods = [self.methods[position] for position in alive]
        round = self.feed.round(number, self.config, cohort)
        work = Work(methods, method, server, self.weights, round, self.memory, self.measured)
        if method.remembers:
            self._phase("enroll", work, self.memory.unseen(cohort))
        if method.measures:
            measured = self._phase("measure", work, measuring)
            if measured is None or not self._weight(measuring):
                return server, None
            informed = method.server_measured(server, self._mean(measured, measuring))
            work = replace(work, server=carry_statistics(server, informed))
        trained = self._phase("train", work, training)
        if trained is None or not trained.seen:
            return server, None
        loss = trained.loss / trained.seen
        if not self._weight(training):
            return server, loss
        mean = self._mean(trained, training)
        return carry_statistics(mean, method.server_update(work.server, mean)), loss

    def _phase(self, phase: str, work: Work, clients: np.ndarray) -> Sums | None:
        """The sums of one phase over those of ``clients`` that have examples, chunk by chunk."""
        clients = clients[self.examples[clients] > 0]
        if not len(clients):
            return None
        pieces = chunks(clients, work.round.steps_of(clients), self.chunk_clients)
        return self.backend.total(phase, work, pieces)

    def _mean(self, sums: Sums, clients: np.ndarray) -> State:
        """The weighted mean of what ``clients`` sent."""
        weight = self._weight(clients)
        return map_state(lambda t: t / weight, sums.reports)

    def _weight(self, clients: np.ndarray) -> float:
        """The sum of the clients' weights."""
        return float(self.weights[torch.from_numpy(clients)].numpy().sum())

    def _exchanged(self, measuring: np.ndarray, training: np.ndarray) -> tuple[int, int]:
        """Floats that these clients receive and send."""
        method = self.methods[0]
        trainers = int((self.examples[training] > 0).sum())
        down, up = (trainers * (n + self.tracked) for n in method.communication(self.size))
        if method.halves:
            measurers = int((self.examples[measuring] > 0).sum())
            measure_down, measure_up = method.measure_communication(self.size)
            measure_down += self.tracked
            down, up = down + measurers * measure_down, up + measurers * measure_up
        return down, up
