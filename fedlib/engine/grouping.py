"""Which configurations train together as one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from fedlib.engine import precision
from fedlib.engine.config import Configured
from fedlib.engine.device import resolve_device
from fedlib.engine.feed import KEPT_BYTES, input_bytes
from fedlib.engine.fingerprint import digest
from fedlib.engine.replicas import Replicas
from fedlib.engine.strategy import chunk_numbers
from fedlib.task import Fixed, Task

# Replicas join where all of their rows together have at most so many parameters: then a step on one
# core is mostly overhead, which they share. The same on all machines, as are a sweep's programs.
JOINED_NUMBERS = 2**18


def programs(configured: Sequence[Configured], device: str | None = None) -> list[list[int]]:
    """Which configurations share a program: their positions, grouped.

    Those of one task and one seed do where their methods have the same structure. The same
    configurations with other seeds join them (see :class:`fedlib.engine.replicas.Replicas`) where
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
    size = _size(configured[methods[0][replicas[0]]].task)
    most = len(methods) if device is None else _most(size, device)
    parts = []
    for numbers in np.array_split(np.arange(len(methods)), math.ceil(len(methods) / most)):
        some = [methods[number] for number in numbers]
        firsts = [configured[some[0][replica]] for replica in replicas]
        for joined in _joined(firsts, len(some) * size):
            parts.append([places[replicas[number]] for number in joined for places in some])
    return parts


def _size(task: Task) -> int:
    with torch.random.fork_rng(devices=[]):
        return max(1, sum(p.numel() for p in task.new_model().parameters() if p.requires_grad))


def _most(size: int, device: str) -> int:
    """Models of ``size`` parameters that train at once."""
    return max(1, chunk_numbers(resolve_device(device)) // size)


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
    """A hash of a model but for the values of its trained parameters."""
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    shapes = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    return digest([str(model), shapes, frozen, dict(model.named_buffers())])


def _parts(task: Task) -> str:
    """A hash of a task but for its data. A fixed transform belongs to the data."""
    transform = None if isinstance(task.transform, Fixed) else task.transform
    shapes = [(tuple(t.shape[1:]), str(t.dtype)) for t in (task.train.x, task.train.y)]
    return digest([task.loss, dict(task.metrics), transform, task.reduction, task.l2, shapes])
