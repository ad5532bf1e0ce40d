"""Rounds of configurations that train together: the cohort's local work, the servers' updates."""

import copy
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlib import process, randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.arguments import shown
from fedlib.engine.batches import Feed, chunks
from fedlib.engine.config import RunConfig
from fedlib.engine.plain import Plain
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import (
    ClientStates,
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
    """Runs rounds.

    Args:
        config: the settings that the configurations share.
        methods: methods of one structure.
        feed: the clients' data.
        backend: executes their work.
        model: the model that they train.
        chunk_clients: most clients that train at once.

    Attributes:
        memory, measured: the clients' memory from one of their rounds to the next, and within one.
        floats: floats received and sent by the cohort in the last round.
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
        # A client without examples does not take part, whatever its weight.
        self.weights = weights * torch.from_numpy(self.examples > 0)
        self.memory = ClientStates(len(self.examples), feed.device, self._home())
        self.measured = ClientStates(len(self.examples), feed.device)
        self.floats, self.named = (0, 0), 0
        self._own = methods[0].of_user  # a user's class

    def _home(self) -> torch.device:
        """The device that keeps the clients' memories."""
        if not self.methods[0].remembers:
            return self.feed.device
        config, population = self.config, len(self.examples)
        numbers = remembered(population, config.clients_per_round, config.rounds, self.model.size)
        return home(self.feed.device, len(self.methods) * numbers, self.feed.dtype.itemsize)

    def _tell(self, name: str, value: Any) -> None:
        """Give the methods a value that is not one of their fields."""
        tell((*self.methods, *(self._stacked or ())[1:]), name, value)

    def stack(self, alive: list[int]) -> Algorithm:
        """The configurations at these positions as one method with hyperparameters ``[C, 1]``."""
        if self._stacked is None or self._stacked[0] != alive:
            methods = [self.methods[position] for position in alive]
            stacked = type(methods[0]).stack(methods, self.feed.dtype, self.feed.device)
            self._stacked = alive, stacked
        return self._stacked[1]

    def round(self, alive: list[int], server: State, number: int) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None if no client of the cohort took a step.

        Args:
            alive, server: positions of the active configurations, and their states.
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
            mean = measured.mean(self._weight(measuring), self.feed.dtype)
            informed = self.serve("server_measured", alive, number, server, mean)
            work = replace(work, server=carry_statistics(server, informed))
        trained = self._phase("train", work, training)
        if trained is None or not trained.seen:
            return server, None
        loss = (trained.totals["loss"][0] / trained.seen).to(self.feed.dtype)
        if not (weight := self._weight(training)):
            return server, loss
        if trained.apart:
            sent, mean = self._apart(trained)
        else:
            mean = sent = trained.mean(weight, self.feed.dtype)
        updated = self.serve("server_update", alive, number, work.server, sent)
        return carry_statistics(mean, updated), loss

    def serve(self, deed: str, alive: list[int], number: int, *given: Any) -> State:
        """The server's function in a round.

        Args:
            deed, given: the method's function and its arguments.
        """
        method = self.stack(alive)
        self._tell("progress", (number, self.config.rounds))
        if not self._own:
            if deed == "server_update" and method.single_reports:
                given = *given[:-1], _clients_first(given[-1])
            return getattr(method, deed)(*given)  # type: ignore[no-any-return]
        methods = [self.methods[position] for position in alive]
        return serve(self.feed, methods, deed, number, *given)

    def _phase(self, phase: str, work: Work, clients: np.ndarray) -> Sums | None:
        """The sums of one phase over the ``clients`` that have examples, chunk by chunk.

        Chunks take about equally many batches, and within them all clients have this order.
        """
        clients = clients[self.examples[clients] > 0]
        if not len(clients):
            return None
        training = phase == "train"
        steps = work.round.steps_of(clients) if training else self.feed.whole_steps(clients)
        pieces = chunks(clients, steps, self.chunk_clients)
        before = process.random_states() if self._own else []
        sums = self.backend.total(phase, work, pieces)
        if before:
            require_no_draws(before, self.config.algorithm)
        return sums

    def _apart(self, sums: Sums) -> tuple[State, State]:
        """The reports by the clients' numbers, ``[C, M, .]``, and the running statistics' mean.

        :meth:`serve` needs the configurations' axis first.
        """
        numbers, parts = zip(*sums.apart, strict=True)
        clients = np.concatenate(numbers)
        order = np.argsort(clients)
        weights = self.weights[torch.from_numpy(clients[order])].to(self.feed.dtype)
        places, weights = torch.from_numpy(order), weights / weights.sum()
        whole = map_state(lambda *each: torch.cat(each), *parts)
        reports = map_state(lambda t: t[places.to(t.device)].transpose(0, 1), whole)
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


def tell(methods: Iterable[Algorithm], name: str, value: Any) -> None:
    """Give methods a value that is not one of their fields."""
    for method in methods:
        if name not in _names(type(method)):  # type: ignore[arg-type]
            object.__setattr__(method, name, value)


@cache
def _names(kind: type[Algorithm]) -> frozenset[str]:
    """The hyperparameters of a class, cached as every round needs them."""
    return frozenset(field.name for field in fields(kind))


def require_no_draws(states: list[Any], name: str) -> None:
    """Require that a user's clients have not drawn since random states were these."""
    for whose in process.drawn_since(states):
        raise Error(
            f"clients of {name} draw from {whose}'s random numbers, which those that train "
            "together share: draw in server_update, or by batch.keys (fedlib.randomness)"
        )


def serve(feed: Feed, methods: Sequence[Algorithm], deed: str, number: int, *given: Any) -> State:
    """A user's server function in a round, for one configuration after the other.

    Its draws from the process's random numbers are functions of the seed and the round.

    Args:
        methods: C configurations.
        deed, given: their function and its arguments, ``[C, .]``.
    """
    key, states = randomness.key(feed.seeds["sampling"], deed, number), []
    for place, method in enumerate(methods):
        process.seed(key)
        alone = type(method).stack([method], feed.dtype, feed.device)
        own = [copy.deepcopy(kept([place], part, len(methods))) for part in given]
        if deed == "server_update" and method.single_reports:
            own[-1] = _clients_first(own[-1])
        before = own[0]["x"] if isinstance(own[0], dict) else own[0]
        needed = before.dtype, tuple(before.shape)
        state = require_field(method, deed, getattr(alone, deed)(*own), "x")
        if (found := (state["x"].dtype, tuple(state["x"].shape))) != needed:
            what = f"{deed} of {type(method).__name__} gives x as {found[0]} of shape {found[1]}"
            raise Error(f"{what}, but it was {needed[0]} of shape {needed[1]}")
        states.append(state)
    if len(states) == 1:
        return states[0]
    joined: State = _joined(f"{deed} of {type(methods[0]).__name__} gives", *states)
    return joined


def _clients_first(reports: State) -> State:
    """Single clients' reports ``[C, M, .]`` as ``[M, C, .]``."""
    return map_state(lambda t: t.transpose(0, 1), reports)


def _joined(what: str, *parts: Any) -> Any:
    """The parts of several configurations as one.

    Args:
        what: description of the parts, for the error.

    Raises:
        Error: they differ in more than tensors ``[1, .]``.
    """
    first = parts[0]
    if isinstance(first, dict) and all(part.keys() == first.keys() for part in parts):
        return {
            name: _joined(f"{what} {name!r}", *(part[name] for part in parts)) for name in first
        }
    if isinstance(first, (list, tuple)) and all(len(part) == len(first) for part in parts):
        return type(first)(_joined(what, *each) for each in zip(*parts, strict=True))
    tensors = all(isinstance(part, Tensor) for part in parts)
    if tensors and all(part.dim() and len(part) == 1 for part in parts):
        return torch.cat(parts)
    if tensors and all(part.dim() == 0 for part in parts):
        return torch.stack(parts).unsqueeze(1)
    if not tensors and all(part == first for part in parts):
        return first
    raise Error(
        f"{what} {shown(first)} for one configuration and {shown(parts[1])} for another, but must "
        "give a tensor whose first axis is the configurations, like x"
    )
