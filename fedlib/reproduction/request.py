"""A request for a run, and how experiments build lists of them.

Requests are pure data: nothing is loaded or trained. An :class:`Experiment` says which of them a
notebook needs, as a function ``(preset, seed, numbers) -> list[Request]``, and holds the notebook's
small numbers for the quick preset. A number that is None is the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedlib.engine.run import combinations
from fedlib.plans import Place, Request, task_key

__all__ = ["Experiment", "Numbers", "Place", "Request", "given", "grid", "number", "repeated"]
__all__ += ["task_key", "tuned"]

Numbers = Mapping[str, Any]


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
