"""One look for all figures, and one colour, marker, line and label per algorithm."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


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


_BLUE, _RED, _GREEN, _PINK, _AMBER, _SKY, _BLACK, _OLIVE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#999933"),
)
_DASH, _DOT, _DASHDOT, _LONG = "--", ":", "-.", (0, (6, 2))

# Related methods share a colour and differ in marker and line; those that meet in one figure of the
# papers differ in colour.
LOOKS: dict[str, Look] = {
    "fedavg": Look("FedAvg", _BLACK, "o", _DASH),
    "fedavgm": Look("FedAvgM", _SKY, "v", _DASHDOT),
    "fedadagrad": Look("FedAdagrad", _GREEN, "s", "-"),
    "fedadam": Look("FedAdam", _BLUE, "^", "-"),
    "fedyogi": Look("FedYogi", _RED, "D", "-"),
    "scaffold": Look("SCAFFOLD", _AMBER, "P", _DASHDOT),
    "fedprox": Look("FedProx", _PINK, "X", _DASH),
    "fednova": Look("FedNova", _OLIVE, "<", _DASHDOT),
    "qfedavg": Look("q-FedAvg", _AMBER, ">", _DOT),
    "adafedadam": Look("AdaFedAdam", _RED, "*", "-"),
    "mime": Look("Mime", _RED, "h", "-"),
    "mimelite": Look("MimeLite", _GREEN, "H", "-"),
    "mime_mvr": Look("MimeMVR", _RED, "d", _LONG),
    "mimelite_mvr": Look("MimeLiteMVR", _GREEN, "d", _LONG),
    "loc_mime": Look("Loc-Mime", _OLIVE, "h", _DOT),
    "moon": Look("MOON", _AMBER, "p", "-"),
    "lookahead": Look("Lookahead", _PINK, "1", _DOT),
    "adaalter": Look("AdaAlter", _SKY, "2", _DOT),
    "centralized": Look("Centralized", "#7F7F7F", "", _LONG),
    "n_accadam": Look("N-AccAdam", _SKY, "3", _LONG),
}
# Client optimizers, as Delta-SGD's figures compare them; ``_decay`` is its falling step size.
CLIENT_LOOKS: dict[str, Look] = {
    "sgd": Look("SGD", _BLACK, "o", _DASH),
    "sgd_decay": Look("SGD (decay)", "#7F7F7F", "o", _DOT),
    "sgdm": Look("SGDM", _BLUE, "v", _DASHDOT),
    "sgdm_decay": Look("SGDM (decay)", _SKY, "v", _DOT),
    "adam": Look("Adam", _AMBER, "^", "-"),
    "adagrad": Look("Adagrad", _GREEN, "s", "-"),
    "sps": Look("SPS", _PINK, "X", _DASHDOT),
    "delta_sgd": Look("Δ-SGD", _RED, "*", "-"),
}
_OTHERS = (_BLUE, _RED, _GREEN, _PINK, _AMBER, _SKY, _OLIVE)


def look(algorithm: str) -> Look:
    """The look of an algorithm or client optimizer; any other name gets a fixed one from itself."""
    known = LOOKS | CLIENT_LOOKS
    if algorithm in known:
        return known[algorithm]
    number = sum(algorithm.encode())
    return Look(algorithm, _OTHERS[number % len(_OTHERS)], "osv^D<>"[number % 7], _DOT)


def distinct(labels: Collection[str], known: Mapping[str, Look] | None = None) -> dict[str, Look]:
    """A look for each line of one picture, no two alike.

    Args:
        labels: of the lines.
        known: looks that some of them have already, whatever their own label.
    """
    given = known or {}
    looks = {label: replace(given[label], label=label) for label in labels if label in given}
    taken = {look.color for look in looks.values()}
    free = [color for color in _OTHERS if color not in taken] or list(_OTHERS)
    for number, label in enumerate(label for label in labels if label not in looks):
        linestyle = ("-", _DASH, _DOT, _DASHDOT)[number // len(free) % 4]
        looks[label] = Look(label, free[number % len(free)], "osv^D<>"[number % 7], linestyle)
    return looks


def apply() -> None:
    """Use the style for everything drawn from now on."""
    with as_file(files("fedlib.figures").joinpath("fedlib.mplstyle")) as path:
        matplotlib.style.use(str(path))


@contextmanager
def context() -> Iterator[None]:
    """Use the style inside a ``with`` block only, whatever was set before."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        apply()
        yield


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
        every = figure.subplots(rows, columns, squeeze=False, **options).ravel()
        for ax in every[len(every) if count is None else count :]:
            ax.remove()
        yield figure, every[:count]
