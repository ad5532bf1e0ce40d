"""Answering the requests of plans: stored runs, missing runs, and the runs that train together."""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch

from fedlib import engine
from fedlib.engine.history import History
from fedlib.plans import Request, task_key
from fedlib.results.store import Store
from fedlib.task import Task
from fedlib.tasks import load_task


def by_task(
    requests: Sequence[Request], preset: str, load: Callable[..., Task] = load_task
) -> Iterator[dict[int, Task]]:
    """The positions of requests whose tasks differ in their seeds at most, with their tasks.

    Each task is loaded once.

    Args:
        load: as :func:`fedlib.load_task`.
    """
    groups: dict[str, list[int]] = {}
    for position, request in enumerate(requests):
        options = {**request.task_options(preset), "seed": None}
        groups.setdefault(task_key(request.task, options), []).append(position)
    for positions in groups.values():
        keys = {position: requests[position].task_key(preset) for position in positions}
        alike = {key: requests[position] for position, key in keys.items()}
        tasks = {key: load(r.task, **r.task_options(preset)) for key, r in alike.items()}
        yield {position: tasks[key] for position, key in keys.items()}


def answer(
    store: Store,
    requests: Sequence[Request],
    preset: str,
    load: Callable[..., Task] = load_task,
    **execution: Any,
) -> list[History]:
    """The histories of some requests, in order, from the store or trained.

    Each task is loaded once. The missing runs of a task and seed are trained together. The
    parameters of grids are not stored, see :class:`Request`. ``meta["plan"]["part"]`` of a history
    is the part that requested it. The store does not keep that.

    Args:
        load: a function like :func:`fedlib.load_task`.
        execution: ``device``, ``backend``, ``progress``, ``chunk_clients``, ``refresh`` of
            :meth:`Store.answer`.
    """
    histories: dict[int, History] = {}
    for tasks in by_task(requests, preset, load):
        for keep in (True, False):
            chosen = [p for p in tasks if requests[p].keeps == keep]
            runs = [configured(tasks[p], requests[p]) for p in chosen]
            answers = store.answer(runs, keep_params=keep, **execution)
            histories.update(zip(chosen, answers, strict=True))
    return [labelled(histories[p], request) for p, request in enumerate(requests)]


def labelled(history: History, request: Request) -> History:
    """The history with the part that requested it in its meta data."""
    named = object.__new__(type(history))  # so that its frames need not be made
    vars(named).update(vars(history), meta={**history.meta, "plan": {"part": request.part}})
    return named


@dataclass(frozen=True)
class RunGroup:
    """Runs that train together.

    Attributes:
        requests: one per run.
        digests: the runs' digests.
        cost: rounds x rows (runs x clients of a round) x parameters.
    """

    requests: tuple[Request, ...]
    digests: tuple[str, ...]
    cost: int = 1

    def missing(self, there: Container[str]) -> int:
        """The number of its runs to be trained, if some digests are stored."""
        return sum(digest not in there for digest in self.digests)


def survey(
    requests: Sequence[Request], preset: str, data_root: str | os.PathLike[str] | None = None
) -> list[RunGroup]:
    """Which of some requests train together, equal runs once. Loads the tasks kind by kind.

    The order and the groups depend on the requests alone, not on the stored runs.

    Raises:
        Error: a request that :func:`fedlib.run` refuses.
    """
    groups = []
    load = partial(load_task, data_root=data_root)
    for tasks in by_task(requests, preset, load):
        runs = [
            (requests[place], configured(task, requests[place])) for place, task in tasks.items()
        ]
        with torch.random.fork_rng(devices=[]):
            parameters = runs[0][1].task.new_model().parameters()
        groups += grouped(runs, sum(parameter.numel() for parameter in parameters))
    return groups


def grouped(runs: Iterable[tuple[Request, engine.Configured]], parameters: int) -> list[RunGroup]:
    """Which of some runs train together, equal ones once.

    Args:
        parameters: of their model.
    """
    unique: dict[str, tuple[Request, engine.Configured]] = {}
    for request, run in runs:
        unique.setdefault(run.config.digest, (request, run))
    pairs, groups = list(unique.values()), []
    for members in engine.programs([run for _, run in pairs]):
        requests, together = zip(*(pairs[member] for member in members), strict=True)
        first = together[0].config
        cost = first.rounds * first.clients_per_round * len(members) * parameters
        groups.append(RunGroup(requests, tuple(run.config.digest for run in together), cost))
    return groups


def counted(groups: Sequence[RunGroup], there: Container[str]) -> pd.DataFrame:
    """One row per group: task, programs (1), programs_missing, runs, stored and missing.

    Args:
        there: the digests of the runs that are stored.
    """
    rows = []
    for group in groups:
        runs, missing = len(group.digests), group.missing(there)
        rows.append((group.requests[0].task, 1, int(missing > 0), runs, runs - missing, missing))
    columns = ["task", "programs", "programs_missing", "runs", "stored", "missing"]
    return pd.DataFrame(rows, columns=columns)


def dealt(groups: Sequence[RunGroup], shards: int) -> list[list[RunGroup]]:
    """Groups by shard: the costliest first, each to the shard with the least cost, then in order.

    It depends on the groups alone, so that every process gets the same result.

    Example:
        >>> costs = (1, 5, 3, 3)
        >>> groups = [RunGroup((), (str(cost),), cost) for cost in costs]
        >>> [[group.cost for group in shard] for shard in dealt(groups, 2)]
        [[1, 5], [3, 3]]
    """
    loads, places = [0] * shards, [list[int]() for _ in range(shards)]
    for place in sorted(range(len(groups)), key=lambda place: (-groups[place].cost, place)):
        least = loads.index(min(loads))
        loads[least] += groups[place].cost
        places[least].append(place)
    return [[groups[place] for place in sorted(shard)] for shard in places]


def configured(task: Task, request: Request) -> engine.Configured:
    """The configuration and the method of a request."""
    settings = request.settings(task.rounds)
    return engine.configure(task, settings.pop("algorithm"), **settings)
