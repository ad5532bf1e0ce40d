"""A run's frozen, validated configuration, whose hash names it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch

from fedlib import algorithms, process
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked, fits, shown, whole
from fedlib.errors import Error, require, require_known
from fedlib.task import Task

# Increased whenever the same configuration would give other numbers than before.
FORMAT = 1
# Types of parameters and losses. tf32 is float32 whose products use TF32 on CUDA.
DTYPES = {"float32": torch.float32, "float64": torch.float64, "tf32": torch.float32}
SEEDS = ("init", "sampling", "batches")
TRAINING_KEYS = ("batch_size", "local_epochs", "local_steps")


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run's numbers (backend, device and chunking do not).

    Attributes:
        task: name, preset, seed, options, the data's ``Task.identity``, whether it is a stand-in,
            and the task's version if it has one.
        algorithm: the algorithm's name, or the class of a composed one.
        method: the method with all its parts and hyperparameters, and the versions of classes that
            are not fedlib's.
        rounds, clients_per_round, batch_size, local_steps, dtype: see :func:`fedlib.run`.
        eval_every, eval_last: the rounds that are evaluated, see :meth:`evaluates`.
        local_epochs: one number, or (low, high): drawn for each client and round.
        seeds: seeds of initialisation, client sampling and batches.

    Example:
        >>> import fedlib
        >>> history = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=4)
        >>> history.config.rounds, len(history.config.digest)
        (4, 16)
    """

    task: dict[str, Any]
    algorithm: str
    method: dict[str, Any]
    rounds: int
    clients_per_round: int
    batch_size: int | None
    local_epochs: int | tuple[int, int]
    local_steps: int | tuple[int, ...] | None
    eval_every: int
    dtype: str
    seeds: dict[str, int]
    eval_last: int = 1

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able dict, with the format version. It leaves ``eval_last`` out if it is 1, as in
        the runs from before this field existed.
        """
        plain: dict[str, Any] = json.loads(json.dumps(self._parts(), default=_plain))
        return plain

    def _parts(self) -> dict[str, Any]:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.eval_last == 1:
            del parts["eval_last"]
        return {"format": FORMAT, **parts}

    @cached_property
    def digest(self) -> str:
        """16 hex digits of the SHA-256 of the canonical JSON."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def evaluates(self, done: int) -> bool:
        """Whether the model is evaluated after ``done`` rounds, at least one."""
        return done % self.eval_every == 0 or done > self.rounds - self.eval_last

    @cached_property
    def setting(self) -> str:
        """The canonical JSON without seeds and data, which runs of one setting share."""
        parts = self._parts()
        del parts["seeds"]
        left_out = ("seed", "data")
        parts["task"] = {name: part for name, part in self.task.items() if name not in left_out}
        return json.dumps(parts, sort_keys=True, default=_plain)

    def program(self) -> tuple[Any, ...]:
        """The settings that runs must share to train together, besides task and structure."""
        left_out = ("task", "algorithm", "method", "seeds")
        return tuple(str(getattr(self, f.name)) for f in fields(self) if f.name not in left_out)


class Configured(NamedTuple):
    """A run's configuration, with the method it describes and its task."""

    config: RunConfig
    method: Algorithm
    task: Task


def unnamed(run: Configured) -> str:
    """Why other code could have the same configuration. Empty if none can.

    If it is not empty, a run is neither stored, nor read from a store, nor resumed.
    """
    if not (run.task.described or run.task.version):
        return (
            f"task {run.task.name} is your own or has been changed, and has no version: "
            "give it version='1', and another whenever you change it"
        )
    for kind, version in run.method.versions():
        if not version:
            return (
                f"class {kind.__name__} of {run.config.algorithm} is not fedlib's and has no "
                "version: give it version: ClassVar[str] = '1', another whenever you change it"
            )
    for function in run.method.functions():
        if not getattr(function, "version", ""):
            name = getattr(function, "__name__", type(function).__name__)
            return (
                f"function {name} of {run.config.algorithm} has no version: give it "
                f"{name}.version = '1', another whenever you change it"
            )
    return ""


class Settings(TypedDict, total=False):
    """The settings that a run's numbers depend on, besides task and algorithm, see :func:`run`."""

    rounds: int | None
    seed: int | Mapping[str, int]
    dtype: str
    eval_every: int
    eval_last: int
    clients_per_round: int | None
    overrides: Mapping[str, Any] | None


@checked
@process.alone()
def configure(
    task: Task,
    algorithm: str | Algorithm | type[Algorithm],
    *,
    rounds: int | None = None,
    seed: int | Mapping[str, int] = 0,
    dtype: str = "float32",
    eval_every: int = 1,
    eval_last: int = 1,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Configured:
    """Resolve the arguments to a run's configuration and method.

    Hyperparameters come from, in this order: the overrides, the task's values for this algorithm
    (the paper's), the algorithm's defaults. See :func:`fedlib.run` for the arguments.

    Raises:
        Error: an unknown name or key, or a value out of its range.
    """
    given = dict(overrides or {})
    training = {key: given.pop(key) for key in TRAINING_KEYS if key in given}
    name, method = _method(task, algorithm, given)
    trained = task.centralized() if method.pooled else task
    if method.pooled:
        clients_per_round = None
    population = len(trained.train)
    cohort = population if clients_per_round is None else clients_per_round
    if clients_per_round is None and trained.clients_per_round is not None:
        cohort = min(trained.clients_per_round, population)
    allowed = f"1..{population} (the task's clients)"
    cohort = whole("clients_per_round", cohort, 1, population, allowed)
    if method.halves and cohort < 2:
        raise Error(
            f"clients_per_round is {cohort}, but {name} splits the cohort in halves: use 2 or more"
        )
    rounds = trained.rounds if rounds is None else rounds
    rounds, eval_every = whole("rounds", rounds, 0), whole("eval_every", eval_every, 1)
    eval_last = whole("eval_last", eval_last, 1)
    batch_size = training.get("batch_size", trained.batch_size)
    if batch_size is not None:
        batch_size = whole("batch_size", batch_size, 1)
    local_epochs = _local_epochs(training.get("local_epochs", trained.local_epochs))
    require_known("dtype", dtype, DTYPES)
    _require_held(method.describe(), dtype)
    said: dict[str, Any] = {
        "name": trained.name,
        "preset": trained.preset,
        "seed": trained.seed,
        "options": dict(trained.options),
        "data": trained.identity,
        "stand_in": trained.stand_in,
    }
    if trained.version:
        said["version"] = trained.version
    config = RunConfig(
        task=said,
        algorithm=name,
        method=_described(method),
        rounds=rounds,
        clients_per_round=cohort,
        batch_size=batch_size,
        local_epochs=local_epochs,
        local_steps=_local_steps(training.get("local_steps"), population),
        eval_every=eval_every,
        dtype=dtype,
        seeds=_seeds(seed),
        # If every round is evaluated anyway, the last rounds need no field.
        eval_last=1 if eval_every == 1 else eval_last,
    )
    return Configured(config, method, task)


def _plain(value: Any) -> Any:
    """A value in a form that JSON can represent."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    what = f"{shown(value)} cannot name a run"
    raise Error(f"{what}: options and fields must be words, numbers or lists")


def _described(method: Algorithm) -> dict[str, Any]:
    # Two classes of one name get different descriptions, even if neither is stored.
    versions = [
        f"{kind.__name__} {version or f'{id(kind)} of its process'}"
        for kind, version in method.versions()
    ]
    return method.describe() | ({"versions": versions} if versions else {})


def _require_held(described: Mapping[str, Any], dtype: str, part: str = "") -> None:
    """Refuse hyperparameters that become another number, 0, 1 or infinite, in the run's type."""
    for name, value in described.items():
        if isinstance(value, Mapping):
            _require_held(value, dtype, f"{part}{name}.")
        elif isinstance(value, float):
            held = torch.tensor(value, dtype=DTYPES[dtype]).item()
            if any((held == edge) != (value == edge) for edge in (0, 1, math.inf, -math.inf)):
                raise Error(
                    f"{part}{name} is {value!r}, which becomes {held:g} in {dtype}: "
                    "use dtype='float64' or another value"
                )


def _method(
    task: Task, algorithm: str | Algorithm | type[Algorithm], given: dict[str, Any]
) -> tuple[str, Algorithm]:
    _check_known(task)
    if not isinstance(algorithm, str):
        method = algorithms.build(algorithm, **given)
        return type(method).__name__, method
    values = task.hyperparameters.get(algorithm, {})
    return algorithm, named_method(algorithm, given, values, task.client_hyperparameters)


def _check_known(task: Task) -> None:
    """Refuse values of algorithms and client optimizers that do not exist."""
    where = f"in task {task.name}'s hyperparameters"
    for name in task.hyperparameters:
        if ":" not in name:
            require_known(f"algorithm {where}", name, algorithms.METHODS)
    for name in task.client_hyperparameters:
        require_known(f"client optimizer {where}", name, algorithms.CLIENT_OPTIMIZERS)


def named_method(
    name: str,
    overrides: Mapping[str, Any],
    hyperparameters: Mapping[str, Any],
    client_hyperparameters: Mapping[str, Mapping[str, Any]],
) -> Algorithm:
    """A named algorithm with a task's hyperparameters, replaced by overrides.

    Args:
        hyperparameters: the task's values for this algorithm.
        client_hyperparameters: the task's values by client optimizer. See :class:`fedlib.Task`.

    Raises:
        Error: an unknown name or key, or a value out of its range.
    """
    given = dict(overrides)
    optimizer: Any = given.get("client_optimizer")
    known = algorithms.hyperparameters(name, optimizer)
    if optimizer is None or (optimizer == "sgd" and "client_optimizer" not in known):
        # Methods that define the clients' steps take plain SGD steps, so "sgd" is allowed.
        given.pop("client_optimizer", None)
    if "client_lr" in given.keys() - known.keys() and optimizer not in (None, "sgd"):
        raise Error(
            f"client_lr is {given['client_lr']!r}, but client_optimizer {optimizer!r} finds its "
            "own step sizes: leave client_lr out"
        )
    for key in given:
        algorithms.require_override(name, key, (*known, *TRAINING_KEYS))
    values = dict(hyperparameters)
    if "client_optimizer" in given:
        if not algorithms.CLIENT_OPTIMIZERS[optimizer].rate_of_sgd:
            values.pop("client_lr", None)  # it was chosen for SGD
        values.update(client_hyperparameters.get(optimizer, {}))
    return algorithms.build(name, **{**values, **given})


def _local_epochs(epochs: Any) -> int | tuple[int, int]:
    allowed = "a whole number >= 1, or two such numbers [low, high]"
    if fits(epochs, Sequence[Any]):
        require(len(epochs) == 2, "local_epochs", epochs, allowed)
        low, high = (whole("local_epochs", end, 1, allowed=allowed) for end in epochs)
        require(low <= high, "local_epochs", epochs, allowed)
        return low, high
    return whole("local_epochs", epochs, 1, allowed=allowed)


def _local_steps(steps: Any, population: int) -> int | tuple[int, ...] | None:
    if steps is None:
        return None
    if fits(steps, Sequence[Any]):
        if len(steps) != population:
            raise Error(
                f"local_steps has {len(steps)} numbers for {population} clients: give one each"
            )
        return tuple(whole("local_steps", number, 0) for number in steps)
    return whole("local_steps", steps, 1)


def _seeds(seed: int | Mapping[str, int]) -> dict[str, int]:
    if isinstance(seed, Mapping):
        for name in seed:
            require_known("seed", name, SEEDS)
        seeds = {name: seed.get(name, 0) for name in SEEDS}
    else:
        seeds = dict.fromkeys(SEEDS, seed)
    return {k: whole(f"seed ({k})", value, 0, 2**63 - 1) for k, value in seeds.items()}
