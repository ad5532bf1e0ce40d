"""Which stored runs belong to a printed cell, and which of them count.

A cell takes the best runs there are: the paper's own settings before reduced ones, real data before
stand-ins, then the longest and newest; always with the task's own hyperparameters (the paper's).
Several seeds of the same configuration are averaged.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fedlib import algorithms
from fedlib.engine.config import TRAINING_KEYS, RunConfig, named_method
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.reproduction.table import Cell, Table
from fedlib.results.files import Stored
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import settings, training_score

log = logging.getLogger("fedlib")

Run = Stored | History
# Runs by (task, algorithm).
Index = Mapping[tuple[str, str], Sequence[Run]]


def index(runs: Iterable[Run]) -> Index:
    """The runs of named algorithms, each once, by task and algorithm."""
    groups: dict[tuple[str, str], dict[str, Run]] = {}
    for run in runs:
        config = run.config
        if config.algorithm in algorithms.METHODS:
            group = groups.setdefault((config.task["name"], config.algorithm), {})
            group.setdefault(config.digest, run)
    return {key: list(group.values()) for key, group in groups.items()}


def departures(table: Table, cell: Cell, config: RunConfig) -> list[str]:
    """How a run's settings differ from the paper's, in words; empty if they are the paper's."""
    notes = []
    if config.task["preset"] != "paper":
        notes.append(f"{config.task['preset']} preset")
    if config.rounds != table.rounds:
        notes.append(f"{config.rounds} of {table.rounds} rounds")
    options = config.task["options"]
    cohort = cell.clients_per_round or table.clients_per_round
    cohort = cohort or options.get("clients", config.clients_per_round)
    printed: dict[str, Any] = {"batch_size": table.batch_size, "local_epochs": table.local_epochs}
    printed = {"local_steps": None, **printed, **cell.overrides}
    compared = [
        (name, options.get(name), wanted)
        for name, wanted in {**table.options, **cell.fixed_options}.items()
    ]
    compared.append(("clients per round", config.clients_per_round, cohort))
    compared += [
        (key.replace("_", " "), getattr(config, key), printed[key]) for key in TRAINING_KEYS
    ]
    return notes + [
        f"{name} {value} instead of {wanted}"
        for name, value, wanted in compared
        if not _fits(value, wanted)
    ]


def belongs(cell: Cell, run: Run) -> bool:
    """Whether a run of the cell's task and algorithm is one of the cell's; see :class:`Cell`."""
    options = run.config.task["options"]
    if not all(_fits(options.get(name), wanted) for name, wanted in cell.options.items()):
        return False
    usual = {"local_steps": None, **run.meta.get("settings", {}), **cell.overrides}
    values = {key: getattr(run.config, key) for key in TRAINING_KEYS}
    return all(_fits(value, usual.get(key, value)) for key, value in values.items()) and (
        same_method(cell, run)
    )


def same_method(cell: Cell, run: Run) -> bool:
    """Whether a run's method is the cell's with the task's own hyperparameters, any values of those
    that the cell tunes; not for a run that does not know the task's own.
    """
    if "hyperparameters" not in run.meta:
        return False
    overrides = {key: value for key, value in cell.overrides.items() if key not in TRAINING_KEYS}
    if cell.tuned:
        values = hyperparameters(run)
        overrides |= {key: values[key] for key in cell.tuned if key in values}
    of_task = [run.meta["hyperparameters"], run.meta.get("client_hyperparameters", {})]
    return _described(_text([run.config.algorithm, overrides, *of_task])) == run.config.method


@lru_cache(maxsize=4096)
def _described(arguments: str) -> dict[str, Any] | None:
    """What :func:`fedlib.engine.config.named_method` makes of its arguments; None if it refuses."""
    try:
        return named_method(*json.loads(arguments)).describe()
    except Error:  # stored by a version with other hyperparameters
        return None


def best_runs(table: Table, cell: Cell, runs: Index) -> list[Run]:
    """The best runs for a cell: one configuration, all its seeds; maybe none."""
    candidates = runs.get((table.task, cell.algorithm), ())
    groups = settings(run for run in candidates if belongs(cell, run))
    if not groups:
        return []
    ranks = [_rank(table, cell, group[0].config) for group in groups]
    top = [group for group, rank in zip(groups, ranks, strict=True) if rank == max(ranks)]
    if cell.tuned and len(top) > 1:
        return min(top, key=mean_score)
    return max(top, key=lambda group: (len(group), max(r.meta.get("created", "") for r in group)))


def _rank(table: Table, cell: Cell, config: RunConfig) -> tuple[Any, ...]:
    return (
        not departures(table, cell, config),
        not config.task["stand_in"],
        config.task["preset"] == "paper",
        config.rounds,
        -config.eval_every,
    )


def mean_score(runs: Iterable[Run]) -> float:
    """The mean training loss that a setting is chosen by, over its seeds; infinite without any."""
    scores = [training_score(history) for history in read(runs)]
    return sum(scores) / len(scores) if scores else math.inf


def complete(table: Table, runs: Iterable[Run]) -> list[History]:
    """The best runs of a table's rows, if every row has some and all are of one setting.

    Figures that compare algorithms take these: the runs of single cells may differ in data, rounds
    or reductions.

    Returns:
        each row's runs in the table's order, column by column, all seeds; none where a row is
        missing, or where the best runs differ in the task's options or data, in rounds or clients
        per round.
    """
    known = index(runs)
    rows = [best_runs(table, cell, known) for cell in table.rows]
    chosen = [run for row in rows for run in row]
    common = set()
    for run in chosen:
        task = {key: value for key, value in run.config.task.items() if key not in ("seed", "data")}
        common.add(_text([task, run.config.rounds, run.config.clients_per_round]))
    return list(read(chosen)) if all(rows) and len(common) == 1 else []


def read(runs: Iterable[Run]) -> Iterator[History]:
    """The numbers of the runs; a damaged one is logged and left out."""
    for run in runs:
        if isinstance(run, History):
            yield run
            continue
        try:
            yield run.history(params=False)
        except Error as problem:
            log.warning("%s", problem)


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a run's value is the wanted one, lists and tuples alike, or one that a wanted
    function allows.
    """
    if callable(wanted):
        return bool(wanted(value))
    first, second = (list(one) if isinstance(one, tuple) else one for one in (value, wanted))
    return bool(first == second)
