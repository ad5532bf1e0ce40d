"""One look for all figures: a colour, marker, line and label per algorithm, one word per name."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fedlib.paths import read_toml


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn, in every figure alike."""

    label: str
    color: str
    marker: str = "o"
    linestyle: str | tuple[int, tuple[int, ...]] = "-"

    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.linestyle}


_LINES: dict[str, Any] = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_LINES["long"] = (0, (6, 2))
_DECLARED = read_toml("figures/looks.toml")
_COLORS: dict[str, str] = _DECLARED["colors"]
LOOKS, CLIENT_LOOKS = (
    {
        name: Look(label, _COLORS[color], marker, _LINES[line])
        for name, (label, color, marker, line) in _DECLARED[kind].items()
    }
    for kind in ("methods", "clients")
)
# Of lines that have no look of their own.
_OTHERS = [color for name, color in _COLORS.items() if name not in ("black", "grey")]
NAMES: dict[str, str] = _DECLARED["names"]
STYLE = "fedlib.figures.fedlib"  # the file fedlib.mplstyle beside this one
# Behind what is drawn from small problems in place of the papers'.
TINT = "#F6F2E6"
# Of a subtitle fit into an inch.
LETTERS = 26


def look(algorithm: str) -> Look:
    """The look of an algorithm or client optimizer; any other name gets a fixed one from itself."""
    known = LOOKS | CLIENT_LOOKS
    if algorithm in known:
        return known[algorithm]
    number = sum(algorithm.encode())
    return Look(algorithm, _OTHERS[number % len(_OTHERS)], "osv^D<>"[number % 7], ":")


def name(word: str) -> str:
    """What people call a method, task, data set or metric.

    >>> [name(word) for word in ("SGD_decay", "mse_x1000", "fedavg", "recall_at_5")]
    ['SGD (decay)', 'MSE × 1000', 'FedAvg', 'recall at 5']
    """
    known = LOOKS | CLIENT_LOOKS
    if word.lower() in known:
        return known[word.lower()].label
    return NAMES.get(word, word.replace("_", " "))


def titled(ax: Axes, title: str, below: str = "", *, small: bool = False) -> None:
    """A panel's title at the left, under it in grey what is shown; small problems are tinted."""
    spec = ax.get_subplotspec()
    inches = ax.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    pitch = inches / (spec.get_gridspec().ncols if spec else 1)
    # It may stand above the labels behind the panel, too; the axis' numbers take the rest.
    most = max(20, int(LETTERS * (pitch - 0.6)))
    even = len(below) // max(1, -(-len(below) // most)) + 8  # no line of one word
    lines = textwrap.wrap(below, min(most, even), break_on_hyphens=False)
    ax.set_title(title, loc="left", fontweight="bold", pad=4 + 8 * len(lines))
    if lines:
        look: dict[str, Any] = {"fontsize": 6, "color": "0.4", "va": "bottom", "linespacing": 1.1}
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        shown = ax.annotate("\n".join(lines), (0, 1), (0, 3), **place, **look)
        shown.set_in_layout(bool(spec and spec.is_last_col()))  # not beyond the figure's edge
    if small:
        ax.set_facecolor(TINT)


def tints(count: int) -> list[Any]:
    """Shades of one hue for the values of a parameter, from light to dark.

    >>> len(tints(3))
    3
    """
    return [matplotlib.colormaps["cividis_r"](place) for place in np.linspace(0.25, 1, count)]


def grid(count: int, most: int) -> tuple[int, int]:
    """In how many rows and columns some panels leave the fewest places empty, so many columns at
    most.

    >>> [grid(count, most=4) for count in (1, 3, 4, 5, 6, 7)]
    [(1, 1), (1, 3), (1, 4), (2, 3), (2, 3), (2, 4)]
    """
    tried = range(min(count, most), min(count, 2) - 1, -1)
    columns = min(tried, key=lambda number: -count % number)
    return -(-count // columns), columns


def band(ax: Axes, x: ArrayLike, mean: pd.Series, std: pd.Series, color: Any, alpha: float) -> None:
    """Shade what lies within one standard deviation of a mean."""
    ax.fill_between(x, mean - std, mean + std, color=color, alpha=alpha, linewidth=0)


def distinct(labels: Collection[str], known: Mapping[str, Look] | None = None) -> dict[str, Look]:
    """A look for each line of one picture, no two alike.

    Args:
        labels: of the lines.
        known: looks that some of them have already, whatever their own label.
    """
    given = known or {}
    looks = {label: replace(given[label], label=label) for label in labels if label in given}
    taken = {look.color for look in looks.values()}
    free = [color for color in _OTHERS if color not in taken] or _OTHERS
    for number, label in enumerate(label for label in labels if label not in looks):
        linestyle = ("-", "--", ":", "-.")[number // len(free) % 4]
        looks[label] = Look(label, free[number % len(free)], "osv^D<>"[number % 7], linestyle)
    return looks


def apply() -> None:
    """Use the style for everything drawn from now on."""
    matplotlib.style.use(STYLE)


def context() -> AbstractContextManager[None]:
    """Use the style inside a ``with`` block only, whatever was set before."""
    return matplotlib.style.context(STYLE, after_reset=True)


@contextmanager
def axes(ax: Axes | None = None, size: tuple[float, float] = (5.5, 3.0)) -> Iterator[Axes]:
    """Some axes, or those of a new figure of a size in inches; the style inside the block only."""
    with context():
        yield Figure(figsize=size).subplots() if ax is None else ax


@contextmanager
def panels(
    rows: int, columns: int, size: tuple[float, float], count: int | None = None, **options: Any
) -> Iterator[tuple[Figure, np.ndarray]]:
    """A new figure and its panels, row after row; the style inside the ``with`` block only.

    Args:
        rows, columns: of panels.
        size: of the figure, in inches.
        count: how many panels are needed, the last ones are removed; default all.
        **options: of ``Figure.subplots``, for instance ``sharey=True``.
    """
    with context():
        figure = Figure(figsize=size)
        grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
        for ax in grid[len(grid) if count is None else count :]:
            ax.remove()
        yield figure, grid[:count]


def readable(value: object) -> str:
    """A hyperparameter as people write it: powers of the root of ten with one digit.

    >>> [readable(value) for value in (10**-1.5, 10**0.5, 100.0, 1e-5, 0.25, "sgd")]
    ['0.03', '3', '100', '1e-5', '0.25', 'sgd']
    """
    if not isinstance(value, (int, float)):
        return str(value)
    halves = 2 * np.log10(value) if value > 0 else 0.5
    rounded = float(f"{value:.{1 if abs(halves - round(halves)) < 1e-6 else 3}g}")
    return f"{rounded:g}".replace("e-0", "e-").replace("e+0", "e")


def short(value: float) -> str:
    """A number in few letters: a digit after the point from 10 on, below two or three.

    >>> [short(value) for value in (0, 0.0056, 0.034, -0.5, 2.306, 77.44, 200.6, 2000, 1.6e30)]
    ['0.0', '6e-3', '0.034', '-0.50', '2.31', '77.4', '200.6', '2e3', '2e30']
    """
    if abs(value) >= 1000 or 0 < abs(value) < 0.01:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    digits = 1 if abs(value) >= 10 or value == 0 else 2 if abs(value) >= 0.1 else 3
    return f"{value:.{digits}f}"
