"""Forecast of a sweep without any data: programs, rounds, evaluations, memory and hours.

The tasks' declarations say how runs train together. Stored runs are found by their description,
whatever data they were trained on. Hours are estimates for the preset paper, from the nearest
measured workload in proportion to examples and work (``seconds.toml``). Values that depend on the
data are not guessed: they are None, or NaN in a frame.
"""

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from fedlib import datasets, engine, tasks
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import whole
from fedlib.datasets.catalogue import edition_for
from fedlib.datasets.store import Root, prepared_names
from fedlib.engine.config import TRAINING_KEYS, RunConfig, named_method
from fedlib.engine.states import remembered
from fedlib.engine.strategy import CHUNK_NUMBERS, VECTORS
from fedlib.paths import read_toml
from fedlib.plans import Request
from fedlib.reproduction.answers import RunGroup, counted, grouped
from fedlib.reproduction.matching import EVALUATED, Index
from fedlib.results.store import Store
from fedlib.task import Task
from fedlib.tasks import load_task
from fedlib.tasks.presets import NotPrepared

HOURS = {"cpu": "hours_two_cores", "h200": "hours_h200"}
DEVICES = tuple(HOURS)
COSTS = read_toml("reproduction/seconds.toml")
COUNTS = ("programs", "programs_missing", "runs", "stored", "missing", "rounds", "evaluations")
# Bytes of a float32.
BYTES = 4
# Vectors of P numbers on the server for one configuration: its state, and the next state.
SERVER = 4


# The sizes of a run, see :func:`scale`.
SIZES = ("clients", "cohort", "examples", "test", "parameters", "work")


def survey(requests: Sequence[Request], preset: str) -> list[RunGroup]:
    """The groups of requests that train together, by the tasks' declarations. Equal ones once.

    The groups are those of :func:`fedlib.reproduction.answers.survey`, except that two runs that
    are equal by the task's own hyperparameters count as two. The digests are of descriptions.

    Raises:
        Error: an unknown option, algorithm or hyperparameter.
    """
    stands_for: dict[str, Any] = {}  # a task by key, used only to compare identities
    by_task: dict[int, list[tuple[Request, engine.Configured]]] = {}
    for request in requests:
        run = declared(request, preset, stands_for)
        by_task.setdefault(id(run.task), []).append((request, run))
    groups = []
    for runs in by_task.values():
        parameters = scale(runs[0][0], preset).parameters
        groups += grouped(runs, int(np.nan_to_num(parameters, nan=1)))
    return groups


def declared(
    request: Request, preset: str, stands_for: dict[str, Any] | None = None
) -> engine.Configured:
    """A request's configuration as far as it is known without data, and its method."""
    for name in ("rounds", "eval_every", "eval_last", "clients_per_round"):
        if (number := getattr(request, name)) is not None:  # it may come from a reader
            whole(name, number, 0)
    values, options = _values(request, preset)
    settings = request.settings(int(values["rounds"]))
    overrides = settings["overrides"]
    training = {key: overrides.pop(key, values.get(key)) for key in TRAINING_KEYS}
    method = _method(request.algorithm, json.dumps(overrides))
    config = RunConfig(
        task={"name": request.task, **options},
        algorithm=request.algorithm,
        method=method.describe(),
        rounds=settings["rounds"],
        clients_per_round=1 if method.pooled else int(np.nan_to_num(scale(request, preset).cohort)),
        batch_size=training["batch_size"],
        local_epochs=training["local_epochs"] or 1,
        local_steps=training["local_steps"],
        eval_every=settings["eval_every"],
        dtype="float32",
        seeds=dict.fromkeys(("init", "sampling", "batches"), request.seed),
        eval_last=settings["eval_last"],
    )
    known = {} if stands_for is None else stands_for
    task: Task = known.setdefault(request.task_key(preset), object())
    return engine.Configured(config, method, task)


@lru_cache(maxsize=2**14)
def _method(algorithm: str, overrides: str) -> Algorithm:
    """A method with some overrides, cached as grids try the same ones on many tasks."""
    return named_method(algorithm, json.loads(overrides), {}, {})


def _values(request: Request, preset: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declared values of a request's task with its options, and all of these options."""
    options = request.task_options(preset)
    given = {key: value for key, value in options.items() if key not in ("preset", "seed")}
    return tasks.preset_values(request.task, options["preset"], given), options


def scale(request: Request, preset: str) -> SimpleNamespace:
    """The sizes of a request's run that are known without data, only at the preset paper.

    Returns:
        clients, cohort (numbers of all clients and of those in a round), examples (of a client),
        test (examples of an evaluation), parameters (of the model), work (million multiply-adds of
        an example's forward pass) and like (the nearest measured workload). An unknown number is
        NaN, an unknown workload is "".
    """
    values, options = _values(request, preset)
    known: dict[str, Any] = {"like": ""}
    if tasks.scale(request.task, options["preset"]) == options["preset"] == "paper":
        known |= COSTS["tasks"].get(request.task, {})
    everything = known.pop("all", math.nan)
    if values.get("validation") == 0:
        known["test"] = everything
    if isinstance(values.get("clients"), int):
        known["clients"] = values["clients"]
    if "examples" in known and "sizes" in values:  # "20-100" is drawn uniformly
        ends = [int(end) for end in str(values["sizes"]).split("-")]
        usual = tasks.preset_values(request.task, "paper")["sizes"]
        known["examples"] *= sum(ends) / len(ends) / usual
    if "work" in known and values.get("width", 1.0) != 1.0:
        for key in ("parameters", "work"):
            known[key] *= values["width"] ** 2
    if cohort := request.clients_per_round or values.get("clients_per_round"):
        known["cohort"] = cohort
    known.setdefault("cohort", known.get("clients", math.nan))
    return SimpleNamespace(**{**dict.fromkeys(SIZES, math.nan), **known})


def evaluations(config: RunConfig) -> int:
    """The number of evaluations of a run, including the initial model."""
    early = max(0, config.rounds - config.eval_last)
    return 1 + early // config.eval_every + config.rounds - early


def stored(groups: Iterable[RunGroup], store: Store, preset: str) -> set[str]:
    """The groups' runs in a store, on real data if the preset asks for them."""
    index, there = Index(store.stored()), set[str]()
    for group in groups:
        for request, digest in zip(group.requests, group.digests, strict=True):
            config = declared(request, preset).config
            for run in index.asked(request, preset):
                real = preset == "quick" or not run.config.task["stand_in"]
                rule = (getattr(run.config, key) == getattr(config, key) for key in EVALUATED)
                if real and all(rule):
                    there.add(digest)
                    break
    return there


def needs(group: RunGroup, there: set[str], preset: str) -> dict[str, float]:
    """The needs of a group's missing runs: rounds, evaluations, gigabytes, and hours by device.

    Hours grow with the configurations, as if each trained alone: an upper bound if rows share their
    operations. Work besides the clients' local steps is not counted.
    """
    count, request = group.missing(there), group.requests[0]
    run, size = declared(request, preset), scale(request, preset)
    config, looks = run.config, evaluations(run.config)
    found: dict[str, float] = {"rounds": count * config.rounds, "evaluations": count * looks}
    found |= dict.fromkeys(("gigabytes", *DEVICES), math.nan if count else 0.0)
    if not count or not size.like:
        return found
    numbers = CHUNK_NUMBERS["cuda"] // size.parameters
    together = max(1, min(count, numbers))
    rows = min(together * size.cohort, max(together, numbers))
    vectors = VECTORS * rows + SERVER * together
    if run.method.remembers and not math.isnan(size.clients):
        vectors += together * remembered(int(size.clients), int(size.cohort), config.rounds, 1)
    found["gigabytes"] = vectors * size.parameters * BYTES / 1e9
    workload, trained = COSTS["workloads"][size.like], _trained(config, size, run.method.pooled)
    for device in DEVICES:
        # For one example and all configurations. No run is faster than the fastest measured one.
        each = count * workload[device] / (workload["examples"] * workload["work"]) * size.work
        least = min(known[device] for known in COSTS["workloads"].values())
        tested = max(each * COSTS["evaluation"][device] * size.test, least)
        found[device] = (config.rounds * max(each * trained, least) + looks * tested) / 3600
    return found


def _trained(config: RunConfig, size: Any, pooled: bool) -> float:
    """The number of examples that all clients of a round train on, with repetitions."""
    epochs, steps = config.local_epochs, config.local_steps
    if isinstance(steps, int) and config.batch_size:
        return float(size.cohort * steps * config.batch_size)
    mean = epochs if isinstance(epochs, int) else sum(epochs) / len(epochs)
    return float((size.clients if pooled else size.cohort) * size.examples * mean)


def table(
    groups: Sequence[RunGroup], there: set[str], preset: str, data_root: Root = None
) -> pd.DataFrame:
    """One row per task, and all of them in the last.

    The columns are programs, programs_missing, runs, stored and missing. For the missing runs there
    are rounds, evaluations, data (the data sets that the task can use, prepared ones if any),
    gigabytes (of memory, for the largest program) and hours on two cores and on an H200. NaN if it
    depends on the data.
    """
    columns = ["rounds", "evaluations", "gigabytes", *DEVICES]
    needed = pd.DataFrame([needs(group, there, preset) for group in groups], columns=columns)
    frame = counted(groups, there).join(needed)
    named = frame.assign(data=[_data(name, data_root) for name in frame["task"]])
    parts = [(str(name), part) for name, part in named.groupby("task", sort=False)]
    summed = {name: _summed(part, part["data"].iloc[0]) for name, part in parts}
    summed["all"] = _summed(named, "")
    return pd.DataFrame.from_dict(summed, orient="index")


def _summed(programs: pd.DataFrame, data: str) -> dict[str, Any]:
    """The needs of some programs together. Hours are unknown if those of one program are."""
    counts = {name: int(programs[name].sum()) for name in COUNTS}
    hours = {HOURS[device]: programs[device].sum(skipna=False) for device in DEVICES}
    return {**counts, "data": data, "gigabytes": programs["gigabytes"].max(skipna=False), **hours}


def _data(task: str, data_root: Root) -> str:
    """The data sets that a task can use, the prepared ones if there are any."""
    if task == "all":
        return ""
    known = datasets.CATALOGUE.items()
    serving = [name for name, data in known if task in data.tasks and not data.built_in]
    ready = [name for name in serving if name in prepared_names(data_root)]
    if ready or not serving:
        return ", ".join(ready) or "its own"
    return f"{' or '.join(serving)}: not prepared"


def words(frame: pd.DataFrame, preset: str) -> pd.DataFrame:
    """The table for a reader, with a question mark beside sums with unknown parts.

    It leaves out memory and hours without declared sizes, and data that are not needed.
    """

    def number(value: float) -> str:
        return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"

    shown = frame.copy().astype(object)
    for name in ("gigabytes", *HOURS.values()):
        known = frame[name].drop("all").dropna()
        shown[name] = ["?" if math.isnan(value) else number(value) for value in frame[name]]
        if len(known) and math.isnan(frame.loc["all", name]):
            whole = known.max() if name == "gigabytes" else known.sum()
            shown.loc["all", name] = f"{number(whole)} + ?"
    for name in ("rounds", "evaluations"):
        shown[name] = frame[name].map("{:,}".format)
    unknown = [] if preset == "paper" else ["gigabytes", *HOURS.values()]
    return shown.drop(columns=[*unknown, *(["data"] if preset == "quick" else [])])


# ------------------------------------------------------------------------ which data it takes


def editions(asked: Mapping[str, Sequence[Request]], preset: str) -> dict[str, list[str]]:
    """The editions that runs need, each with the notebooks that need it.

    A task that is loaded without data says which data sets it can use.
    :func:`fedlib.datasets.catalogue.edition_for` chooses among them.

    Args:
        asked: requests by notebook, from :func:`fedlib.plans.by_notebook`.
        preset: preset of the requests.
    """
    needed: dict[str, list[str]] = {}
    known: dict[str, str | None] = {}  # key of a request -> the edition's name
    with tempfile.TemporaryDirectory() as nowhere:
        for notebook, requests in asked.items():
            for request in requests:
                key = request.task_key(preset)
                if key not in known:
                    known[key] = _edition(request, preset, nowhere)
                name = known[key]
                if name and notebook not in needed.setdefault(name, []):
                    needed[name].append(notebook)
    return needed


def _edition(request: Request, preset: str, nowhere: str) -> str | None:
    """The edition that a request's task needs. None if its data come with fedlib, or are made."""
    if "data" not in tasks.defaults(request.task):
        return None
    try:
        load_task(request.task, data_root=nowhere, **request.task_options(preset))
    except NotPrepared as missing:
        found = edition_for(preset, missing.names)
        return found.name if found else None
    return None
