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
from fedlib.engine.vectorized import Backend, Kept, Sums, Work


class Training:
    """Does rounds.

    Args:
        config: what the configurations share.
        methods: of one structure: those of one replica, then the same of the next.
        feed: the clients' data; backend: how their work is executed.
        size: parameters of a model; tracked: its running statistics.
        chunk_clients: most clients that train at once.

    Attributes:
        kept: what clients keep.
        floats: received and sent by each replica's cohort in the last round.
        seen, slots: examples trained on, and computed on with padding, in all rounds so far.
    """

    def __init__(
        self,
        config: RunConfig,
        methods: Sequence[Algorithm],
        feed: Feed,
        backend: Backend,
        size: int,
        tracked: int,
        chunk_clients: int,
    ) -> None:
        self.config, self.methods, self.feed, self.backend = config, methods, feed, backend
        self.size, self.tracked, self.chunk_clients = size, tracked, chunk_clients
        self.replicas = feed.replicas
        self.examples = feed.data.sizes
        weights = torch.from_numpy(self.replicas.weights)
        weights = torch.ones_like(weights) if methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(self.examples > 0)
        self.kept = Kept(ClientStates(len(self.examples), feed.device))
        self.floats: list[tuple[int, int]] = []
        self.seen, self.slots = 0.0, 0
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
        """The server states after a round, and the mean training loss ``[S C]``.

        The loss is None where no client of the cohort took a step.

        Args:
            alive: positions of the configurations that take part, the same of every replica;
                server: their states.
        """
        servers, first = self.stack(alive), alive[: len(alive) // len(self.replicas)]
        method = self.stack(first)
        cohort = measuring = training = self.replicas.cohort(number, self.config.clients_per_round)
        if method.halves:
            measuring, training = self.replicas.halves(cohort, number)
        self.kept.forget()
        self.floats = self._floats(measuring, training)
        methods = [self.methods[position] for position in first]
        round = self.feed.round(number, self.config, cohort)
        work = Work(methods, method, server, self.replicas, self.weights, round, self.kept)
        if method.remembers:
            self._phase("enroll", work, self.kept.memory.unseen(cohort))
        if method.measures:
            measured = self._phase("measure", work, measuring)
            if measured is None or not self._weight(measuring).all():
                return server, None
            informed = servers.server_measured(server, self._mean(measured, measuring, work))
            work = replace(work, server=carry_statistics(server, informed))
        trained = self._phase("train", work, training)
        if trained is None or not trained.seen.all():
            return server, None
        loss = (trained.loss.unsqueeze(1) / self._divisor(trained.seen, work)).squeeze(1)
        self.seen, self.slots = self.seen + trained.seen.sum(), self.slots + trained.slots
        if not self._weight(training).all():
            return server, loss
        mean = self._mean(trained, training, work)
        return carry_statistics(mean, servers.server_update(work.server, mean)), loss

    def _phase(self, phase: str, work: Work, clients: np.ndarray) -> Sums | None:
        """The sums of one phase over those of ``clients`` that have examples, chunk by chunk."""
        clients = clients[self.examples[clients] > 0]
        if not len(clients):
            return None
        pieces = chunks(clients, work.round.steps_of(clients), self.chunk_clients)
        return self.backend.total(phase, work, pieces)

    def _mean(self, sums: Sums, clients: np.ndarray, work: Work) -> State:
        """The weighted mean of what ``clients`` sent to their replica's server."""
        weight = self._divisor(self._weight(clients), work)
        return map_state(lambda t: t / weight, sums.reports)

    def _divisor(self, values: np.ndarray, work: Work) -> float | Tensor:
        """One value a replica, as it divides server states ``[S C, .]``."""
        if len(values) == 1:
            return float(values[0])
        column = torch.from_numpy(values).to(self.feed.dtype).repeat_interleave(len(work.methods))
        return column.unsqueeze(1).to(self.feed.device)

    def _weight(self, clients: np.ndarray) -> np.ndarray:
        """The sum of the weights of each replica's clients."""
        return self.replicas.totals(self.weights[torch.from_numpy(clients)].numpy(), clients)

    def _floats(self, measuring: np.ndarray, training: np.ndarray) -> list[tuple[int, int]]:
        """Floats that these clients of each replica receive and send."""
        replicas = range(len(self.replicas))
        of_measuring = self.replicas.of_clients(measuring)
        of_training = self.replicas.of_clients(training)
        return [
            self._exchanged(measuring[of_measuring == number], training[of_training == number])
            for number in replicas
        ]

    def _exchanged(self, measuring: np.ndarray, training: np.ndarray) -> tuple[int, int]:
        """Floats that these clients of one replica receive and send."""
        method = self.methods[0]
        trainers = int((self.examples[training] > 0).sum())
        down, up = (trainers * (n + self.tracked) for n in method.communication(self.size))
        if method.halves:
            measurers = int((self.examples[measuring] > 0).sum())
            measure_down, measure_up = method.measure_communication(self.size)
            measure_down += self.tracked
            down, up = down + measurers * measure_down, up + measurers * measure_up
        return down, up
