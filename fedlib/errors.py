"""The errors that fedlib raises for requests that it cannot carry out."""

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
    """A valid request that failed here and now: no network, no space, a file with the wrong
    contents. The command line's exit status is 1, not 2.
    """


def unknown(kind: str, name: object, choices: Iterable[str]) -> Error:
    """The error for a name that does not exist, with the nearest names that do.

    Args:
        kind: the kind of thing, for instance ``"task"``.
        name: the given name.
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
    """The error for a function that only subclasses define."""
    kind = type(owner).__name__
    return Error(f"{kind} defines no {name}: use a subclass that does")


def require(condition: bool, what: str, value: Any, allowed: str) -> None:
    """Raise :class:`Error` naming ``what`` and its ``allowed`` range unless ``condition`` holds."""
    if not condition:
        shown = " ".join(repr(value).split())  # the text of a tensor has several lines
        raise Error(f"{what} is {shown} (allowed: {allowed})")


def first_line(error: BaseException) -> str:
    """The first line of a library's message, or the error's kind if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
