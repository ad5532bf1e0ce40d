"""What fedlib raises when a caller asked for something that cannot be done."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class Error(ValueError):
    """A mistake in the input. The message is one line: what is wrong, where, and what to do.

    Example:
        >>> import fedlib
        >>> try:
        ...     fedlib.load_task("cifar")
        ... except fedlib.Error as error:
        ...     print(str(error)[:21])
        unknown task 'cifar':
    """


class Failure(Error):
    """What was asked is right but could not be done here and now: no network, no space, a file that
    is not what it should be. The command line's exit status is 1, not 2.
    """


def unknown(kind: str, name: object, choices: Iterable[str]) -> Error:
    """The error for a name that does not exist, with the nearest names that do.

    Args:
        kind: what was looked up, for instance ``"task"``.
        name: the name that was given.
        choices: all names that exist.
    """
    known = sorted(choices)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    near = near or [choice for choice in known if str(name) in choice.split("_")]
    hint = f"did you mean {' or '.join(repr(match) for match in near)}? " if near else ""
    return Error(f"unknown {kind} {str(name)!r}: {hint}known: {', '.join(known) or 'none'}")


def require_known(kind: str, name: str, choices: Iterable[str]) -> None:
    """Raise :func:`unknown` unless a name is one of the choices."""
    known = list(choices)
    if name not in known:
        raise unknown(kind, name, known)


def undefined(owner: object, name: str) -> Error:
    """The error for a function that only the classes derived from a base class define."""
    kind = type(owner).__name__
    return Error(f"{kind} defines no {name}; take a class that is derived from it and does")


def require(condition: bool, what: str, value: Any, allowed: str) -> None:
    """Raise :class:`Error` naming ``what`` and its ``allowed`` range unless ``condition`` holds."""
    if not condition:
        shown = " ".join(repr(value).split())  # a tensor's has several lines
        raise Error(f"{what} is {shown}; allowed: {allowed}")


def first_line(error: BaseException) -> str:
    """The first line of what a library says went wrong, or the error's kind if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]
