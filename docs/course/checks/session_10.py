"""Session 10: margins, spread and verdict, against those behind ``fedlib claims``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedlib.reproduction.evidence import FAILS, HOLDS, OPEN, Statement

from .compare import expect, results, same

CASES = ((0.03, 0.02, 0.04), (-0.1, 0.2, 0.05), (-0.05, -0.06, -0.04), (0.01,), (0.0, 0.0, 0.0))
# A run that diverged has no margin.
DIVERGED = ((0.2, float("nan"), 0.3), (float("nan"),))


def statement(
    function: Callable[..., Any], cases: Sequence[Sequence[float]] = CASES, seed: int = 0
) -> None:
    """``statement(margins)`` on these margins and on random ones of two to six seeds."""
    draw = np.random.default_rng(seed)
    random = [draw.normal(0.01, 0.01, draw.integers(2, 7)).tolist() for _ in range(20)]
    for margins in (*cases, *random):
        wanted, shown = Statement("", tuple(margins)), ", ".join(f"{each:.3f}" for each in margins)
        given = results("statement", function(list(margins)), "mean, spread, verdict")
        same(f"the mean of margins {shown}", given[0], wanted.mean, "-inf if a run diverged")
        same(
            f"the spread of margins {shown}", given[1], wanted.spread, "divisor n - 1; NaN for one"
        )
        message = f"margins {shown}: the verdict is {given[2]!r}, not {wanted.verdict!r}"
        expect(given[2] == wanted.verdict, message)


def claim(function: Callable[..., Any]) -> None:
    """``claim(verdicts)``: one that does not hold decides, then one that is not resolved."""
    for verdicts, wanted in (
        ((HOLDS, HOLDS), HOLDS),
        ((HOLDS, OPEN), OPEN),
        ((OPEN, FAILS, HOLDS), FAILS),
        ((FAILS,), FAILS),
        ((OPEN, OPEN), OPEN),
    ):
        given = function(list(verdicts))
        expect(given == wanted, f"claim({list(verdicts)}) is {given!r}, not {wanted!r}")
