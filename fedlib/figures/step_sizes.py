"""Step sizes that clients find for themselves, and the two conditions they obey."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import figure_of

COLUMNS = ("step", "local", "growth", "eta")


def step_sizes(
    steps: pd.DataFrame, *, title: str = "", legend: bool = True, ax: Axes | None = None
) -> Figure:
    """Delta-SGD's two conditions over local steps, and their minimum, the step size.

    Args:
        steps: columns step; local, the condition from the local smoothness (infinite where there
            is none); growth, the condition that bounds how fast steps grow; eta, the step size.
        title: of the panel.
        legend: draw one.
        ax: draw into these axes; default a new figure.

    Raises:
        Error: a column is missing.
    """
    missing = [name for name in COLUMNS if name not in steps]
    if missing:
        raise Error(f"step sizes have no column {missing[0]!r}; needed: {', '.join(COLUMNS)}")
    with style.context():
        ax = Figure(figsize=(5.5, 2.4)).subplots() if ax is None else ax
        # The paper's colours: green for the local smoothness, blue for the growth.
        ax.semilogy(steps["step"], steps["local"], color="#009E73", linewidth=0.7, label="1st")
        ax.semilogy(steps["step"], steps["growth"], color="#0072B2", linewidth=0.7, label="2nd")
        ax.semilogy(steps["step"], steps["eta"], color="black", linewidth=1.0, label="step size")
        ax.set(xlabel="local step", ylabel="step size η", title=title)
        low, high = steps["eta"].min(), steps["growth"].max()
        ax.set_ylim(low / 2, high * 10)
        if legend:
            ax.legend(ncols=3, title="condition")
    return figure_of(ax)
