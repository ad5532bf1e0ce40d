"""Runs at the papers' settings that the store or the checkout keeps, to stand beside quick ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fedlib import algorithms
from fedlib.engine.history import History
from fedlib.reproduction import matching, tables
from fedlib.reproduction.matching import Run, read
from fedlib.reproduction.table import Cell
from fedlib.results.selection import settings, shared
from fedlib.results.store import Store


def with_kept(store: Store, histories: Sequence[History], paper: str, *names: str) -> list[History]:
    """The histories, and after them the best kept runs of the printed tables' cells.

    Kept runs are of the paper preset and not on stand-ins; the fewer rounds or the smaller width
    that they may have, a table's note says. Runs that are among the histories are not repeated.

    Args:
        paper, names: for instance ``"adafedadam", "Table 3", "Table 7"``.
    """
    kept: dict[str, Run] = {}
    for name in names:
        for table in tables.find(paper, name):
            known = matching.index(_proper(store.stored(table.task, published=True)))
            for cell in table.rows:
                kept |= {run.config.digest: run for run in matching.best_runs(table, cell, known)}
    for history in histories:
        kept.pop(history.config.digest, None)
    return [*histories, *read(kept.values())]


def kept_table(
    store: Store, paper: str, name: str, task: str, column: str | None = None
) -> list[History]:
    """The best kept runs of a task's rows, for a figure that compares these.

    Args:
        column: only the rows of this printed column; default those of all.

    Returns:
        see :func:`fedlib.reproduction.matching.complete`: none unless all rows have runs of one
        setting.
    """
    (table,) = tables.find(paper, name, task)
    cells = tuple(cell for cell in table.cells if column in (None, cell.column))
    return matching.complete(
        replace(table, cells=cells), _proper(store.stored(task, published=True))
    )


def _proper(runs: Iterable[Run]) -> list[Run]:
    return [
        run
        for run in runs
        if run.config.task["preset"] == "paper" and not run.config.task["stand_in"]
    ]


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
        name = config.algorithm
        rates: dict[str, Any] = {"client_lr": (), "server_lr": ()} if name in tuned else {}
        cell = Cell(name, name, "accuracy", math.nan, tuned=rates)
        if name in algorithms.METHODS and matching.same_method(cell, run):
            group = groups.setdefault(shared(config, "algorithm", "method"), {})
            group.setdefault(name, []).append(run)
    every = [group for group in groups.values() if len(group) >= least]

    def length(group: dict[str, list[Run]]) -> tuple[int, int]:
        return next(iter(group.values()))[0].config.rounds, len(group)

    chosen = max(every, key=length, default={})
    histories: list[History] = []
    for name in algorithms.METHODS:
        histories += min(settings(read(chosen.get(name, []))), key=matching.mean_score, default=[])
    return histories
