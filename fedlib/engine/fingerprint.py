"""What tells tasks that were made by hand apart: the hash of all their parts.

A task of the catalogue is said by its name, options and the fingerprint of its data. Of any other
the data, the model, the loss, the metrics and the transform may change under the same name, and a
stored run must not answer for both.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib.component import Component
from fedlib.engine.rows import require_trainable
from fedlib.task import ClientData, Task


def fingerprint(task: Task) -> str:
    """64 hex digits of the SHA-256 of all parts of a task that decide its numbers.

    Equal parts give equal digits, in other processes too. Functions count by their code, and by the
    values that it takes from closures, defaults and globals; modules by their classes' ``forward``,
    and by the parameters and buffers that they start from under a fixed seed.

    Example:
        >>> import fedlib, torch
        >>> def task(factor: float) -> fedlib.Task:
        ...     data = fedlib.ClientData(factor * torch.eye(2), torch.arange(2), [[0], [1]])
        ...     return fedlib.Task("mine", lambda: torch.nn.Linear(2, 2), data, data)
        >>> [fingerprint(task(factor)) == fingerprint(task(1.0)) for factor in (1.0, 2.0)]
        [True, False]
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = task.new_model()
    hashed = _Hash()
    hashed.add([_of_data(task.train), _of_data(task.test), model, task.loss, dict(task.metrics)])
    hashed.add([task.transform, task.reduction, task.fingerprint])
    # Not where they are what all tasks had before there was a choice.
    if task.cohorts is not None:
        hashed.add(task.cohorts)
    if task.l2:
        hashed.add(task.l2)
    return hashed.sha.hexdigest()


def digest(values: Any) -> str:
    """64 hex digits of the SHA-256 of any values, by what they hold; see :func:`fingerprint`."""
    hashed = _Hash()
    hashed.add(values)
    return hashed.sha.hexdigest()


def code(method: Component) -> str:
    """16 hex digits for the code of a method's classes that are not fedlib's; empty if all are.

    A class counts by its functions and by what they take from closures, defaults and globals, so
    that a stored run does not answer for an algorithm that was changed under the same name.
    """
    classes = dict.fromkeys(_users(method))
    hashed = _Hash()
    for kind in classes:
        hashed.add(kind)
        for name, member in vars(kind).items():
            # What is between two underscores is Python's and dataclasses'.
            if not name.startswith("__") or name == "__post_init__":
                hashed.add(name)
                hashed.add(_function_of(member))
    return hashed.sha.hexdigest()[:16] if classes else ""


def _users(component: Component) -> Iterator[type]:
    """The classes of a component and its parts that are not fedlib's."""
    for kind in type(component).__mro__:
        if issubclass(kind, Component) and kind.__module__.split(".")[0] != "fedlib":
            yield kind
    for field in fields(component):
        part = getattr(component, field.name)
        if isinstance(part, Component):
            yield from _users(part)


def _function_of(member: Any) -> Any:
    """The function behind a property, a static or a class method; else the member itself."""
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _of_data(data: ClientData) -> str:
    """The hash of some clients' data, kept with them: of large data it takes seconds."""
    written = (data.x._version, data.y._version)
    if data.hashed[:1] != (written,):
        hashed = _Hash()
        hashed.add([data.x, data.y, data.index, data.starts, data.sizes, list(data.ids)])
        hashed.add(data.client_weights())
        data.note_hash((written, hashed.sha.hexdigest()))
    return str(data.hashed[1])


class _Hash:
    """Feeds values of any kind to SHA-256, each with its kind; an object once."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self._seen: set[int] = set()

    def add(self, value: Any) -> None:
        """Hash a value by what it holds."""
        self._text(type(value).__qualname__)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            self._text(repr(value))
        elif isinstance(value, Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            self._array(flat.view(torch.uint8).numpy(), value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._array(np.ascontiguousarray(value).reshape(-1).view(np.uint8), value)
        elif isinstance(value, Mapping):
            self._all([list(value), *value.values()])
        elif isinstance(value, (list, tuple)):
            self._all(value)
        elif isinstance(value, (set, frozenset)):
            self._all(sorted(map(repr, value)))
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, nn.Module):
            self._text(str(value))
            require_trainable(value)
            self._all([dict(value.named_parameters()), dict(value.named_buffers())])
            self._all([type(module).forward for module in value.modules()])
        elif isinstance(value, functools.partial):
            self._all([value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self._all([value.__func__, value.__self__])
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._text(value.co_code.hex())
            self._all([value.co_names, value.co_consts])
        elif isinstance(value, type) or not hasattr(value, "__dict__"):
            self._text(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}")
        else:  # an object of the user's: its class's code and its attributes
            self._all([vars(value), type(value).__call__ if callable(value) else None])

    def _function(self, function: types.FunctionType) -> None:
        """Code, defaults, closure, and the globals that the code names."""
        if function.__module__.split(".")[0] in ("torch", "fedlib", "numpy"):
            self._text(f"{function.__module__}.{function.__qualname__}")
            self._all(cell.cell_contents for cell in function.__closure__ or ())
            return
        self._all([function.__code__, function.__defaults__, function.__kwdefaults__])
        self._all(cell.cell_contents for cell in function.__closure__ or ())
        named = [name for name in function.__code__.co_names if name in function.__globals__]
        for name in named:
            value = function.__globals__[name]
            if not isinstance(value, types.ModuleType):
                self.add(value)

    def _array(self, data: np.ndarray, shaped: Any) -> None:
        self._text(f"{tuple(shaped.shape)} {shaped.dtype}")
        self.sha.update(data.data)

    def _all(self, values: Iterable[Any]) -> None:
        self._text("(")
        for value in values:
            self.add(value)
        self._text(")")

    def _text(self, text: str) -> None:
        self.sha.update(text.encode() + b"\0")
