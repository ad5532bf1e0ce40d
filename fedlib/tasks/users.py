"""Tasks that users bring: functions that make them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from fedlib.arguments import shown
from fedlib.datasets.store import Root
from fedlib.errors import Error, unknown
from fedlib.plugins import Function, called
from fedlib.task import Task

USUAL = "quick"  # the preset that a function without presets is asked for


def made(
    name: str,
    function: Function,
    preset: str,
    seed: int,
    data_root: Root,
    options: Mapping[str, Any],
) -> Task:
    """The task that a user's function makes.

    Args:
        name: the function's, or ``MODULE:FUNCTION``.
        preset, seed, data_root: given to the function where it has arguments of these names.
        options: its other arguments.

    Raises:
        Error: an option that it does not have or needs, a preset though it has none, or it fails or
            gives something else.
    """
    what = f"task {name!r}"
    if not callable(function):
        raise Error(f"{what} is {shown(function)}; it must be a function that makes a fedlib.Task")
    wanted = _parameters(function)
    if preset != USUAL and "preset" not in wanted:
        raise Error(f"preset is {preset!r}, but {what} has no presets; leave it out")
    usual = {"preset": preset, "seed": seed, "data_root": data_root}
    arguments = {key: value for key, value in usual.items() if key in wanted} | dict(options)
    free = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in wanted.values())
    for option in options:
        if option not in wanted and not free:
            raise unknown(f"option of {what}", option, [key for key in wanted if key not in usual])
    for key, parameter in wanted.items():
        variable = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if key not in arguments and not variable and parameter.default is parameter.empty:
            raise Error(f"{what} needs the option {key}, which has no default; give it")
    task = called(what, function, **arguments)
    if not isinstance(task, Task):
        raise Error(f"{what} gives {shown(task)}; it must return a fedlib.Task")
    return _told(task, arguments)


def _parameters(function: Function) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some of Python's own
        return {}


def _told(task: Task, arguments: Mapping[str, Any]) -> Task:
    """The task, which says with what it was made, as far as numbers and words do."""
    words = (bool, int, float, str)
    plain = {key: value for key, value in arguments.items() if isinstance(value, words)}
    for field in ("preset", "seed"):
        setattr(task, field, plain.pop(field, getattr(task, field)))
    plain.pop("data_root", None)
    task.options = {**plain, **task.options}
    return task
