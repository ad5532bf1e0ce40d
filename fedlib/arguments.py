"""Arguments of public functions and classes, checked against their annotations in one place.

What is wrong becomes one line of :class:`fedlib.Error` that names the argument, its value and what
is allowed. Values are passed on as they are, never converted, and their ranges are checked where
they are used.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
import re
import reprlib
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from fedlib.errors import Error, first_line, require, unknown


def _array(value: Any, kinds: str = "biufcSU") -> bool:
    """Whether NumPy takes a value for an array, with elements of these kinds."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return False
    words = array.dtype == object and "U" in kinds  # a column of pandas
    kind = words and all(isinstance(word, str) for word in array.flat)
    return (kind or array.dtype.kind in kinds) and array.ndim > 0


# The largest count: what a 32-bit integer holds.
MOST = 2**31 - 1
# Whole numbers of no more bits are floats, too.
FLOAT_BITS = 1023
Function = TypeVar("Function", bound=Callable[..., Any])
# The seed of a draw.
Seed = Annotated[int, lambda value: value >= 0]
# How many there are: at least one, or perhaps none.
Count = Annotated[int, lambda value: 1 <= value <= MOST]
Size = Annotated[int, lambda value: 0 <= value <= MOST]
# What NumPy takes for an array of real numbers.
Numbers = Annotated[Any, functools.partial(_array, kinds="biuf")]
# How an error says what is allowed, where the annotation itself does not.
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
    """A function whose arguments must be of the types that its annotations say.

    ``Any`` is not checked. Whole numbers count as floats, NumPy's numbers as Python's. True and
    false are no numbers.

    Raises:
        Error: from the function, for an argument of another type.

    Example:
        >>> @checked
        ... def half(number: float) -> float:
        ...     return number / 2
        >>> half("six")
        Traceback (most recent call last):
            ...
        fedlib.errors.Error: half: number is 'six'; allowed: float
    """
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__").replace("__", "")

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            given = signature.bind(*args, **keywords).arguments
        except TypeError:  # too many or too few: Python says it best
            return function(*args, **keywords)
        for argument, value in given.items():
            kind = signature.parameters[argument].kind
            many = value if kind is inspect.Parameter.VAR_KEYWORD else {argument: value}
            for key, item in many.items():
                check(function, argument, item, f"{name}: {key}")
        return function(*args, **keywords)

    return typing.cast(Function, call)


def brought(kind: str, place: str, known: Iterable[str]) -> Any:
    """What ``MODULE:NAME``, something of the user's, stands for.

    Args:
        kind: ``"algorithm"`` or ``"task"``, for the error.
        known: the names that are no ``MODULE:NAME``.

    Raises:
        Error: another name; or the module is not there or fails, or has no such name.
    """
    if ":" not in place:
        raise unknown(kind, place, known)
    return called(f"{kind} {place!r}", pkgutil.resolve_name, place)


def called(what: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """What something of the user's gives.

    Args:
        what: it makes, for the error.

    Raises:
        Error: it fails; with the line of the file in the current folder where it did.
    """
    try:
        return function(*args, **keywords)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {first_line(error)}{own_line(error)}"
        raise Error(f"{what} fails: {problem}") from error


def own_line(error: BaseException) -> str:
    """`` (FILE, line N)``: where it arose in the user's code in the current folder, if it did."""
    here, place = Path.cwd(), ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        inside = path.relative_to(here).parts if here in path.parents else ()
        if inside and not {"fedlib", "site-packages"} & {*inside}:
            place = f" ({Path(*inside)}, line {frame.lineno})"
    return place


@contextmanager
def whole_tensors(message: str) -> Iterator[None]:
    """What to say where code takes a tensor of several numbers for one, as ``if`` and ``math`` do.

    Args:
        message: with ``{}`` for the place.

    Raises:
        Error: it does.
    """
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        kinds = "Boolean value of Tensor|only (one|length-1|integer)|converted to Scalar"
        if not re.search(kinds, str(error)):
            raise
        raise Error(message.format(own_line(error))) from error


def whole(name: str, value: Any, low: int, high: int = MOST, allowed: str = "") -> int:
    """A count as an int.

    Args:
        name: the argument's, for the error.
        allowed: what the error says is allowed. Default: ``low`` to ``high`` in words.

    Raises:
        Error: no whole number, or one that is not in ``low..high``.
    """
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= low
    allowed = allowed or f"a whole number >= {low}" + (f" and <= {high}" if good else "")
    require(bool(good) and value <= high, name, value, allowed)
    return int(value)


def check_fields(instance: Any) -> None:
    """Require that a dataclass's fields are of the types that their annotations say.

    Raises:
        Error: the first field that is not.
    """
    kind = type(instance)
    for field in fields(kind):
        if field.init:
            value = getattr(instance, field.name)
            check(kind, field.name, value, f"{kind.__name__}: {field.name}")


def check(owner: Any, argument: str, value: Any, label: str) -> None:
    """Require that a value fits what a function or dataclass says of an argument or field.

    Args:
        label: what the error calls it.
    """
    known = _hints(owner).get(argument)
    if known is not None and not fits(value, known[0]):
        raise Error(f"{label} is {shown(value)}; allowed: {known[1]}")


def shown(value: Any) -> str:
    """A value in a few words, on one line."""
    if hasattr(value, "dtype") and not isinstance(value, type) and getattr(value, "ndim", False):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    return " ".join(reprlib.repr(value).split())


@functools.cache
def _hints(owner: Any) -> dict[str, tuple[Any, str]]:
    """For each argument its type, and what an error says is allowed."""
    texts = owner.__annotations__
    if inspect.isclass(owner):
        texts = {field.name: field.type for field in fields(typing.cast(Any, owner))}
    hints = {}
    for name, hint in typing.get_type_hints(owner, include_extras=True).items():
        if name in texts and name != "return" and get_origin(hint) is not typing.Unpack:
            words = str(texts[name]).split(" | ")
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
    if not isinstance(value, origin or hint) or (origin is Sequence and isinstance(value, str)):
        return False  # of which class a type is, is said where it is made
    if isinstance(value, Mapping) and parts:
        return all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if origin is tuple and parts[1:] != (...,):
        return len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(value, (list, tuple, Sequence)) and parts:
        return all(fits(item, parts[0]) for item in value)
    return True
