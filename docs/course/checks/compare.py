"""What all checks share: a line that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedlib
from fedlib.engine import run


class Wrong(AssertionError):
    """A function does not do what it should; the message is one line."""


def expect(condition: bool, message: str) -> None:
    """Raise :class:`Wrong` with this message unless the condition holds."""
    if not condition:
        raise Wrong(message)


def same(what: str, given: Any, wanted: Any, hint: str = "") -> None:
    """Raise :class:`Wrong` unless two arrays agree in shape and, to eight digits, in values.

    Args:
        what: is compared, for instance ``"x after round 2"``.
        given: by the student's function; anything that NumPy takes for numbers.
        wanted: the right one.
        hint: what to look at if they differ.
    """
    ending = f"; {hint}" if hint else ""
    expect(given is not None, f"{what} is None: return it{ending}")
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise Wrong(f"{what} is {type(given).__name__}, not numbers{ending}") from None
    right = np.asarray(wanted, dtype=float)
    shapes = numbers.shape == right.shape
    expect(shapes, f"{what} has shape {numbers.shape}, not {right.shape}{ending}")
    agree = np.allclose(numbers, right, rtol=1e-8, atol=1e-10, equal_nan=True)
    expect(agree, f"{what} is {_line(numbers)}, not {_line(right)}{ending}")


def right(task: fedlib.Task, method: Any, rounds: int = 1, **values: Any) -> np.ndarray:
    """fedlib's x of a quadratic task after some rounds of a method with these overrides."""
    history = run(task, method, rounds=rounds, device="cpu", dtype="float64", overrides=values)
    return np.asarray(history.params["x"])


def results(what: str, given: Any, names: str) -> tuple[Any, ...]:
    """A function's results, if they are as many as there are names (``"x, m, v"``)."""
    count = len(names.split(","))
    several = isinstance(given, tuple) and len(given) == count
    expect(several, f"{what} must return {count} things: {names}")
    return tuple(given)


def _line(numbers: np.ndarray) -> str:
    text = np.array2string(numbers, precision=6, threshold=8, edgeitems=3)
    return " ".join(text.split())
