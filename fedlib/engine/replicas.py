"""Replicas: the same configurations with other seeds, maybe on other draws of the data, together.

A run is repeated to see how much chance there is in it. In one program the clients of its
repetitions are one population: replica s of N clients has the numbers s N to (s + 1) N - 1, and
each client starts from the server of its own replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib import randomness
from fedlib.algorithms.base import State
from fedlib.engine.config import Configured
from fedlib.engine.plan import client_keys
from fedlib.engine.states import map_state
from fedlib.errors import Error
from fedlib.task import ClientData, Task


class Received(Mapping[str, Any]):
    """Server states ``[S C, .]`` as clients receive them: each its own replica's, ``[M, C, .]``.

    Most clients ask for ``x`` alone, so a tensor is copied when it is asked for.
    """

    def __init__(self, server: State, replica: Tensor, replicas: int) -> None:
        self._server, self._replica, self._replicas = server, replica, replicas
        self._received: State = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._received:
            part = map_state(self._own, {name: self._server[name]})
            self._received |= part
        return self._received[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._server)

    def __len__(self) -> int:
        return len(self._server)

    def _own(self, values: Tensor) -> Tensor:
        return values.unflatten(0, (self._replicas, -1))[self._replica]


@dataclass(frozen=True)
class Replicas:
    """What repetitions of a run differ in; all are of N clients, of which M take part in a round.

    Args:
        tasks: of each replica, maybe the same object; they differ in their data only.
        seeds: of each replica; see :class:`fedlib.engine.RunConfig`.
    """

    tasks: Sequence[Task]
    seeds: Sequence[Mapping[str, int]]

    @classmethod
    def of(cls, configured: Sequence[Configured]) -> Replicas:
        """The replicas of a program's configurations, which stand replica by replica."""
        found = {(id(task), str(config.seeds)): (task, config) for config, _, task in configured}
        pooled = configured[0].method.pooled
        each = {id(task): task.centralized() if pooled else task for task, _ in found.values()}
        tasks = [each[id(task)] for task, _ in found.values()]
        return cls(tasks, [config.seeds for _, config in found.values()])

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def population(self) -> int:
        """N, the clients of one replica."""
        return len(self.tasks[0].train)

    @cached_property
    def distinct(self) -> list[Task]:
        """The tasks, each once."""
        return list({id(task): task for task in self.tasks}.values())

    def new_models(self) -> list[nn.Module]:
        """A model of each replica, as its seed initialises it."""
        models = []
        for task, seeds in zip(self.tasks, self.seeds, strict=True):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(randomness.key(seeds["init"], "init"))
                models.append(task.new_model())
        return models

    @cached_property
    def data(self) -> ClientData:
        """The training data of all replicas' clients."""
        return ClientData.joined([task.train for task in self.tasks])

    @cached_property
    def weights(self) -> np.ndarray:
        """float64 ``[all clients]``, what each counts in its replica's aggregation."""
        return np.concatenate([task.train.client_weights() for task in self.tasks])

    def of_clients(self, clients: np.ndarray) -> np.ndarray:
        """The replica of each client."""
        return clients // self.population

    def local(self, clients: np.ndarray) -> np.ndarray:
        """The number of each client in its own replica."""
        return clients % self.population

    def keys(self, round: int, clients: np.ndarray) -> Tensor:
        """int64 ``[M]``, what the draws of these clients in a round are keyed by."""
        seeds = [seeds["batches"] for seeds in self.seeds]
        return client_keys(seeds, round, self.local(clients), self.of_clients(clients))

    def cohort(self, round: int, size: int) -> np.ndarray:
        """Who takes part in a round, ascending: ``size`` clients of each replica."""
        cohorts = [self._cohort(number, round, size) for number in range(len(self))]
        return np.concatenate(cohorts)

    def _cohort(self, number: int, round: int, size: int) -> np.ndarray:
        """The clients of one replica: the task's own draw, else uniform without replacement.

        Raises:
            Error: the task draws others than so many different clients.
        """
        task, first = self.tasks[number], number * self.population
        if size == self.population:
            return first + np.arange(size)
        if task.cohorts is not None:
            drawn = np.unique(task.cohorts(round, size))
            if len(drawn) != size or drawn[0] < 0 or drawn[-1] >= self.population:
                raise Error(
                    f"task {task.name}: cohorts({round}, {size}) must give {size} "
                    f"different clients of 0..{self.population - 1}"
                )
            return first + drawn
        draw = randomness.numpy_generator(self.seeds[number]["sampling"], "cohort", round)
        return first + np.sort(draw.choice(self.population, size, replace=False))

    def halves(self, cohort: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
        """Which clients of each replica's cohort measure and which train, at random."""
        measuring, training = [], []
        for seeds, own in zip(self.seeds, np.split(cohort, len(self)), strict=True):
            draw = randomness.numpy_generator(seeds["sampling"], "halves", round)
            mixed = draw.permutation(own)
            measuring.append(np.sort(mixed[: len(mixed) // 2]))
            training.append(np.sort(mixed[len(mixed) // 2 :]))
        return np.concatenate(measuring), np.concatenate(training)

    def totals(self, values: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """Values ``[M]`` of some clients, summed over those of each replica: float64 ``[S]``."""
        if len(self) == 1:
            return np.array([values.sum()], dtype=np.float64)
        return np.bincount(self.of_clients(clients), values, minlength=len(self))

    def to_clients(self, server: State, replica: Tensor | None) -> State:
        """Server states ``[S C, .]`` as clients receive them: their own replica's, ``[M, C, .]``.

        Args:
            replica: ``[M]``, whose each client is. With one replica, None: all share ``[C, .]``.
        """
        return server if replica is None else Received(server, replica, len(self))  # type: ignore[return-value]

    def rows_of(self, replica: int, clients: np.ndarray) -> Tensor:
        """The places of a replica's clients among some clients."""
        return torch.from_numpy(np.flatnonzero(self.of_clients(clients) == replica))
