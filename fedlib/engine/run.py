"""Running algorithms on tasks, with configurations trained together if possible."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd
import torch

from fedlib import process
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked, shown, whole
from fedlib.engine import ranks
from fedlib.engine.checkpoint import Checkpoint, Deadline, Paused
from fedlib.engine.config import DTYPES, Configured, configure, unnamed
from fedlib.engine.device import SHARE, free_bytes, resolve_device
from fedlib.engine.history import COLUMNS, History, frame_of
from fedlib.engine.program import Callback, Keep, Program, require_backend
from fedlib.engine.states import remembered
from fedlib.engine.strategy import chunk_numbers
from fedlib.errors import Error
from fedlib.task import Task, refuse_in_a_plan


@process.alone()
def programs(configured: Sequence[Configured], device: str | None = None) -> list[list[int]]:
    """The configurations that share a batch: their positions, grouped.

    Configurations of one task and one seed do if their methods have the same structure.

    Args:
        device: limits the configurations of a batch to those that fit: one client of each must be
            trainable at once on this device, and their clients' memories must fit.
    """
    groups: dict[Any, list[int]] = {}
    for position, (config, method, task) in enumerate(configured):
        kind = config.program(), method.program(), str(config.seeds), id(task)
        groups.setdefault(kind, []).append(position)
    parts: list[list[int]] = []
    for group in groups.values():
        count = 1
        if device is not None and len(group) > 1:
            model = configured[group[0]].task.new_model()
            size = sum(p.numel() for p in model.parameters() if p.requires_grad)
            most = _most(configured[group[0]], size, resolve_device(device))
            count = math.ceil(len(group) / most)
        parts += [part.tolist() for part in np.array_split(group, count)]
    return parts


def _most(run: Configured, size: int, device: torch.device) -> int:
    """The most configurations of a model of ``size`` parameters that train together."""
    most, config = chunk_numbers(device) // max(1, size), run.config
    free = free_bytes(device) if run.method.remembers else None
    if free is not None:  # clients' memories take their share of the device, or of the host
        free = max(free, free_bytes(torch.device("cpu")) or 0)
        cohort, population = config.clients_per_round, len(run.task.train)
        each = remembered(population, cohort, config.rounds, size) * DTYPES[config.dtype].itemsize
        most = min(most, int(SHARE * free / each))
    return max(1, most)


# One seed, separate seeds for different draws (see :func:`run`), or several.
Seeds = int | Mapping[str, int] | Sequence[int]


class Execution(TypedDict, total=False):
    """How runs are computed, which does not change their numbers, see :func:`run`."""

    device: str
    backend: str
    progress: bool
    chunk_clients: int | None
    callback: Callback | None
    deadline: Deadline | None


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
    eval_last: int = 1,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    chunk_clients: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    callback: Callback | None = None,
    init: Mapping[str, torch.Tensor] | None = None,
    **hyperparameters: Any,
) -> History:
    """Train one algorithm on one task.

    Args:
        task: from :func:`fedlib.load_task`, :func:`fedlib.quadratic_task`, or your own
            :class:`fedlib.Task`.
        algorithm: a name from :func:`fedlib.list_algorithms`, ``"MODULE:NAME"`` of your own, a
            method composed by hand, or a class derived from :class:`fedlib.Algorithm`.
        rounds: default: the task's.
        seed: seed of initialisation, client sampling and batches. A dict with keys ``init``,
            ``sampling``, ``batches`` sets them separately. The partition's seed belongs to the
            task.
        device: ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        backend: ``"vectorized"`` (clients and configurations as rows of one batched computation),
            ``"parallel"`` (a part of the cohort per CPU core), ``"plain"`` (one client after the
            other, as in a PyTorch loop), or ``"auto"``: rows for small models and on a GPU,
            else one part per core, see :mod:`fedlib.engine.strategy`.
        dtype: ``"float32"`` (on CUDA without TF32), ``"float64"``, or on CUDA ``"tf32"``:
            float32 whose products have 10 bits of mantissa, which takes a fraction of the time.
        eval_every: rounds between evaluations. The initial and the last model are always evaluated.
        eval_last: the number of last rounds that are all evaluated.
        clients_per_round: default: the task's. Clients are sampled without replacement.
        overrides: hyperparameters in the papers' words, for instance ``{"client_lr": 0.03}``, and
            ``batch_size``, ``local_epochs``, ``local_steps``.
        progress: show a progress bar with rounds/s and the time left.
        chunk_clients: the largest number of clients that train at once. The default depends on the
        model's
            size. It changes time and memory, not the result.
        checkpoint: a folder. The run saves its state there regularly, and when it is interrupted or
            terminated. The same call continues from it and gives the same numbers (bit for bit on a
            CPU). A finished run leaves nothing in it. Your own task and classes must have a
            version.
        checkpoint_every: rounds between checkpoints. Default: one a minute, or fewer if
            writing them would take more than a twentieth of the time.
        callback: called after each round with the history so far. The run ends if it returns True
            (Python's or NumPy's), for instance
            ``lambda history: history.series("loss").iloc[-1] < 0.1``. Other true values raise an
            error. If it fails, a checkpoint is left. It must not wait for another thread that
            calls fedlib, as runs of one process take turns.
        init: parameters to start from, for instance another history's ``params``. Default: the
            model's own. The task then counts as your own.
        hyperparameters: the same as ``overrides``, as keywords: ``client_lr=0.03``.

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
        task if init is None else replace(task, model=task.trained(init)),
        algorithm,
        rounds=rounds,
        seed=seed,
        dtype=dtype,
        eval_every=eval_every,
        eval_last=eval_last,
        clients_per_round=clients_per_round,
        overrides=joined(overrides, hyperparameters),
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


def joined(overrides: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Join the hyperparameters in overrides and those given as keywords.

    Raises:
        Error: one is given in both ways.
    """
    if twice := sorted({*(overrides or {})} & {*more}):
        raise Error(f"{twice[0]} is given twice, also in overrides: give it once")
    return {**(overrides or {}), **more}


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
    eval_last: int = 1,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    callback: Callback | None = None,
    **axes: Any,
) -> pd.DataFrame:
    """All combinations of some hyperparameters, trained together if possible.

    Args:
        axes: for each hyperparameter the values to try, for instance ``client_lr=[0.01, 0.1]``.
        seed: see :func:`run`. Several seeds are one more axis, the slowest.
        eval_every: default: the initial and the last model only.
        task, algorithm, rounds, eval_last, clients_per_round, overrides: see :func:`run`.
        device, backend, dtype, progress: see :func:`run`.
        callback: called after each round for each configuration, see :func:`run`. Configurations
            that train together end if it returns True for all of them.

    Returns:
        The runs' tidy frames concatenated, with a column per axis and ``diverged`` (round or NaN).

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
            seed=cell.seed,
            dtype=dtype,
            eval_every=ends(task, rounds) if eval_every is None else eval_every,
            eval_last=eval_last,
            clients_per_round=clients_per_round,
            overrides={**(overrides or {}), **cell.overrides},
        )
        for cell in cells
    ]
    histories = execute(
        configured, device=device, backend=backend, progress=progress, callback=callback
    )
    return frame_of(histories, [cell.columns for cell in cells])


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
    keep: Keep | None = None,
    callback: Callback | None = None,
    deadline: Deadline | None = None,
) -> list[History]:
    """Run configurations. Those that can train together do so.

    Args:
        configured: results of :func:`configure`.
        device, backend, progress, chunk_clients, checkpoint, checkpoint_every: see :func:`run`.
        keep: stores the histories of a batch. Only then is its checkpoint removed.
        callback: see :func:`grid`.
        deadline: a round begins only if it would end before it.

    Returns:
        One history per configuration, in order.

    Raises:
        Stopped: the process was asked to end, or its time is over, see :class:`Paused`.
    """
    refuse_in_a_plan("trains")
    require_backend(backend)
    for name, value in (("checkpoint_every", checkpoint_every), ("chunk_clients", chunk_clients)):
        if value is not None:
            whole(name, value, 1)
    for run in configured if checkpoint is not None else ():
        if reason := unnamed(run):
            raise Error(f"no checkpoint without a version: {reason}")
    where = resolve_device(device)
    digests = [run.config.digest for run in configured]
    if any(others != digests for others in ranks.gather(digests)):
        raise Error("the ranks were asked for different runs: give each the same")
    groups = programs(configured, device)
    histories: dict[int, History] = {}
    for number, positions in enumerate(groups, 1):
        if deadline is not None and deadline.over():
            raise Paused("no time is left to begin another batch of runs")
        chosen = [configured[position] for position in positions]
        program = Program(chosen, where, backend, chunk_clients)
        program.place = f"{number}/{len(groups)} " if len(groups) > 1 else ""
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(Path(checkpoint), program.configs, checkpoint_every)
        results = program.run(progress, saved, keep, callback, deadline)
        histories.update(zip(positions, results, strict=True))
        del program  # to free its memory for the next one
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
            listed = [values] if isinstance(values, (str, bytes, int, float)) else list(values)
        except TypeError:
            raise Error(f"grid: axis {name} is {shown(values)}: give a list of values") from None
        if not listed:
            raise Error(f"grid: axis {name} has no values: give at least one")
        cells = [{**cell, name: value} for cell in cells for value in listed]
    return cells


class Cell(NamedTuple):
    """A grid's cell: its seed and overrides, and its values in the frame's columns."""

    seed: int | Mapping[str, int]
    overrides: dict[str, Any]
    columns: dict[str, Any]


def repeated(cells: Sequence[dict[str, Any]], seed: Seeds) -> list[Cell]:
    """The cells with these overrides. Several seeds are a column, seed by seed."""
    if taken := [name for name in cells[0] if name in COLUMNS]:
        what = f"grid: axis {taken[0]} would be a second column {taken[0]!r} of the frame"
        raise Error(f"{what}: give one value in overrides, and make a grid for each")
    if isinstance(seed, (int, np.integer, Mapping)):
        return [Cell(seed, cell, cell) for cell in cells]
    seeds = list(seed)
    if not seeds:
        raise Error("grid: seed is an empty list: give at least one")
    return [Cell(one, cell, {"seed": one, **cell}) for one in seeds for cell in cells]
