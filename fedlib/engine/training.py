"""Rounds of configurations that train together: the cohort's local work, the servers' updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.backend import Backend, Kept, Sums, Work
from fedlib.engine.config import RunConfig
from fedlib.engine.feed import Feed
from fedlib.engine.plan import chunks
from fedlib.engine.states import ClientStates, carry_statistics, map_state
from fedlib.errors import Error


class Training:
    """Does rounds.

    Args:
        config: what the configurations share.
        methods: of the configurations, of one structure.
        feed: the clients' data; backend: how their work is executed.
        size: parameters of a model; tracked: its running statistics.
        chunk_clients: most clients that train at once.

    Attributes:
        kept: what clients keep.
        floats: received and sent by the cohort of the last round.
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
        data = feed.task.train
        self.examples = data.sizes
        weights = torch.from_numpy(data.client_weights())
        weights = torch.ones_like(weights) if methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(data.sizes > 0)
        self.kept = Kept(ClientStates(len(data), feed.device))
        self.floats = (0, 0)
        self.seen, self.slots = 0.0, 0
        self._stacked: tuple[list[int], Algorithm] | None = None

    def stack(self, alive: list[int]) -> Algorithm:
        """The configurations at these positions as one method with hyperparameters ``[C, 1]``."""
        if self._stacked is None or self._stacked[0] != alive:
            methods = [self.methods[position] for position in alive]
            stacked = type(methods[0]).stack(methods, self.feed.dtype, self.feed.device)
            self._stacked = (list(alive), stacked)
        return self._stacked[1]

    def cohort(self, number: int) -> np.ndarray:
        """The clients of round ``number``, in ascending order: the task's own draw, else uniform
        without replacement.

        Raises:
            Error: the task draws others than so many different clients.
        """
        population, size = len(self.examples), self.config.clients_per_round
        if size == population:
            return np.arange(population)
        if self.feed.task.cohorts is not None:
            drawn = np.unique(self.feed.task.cohorts(number, size))
            if len(drawn) != size or drawn[0] < 0 or drawn[-1] >= population:
                raise Error(
                    f"task {self.feed.task.name}: cohorts({number}, {size}) must give {size} "
                    f"different clients of 0..{population - 1}"
                )
            return drawn
        draw = randomness.numpy_generator(self.config.seeds["sampling"], "cohort", number)
        return np.sort(draw.choice(population, size, replace=False))

    def halves(self, cohort: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Which clients of the cohort measure and which train, at random."""
        draw = randomness.numpy_generator(self.config.seeds["sampling"], "halves", number)
        mixed = draw.permutation(cohort)
        middle = len(mixed) // 2
        return np.sort(mixed[:middle]), np.sort(mixed[middle:])

    def round(
        self, alive: list[int], server: State, number: int, cohort: np.ndarray | None = None
    ) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None where no client of the cohort took a step.

        Args:
            alive: positions of the configurations that take part; server: their states.
            cohort: ascending; default those drawn for round ``number``.
        """
        method = self.stack(alive)
        cohort = self.cohort(number) if cohort is None else cohort
        measuring, training = self.halves(cohort, number) if method.halves else (cohort, cohort)
        self.kept.forget()
        self.floats = self._floats(measuring, training)
        methods = [self.methods[position] for position in alive]
        round = self.feed.round(number, self.config, cohort)
        work = Work(methods, method, server, self.weights, round, self.kept)
        if method.remembers:
            self._phase("enroll", work, self.kept.memory.unseen(cohort))
        if method.measures:
            measured = self._phase("measure", work, measuring)
            if measured is None or not self._weight(measuring):
                return server, None
            informed = method.server_measured(server, self._mean(measured, measuring))
            work = replace(work, server=carry_statistics(server, informed))
        trained = self._phase("train", work, training)
        if trained is None or trained.seen == 0:
            return server, None
        loss = trained.loss / trained.seen
        self.seen, self.slots = self.seen + trained.seen, self.slots + trained.slots
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
        return float(self.weights[torch.from_numpy(clients)].sum())

    def _floats(self, measuring: np.ndarray, training: np.ndarray) -> tuple[int, int]:
        """Floats that these clients of a round receive and send."""
        method = self.methods[0]
        trainers = int((self.examples[training] > 0).sum())
        down, up = (trainers * (n + self.tracked) for n in method.communication(self.size))
        if method.halves:
            measurers = int((self.examples[measuring] > 0).sum())
            measure_down, measure_up = method.measure_communication(self.size)
            measure_down += self.tracked
            down, up = down + measurers * measure_down, up + measurers * measure_up
        return down, up
