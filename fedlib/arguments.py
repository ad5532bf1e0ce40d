"""Arguments of public functions and classes, checked against their annotations in one place.

A mistake becomes one line of :class:`fedlib.Error` that names the argument, its value and the
allowed values. Values are passed on unchanged, never converted. Their ranges are checked by the
code that uses them.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
import reprlib
import sys
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from fedlib.errors import Error, first_line, require, unknown


def _array(value: Any, kinds: str = "biufcSU") -> bool:
    """Whether NumPy accepts a value as an array, with elements of these kinds."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return False
    words = array.dtype == object and "U" in kinds  # a column of pandas
    kind = words and all(isinstance(word, str) for word in array.flat)
    return (kind or array.dtype.kind in kinds) and array.ndim > 0


# The largest count, a 32-bit integer.
MOST = 2**31 - 1
# Whole numbers with at most this many bits also count as floats.
FLOAT_BITS = 1023
Function = TypeVar("Function", bound=Callable[..., Any])
# The seed of a draw.
Seed = Annotated[int, lambda value: value >= 0]
# A count: at least one, or possibly zero.
Count = Annotated[int, lambda value: 1 <= value <= MOST]
Size = Annotated[int, lambda value: 0 <= value <= MOST]
# Values that NumPy accepts as an array of real numbers.
Numbers = Annotated[Any, functools.partial(_array, kinds="biuf")]
# The allowed values in an error, if the annotation alone does not say them.
WORDS = {
    "Seed": "a whole number >= 0",
    "Count": f"a whole number in 1..{MOST}",
    "Size": f"a whole number in 0..{MOST}",
    "Concentration": "a finite number above 0, 1e-06 to 1e+06",
    "Positive": "a finite number > 0",
    "NonNegative": "a finite number >= 0",
    "Decay": "0 <= value < 1",
    "bool": "true or false",
    "Schedule": "a function (round, rounds) -> factor",
    "ArrayLike": "an array of numbers or words",
    "Numbers": "an array of real numbers",
    "Root": "a folder",
    "store.Root": "a folder",
}


def checked(function: Function) -> Function:
    """A function that checks its arguments against its annotations.

    ``Any`` is not checked. Whole numbers count as floats, and NumPy's numbers as Python's. True and
    false are not numbers.

    Raises:
        Error: the function was called with an argument of the wrong type.

    Example:
        >>> @checked
        ... def half(number: float) -> float:
        ...     return number / 2
        >>> half("six")
        Traceback (most recent call last):
            ...
        fedlib.errors.Error: half: number is 'six' (allowed: float)
    """
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__").replace("__", "")

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            given = signature.bind(*args, **keywords).arguments
        except TypeError:  # too many or too few arguments, and Python's own message is best
            return function(*args, **keywords)
        for argument, value in given.items():
            kind = signature.parameters[argument].kind
            many = value if kind is inspect.Parameter.VAR_KEYWORD else {argument: value}
            for key, item in many.items():
                check(function, argument, item, f"{name}: {key}")
        return function(*args, **keywords)

    return typing.cast(Function, call)


def brought(kind: str, place: str, known: Iterable[str]) -> Any:
    """The user's object that ``MODULE:NAME`` names.

    Args:
        kind: ``"algorithm"`` or ``"task"``, for the error.
        known: the names that are not ``MODULE:NAME``.

    Raises:
        Error: an unknown name, or the module does not exist, fails, or has no such name.
    """
    if ":" not in place:
        raise unknown(kind, place, known)
    return called(f"{kind} {place!r}", pkgutil.resolve_name, place)


def called(what: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result of a user's function.

    Args:
        what: its description, for the error.

    Raises:
        Error: it fails. The message has the line of the user's file in the current folder.
    """
    try:
        return function(*args, **keywords)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {first_line(error)}{own_line(error)}"
        raise Error(f"{what} fails: {problem}") from error


def own_line(error: BaseException) -> str:
    """`` (FILE, line N)``: the place of an error in the user's code in this folder, if any."""
    here, place = Path.cwd(), ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        inside = path.relative_to(here).parts if here in path.parents else ()
        if inside and not {"fedlib", "site-packages"} & {*inside}:
            place = f" ({Path(*inside)}, line {frame.lineno})"
    return place


def whole(name: str, value: Any, low: int, high: int = MOST, allowed: str = "") -> int:
    """A count as an int.

    Args:
        name: the argument's name, for the error.
        allowed: the allowed values in the error. Default: ``low`` to ``high`` in words.

    Raises:
        Error: not a whole number, or not in ``low..high``.
    """
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= low
    allowed = allowed or f"a whole number >= {low}" + (f" and <= {high}" if good else "")
    require(bool(good) and value <= high, name, value, allowed)
    return int(value)


def check_fields(instance: Any) -> None:
    """Require that a dataclass's fields match their annotations.

    Raises:
        Error: the first field that does not.
    """
    kind = type(instance)
    for field in fields(kind):
        if field.init:
            value = getattr(instance, field.name)
            check(kind, field.name, value, f"{kind.__name__}: {field.name}")


def check(owner: Any, argument: str, value: Any, label: str) -> None:
    """Require that a value fits the annotation of an argument or field.

    Args:
        label: the value's name in the error.
    """
    known = _hints(owner).get(argument)
    if known is not None and not fits(value, known[0]):
        raise Error(f"{label} is {shown(value)} (allowed: {known[1]})")


def shown(value: Any) -> str:
    """A short description of a value, on one line."""
    if hasattr(value, "dtype") and not isinstance(value, type) and getattr(value, "ndim", False):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    return " ".join(reprlib.repr(value).split())


@functools.cache
def _hints(owner: Any) -> dict[str, tuple[Any, str]]:
    """For each argument its type, and its allowed values for an error."""
    texts = owner.__annotations__
    if inspect.isclass(owner):
        texts = {field.name: field.type for field in fields(typing.cast(Any, owner))}
    hints = {}
    for name, hint in typing.get_type_hints(owner, include_extras=True).items():
        if name in texts and name != "return" and get_origin(hint) is not typing.Unpack:
            text = texts[name]
            if not isinstance(text, str):  # the owner's file does not postpone annotations
                named = vars(sys.modules[owner.__module__])
                alias = [word for word in WORDS if named.get(word) == text]
                text = alias[0] if alias else getattr(text, "__name__", str(text))
            words = text.split(" | ")
            hints[name] = hint, " | ".join(WORDS.get(word, word) for word in words)
    return hints


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, with NumPy's numbers for Python's, and arrays for sequences."""
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(value, np.generic):
        value = value.item()
    if hint is Any:
        return True
    if hint == ArrayLike:
        return _array(value)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Annotated:
        return fits(value, parts[0]) and all(check(value) for check in parts[1:])
    if hint in (int, float):
        kinds = (int, float) if hint is float else int
        held = hint is int or not isinstance(value, int) or value.bit_length() <= FLOAT_BITS
        return isinstance(value, kinds) and not isinstance(value, bool) and held
    if origin is Callable:
        return callable(value)
    if origin is Sequence and isinstance(value, np.ndarray) and value.ndim:
        value = list(value)
    words = origin is Sequence and isinstance(value, (str, bytes))
    if words or not isinstance(value, origin or hint):
        return False  # the class of a type is checked where it is made
    if isinstance(value, Mapping) and parts:
        return all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if origin is tuple and parts[1:] != (...,):
        return len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(value, (list, tuple, Sequence)) and parts:
        return all(fits(item, parts[0]) for item in value)
    return True
