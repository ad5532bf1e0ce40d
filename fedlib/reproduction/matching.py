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
from fedlib.engine.config import TRAINING_KEYS, RunConfig
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.reproduction.table import Cell, Table
from fedlib.results.files import Stored
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import configuration, training_score

log = logging.getLogger("fedlib")

Run = Stored | History
# Runs by (task, algorithm), each with its method as text.
Index = Mapping[tuple[str, str], Sequence[tuple[Run, str]]]


def index(runs: Iterable[Run]) -> Index:
    """The runs of named algorithms, by task and algorithm."""
    found: dict[tuple[str, str], list[tuple[Run, str]]] = {}
    for run in runs:
        config = run.config
        if config.algorithm in algorithms.METHODS:
            key = (config.task["name"], config.algorithm)
            found.setdefault(key, []).append((run, _text(config.method)))
    return found


def departures(table: Table, cell: Cell, config: RunConfig) -> list[str]:
    """How a run's settings differ from the paper's, in words; empty if they are the paper's."""
    found = []
    if config.task["preset"] != "paper":
        found.append(f"{config.task['preset']} preset")
    if config.rounds != table.rounds:
        found.append(f"{config.rounds} of {table.rounds} rounds")
    options = config.task["options"]
    own_options = {name: value for name, value in cell.options.items() if not callable(value)}
    found += [
        f"{name} {options.get(name)} instead of {value}"
        for name, value in {**table.options, **own_options}.items()
        if not _same(options.get(name), value)
    ]
    cohort = cell.clients_per_round or table.clients_per_round
    cohort = cohort or options.get("clients", config.clients_per_round)
    own = cell.overrides
    for name, value, wanted in (
        ("clients per round", config.clients_per_round, cohort),
        ("batch size", config.batch_size, own.get("batch_size", table.batch_size)),
        ("local epochs", config.local_epochs, own.get("local_epochs", table.local_epochs)),
        ("local steps", config.local_steps, own.get("local_steps")),
    ):
        if not _same(value, wanted):
            found.append(f"{name} {value} instead of {wanted}")
    return found


def belongs(cell: Cell, run: Run, method: str = "") -> bool:
    """Whether a run of the cell's task and algorithm is one of the cell's; see :class:`Cell`.

    Args:
        method: the run's, as text from :func:`index`; default computed.
    """
    options = run.config.task["options"]
    if not all(_fits(options.get(name), value) for name, value in cell.options.items()):
        return False
    usual = {"local_steps": None, **run.meta.get("settings", {})}
    for key in TRAINING_KEYS:
        value = getattr(run.config, key)
        if not _same(value, cell.overrides.get(key, usual.get(key, value))):
            return False
    return same_method(cell, run, method)


def same_method(cell: Cell, run: Run, method: str = "") -> bool:
    """Whether a run's method is the cell's, with the task's own hyperparameters; ``tuned``, if the
    cell says so.
    """
    config, own = run.config, run.meta.get("hyperparameters")
    if own is None:
        return False
    overrides = {key: value for key, value in cell.overrides.items() if key not in TRAINING_KEYS}
    if cell.tuned:
        found = hyperparameters(config)
        overrides |= {key: found[key] for key in cell.tuned if key in found}
    clients = run.meta.get("client_hyperparameters", {})
    asked = _text([config.algorithm, overrides, own, clients])
    return _wanted(asked) == (method or _text(config.method))


@lru_cache(maxsize=4096)
def _wanted(asked: str) -> str:
    """The text of the method that :func:`fedlib.engine.configure` makes; "" if it refuses."""
    algorithm, overrides, own, clients = json.loads(asked)
    optimizer = overrides.get("client_optimizer", "sgd")
    try:
        known = algorithms.hyperparameters(algorithm, optimizer)
        values = dict(own)
        if "client_optimizer" not in known:
            overrides.pop("client_optimizer", None)
        if "client_optimizer" in overrides:
            if not algorithms.CLIENT_OPTIMIZERS[optimizer].rate_of_sgd:
                values.pop("client_lr", None)
            values |= clients.get(optimizer, {})
        return _text(algorithms.build(algorithm, **{**values, **overrides}).describe())
    except Error:  # stored by a version with other hyperparameters
        return ""


def best_runs(table: Table, cell: Cell, runs: Index) -> list[Run]:
    """The best runs for a cell: one configuration, all its seeds; maybe none."""
    groups: dict[str, list[Run]] = {}
    for run, method in runs.get((table.task, cell.algorithm), ()):
        if belongs(cell, run, method):
            groups.setdefault(configuration(run.config), []).append(run)
    if not groups:
        return []
    ranks = {name: _rank(table, cell, group[0].config) for name, group in groups.items()}
    top = [groups[name] for name, rank in ranks.items() if rank == max(ranks.values())]
    if cell.tuned and len(top) > 1:
        return min(top, key=_score)
    return max(top, key=lambda group: (len(group), max(r.meta.get("created", "") for r in group)))


def _rank(table: Table, cell: Cell, config: RunConfig) -> tuple[Any, ...]:
    return (
        not departures(table, cell, config),
        not config.task["stand_in"],
        config.task["preset"] == "paper",
        config.rounds,
        -config.eval_every,
    )


def _score(group: Sequence[Run]) -> float:
    scores = [training_score(history) for history in read(group)]
    return sum(scores) / len(scores) if scores else math.inf


def complete(table: Table, runs: Iterable[Run]) -> list[History]:
    """The best runs of a table's rows, if every row has some and all are of one setting.

    Figures that compare algorithms take these: the runs of single cells may differ in data, rounds
    or reductions.

    Returns:
        each row's runs in the table's order, all seeds; none where a row is missing, or where the
        rows' best runs differ in the task's options or data, in rounds or clients per round.
    """
    known = index(runs)
    rows = {cell.row: best_runs(table, cell, known) for cell in table.cells[::-1]}
    chosen = [run for row in dict.fromkeys(cell.row for cell in table.cells) for run in rows[row]]
    settings = set()
    for run in chosen:
        task = {key: value for key, value in run.config.task.items() if key not in ("seed", "data")}
        settings.add(_text([task, run.config.rounds, run.config.clients_per_round]))
    return list(read(chosen)) if all(rows.values()) and len(settings) == 1 else []


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
    """Whether a cell takes a run's option: the wanted value, or what the wanted function allows."""
    return bool(wanted(value)) if callable(wanted) else _same(value, wanted)


def _same(a: Any, b: Any) -> bool:
    """Equal, with lists and tuples alike."""
    return (list(a) if isinstance(a, tuple) else a) == (list(b) if isinstance(b, tuple) else b)
