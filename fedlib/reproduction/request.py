"""A request for a run, and how experiments build lists of them.

Requests are pure data: nothing is loaded or trained. An :class:`Experiment` says which of them a
notebook needs, as a function ``(preset, seed, numbers) -> list[Request]``, and holds the notebook's
small numbers for the quick preset. A number that is None is the paper's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedlib.engine.run import combinations

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a run stands in a paper's printed tables; labels as printed."""

    paper: str
    table: str
    row: str
    column: str = ""


@dataclass(frozen=True)
class Request:
    """One run that a notebook needs.

    Attributes:
        task, algorithm: their names.
        part: which figures or tables of the notebook it is for, for instance ``"curves"``.
        overrides: hyperparameters over the task's own; see :func:`fedlib.run`.
        options: of :func:`fedlib.load_task`; may set ``preset``, and ``seed`` (of the partition).
        rounds: None: the task's own.
        seed: of the run, and of the task unless the options set that.
        eval_every: rounds between evaluations; 0: only the initial and the last model.
        clients_per_round: None: the task's own.
        keep_params: whether to store the final parameters; None: unless ``eval_every`` is 0.
        place: of the printed cells that the run belongs to, if it comes from a table.
    """

    task: str
    algorithm: str
    part: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    seed: int = 0
    eval_every: int = 1
    clients_per_round: int | None = None
    keep_params: bool | None = None
    place: Place | None = None

    @property
    def keeps(self) -> bool:
        """Whether its final parameters are stored."""
        return self.eval_every > 0 if self.keep_params is None else self.keep_params

    @property
    def plan(self) -> dict[str, str]:
        """What ``History.meta["plan"]`` says of its run: the part, and the fields of its place."""
        return {"part": self.part, **(asdict(self.place) if self.place else {})}

    def task_options(self, preset: str) -> dict[str, Any]:
        """The keywords of :func:`fedlib.load_task` under a preset."""
        return {"preset": preset, "seed": self.seed, **self.options}

    def task_key(self, preset: str) -> str:
        """Requests of one key share a task."""
        return task_key(self.task, self.task_options(preset))

    def settings(self, task_rounds: int) -> dict[str, Any]:
        """The request for :meth:`fedlib.results.Store.runs`, of a task with so many rounds."""
        rounds = task_rounds if self.rounds is None else self.rounds
        return {
            "algorithm": self.algorithm,
            "rounds": rounds,
            "seed": self.seed,
            "eval_every": self.eval_every or max(1, rounds),
            "clients_per_round": self.clients_per_round,
            "overrides": dict(self.overrides),
        }


def task_key(name: str, options: Mapping[str, Any]) -> str:
    """A text that is the same for the same task with the same options."""
    return json.dumps([name, dict(options)], sort_keys=True, default=str)


@dataclass(frozen=True)
class Experiment:
    """What a notebook runs.

    Attributes:
        notebook: its name.
        quick, laptop: its parameters under these presets, where they are not the paper's.
        requests: from preset, seed and the notebook's numbers to its runs; None where the notebook
            asks for its runs itself.
    """

    notebook: str
    quick: Numbers = field(default_factory=dict)
    requests: Callable[[str, int, Numbers], list[Request]] | None = None
    laptop: Numbers = field(default_factory=dict)


def tuned(task: str, algorithms: Iterable[str], part: str, **settings: Any) -> list[Request]:
    """A request per algorithm, with the task's own hyperparameters (the paper's).

    Args:
        settings: the other fields of :class:`Request`, the same for all.
    """
    return [Request(task, algorithm, part, **settings) for algorithm in algorithms]


def given(numbers: Numbers, *names: str) -> dict[str, Any]:
    """Those of the numbers that are not None, for instance the options of a task.

    >>> given({"width": 0.5, "alpha": None, "rounds": 3}, "width", "alpha")
    {'width': 0.5}
    """
    return {name: numbers[name] for name in names if numbers.get(name) is not None}


def number(numbers: Numbers, name: str, paper: Any) -> Any:
    """One of the numbers, or the paper's."""
    value = numbers.get(name)
    return paper if value is None else value


def grid(
    task: str, algorithm: str, part: str, axes: Mapping[str, Iterable[Any]], **settings: Any
) -> list[Request]:
    """A request per combination of the axes' values, the last axis fastest.

    Args:
        axes: override key -> values, for instance ``{"client_lr": [0.01, 0.1], "tau": [1e-3]}``.
        settings: the other fields of :class:`Request`; ``overrides`` are common to all cells.
    """
    common = dict(settings.pop("overrides", {}))
    return [
        Request(task, algorithm, part, overrides={**common, **cell}, **settings)
        for cell in combinations(axes)
    ]


def repeated(requests: Iterable[Request], seeds: int | Sequence[int] | None) -> list[Request]:
    """Each request once per seed, seed by seed.

    Args:
        seeds: how many, counted up from each request's own; or the seeds themselves; None: one.

    Example:
        >>> [run.seed for run in repeated([Request("mnist", "fedavg", "curves", seed=3)], 2)]
        [3, 4]
    """
    listed = list(requests)
    if seeds is None:
        return listed
    if isinstance(seeds, int):
        return [replace(run, seed=run.seed + step) for step in range(seeds) for run in listed]
    return [replace(run, seed=seed) for seed in seeds for run in listed]
