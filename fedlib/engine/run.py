"""Running algorithms on tasks, in programs of the configurations that can train together."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from torch import nn

from fedlib import process
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked, shown
from fedlib.engine import precision
from fedlib.engine.batches import KEPT_BYTES, Replicas, input_bytes
from fedlib.engine.checkpoint import Checkpoint
from fedlib.engine.config import Configured, configure, unnamed
from fedlib.engine.device import resolve_device
from fedlib.engine.history import History
from fedlib.engine.program import BACKENDS, Callback, Keep, Program
from fedlib.engine.strategy import chunk_numbers
from fedlib.errors import Error, unknown
from fedlib.task import Task, refuse_in_a_plan, tensors_digest

# Replicas join where all of their rows together have at most so many parameters: then a step on one
# core is mostly overhead, which they share. The same on all machines, as are a sweep's programs.
JOINED_NUMBERS = 2**18


@process.alone()
def programs(configured: Sequence[Configured], device: str | None = None) -> list[list[int]]:
    """Which configurations share a program: their positions, grouped.

    Those of one task and one seed do where their methods have the same structure. The same
    configurations with other seeds join them (see :class:`fedlib.engine.batches.Replicas`) where
    the models are small; of the catalogue's tasks, those on other draws of the data do as well.

    Args:
        device: given, a program has no more configurations than fit: one client of each is at most
            what this device trains at once.
    """
    groups: dict[Any, list[int]] = {}
    for position, run in enumerate(configured):
        groups.setdefault(_kind(run), []).append(position)
    return [part for group in groups.values() for part in _split(configured, group, device)]


def _kind(run: Configured) -> Any:
    """What configurations of one program share, whichever replica they belong to."""
    task = run.task
    same = (task.name, task.preset, str(dict(task.options))) if task.described else id(task)
    return run.config.program(), run.method.program(), same


def _split(
    configured: Sequence[Configured], group: Sequence[int], device: str | None
) -> list[list[int]]:
    """The programs of configurations of one kind: methods that the same replicas have."""
    alike: dict[Any, list[dict[Any, int]]] = {}
    for method in _methods(configured, group):
        alike.setdefault(tuple(method), []).append(method)
    return [part for methods in alike.values() for part in _parts_of(configured, methods, device)]


def _methods(configured: Sequence[Configured], group: Sequence[int]) -> list[dict[Any, int]]:
    """For each method the positions of its configurations, by replica.

    A configuration that comes twice is a method of its own the second time.
    """
    methods: list[dict[Any, int]] = []
    same: dict[Any, list[dict[Any, int]]] = {}
    for position in group:
        config, _, task = configured[position]
        replica = (id(task), str(config.seeds))
        known = same.setdefault((str(config.method), config.algorithm), [])
        free = next((places for places in known if replica not in places), None)
        if free is None:
            free = {}
            known.append(free)
            methods.append(free)
        free[replica] = position
    return methods


def _parts_of(
    configured: Sequence[Configured], methods: Sequence[dict[Any, int]], device: str | None
) -> list[list[int]]:
    """The programs of methods that have the same replicas: of as many methods as fit."""
    replicas = list(methods[0])
    if len(methods) == 1 == len(replicas):
        return [list(methods[0].values())]
    model = configured[methods[0][replicas[0]]].task.new_model()
    size = max(1, sum(p.numel() for p in model.parameters() if p.requires_grad))
    most = len(methods)
    if device is not None:
        most = max(1, chunk_numbers(resolve_device(device)) // size)
    parts = []
    for numbers in np.array_split(np.arange(len(methods)), math.ceil(len(methods) / most)):
        some = [methods[number] for number in numbers]
        firsts = [configured[some[0][replica]] for replica in replicas]
        for joined in _joined(firsts, len(some) * size):
            parts.append([places[replicas[number]] for number in joined for places in some])
    return parts


def _joined(runs: Sequence[Configured], size: int) -> list[list[int]]:
    """Which of one run a replica join, by their numbers.

    Args:
        size: parameters of one client, of all configurations of a replica.
    """
    apart = [[number] for number in range(len(runs))]
    most = JOINED_NUMBERS // max(1, size * runs[0].config.clients_per_round)
    if len(runs) == 1 or most < 2 or not joinable(runs):
        return apart
    parts = np.array_split(np.arange(len(runs)), math.ceil(len(runs) / most))
    return [part.tolist() for part in parts]


def joinable(runs: Sequence[Configured]) -> bool:
    """Whether runs that differ in seeds and draws of the data can be one program's replicas.

    Not where clients may be idle, where numbers of clients differ, or where the models keep
    statistics or differ in more than their trained parameters.
    """
    replicas = Replicas.of(runs)
    tasks = replicas.distinct
    first = tasks[0]
    if any((task.train.client_weights() * task.train.sizes <= 0).any() for task in tasks):
        return False
    models = replicas.new_models()
    if any(getattr(module, "track_running_stats", False) for module in models[0].modules()):
        return False
    if len({_fixed(model) for model in models}) > 1:
        return False
    if len(tasks) == 1:
        return True
    if any((len(t.train), len(t.test)) != (len(first.train), len(first.test)) for t in tasks):
        return False
    dtype = precision.stored(runs[0].config.dtype)
    if sum(len(task.train.x) * input_bytes(task, dtype) for task in tasks) > KEPT_BYTES:
        return False
    return len({_parts(task) for task in tasks}) == 1


def _fixed(model: nn.Module) -> str:
    """A model but for the values of its trained parameters."""
    shapes = [(name, tuple(p.shape), p.requires_grad) for name, p in model.named_parameters()]
    frozen = [p for p in model.parameters() if not p.requires_grad]
    return repr((str(model), shapes, tensors_digest([*frozen, *model.buffers()])))


def _parts(task: Task) -> str:
    """A task of the catalogue but for its data. A fixed transform belongs to the data."""
    shapes = [(tuple(t.shape[1:]), str(t.dtype)) for t in (task.train.x, task.train.y)]
    names = [
        f"{part.__module__}.{getattr(part, '__qualname__', type(part).__qualname__)}"
        for part in (task.loss, *task.metrics.values(), task.transform)
    ]
    return repr((names, list(task.metrics), task.reduction, task.l2, shapes))


# One seed, seeds apart by what they draw (see :func:`run`), or several.
Seeds = int | Mapping[str, int] | Sequence[int]


class Execution(TypedDict, total=False):
    """How runs are computed, which does not decide their numbers; see :func:`run`."""

    device: str
    backend: str
    progress: bool
    chunk_clients: int | None


@checked
def run(
    task: Task,
    algorithm: str | Algorithm | type[Algorithm],
    *,
    rounds: int | None = None,
    seed: int | Mapping[str, int] = 0,
    device: str = "auto",
    backend: str = "auto",
    dtype: str = "float32",
    eval_every: int = 1,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    chunk_clients: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    callback: Callback | None = None,
) -> History:
    """Train one algorithm on one task.

    Args:
        task: from :func:`fedlib.load_task`, :func:`fedlib.quadratic_task`, or your own
            :class:`fedlib.Task`.
        algorithm: a name from :func:`fedlib.list_algorithms`, ``"MODULE:NAME"`` of yours, a method
            composed by hand, or a class derived from :class:`fedlib.Algorithm`.
        rounds: default the task's.
        seed: of initialisation, client sampling and batches; a dict with keys ``init``,
            ``sampling``, ``batches`` sets them apart. The partition's seed belongs to the task.
        device: ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        backend: ``"vectorized"`` (clients and configurations as rows of one program),
            ``"parallel"`` (a part of the cohort per CPU core), or ``"auto"``: rows for small models
            and on a GPU, else one part per core; see :mod:`fedlib.engine.strategy`.
        dtype: ``"float32"``, ``"float64"``, or, explicitly, faster and coarser: ``"tf32"`` (CUDA)
            and ``"bfloat16"`` (autocast); see :mod:`fedlib.engine.precision`.
        eval_every: rounds between evaluations; the initial and the last model are always evaluated.
        clients_per_round: default the task's; sampled without replacement.
        overrides: hyperparameters in the papers' words, for instance ``{"client_lr": 0.03}``, and
            ``batch_size``, ``local_epochs``, ``local_steps``.
        progress: show a progress bar with rounds/s and the time left.
        chunk_clients: most clients that train as one program; default from the model's size. It
            changes time and memory, not the result.
        checkpoint: a folder. The run leaves its state there now and then, and when it is
            interrupted or terminated; the same call continues from it and gives the same numbers
            (bit for bit on a CPU). A finished run leaves nothing. A task made by hand must name its
            version, and so must classes of yours.
        checkpoint_every: rounds between checkpoints; default: a checkpoint a minute.
        callback: called after each round with the history so far; the run ends where it gives
            something true, for instance ``lambda history: history.series("loss").iloc[-1] < 0.1``.

    Raises:
        Error: an unknown name or key, or a value out of its range.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> history = fedlib.run(task, "fedadam", rounds=5, overrides={"server_lr": 0.1})
        >>> history
        History(fedadam on quadratic, 5 rounds)
    """
    configured = configure(
        task,
        algorithm,
        rounds=rounds,
        seed=seed,
        dtype=dtype,
        eval_every=eval_every,
        clients_per_round=clients_per_round,
        overrides=overrides,
    )
    return execute(
        [configured],
        device=device,
        backend=backend,
        progress=progress,
        chunk_clients=chunk_clients,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callback=callback,
    )[0]


@checked
def grid(
    task: Task,
    algorithm: str | Algorithm | type[Algorithm],
    *,
    rounds: int | None = None,
    seed: Seeds = 0,
    device: str = "auto",
    backend: str = "auto",
    dtype: str = "float32",
    eval_every: int | None = None,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    **axes: Any,
) -> pd.DataFrame:
    """All combinations of some hyperparameters, as rows of one program wherever they can be.

    Args:
        axes: for each hyperparameter the values to try, for instance ``client_lr=[0.01, 0.1]``.
        seed: see :func:`run`; several are one more axis, the slowest.
        eval_every: default: the initial and the last model only.
        task, algorithm, rounds, clients_per_round, overrides: see :func:`run`.
        device, backend, dtype, progress: see :func:`run`.

    Returns:
        the runs' tidy frames below each other, a column per axis and ``diverged`` (round or NaN)
        added.

    Raises:
        Error: an axis without values, or anything :func:`run` refuses.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> axes = {"client_lr": [0.01, 0.1], "server_lr": [0.5, 1.0]}
        >>> frame = fedlib.grid(task, "fedavg", rounds=5, **axes)
        >>> len(frame[["client_lr", "server_lr"]].drop_duplicates())
        4
    """
    cells = repeated(combinations(axes), seed)
    configured = [
        configure(
            task,
            algorithm,
            rounds=rounds,
            seed=cell_seed,
            dtype=dtype,
            eval_every=ends(task, rounds) if eval_every is None else eval_every,
            clients_per_round=clients_per_round,
            overrides={**(overrides or {}), **cell},
        )
        for cell_seed, cell in cells
    ]
    histories = execute(configured, device=device, backend=backend, progress=progress)
    return grid_frame(cells, seed, histories)


@checked
@process.alone()
def execute(
    configured: Sequence[Configured],
    *,
    device: str = "auto",
    backend: str = "auto",
    progress: bool = False,
    chunk_clients: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    together: bool = False,
    keep: Keep | None = None,
    callback: Callback | None = None,
) -> list[History]:
    """Run configurations; those that can share a program run as its rows.

    Args:
        configured: from :func:`configure`.
        device, backend, progress, chunk_clients, checkpoint, checkpoint_every: see :func:`run`.
        together: they are one program already, from :func:`programs`.
        keep: stores the histories of a program; only then its checkpoint is removed.
        callback: of one configuration, see :func:`run`.

    Returns:
        one history per configuration, in order.
    """
    refuse_in_a_plan("trains")
    if backend != "auto" and backend not in BACKENDS:
        raise unknown("backend", backend, ("auto", *BACKENDS))
    for name, value in (("checkpoint_every", checkpoint_every), ("chunk_clients", chunk_clients)):
        if value is not None and value < 1:
            raise Error(f"{name} is {value}; allowed: a whole number >= 1")
    for run in configured if checkpoint is not None else ():
        if reason := unnamed(run):
            raise Error(f"no checkpoint without a version: {reason}")
    where = resolve_device(device)
    groups = [[*range(len(configured))]] if together else programs(configured, device)
    histories: dict[int, History] = {}
    for number, positions in enumerate(groups, 1):
        chosen = [configured[position] for position in positions]
        program = Program(chosen, where, backend, chunk_clients)
        program.place = f"{number}/{len(groups)} " if len(groups) > 1 else ""
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(Path(checkpoint), program.configs, checkpoint_every)
        histories.update(zip(positions, program.run(progress, saved, keep, callback), strict=True))
    return [histories[position] for position in range(len(configured))]


@checked
def ends(task: Task, rounds: int | None) -> int:
    """``eval_every`` that evaluates the initial and the last model only."""
    return max(1, task.rounds if rounds is None else rounds)


def combinations(axes: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the last axis fastest."""
    cells: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        try:
            listed = [values] if isinstance(values, (str, int, float)) else list(values)
        except TypeError:
            raise Error(f"grid: axis {name} is {shown(values)}; give a list of values") from None
        if not listed:
            raise Error(f"grid: axis {name} has no values; give at least one")
        cells = [{**cell, name: value} for cell in cells for value in listed]
    return cells


def repeated(
    cells: Sequence[dict[str, Any]], seed: Seeds
) -> list[tuple[int | Mapping[str, int], dict[str, Any]]]:
    """Each cell with its seed, seed by seed if there are several."""
    seeds = [seed] if isinstance(seed, (int, Mapping)) else list(seed)
    if not seeds:
        raise Error("grid: seed is an empty list; give at least one")
    return [(cell_seed, cell) for cell_seed in seeds for cell in cells]


def grid_frame(
    cells: Sequence[tuple[int | Mapping[str, int], dict[str, Any]]],
    seed: Seeds,
    histories: Sequence[History],
) -> pd.DataFrame:
    """The histories' frames with their cells' values as columns, and with their seeds if several.

    Args:
        cells: from :func:`repeated`; seed: as given there.
    """
    several = not isinstance(seed, (int, Mapping))
    frames = []
    for (cell_seed, cell), history in zip(cells, histories, strict=True):
        named = {"seed": cell_seed, **cell} if several else cell
        frame = history.frame.assign(**named, diverged=history.diverged)
        frames.append(frame.astype({"diverged": "float64"}))
    columns = [*named, "round", "split", "metric", "value", "diverged"]
    return pd.concat(frames, ignore_index=True)[columns]
