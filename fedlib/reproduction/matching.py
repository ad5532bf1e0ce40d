"""Find the stored runs of a cell of the papers' tables, and those that count.

A cell takes the best runs available: real data before stand-ins, the paper's preset before others,
the fewest departures from the paper's settings, then the longest and newest. They always have the
task's own hyperparameters (the paper's). Several seeds of one configuration are averaged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from fedlib import algorithms, plans, tasks
from fedlib.datasets.catalogue import edition_of
from fedlib.engine.config import TRAINING_KEYS, RunConfig, named_method
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.plans import Request
from fedlib.reproduction.answers import labelled
from fedlib.results.files import Stored
from fedlib.results.reading import group, hyperparameters, read
from fedlib.results.selection import by_setting, held_out_score, merit, training_score

# Options whose value describes a file under the data root, or its replacement.
FOUND = ("glove", "pretrained")

# Options with clearer names in words, and options for which 0 means all.
WORDS = {
    "cap": "examples per client",
    "data": "data set",
    "draws": "order of batches",
    "init": "initialisation",
    "lr_factor": "client rates times",
    "norm": "statistics of normalisation",
    "pretrained": "pretrained weights",
}
ALL = {"cap", "examples", "rows", "test_examples"}

# The settings of its runs that a cell gives.
SETTING = ["task", "algorithm", "overrides", "tuned", "either", "options", "given", "rounds"]
SETTING += ["clients_per_round", "budget"]
# Values of a cell's options that draw clients' sizes from a range.
DRAWN = "sizes_drawn"
# The settings that say in which rounds a run is evaluated.
EVALUATED = ("eval_every", "eval_last")
SCORES: dict[str, Callable[[History], float]] = {
    "training_loss": training_score,
    "held_out": held_out_score,
}

Run = Stored | History
Cell = Mapping[str, Any]  # a row of fedlib.papers.cells()


class Index:
    """Runs of named algorithms on the catalogue's tasks, each once, by their descriptions.

    A copy of a task with the user's model or data has the same name and a version, and does not
    count. All runs of papers' numbers and of notebooks' plans are found here. Nothing is loaded or
    read for it.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        # By task and algorithm, each with a text of its method and its task's own hyperparameters.
        self._runs: dict[tuple[str, str], list[tuple[Run, str]]] = {}
        # By values that a request gives directly, then by the task's hyperparameters, and method.
        self._placed: dict[tuple[Any, ...], dict[str, dict[str, list[Run]]]] = {}
        self.planned = cache(plans.requests)  # so that a plan is run once for several figures
        self._nearest: dict[str, list[list[Run]]] = {}  # cached for a row's metrics
        self._usual = cache(_usual)
        # By the identity of a request, which is kept here, for any number of figures and claims.
        self._found: dict[tuple[int, str], tuple[Request, dict[str, Run]]] = {}
        for run in {run.config.digest: run for run in runs}.values():
            named = run.config.algorithm in algorithms.METHODS and "version" not in run.config.task
            if named and "hyperparameters" in run.meta:
                key = run.config.task["name"], run.config.algorithm
                task, config = run.config.task, run.config
                seeds = frozenset(config.seeds.values())
                place = (*key, task["preset"], task["seed"], config.rounds, seeds)
                values, method = _task_values(run), _text(config.method)
                self._runs.setdefault(key, []).append((run, values + method))
                methods = self._placed.setdefault(place, {}).setdefault(values, {})
                methods.setdefault(method, []).append(run)

    def nearest(self, cell: Cell) -> list[list[Run]]:
        """The runs of a cell that are nearest to the paper's settings, in groups that differ only
        in their seeds.

        Their method is the algorithm with the task's own hyperparameters (the paper's) and the
        cell's overrides. They were trained with the overrides' local epochs and batch size (else
        the task's own), and their task has the cell's options.
        """
        key = str([cell[name] for name in SETTING])
        if key in self._nearest:
            return self._nearest[key]
        alike: dict[str, bool] = {}  # so that a method is built once, not for each of its seeds
        members = []
        for run, method in self._runs.get((cell["task"], cell["algorithm"]), ()):
            if _has_options(cell, run) and _trained_as(run, cell["overrides"]):
                if method not in alike:
                    alike[method] = same_method(cell, run)
                if alike[method]:
                    members.append(run)
        groups = by_setting(members)
        ranks = [_rank(cell, group[0].config) for group in groups]
        near = [group for group, rank in zip(groups, ranks, strict=True) if rank == max(ranks)]
        return self._nearest.setdefault(key, near)

    def asked(self, request: Request, preset: str) -> list[Run]:
        """The runs that a request may mean, found by its description without loading data.

        Options that the request leaves open are the preset's (if the data decide them, a run may
        have any value). Real data come before stand-ins, runs with the requested evaluations and no
        other options before others, then the newest.

        Args:
            preset: preset of the request's plan.
        """
        asked = request.task_options(preset)
        preset, rounds, usual = self._usual(request.task, asked.pop("preset"))
        seed, settings = asked.pop("seed"), request.settings(rounds)
        expected = {key: value for key, value in {**usual, **asked}.items() if value is not None}

        def fits(run: Run) -> bool:
            config, options = run.config, run.config.task["options"]
            return (
                config.clients_per_round == (request.clients_per_round or _usual_cohort(run))
                and config.dtype == "float32"
                and all(
                    _fits(options.get(key), value)
                    for key, value in expected.items()
                    if key in options or key in asked
                )
                and _trained_as(run, request.overrides)
            )

        def merit(run: Run) -> tuple[bool, bool, int, str]:
            config, created = run.config, run.meta.get("created", "")
            as_asked = all(getattr(config, key) == settings[key] for key in EVALUATED)
            unasked = [key for key in config.task["options"] if key not in expected]
            return not config.task["stand_in"], as_asked, -len(unasked), created

        place = (request.task, request.algorithm, preset, seed, settings["rounds"])
        placed = self._placed.get((*place, frozenset({request.seed})), {})
        given = _text(_of_method(request.overrides))
        candidates: list[Run] = []
        for task_values, methods in placed.items():
            # Building a method takes longer than seeing that none of a few runs fits.
            if any(fits(run) for runs in methods.values() for run in runs):
                method = _described(request.algorithm, given, task_values)
                candidates += methods.get(_text(method), ())
        return sorted(filter(fits, candidates), key=merit, reverse=True)

    def _on_each_data_set(self, request: Request, preset: str) -> dict[str, Run]:
        """For a request, the first of its runs on each data set, cached."""
        key = id(request), preset
        if key not in self._found:
            runs: dict[str, Run] = {}
            for run in self.asked(request, preset):
                runs.setdefault(_data_of(request, run), run)
            self._found[key] = request, runs
        return self._found[key][1]

    def plan(
        self, requests: Sequence[Request], preset: str, single: bool = True, whole: bool = False
    ) -> list[History]:
        """The available runs of some requests, in the requests' order. For each task they are on
        the one data set that has most of them.

        Args:
            single: whether each run counts separately, as for a cell of a paper. Otherwise a
                method's runs in a part, on a task with its options, count all or none, as the best
                of a part of a grid is not the grid's.
            whole: leave out a task that lacks one of its parts.
        """

        def method(request: Request) -> tuple[str, str, str]:
            return request.part, request.task_key(preset), request.algorithm

        found = [(request, self._on_each_data_set(request, preset)) for request in requests]
        counts = Counter((request.task, data) for request, runs in found for data in runs)
        # For each task the most common data set, or the first of several.
        chosen = dict(pair for pair, _ in reversed(counts.most_common()))
        answers = [(request, runs.get(chosen.get(request.task, ""))) for request, runs in found]
        lacking = {method(request) for request, run in answers if run is None and not single}
        pairs = [(r, run) for r, run in answers if run is not None and method(r) not in lacking]
        parts = {(request.task, request.part) for request, _ in pairs}
        partly = {r.task for r in requests if whole and (r.task, r.part) not in parts}
        return [
            labelled(history, request)
            for request, run in pairs
            if request.task not in partly
            for history in read([run])
        ]


def _usual(task: str, preset: str) -> tuple[str, int, dict[str, Any]]:
    """The preset that a task is loaded with, its rounds, and options without those of files."""
    preset = tasks.scale(task, preset)
    options = tasks.defaults(task, preset)
    usual = {key: value for key, value in options.items() if key not in FOUND}
    return preset, tasks.rounds(task, preset), usual


def _data_of(request: Request, run: Run) -> str:
    """The data of a run, as far as its request leaves them open."""
    task = run.config.task
    left = [task["options"].get(key) for key in ("data", "clients") if key not in request.options]
    return str([*left, task["stand_in"], edition_of(task["data"])])


def _usual_cohort(run: Run) -> int:
    """The default number of clients in a round of a run."""
    config, options = run.config, run.config.task["options"]
    clients = 1 if options.get("centralized") else options.get("clients", config.clients_per_round)
    own = run.meta.get("settings", {}).get("clients_per_round", config.clients_per_round)
    return int(clients if own is None else min(own, clients))


def printed_settings(cell: Cell) -> dict[str, Any]:
    """The rounds, the cohort (None: all clients), the batch size and so on of a paper's number.

    They are those of the task's paper preset, unless the cell has others.
    """
    task = tasks.preset_values(cell["task"], "paper")
    settings = {key: task.get(key) for key in ("rounds", "clients_per_round", "batch_size")}
    settings |= {"local_epochs": task.get("local_epochs", 1), "local_steps": None}
    if cell["budget"]:
        method = algorithms.build(cell["algorithm"], **cell["overrides"])
        settings["clients_per_round"] = algorithms.clients_for_budget(method, cell["budget"])
    for key in ("rounds", "clients_per_round"):
        settings[key] = cell[key] or settings[key]
    return {**settings, **{k: v for k, v in cell["overrides"].items() if k in TRAINING_KEYS}}


def departures(cell: Cell, config: RunConfig) -> list[str]:
    """How a run's settings differ from the paper's, in words. Empty if they are equal.

    Every option of the task is compared with the cell's option, or else with the paper preset's.
    An option that a run does not have has no effect on it, unless the cell asks for a value.
    """
    printed, notes = printed_settings(cell), []
    if config.task["preset"] != "paper":
        notes.append(f"{config.task['preset']} preset")
    if config.task["stand_in"]:
        notes.append("stand-in data")
    if config.rounds < printed["rounds"]:
        notes.append(f"{config.rounds} of {printed['rounds']} rounds")
    elif config.rounds > printed["rounds"]:
        notes.append(f"{config.rounds} rounds instead of {printed['rounds']}")
    usual, options = tasks.defaults(cell["task"]), config.task["options"]
    expected = {key: value for key, value in usual.items() if value is not None and key in options}
    expected |= {key: None for key in options if key not in usual}
    expected |= {key: v for key, v in {**cell["given"], **cell["options"]}.items() if key != DRAWN}
    cohort = printed["clients_per_round"] or options.get("clients", config.clients_per_round)
    expected |= {"clients per round": cohort, **{key: printed[key] for key in TRAINING_KEYS}}
    values = {**options, "clients per round": config.clients_per_round, "dtype": config.dtype}
    values |= {key: getattr(config, key) for key in TRAINING_KEYS}
    return notes + [
        _departure(name, values.get(name), value)
        for name, value in {**expected, "dtype": "float32"}.items()
        if not _fits(values.get(name), value)
    ]


def _departure(key: str, value: Any, wanted: Any) -> str:
    name = WORDS.get(key, key.replace("_", " "))
    value, wanted = ("all" if key in ALL and given == 0 else given for given in (value, wanted))
    if isinstance(wanted, list) or wanted is None:
        return f"{name} {value}"
    if value in (None, ""):
        return f"{name} not {wanted}"
    return f"{name} {value} instead of {wanted}"


def shortfalls(cell: Cell, chosen: Sequence[Run], tried: Sequence[Sequence[Run]]) -> list[str]:
    """The shortfalls of a cell's runs together, in words: seeds, a common split, tuning.

    Args:
        chosen: one or more runs from :func:`of_one_split`.
        tried: the groups of :meth:`Index.nearest` from which they were chosen.
    """
    notes = []
    seeds = {json.dumps(run.config.seeds, sort_keys=True) for run in chosen}
    if len(seeds) < cell["seeds"]:
        notes.append(f"{len(seeds)} of {cell['seeds']} seeds")
    if cell["seeds"] > 1 and len({run.config.task["seed"] for run in chosen}) > 1:
        notes.append("a split of its own for each seed")
    for key in cell["tuned"]:
        known = [hyperparameters(group[0]) for group in tried]
        values = {json.dumps(values[key]) for values in known if key in values}
        if len(values) == 1:
            value = json.loads(values.pop())
            said = f"{value:.2g}" if isinstance(value, float) else value
            notes.append(f"{key} not tuned, {said} alone")
    return notes


def left_open(cell: Cell, run: Run) -> list[str]:
    """How a run's values of hyperparameters that a cell leaves open differ from the paper's, in
    words. The cell allows both values.
    """
    printed = _described(run.config.algorithm, "{}", _task_values(run)) or {}
    known, usual = hyperparameters(run), {**printed, **dict(printed.get("server", {}))}
    return [
        f"{key} {known[key]:g} instead of {usual[key]:g}"
        for key in cell["either"]
        if key in known and known[key] != usual.get(key, known[key])
    ]


def _has_options(cell: Cell, run: Run) -> bool:
    """Whether a run's task has a cell's options."""
    options = run.config.task["options"]
    known = {**options, DRAWN: isinstance(options.get("sizes"), str)}
    return all(_fits(known.get(name), wanted) for name, wanted in cell["options"].items())


def _trained_as(run: Run, overrides: Mapping[str, Any]) -> bool:
    """Whether a run has the overrides' batch size, epochs and steps, or else the task's."""
    usual = {"local_steps": None, **run.meta.get("settings", {}), **overrides}
    values = {key: getattr(run.config, key) for key in TRAINING_KEYS}
    return all(_fits(value, usual.get(key, value)) for key, value in values.items())


def same_method(cell: Cell, run: Run) -> bool:
    """Whether a run's method is the cell's with the task's own hyperparameters, and any values of
    those that the cell tunes or leaves open. False for a run without the task's own.
    """
    if "hyperparameters" not in run.meta:
        return False
    given = _of_method(cell["overrides"])
    if free := {*cell["tuned"], *cell["either"]}:
        given |= {key: value for key, value in hyperparameters(run).items() if key in free}
    described = _described(run.config.algorithm, _text(given), _task_values(run))
    return described == run.config.method


def _of_method(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides that a method is built from."""
    return {key: value for key, value in overrides.items() if key not in TRAINING_KEYS}


def _task_values(run: Run) -> str:
    """The hyperparameters of a run's task, as JSON."""
    return _text([run.meta["hyperparameters"], run.meta.get("client_hyperparameters", {})])


@lru_cache(maxsize=2**14)
def _described(algorithm: str, overrides: str, task_values: str) -> dict[str, Any] | None:
    """The result of :func:`fedlib.engine.config.named_method`, or None if it raises an error."""
    try:
        return named_method(algorithm, json.loads(overrides), *json.loads(task_values)).describe()
    except Error:  # stored by a version with other hyperparameters
        return None


def best_setting(cell: Cell, tried: Sequence[list[Run]]) -> list[Run]:
    """The runs of the configuration from :meth:`Index.nearest` that counts for a cell.

    Configurations are compared on one partition of the data, as only the best may have others.
    """
    if (cell["tuned"] or cell["either"]) and len(tried) > 1:
        score = SCORES[cell["chosen_by"]]
        return min(tried, key=lambda runs: merit(list(read(of_one_split(runs))), score))
    return max(
        tried,
        key=lambda runs: (len(runs), max(run.meta.get("created", "") for run in runs)),
        default=[],
    )


def of_one_split(setting: Sequence[Run]) -> list[Run]:
    """The runs with the most seeds on one partition of the data, or all if no two share it."""
    by_split = group(setting, lambda run: run.config.task["seed"])
    largest = max(by_split.values(), key=len, default=[])
    return largest if len(largest) > 1 else list(setting)


def over_splits(chosen: Sequence[Run], setting: Sequence[Run]) -> list[Run]:
    """Runs of the chosen configuration that differ only in the partition of the data.

    Returns:
        A chosen run and the runs of its seed on other partitions, or none without other partitions.
    """
    partitions = {run.config.task["seed"] for run in chosen}
    others = [run for run in setting if run.config.task["seed"] not in partitions]
    for run in chosen:
        alike = [other for other in others if other.config.seeds == run.config.seeds]
        if alike:
            return [run, *alike]
    return []


def _rank(cell: Cell, config: RunConfig) -> tuple[Any, ...]:
    return (
        not config.task["stand_in"],
        config.task["preset"] == "paper",
        -len(departures(cell, config)),
        config.rounds,
        -config.eval_every,
        config.eval_last,
    )


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a run's value is the wanted one (lists equal tuples), or one of a wanted list."""
    if isinstance(wanted, list):
        return value in wanted
    return bool(value == wanted or (isinstance(wanted, tuple) and value == list(wanted)))
