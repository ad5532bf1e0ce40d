"""Half-decades; :func:`fedlib.plans.neighbours` takes their place."""

from __future__ import annotations

import math


def half_decades(centre: float, reach: int) -> list[float]:
    """The powers of the root of ten around one of them, ``reach`` to both sides.

    >>> [round(rate, 3) for rate in half_decades(0.1, 1)]
    [0.032, 0.1, 0.316]
    """
    power = round(2 * math.log10(centre))
    return [10.0 ** (half / 2) for half in range(power - reach, power + reach + 1)]
