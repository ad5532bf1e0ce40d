"""Comparisons on real data that are kept, for notebooks whose own runs are small ones."""

from __future__ import annotations

import json
import math
from typing import Any

from fedlib import algorithms
from fedlib.engine.config import RunConfig
from fedlib.engine.history import History
from fedlib.results.items.base import Cell
from fedlib.results.matching import Run, read, same_method
from fedlib.results.selection import settings, training_score
from fedlib.results.store import Store


def longest(
    store: Store, task: str, least: int = 3, tuned: tuple[str, ...] = ("scaffold",)
) -> list[History]:
    """The longest comparison of algorithms on a task's real data, from stored and published runs.

    Its runs share everything but the method and the seed, have the task's own hyperparameters (the
    paper's), and are evaluated along the way. Of comparisons of the same length the one of most
    algorithms counts.

    Args:
        least: so many algorithms are a comparison.
        tuned: algorithms whose learning rates may be any; of these the setting with the smallest
            training loss is taken.

    Returns:
        the runs of all seeds, without parameters, in the order of
        :data:`fedlib.algorithms.METHODS`; none if there is no comparison.
    """
    groups: dict[str, dict[str, list[Run]]] = {}
    for run in store.stored(task, published=True):
        config = run.config
        if config.task["stand_in"] or config.eval_every >= config.rounds:
            continue
        if config.algorithm in algorithms.METHODS and _own(run, config.algorithm in tuned):
            group = groups.setdefault(_shared(config), {})
            group.setdefault(config.algorithm, []).append(run)
    every = [group for group in groups.values() if len(group) >= least]
    if not every:
        return []
    chosen = max(every, key=lambda group: (_rounds(group), len(group)))
    histories: list[History] = []
    for name in algorithms.METHODS:
        candidates = settings(read(chosen.get(name, [])))
        if candidates:
            own: list[History] = min(candidates, key=_score)
            histories += own
    return histories


def _own(run: Run, tuned: bool) -> bool:
    name = run.config.algorithm
    rates = ("client_lr", "server_lr") if tuned else ()
    return same_method(Cell(name, name, "accuracy", math.nan, tuned=rates), run)


def _shared(config: RunConfig) -> str:
    """What the runs of a comparison have in common."""
    plain: dict[str, Any] = config.as_dict()
    for name in ("algorithm", "method", "seeds"):
        plain.pop(name)
    plain["task"].pop("seed")
    return json.dumps(plain, sort_keys=True)


def _rounds(group: dict[str, list[Run]]) -> int:
    return next(iter(group.values()))[0].config.rounds


def _score(histories: list[History]) -> float:
    return sum(map(training_score, histories)) / len(histories)
