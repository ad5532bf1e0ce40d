"""Arguments of public functions and classes, checked against their annotations in one place.

Pydantic compares; what is wrong becomes one line of :class:`fedlib.Error` that names the argument,
its value and what is allowed. Values are passed on as they are, never converted, and their ranges
are checked where they are used.
"""

from __future__ import annotations

import functools
import inspect
import os
import pkgutil
import reprlib
import traceback
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from torch import Tensor

from fedlib.errors import Error, first_line, unknown


def _array(value: Any, kinds: str = "biufcSU") -> Any:
    """Require what NumPy takes for an array, with elements of these kinds."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(str(error)) from None
    if array.dtype.kind not in kinds or array.ndim == 0:
        raise ValueError("no array of these kinds")
    return value


def _numbers(value: Any) -> Any:
    return _array(value, "biuf")


Function = TypeVar("Function", bound=Callable[..., Any])
# The seed of a draw.
Seed = Annotated[int, Field(ge=0)]
# What NumPy takes for an array of real numbers.
Numbers = Annotated[Any, AfterValidator(_numbers)]
# How an error says what is allowed, where the annotation itself does not.
WORDS = {
    "Seed": "a whole number >= 0",
    "ArrayLike": "an array",
    "Numbers": "an array of real numbers",
    "Root": "a folder",
    "store.Root": "a folder",
}


def checked(function: Function) -> Function:
    """A function whose arguments must be of the types that its annotations say.

    ``Any`` is not checked. Whole numbers count as floats, NumPy's numbers as Python's; true and
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
            for key, each in many.items():
                _check(function, argument, each, f"{name}: {key}")
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
        frames = traceback.extract_tb(error.__traceback__)
        mine = [frame for frame in frames if Path(frame.filename).parent == Path.cwd()]
        place = f" ({Path(mine[-1].filename).name}, line {mine[-1].lineno})" if mine else ""
        problem = f"{type(error).__name__}: {first_line(error)}{place}"
        raise Error(f"{what} fails: {problem}") from error


def check_fields(instance: Any) -> None:
    """Require that a dataclass's fields are of the types that their annotations say.

    Raises:
        Error: the first field that is not.
    """
    kind = type(instance)
    for field in fields(kind):
        if field.init:
            value = getattr(instance, field.name)
            _check(kind, field.name, value, f"{kind.__name__}: {field.name}")


def _check(owner: Any, argument: str, value: Any, label: str) -> None:
    known = _adapters(owner).get(argument)
    if known is None:
        return
    adapter, allowed = known
    try:
        adapter.validate_python(value)
    except ValidationError:
        raise Error(f"{label} is {shown(value)}; allowed: {allowed}") from None


def shown(value: Any) -> str:
    """A value in a few words, on one line."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    return " ".join(reprlib.repr(value).split())


@functools.cache
def _adapters(owner: Any) -> dict[str, tuple[TypeAdapter[Any], str]]:
    """For each argument what checks it, and what an error says is allowed."""
    hints = typing.get_type_hints(owner, include_extras=True)
    texts = owner.__annotations__
    if inspect.isclass(owner):
        texts = {field.name: field.type for field in fields(typing.cast(Any, owner))}
    config = ConfigDict(strict=True)
    adapters = {}
    for name, hint in hints.items():
        if (
            name not in texts
            or name == "return"
            or hint is Any
            or get_origin(hint) is typing.Unpack
        ):
            continue
        text = str(texts[name])
        adapter: TypeAdapter[Any] = TypeAdapter(_loosened(hint), config=config)
        adapters[name] = adapter, " | ".join(WORDS.get(word, word) for word in text.split(" | "))
    return adapters


def _loosened(hint: Any) -> Any:
    """An annotation that takes NumPy's numbers for Python's, and arrays for sequences."""
    if hint == ArrayLike:
        return Annotated[Any, AfterValidator(_array)]
    if hint in (int, float, bool, str):
        return Annotated[hint, BeforeValidator(_plain)]
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_loosened(part) for part in parts)]  # noqa: UP007
    if origin is Annotated:
        return Annotated[(_loosened(parts[0]), *parts[1:])]
    if origin is type:
        return _instance(type)  # of which class is said where it is made
    if origin in (os.PathLike, Callable):
        return _instance(origin)
    if origin is None or not parts:
        return _instance(hint) if inspect.isclass(hint) and hint not in (Any, NoneType) else hint
    loosened = hint.__origin__[tuple(part if part is ... else _loosened(part) for part in parts)]
    return Annotated[loosened, BeforeValidator(_listed)] if origin is Sequence else loosened


def _instance(kind: Any) -> Any:
    """What pydantic would otherwise look into, where it is a dataclass."""

    def check(value: Any) -> Any:
        if not (callable(value) if kind is Callable else isinstance(value, kind)):
            raise ValueError(f"no {kind.__name__}")
        return value

    return Annotated[Any, AfterValidator(check)]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, np.ndarray) and value.ndim else value
