"""The methods of notebook 08, written out by hand, beside the library's."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedlib.errors import Error, unknown
from fedlib.figures import style

# FedAvg is the line to compare with in each panel.
PANELS: dict[str, tuple[str, ...]] = {
    "another server": ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"),
    "clients that are corrected": ("fedavg", "scaffold", "mime"),
    "clients that tune themselves": ("fedavg", "delta_sgd", "fedadam_delta_sgd"),
}
LOOKS = {
    "fedadam_delta_sgd": style.Look("FedAdam over Δ-SGD", style.look("fedadam").color, "*", "-"),
}
COLUMNS = ("method", "round", "ours", "fedlib")


def from_scratch(curves: pd.DataFrame) -> Figure:
    """Test accuracy over rounds: the loop's as lines, the library's as marks, a panel per idea.

    Args:
        curves: a row per method and round, with columns method (a key of :data:`PANELS`), round,
            ours and fedlib (fractions).

    Raises:
        Error: no curves, a column is missing, or a method that no panel has.
    """
    missing = [name for name in COLUMNS if name not in curves]
    if missing or curves.empty:
        raise Error(f"curves need the columns {', '.join(COLUMNS)} and a row per method and round")
    methods = dict(list(curves.groupby("method", sort=False)))
    known = dict.fromkeys(name for shown in PANELS.values() for name in shown)
    for method in methods:
        if method not in known:
            raise unknown("method", method, known)
    with style.panels(1, len(PANELS), (7.5, 3.2), sharey=True) as (figure, panels):
        for ax, (title, shown) in zip(panels, PANELS.items(), strict=True):
            for number, name in enumerate(shown):
                if name in methods:
                    _draw(ax, methods[name], LOOKS.get(name) or style.look(name), number % 2)
            ax.set(title=title, xlabel="round")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        panels[0].set_ylabel("test accuracy (%)")
        line = Line2D([], [], color="0.4", label="the loop")
        mark = Line2D([], [], color="0.4", marker="o", linestyle="", label="fedlib")
        figure.legend(handles=[line, mark], loc="outside upper center", ncols=2)
    return figure


def _draw(ax: Axes, curve: pd.DataFrame, look: style.Look, first: int) -> None:
    """One method: a line, and the library's marks in every other round from the first."""
    ax.plot(curve["round"], 100 * curve["ours"], color=look.color, linestyle=look.linestyle)
    marked = curve.iloc[first::2]
    marks = {**look.line(), "linestyle": ""}
    ax.plot(marked["round"], 100 * marked["fedlib"], **marks, label=look.label)
