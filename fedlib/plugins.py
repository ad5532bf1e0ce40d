"""Names of what users bring: registered here, in an installed package, or in a module of theirs.

A package declares what it brings in its ``pyproject.toml``::

    [project.entry-points."fedlib.algorithms"]
    feddyn = "my_package.feddyn:FedDyn"

    [project.entry-points."fedlib.tasks"]
    digits = "my_package.digits:digits"

Nothing of it is imported before its name is asked for.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from typing import Any

from fedlib.errors import Error, first_line, require, unknown

Function = Callable[..., Any]


class Names:
    """All names of a kind: those of fedlib, registered ones, and those of installed packages.

    Args:
        kind: ``"algorithm"`` or ``"task"``; packages declare theirs in ``fedlib.algorithms`` or
            ``fedlib.tasks``.
        built_in: fedlib's own names, which nobody else may use.
    """

    def __init__(self, kind: str, built_in: Collection[str]) -> None:
        self.kind, self.built_in = kind, built_in
        self.registered: dict[str, Any] = {}

    def register(self, name: str, value: Any) -> None:
        """Give a name to something, or something else to a name that was registered before.

        Raises:
            Error: a name of fedlib's, or one that is not made of letters, digits, ``_`` and ``-``.
        """
        good = re.fullmatch(r"[A-Za-z][\w-]*", name, re.ASCII) is not None
        require(good, f"name of the {self.kind}", name, "a letter, then letters, digits, _ and -")
        if name in self.built_in:
            raise Error(f"{self.kind} {name!r} is fedlib's own; choose another name")
        self.registered[name] = value

    def every(self) -> list[str]:
        """All names: fedlib's first, then what users brought. No package is imported for it."""
        return list(dict.fromkeys([*self.built_in, *self.registered, *self._declared()]))

    def brought(self) -> dict[str, str]:
        """For each name that is not fedlib's, where it comes from."""
        declared = {
            name: f"{points[0].value}, of the package {_package(points[0])}"
            for name, points in self._declared().items()
        }
        registered = dict.fromkeys(self.registered, "registered in this process")
        return {n: at for n, at in (declared | registered).items() if n not in self.built_in}

    def find(self, name: str) -> Any:
        """What a user brought under a name, or ``MODULE:NAME``.

        Raises:
            Error: nobody brought it, or its module or package fails.
        """
        if name in self.registered:
            return self.registered[name]
        if ":" in name:
            return _of_module(self.kind, name)
        points = self._declared().get(name, [])
        if not points:
            raise unknown(self.kind, name, self.every())
        if len({point.value for point in points}) > 1:
            packages = " and ".join(sorted(map(_package, points)))
            raise Error(f"{self.kind} {name!r} is brought by {packages}; uninstall one of them")
        try:
            return points[0].load()
        except (Exception, SystemExit) as error:
            raise Error(
                f"{self.kind} {name!r} of the package {_package(points[0])} cannot be loaded "
                f"from {points[0].value}: {said(error)}"
            ) from error

    def _declared(self) -> dict[str, list[metadata.EntryPoint]]:
        """The entry points of installed packages, by name."""
        declared: dict[str, list[metadata.EntryPoint]] = {}
        for point in metadata.entry_points(group=f"fedlib.{self.kind}s"):
            declared.setdefault(point.name, []).append(point)
        return declared


def _package(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "(unknown)"


def _of_module(kind: str, place: str) -> Any:
    """What ``MODULE:NAME`` stands for.

    Raises:
        Error: the module is not there or fails, or has no such name.
    """
    name, _, attribute = place.partition(":")
    if not all(part.isidentifier() for part in f"{name}.{attribute}".split(".")):
        raise Error(f"{kind} {place!r} is not MODULE:NAME; for instance my_module:my_{kind}")
    try:
        value = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacks is not None and f"{name}.".startswith(f"{lacks}."):
            raise Error(
                f"{kind} {place!r}: there is no module {lacks!r} in this folder or among the "
                "installed packages"
            ) from None
        raise Error(f"{kind} {place!r}: importing {name} fails: {said(error)}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            there = [key for key, each in vars(value).items() if _defined_in(name, key, each)]
            raise unknown(f"name in {name}", part, there) from None
        value = getattr(value, part)
    return value


def _defined_in(module: str, key: str, value: Any) -> bool:
    return not key.startswith("_") and getattr(value, "__module__", None) == module


def called(what: str, function: Function, **arguments: Any) -> Any:
    """What a user's function gives.

    Args:
        what: it makes, for the error.

    Raises:
        Error: it fails.
    """
    try:
        return function(**arguments)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        raise Error(f"{what} fails: {said(error)}") from error


def said(error: BaseException) -> str:
    """What went wrong, and the line of the user's files where it did, in one line."""
    kind, text = type(error).__name__, first_line(error)
    here = Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(here) and "site-packages" not in file.parts:
            return f"{kind}: {text} ({file.name}, line {frame.lineno})"
    return f"{kind}: {text}"
