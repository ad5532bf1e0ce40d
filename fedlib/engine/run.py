"""Running algorithms on tasks: requests, and the programs that answer them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedlib.algorithms.base import Algorithm
from fedlib.engine.checkpoint import Checkpoint
from fedlib.engine.config import RunConfig, configure
from fedlib.engine.history import History
from fedlib.engine.program import BACKENDS, Program
from fedlib.engine.strategy import DEFAULTS, chunk_numbers
from fedlib.errors import Error, unknown
from fedlib.task import Task


def run(
    task: Task,
    algorithm: str | Algorithm,
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
) -> History:
    """Train one algorithm on one task.

    Args:
        task: from :func:`fedlib.load_task`, :func:`fedlib.quadratic_task`, or your own
            :class:`fedlib.Task`.
        algorithm: a name from :func:`fedlib.list_algorithms`, or a method composed by hand.
        rounds: default the task's.
        seed: of initialisation, client sampling and batches; a dict with keys ``init``,
            ``sampling``, ``batches`` sets them apart. The partition's seed belongs to the task.
        device: ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        backend: ``"vectorized"`` (clients and configurations as rows of one program),
            ``"parallel"`` (a part of the cohort per CPU core), ``"graphed"`` (rows, each local step
            replayed from a CUDA graph), ``"compiled"`` (rows through torch.compile: long runs of
            small models), ``"reference"`` (one client at a time, slow), or ``"auto"``: rows for
            small models and on a GPU, else one part per core; see :mod:`fedlib.engine.strategy`.
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
            (bit for bit on a CPU). A finished run leaves nothing.
        checkpoint_every: rounds between checkpoints; default: a checkpoint a minute.

    Raises:
        Error: an unknown name or key, or a value out of its range.
    """
    request = configure(
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
        task,
        [request],
        device=device,
        backend=backend,
        progress=progress,
        chunk_clients=chunk_clients,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )[0]


def execute(
    task: Task,
    requests: Sequence[tuple[RunConfig, Algorithm]],
    *,
    device: str = "auto",
    backend: str = "auto",
    progress: bool = False,
    chunk_clients: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
) -> list[History]:
    """Run configurations of one task; those that can share a program run as its rows.

    Args:
        task: the task that the requests were configured for.
        requests: from :func:`configure`.
        device, backend, progress, chunk_clients, checkpoint, checkpoint_every: see :func:`run`.

    Returns:
        one history per request, in order.
    """
    if backend != "auto" and backend not in BACKENDS:
        raise unknown("backend", backend, ("auto", *BACKENDS))
    if checkpoint_every is not None and checkpoint_every < 1:
        raise Error(f"checkpoint_every is {checkpoint_every}; allowed: a whole number >= 1")
    if chunk_clients is not None and chunk_clients < 1:
        raise Error(f"chunk_clients is {chunk_clients}; allowed: a whole number >= 1")
    histories: dict[int, History] = {}
    groups = programs(requests, task, device)
    for number, positions in enumerate(groups, 1):
        program = Program(
            task,
            [requests[p] for p in positions],
            resolve_device(device),
            backend,
            chunk_clients,
        )
        program.place = f"{number}/{len(groups)} " if len(groups) > 1 else ""
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(Path(checkpoint), program.configs, checkpoint_every)
        histories.update(zip(positions, program.run(progress, saved), strict=True))
    return [histories[position] for position in range(len(requests))]


def programs(
    requests: Sequence[tuple[RunConfig, Algorithm]],
    task: Task | None = None,
    device: str = "auto",
) -> list[list[int]]:
    """Which requests share a program: their positions, grouped.

    Args:
        task, device: given, a program has no more configurations than fit: one client of each is
            at most what ``device`` trains at once.
    """
    groups: dict[Any, list[int]] = {}
    for position, (config, method) in enumerate(requests):
        groups.setdefault((config.program(), method.program()), []).append(position)
    if task is None or all(len(group) == 1 for group in groups.values()):
        return list(groups.values())
    with torch.random.fork_rng(devices=[]):
        size = sum(p.numel() for p in task.model().parameters() if p.requires_grad)
    most = max(1, chunk_numbers(resolve_device(device)) // max(1, size))
    return [
        [group[position] for position in part]
        for group in groups.values()
        for part in np.array_split(np.arange(len(group)), math.ceil(len(group) / most))
    ]


def resolve_device(device: str) -> torch.device:
    """The torch device for a name; ``"auto"`` takes CUDA if there is one.

    Raises:
        Error: CUDA asked for on a machine without it, or a name that torch does not know.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise unknown("device", device, ("auto", *DEFAULTS)) from None
    if resolved.type not in DEFAULTS:
        raise unknown("device", device, ("auto", *DEFAULTS))
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise Error(f"device {device!r}: torch sees no CUDA GPU here; use device='cpu' or 'auto'")
    return resolved
