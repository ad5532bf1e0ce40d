"""Tasks by name: the papers' tasks, and users' own tasks as ``MODULE:FUNCTION``."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from fedlib.arguments import Seed, brought, called, checked, shown
from fedlib.clients import ClientData
from fedlib.errors import Error, Failure, first_line
from fedlib.paths import read_toml
from fedlib.task import Task
from fedlib.tasks.imported import image_task, table_task, text_task
from fedlib.tasks.presets import PRESETS, RUN, AtMost, Given, chosen, require_preset
from fedlib.tasks.quadratic import quadratic_task

# name -> module (which may serve several tasks), papers that use it, and its subject.
TASKS: dict[str, dict[str, str]] = read_toml("tasks/tasks.toml")
# Always stored as floats: 1 and 1.0 are the same run.
FLOATS = ("alpha", "beta", "width", "l2")

__all__ = [
    "PRESETS",
    "TASKS",
    "ClientData",
    "Task",
    "from_datasets",
    "image_task",
    "load_task",
    "quadratic_task",
    "table_task",
    "text_task",
]

from_datasets = ClientData.from_datasets


def defaults(name: str, preset: str = "paper") -> dict[str, Any]:
    """The options of a task's preset: option -> default, or None if the data decide.

    Args:
        name: from :func:`fedlib.list_tasks`.
    """
    options = {key: value for key, value in preset_values(name, preset).items() if key not in RUN}
    return {key: None if isinstance(value, AtMost) else value for key, value in options.items()}


def rounds(name: str, preset: str) -> int:
    """The communication rounds that a task's preset declares. No data are loaded.

    Args:
        name: from :func:`fedlib.list_tasks`.
    """
    return int(preset_values(name, preset)["rounds"])


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"fedlib.tasks.{TASKS[name]['module']}")


def scale(name: str, preset: str) -> str:
    """The preset that a task is loaded with: the paper's if there is no laptop preset."""
    module = _module(name)
    laptop = getattr(module, "laptop", {})
    cut = name in laptop if name in module.paper else bool(laptop)
    return "paper" if preset == "laptop" and not cut else preset


def preset_values(
    name: str, preset: str, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Everything in a task's preset: its options' defaults and the settings of a run.

    No data are loaded. If the data decide, the value is an :class:`AtMost` or None.

    Args:
        options: values that replace defaults.

    Raises:
        Error: the task has no such option, or the value has the wrong type.
    """
    return chosen(_module(name), name, scale(name, preset), options or {})


def paper_values(name: str) -> dict[str, Any]:
    """The values of the paper preset. Numbers that it leaves to the data come from the paper."""
    given = read_toml("papers/cells.toml")["given"]
    return {**preset_values(name, "paper"), **given.get(name, {})}


@checked
def load_task(
    name: str,
    preset: str = "quick",
    seed: Seed = 0,
    data_root: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Task:
    """A task of the papers, or one that you bring.

    Args:
        name: from :func:`fedlib.list_tasks`, or ``"module:function"`` for your own function that
            makes a :class:`fedlib.Task`. If it has arguments ``preset``, ``seed`` or ``data_root``,
            it gets these.
        preset: ``"quick"`` (a small problem of the same kind), ``"laptop"`` (the paper's protocol,
            scaled down to two cores if needed) or ``"paper"``.
        seed: seed of the partition, and of generated data.
        data_root: folder of prepared data. Default: ``FEDLIB_DATA``, else ``data/``.
        **options: options of the task, for instance ``width=0.25`` for cifar10. Its module lists
            them. None is the preset's default. For your own function, its arguments.

    Raises:
        Error: unknown name, preset or option, a value out of range, a function that fails, or data
            of the laptop or paper preset that are not prepared.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("synthetic", preset="quick", seed=0)
        >>> task.name, task.stand_in, len(task.train)
        ('synthetic', False, 100)
    """
    require_preset(preset)
    if name not in TASKS:
        usual = {"preset": preset, "seed": seed, "data_root": data_root}
        return _made(name, brought("task", name, TASKS), usual, options)
    module, asked, preset = _module(name), preset, scale(name, preset)
    values = chosen(module, name, preset, options)
    fields = {key: value for key, value in values.items() if key not in RUN}
    given = Given(name=name, preset=asked, seed=seed, data_root=data_root, **fields)
    try:
        task: Task = module.load(given)
    except MemoryError as error:
        raise Failure(f"task {name}: {fields} needs too much memory: {first_line(error)}") from None
    except (RuntimeError, ValueError, IndexError) as error:
        if isinstance(error, Error) or not options.get("data"):
            raise
        what = f"task {name}: data {options['data']!r} are of another kind than its own"
        raise Error(f"{what}: {first_line(error)}") from error
    # An option without effect (None) is not part of the task.
    stored = {key: value for key, value in {**fields, **task.options}.items() if value is not None}
    run: dict[str, Any] = {key: values[key] for key in RUN if key in values}
    run["options"] = {key: float(v) if key in FLOATS else v for key, v in stored.items()}
    return task.as_described(preset=preset, seed=seed, **run)


def _made(name: str, function: Any, usual: Mapping[str, Any], options: Mapping[str, Any]) -> Task:
    """The task that a user's function makes.

    Args:
        name: ``MODULE:FUNCTION``.
        usual: preset, seed and data root, passed if the function has such arguments.
        options: its other arguments.

    Raises:
        Error: the function lacks an option or needs another, has no presets though one is given,
            fails, or gives something else than a task.
    """
    what = f"task {name!r}"
    if not callable(function):
        raise Error(f"{what} is {shown(function)}, but must be a function that makes a fedlib.Task")
    signature = inspect.signature(function)
    if usual["preset"] != "quick" and "preset" not in signature.parameters:
        raise Error(f"preset is {usual['preset']!r}, but {what} has no presets: leave it out")
    given = {key: value for key, value in usual.items() if key in signature.parameters}
    given.update(options)
    task = called(what, function, **given)
    if not isinstance(task, Task):
        raise Error(f"{what} gives {shown(task)}, but must return a fedlib.Task")
    # The task records its arguments, as far as JSON can store them. A task of the catalogue knows
    # its own preset and seed, which the function may have chosen.
    plain: dict[str, Any] = {}
    for key, value in given.items():
        with suppress(TypeError, ValueError, AttributeError):
            plain[key] = json.loads(json.dumps(value, default=lambda array: array.tolist()))
    plain.pop("data_root", None)
    said: dict[str, Any] = {key: plain.pop(key) for key in ("preset", "seed") if key in plain}
    said = {} if task.described and task.name in TASKS else said
    said["options"] = {**plain, **task.options}
    return task.as_described(**said) if task.described else replace(task, **said)
