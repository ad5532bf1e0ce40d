"""Which stored runs belong to a printed cell, and which of them count.

A cell takes the best runs there are: the paper's own settings before reduced ones, real data before
stand-ins, then the longest and newest; always with the task's own hyperparameters (the paper's).
Several seeds of the same configuration are averaged.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from fedlib import algorithms, tasks
from fedlib.engine.config import TRAINING_KEYS, RunConfig, named_method
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.plans import Request
from fedlib.reproduction.table import Cell, Table
from fedlib.results.files import Stored
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import settings, training_score

log = logging.getLogger("fedlib")

# Copies of data that were run under the data's name and are not it, by their fingerprint.
INEXACT = {
    "9c93d939986a0f7a17f8a081224b438980874081eb70ae6e71b3b2a43cea8443": "lossy copy of CIFAR-100",
}

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
    """How a run's settings differ from the paper's, in words; empty if they are the paper's.

    Every option of the task is compared: with the cell's and the table's, else with the default of
    the paper preset. An option that a stored run does not have was at its historical value, where
    the task names one; else it had no effect, unless the cell or the table asks for a value.
    """
    notes = []
    if config.task["preset"] != "paper":
        notes.append(f"{config.task['preset']} preset")
    if config.task["stand_in"]:
        notes.append("stand-in data")
    if config.task["data"] in INEXACT:
        notes.append(INEXACT[config.task["data"]])
    if config.rounds != table.rounds:
        notes.append(f"{config.rounds} of {table.rounds} rounds")
    usual, historical = tasks.defaults(table.task)
    options = {**historical, **config.task["options"]}
    stated = {**table.options, **cell.fixed_options}
    known = {key: value for key, value in usual.items() if value is not None and key in options}
    unknown = {key: None for key in options if key not in usual}
    compared = [
        (key, options.get(key), value) for key, value in {**known, **unknown, **stated}.items()
    ]
    cohort = cell.clients_per_round or table.clients_per_round
    cohort = cohort or options.get("clients", config.clients_per_round)
    printed: dict[str, Any] = {"batch_size": table.batch_size, "local_epochs": table.local_epochs}
    printed = {"local_steps": None, **printed, **cell.overrides}
    compared.append(("clients per round", config.clients_per_round, cohort))
    compared += [
        (key.replace("_", " "), getattr(config, key), printed[key]) for key in TRAINING_KEYS
    ]
    compared.append(("dtype", config.dtype, "float32"))
    return notes + [
        _departure(name, value, wanted)
        for name, value, wanted in compared
        if not _fits(value, wanted)
    ]


def _departure(name: str, value: Any, wanted: Any) -> str:
    if callable(wanted) or wanted is None:
        return f"{name} {value}"
    if value in (None, ""):
        return f"{name} not {wanted}"
    return f"{name} {value} instead of {wanted}"


def shortfalls(table: Table, cell: Cell, chosen: Sequence[Run], runs: Index) -> list[str]:
    """What a cell's runs lack together, in words: seeds, a common split, tuning.

    Args:
        chosen: from :func:`best_runs`.
        runs: among which they were chosen.
    """
    notes = []
    seeds = {json.dumps(run.config.seeds, sort_keys=True) for run in chosen}
    if chosen and len(seeds) < table.seeds:
        notes.append(f"{len(seeds)} of {table.seeds} seeds")
    if table.one_split and len({run.config.task["seed"] for run in chosen}) > 1:
        notes.append("a split of its own for each seed")
    if chosen and cell.tuned:
        tried = [hyperparameters(group[0]) for group in _top(table, cell, runs)]
        for key in cell.tuned:
            values = {json.dumps(values[key]) for values in tried if key in values}
            if len(values) == 1:
                notes.append(f"{key} not tuned, {values.pop()} alone")
    return notes


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


def requested(request: Request, preset: str, runs: Index) -> Run | None:
    """The run that a request asks for, found by its description: without loading the task's data.

    Options that the request leaves open are the preset's (a run may have any value of those that
    the data decide); real data count before stand-ins, then the newest run.

    Args:
        runs: from :func:`index`.
    """
    asked = {"preset": preset, "seed": request.seed, **request.options}
    preset, seed = tasks.scale(request.task, asked.pop("preset")), asked.pop("seed")
    usual, historical = tasks.defaults(request.task, preset)
    wanted = {key: value for key, value in {**usual, **asked}.items() if value is not None}
    cell = Cell("", request.algorithm, "", math.nan, request.overrides)
    settings = request.settings(tasks.rounds(request.task, preset))

    def fits(run: Run) -> bool:
        config, options = run.config, {**historical, **run.config.task["options"]}
        return (
            (config.task["preset"], config.task["seed"]) == (preset, seed)
            and config.rounds == settings["rounds"]
            and set(config.seeds.values()) == {request.seed}
            and request.clients_per_round in (None, config.clients_per_round)
            and all(_fits(options[key], wanted[key]) for key in wanted if key in options)
            and belongs(cell, run)
        )

    chosen = [run for run in runs.get((request.task, request.algorithm), ()) if fits(run)]
    newest = [(not run.config.task["stand_in"], run.meta.get("created", "")) for run in chosen]
    return chosen[newest.index(max(newest))] if chosen else None


def best_runs(table: Table, cell: Cell, runs: Index) -> list[Run]:
    """The best runs for a cell: one configuration, all its seeds; maybe none."""
    top = _top(table, cell, runs)
    if cell.tuned and len(top) > 1:
        return _of_one_split(min(top, key=partial(mean_score, score=table.score)))
    newest = [(len(group), max(run.meta.get("created", "") for run in group)) for group in top]
    return _of_one_split(top[newest.index(max(newest))]) if top else []


def _top(table: Table, cell: Cell, runs: Index) -> list[list[Run]]:
    """The cell's configurations that are as near to the paper's settings as any, by their runs."""
    candidates = runs.get((table.task, cell.algorithm), ())
    groups = settings(run for run in candidates if belongs(cell, run))
    ranks = [_rank(table, cell, group[0].config) for group in groups]
    return [group for group, rank in zip(groups, ranks, strict=True) if rank == max(ranks)]


def _of_one_split(group: Sequence[Run]) -> list[Run]:
    """The runs with the most seeds on one partition of the data; all of them if no two share it."""
    by_split: dict[int, list[Run]] = {}
    for run in group:
        by_split.setdefault(run.config.task["seed"], []).append(run)
    largest = max(by_split.values(), key=len)
    return largest if len(largest) > 1 else list(group)


def _rank(table: Table, cell: Cell, config: RunConfig) -> tuple[Any, ...]:
    return (
        not departures(table, cell, config),
        not config.task["stand_in"],
        config.task["preset"] == "paper",
        config.rounds,
        -config.eval_every,
    )


def mean_score(runs: Iterable[Run], score: Callable[[History], float] = training_score) -> float:
    """The mean score that a setting is chosen by, over its seeds; infinite without any."""
    scores = [score(history) for history in read(runs)]
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
