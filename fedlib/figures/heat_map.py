"""Heat maps over two hyperparameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from fedlib.errors import Error, unknown
from fedlib.figures import style
from fedlib.figures.curves import axis_label, figure_of

WORDS = {"client_lr": "client learning rate", "server_lr": "server learning rate", "tau": "tau"}


def heat_map(
    frame: pd.DataFrame,
    x: str = "client_lr",
    y: str = "server_lr",
    *,
    metric: str = "accuracy",
    split: str = "test",
    title: str = "",
    percent: bool = True,
    numbers: bool = True,
    ax: Axes | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """The last value of a metric over two hyperparameters; cells that diverged are hatched.

    Args:
        frame: from ``fedlib.grid`` or ``Store.grid``; other axes than ``x`` and ``y`` must be
            constant.
        x, y: columns; positive values are labelled by their log10, as in FedOpt's figures.
        metric, split: what the colour shows.
        title: of the panel.
        percent: draw fractions as percent.
        numbers: write the values into the cells.
        ax: draw into these axes; default a new figure.

    Returns:
        the figure, and what is drawn: x, y, value (NaN if diverged), diverged (round or NaN).

    Raises:
        Error: a missing column or metric, or several runs for one cell.
    """
    for name in (x, y, "round", "split", "metric", "value", "diverged"):
        if name not in frame.columns:
            raise unknown("column of the grid's frame", name, map(str, frame.columns))
    chosen = frame[(frame["metric"] == metric) & (frame["split"] == split)]
    if chosen.empty:
        raise unknown(
            "metric", f"{split} {metric}", (frame["split"] + " " + frame["metric"]).unique()
        )
    last = chosen.sort_values("round", kind="stable").groupby([x, y], as_index=False)
    data = last[["value", "diverged"]].last()
    rows = chosen.groupby([x, y, "round"]).size()
    if (rows > 1).any():
        raise Error(
            f"heat map: several runs for one ({x}, {y}); choose one value of the other axes"
        )
    data["value"] = np.where(data["diverged"].isna(), data["value"], np.nan) * (
        100 if percent else 1
    )
    grid = data.pivot(index=y, columns=x, values="value")
    gone = data.pivot(index=y, columns=x, values="diverged").notna().to_numpy()
    with style.context():
        ax = Figure().subplots() if ax is None else ax
        image = draw_cells(ax, grid, gone, numbers=numbers)
        ax.set_title(title)
        figure = figure_of(ax)
        figure.colorbar(image, ax=ax, label=axis_label(metric, split, percent))
    return figure, data


def draw_cells(
    ax: Axes,
    grid: pd.DataFrame,
    gone: np.ndarray,
    *,
    numbers: bool = True,
    smaller: bool = False,
    limits: tuple[float | None, float | None] = (None, None),
) -> AxesImage:
    """One heat map; bright is good. The caller adds title and colour bar.

    Args:
        ax: to draw into.
        grid: values, rows and columns by two hyperparameters whose names its axes bear.
        gone: bool, as ``grid``: hatched.
        numbers: write the values into the cells.
        smaller: whether small values are the good ones.
        limits: of the colours; None: the smallest, the largest value.
    """
    colors = colormaps["cividis_r" if smaller else "cividis"]
    low, high = limits
    image = ax.imshow(
        grid.to_numpy(float), origin="lower", aspect="auto", cmap=colors, vmin=low, vmax=high
    )
    ax.grid(False)
    for i, j in np.argwhere(gone):
        ax.add_patch(
            Rectangle(
                (j - 0.5, i - 0.5), 1, 1, hatch="////", fill=False, edgecolor="0.6", linewidth=0
            )
        )
    if numbers:
        _numbers(ax, grid.to_numpy(float), image, smaller)
    for axis, values in ((ax.xaxis, grid.columns), (ax.yaxis, grid.index)):
        name = str(values.name)
        logs = all(isinstance(v, (int, float)) and v > 0 for v in values)
        labels = [f"{np.log10(v):.3g}" if logs else str(v) for v in values]
        axis.set_ticks(range(len(values)), labels)
        words = WORDS.get(name, name.replace("_", " "))
        axis.set_label_text(f"log10 {words}" if logs else words)
    return image


def _numbers(ax: Axes, values: np.ndarray, image: AxesImage, smaller: bool) -> None:
    low, high = image.get_clim()
    middle = ((low or 0.0) + (high or 0.0)) / 2
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "white" if (value < middle) != smaller else "black"
            ax.text(j, i, short(value), ha="center", va="center", fontsize=6, color=color)


def short(value: float) -> str:
    """A number in at most five letters: one digit after the point from 10 on, two below."""
    if abs(value) >= 1000:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.1f}" if abs(value) >= 10 or value == 0 else f"{value:.2f}"
