"""Rounds of configurations that train together: the cohort's local work, the servers' updates."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlib import process, randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.arguments import whole_tensors
from fedlib.engine.batches import Feed, chunks
from fedlib.engine.config import RunConfig
from fedlib.engine.plain import Plain
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import (
    ClientStates,
    alike,
    beside,
    carry_statistics,
    home,
    kept,
    map_state,
    remembered,
    require_field,
)
from fedlib.engine.vectorized import Distributed, Parallel, Sums, Vectorized, Work
from fedlib.errors import Error


class Training:
    """Does rounds.

    Args:
        config: what the configurations share.
        methods: of one structure.
        feed: the clients' data; backend: how their work is executed.
        model: which they train.
        chunk_clients: most clients that train at once.

    Attributes:
        memory, measured: what clients keep from one of their rounds to the next, and within one.
        floats: received and sent by the cohort in the last round.
        named: see :meth:`fedlib.engine.batches.Feed.cohorts_until`.
    """

    def __init__(
        self,
        config: RunConfig,
        methods: Sequence[Algorithm],
        feed: Feed,
        backend: Vectorized | Parallel | Distributed | Plain,
        model: FlatModel,
        chunk_clients: int,
    ) -> None:
        self.config, self.feed, self.backend = config, feed, backend
        self.methods = [copy.copy(method) for method in methods]
        self._stacked: tuple[list[int], Algorithm] | None = None
        self._tell("layout", model.layout())
        self.model, self.chunk_clients = model, chunk_clients
        self.examples = feed.data.sizes
        weights = torch.from_numpy(feed.data.client_weights())
        weights = torch.ones_like(weights) if methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(self.examples > 0)
        self.memory = ClientStates(len(self.examples), feed.device, self._home())
        self.measured = ClientStates(len(self.examples), feed.device)
        self.floats, self.named = (0, 0), 0
        # Of a class that is not fedlib's: which of the server's functions draw random numbers.
        self._brought, self._draws = bool(methods[0].versions()), dict[str, bool]()

    def _home(self) -> torch.device:
        """Where the clients' memories are kept."""
        if not self.methods[0].remembers:
            return self.feed.device
        config, population = self.config, len(self.examples)
        numbers = remembered(population, config.clients_per_round, config.rounds, self.model.size)
        return home(self.feed.device, len(self.methods) * numbers, self.feed.dtype.itemsize)

    def _tell(self, name: str, value: Any) -> None:
        """Let the methods know something that is no field of theirs."""
        for method in (*self.methods, *(self._stacked or ())[1:]):
            if name not in {field.name for field in fields(method)}:
                object.__setattr__(method, name, value)

    def stack(self, alive: list[int]) -> Algorithm:
        """The configurations at these positions as one method with hyperparameters ``[C, 1]``."""
        if self._stacked is None or self._stacked[0] != alive:
            self._stacked = alive, self._stack(alive)
        return self._stacked[1]

    def _stack(self, alive: list[int]) -> Algorithm:
        methods = [self.methods[position] for position in alive]
        return type(methods[0]).stack(methods, self.feed.dtype, self.feed.device)

    def round(self, alive: list[int], server: State, number: int) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None where no client of the cohort took a step.

        Args:
            alive: positions of the configurations that take part; server: their states.
        """
        method = self.stack(alive)
        cohort = measuring = training = self.feed.cohort(number, self.config.clients_per_round)
        if self.feed.names_cohorts:
            self.named = zlib.crc32(cohort.tobytes(), self.named)
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
            mean = self._mean(measured, measuring)
            informed = self.serve("server_measured", alive, number, server, mean)
            work = replace(work, server=carry_statistics(server, informed))
        trained = self._phase("train", work, training)
        if trained is None or not trained.seen:
            return server, None
        loss = trained.loss / trained.seen
        if not self._weight(training):
            return server, loss
        if trained.clients is None:
            mean = sent = self._mean(trained, training)
        else:
            sent, mean = self._apart(trained, trained.clients)
        updated = self.serve("server_update", alive, number, work.server, sent)
        return carry_statistics(mean, updated), loss

    def serve(self, deed: str, alive: list[int], number: int, *given: Any) -> State:
        """What the server does in a round, for all configurations at once.

        What a class of the user's draws from the process's random numbers is a function of the seed
        and the round, and of each configuration what it would be alone.

        Args:
            deed: the method's function; given: its arguments.

        Raises:
            Error: it is no function of its arguments, or not of each configuration's own.
        """
        method = self.stack(alive)
        apart = deed == "server_update" and method.single_reports
        self._tell("progress", (number, self.config.rounds))

        def function(*given: Any, method: Algorithm = method) -> State:
            if apart:
                given = *given[:-1], map_state(lambda t: t.transpose(0, 1), given[-1])
            made: State = getattr(method, deed)(*given)
            return made

        if not self._brought:
            return function(*given)
        key, count = randomness.key(self.config.seeds["sampling"], deed, number), len(alive)

        def alone(place: int, given: Sequence[Any]) -> State:
            method = self._stack([alive[place]])
            process.seed(key)
            return function(*(kept([place], part, count) for part in given), method=method)

        def together(given: Sequence[Any]) -> State:
            if not self._draws[deed] or count == 1:
                process.seed(key)
                before = process.random_states() if count > 1 else []
                made: State = function(*copy.deepcopy(given))
                if not (before and process.drawn_since(before)):
                    return made
                self._draws[deed] = True  # later than in its first call
            return map_state(_joined, *(alone(place, given) for place in range(count)))

        scales: tuple[float, ...] = ()
        if deed not in self._draws:
            process.seed(key)
            before = process.random_states()
            require_field(self.methods[0], deed, alone(0, given), "x")
            self._draws[deed] = bool(process.drawn_since(before))
            scales = 1.0, 1e-3, 1e4
        mixed = (
            f"{deed}{{}} of {self.config.algorithm} gives other numbers when it is called again, "
            "or beside other configurations; reduce over the last axis (dim=-1, keepdim=True), "
            "decide by torch.where, draw from torch's own random numbers, keep what changes in "
            "the server's state"
        )
        for scale in scales:  # beside others that are far larger
            tried = *given[:-1], beside(given[-1], 1, scale, 1e6)
            with whole_tensors(mixed):
                others = together(tried)
            if not alike(alone(0, tried), kept([0], others, count)):
                raise Error(mixed.format(""))
        return together(given)

    def _phase(self, phase: str, work: Work, clients: np.ndarray) -> Sums | None:
        """The sums of one phase over those of ``clients`` that have examples, chunk by chunk."""
        clients = clients[self.examples[clients] > 0]
        if not len(clients):
            return None
        pieces = chunks(clients, work.round.steps_of(clients), self.chunk_clients)
        before = process.random_states() if self._brought else []
        sums = self.backend.total(phase, work, pieces)
        for whose in process.drawn_since(before) if before else ():
            raise Error(
                f"clients of {self.config.algorithm} draw from {whose}'s random numbers, which "
                "those that train together share; draw in server_update, or by batch.keys "
                "(fedlib.randomness)"
            )
        return sums

    def _mean(self, sums: Sums, clients: np.ndarray) -> State:
        """The weighted mean of what ``clients`` sent."""
        weight = self._weight(clients)
        return map_state(lambda t: t / weight, sums.reports)

    def _apart(self, sums: Sums, clients: np.ndarray) -> tuple[State, State]:
        """The reports by the clients' numbers, ``[C, M, .]``, and the running statistics' mean.

        :meth:`serve` needs the configurations' axis first.
        """
        order = np.argsort(clients)
        weights = self.weights[torch.from_numpy(clients[order])].to(self.feed.dtype)
        places, weights = torch.from_numpy(order), weights / weights.sum()
        reports = map_state(lambda t: t[places.to(t.device)].transpose(0, 1), sums.reports)
        moved = reports.pop("statistics", None)
        if moved is None:
            return reports, {}
        return reports, {"statistics": torch.einsum("m,cmp->cp", weights.to(moved.device), moved)}

    def _weight(self, clients: np.ndarray) -> float:
        """The sum of the clients' weights."""
        return float(self.weights[torch.from_numpy(clients)].numpy().sum())

    def _exchanged(self, measuring: np.ndarray, training: np.ndarray) -> tuple[int, int]:
        """Floats that these clients receive and send."""
        method = self.methods[0]
        trainers = int((self.examples[training] > 0).sum())
        size, tracked = self.model.size, self.model.statistics.size
        down, up = (trainers * (floats + tracked) for floats in method.communication(size))
        if method.halves:
            measurers = int((self.examples[measuring] > 0).sum())
            measure_down, measure_up = method.measure_communication(size)
            down, up = down + measurers * (measure_down + tracked), up + measurers * measure_up
        return down, up


def _joined(*rows: Any) -> Any:
    """The parts of several configurations as one; what they share stays."""
    own = isinstance(rows[0], Tensor) and rows[0].dim() > 0 and len(rows[0]) == 1
    return torch.cat(rows) if own else rows[0]
