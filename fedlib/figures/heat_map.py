"""Heat maps over two hyperparameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from fedlib.arguments import checked
from fedlib.errors import Error, unknown
from fedlib.figures import style
from fedlib.figures.curves import Drawing, axis_label, figure_of, plain_log_ticks

WORDS = {"client_lr": "client learning rate", "server_lr": "server learning rate", "tau": "tau"}
MIDDLE = 0.2  # luminance that contrasts about as much with black as with white


@checked
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
) -> Drawing:
    """The last value of a metric over two hyperparameters; bright is good.

    Cells that diverged, or whose loss rose above the untrained model's, are hatched and have no
    colour.

    Args:
        frame: from ``fedlib.grid`` or ``Store.grid``; other axes than ``x`` and ``y`` must be
            constant.
        x, y: columns.
        metric, split: what the colour shows.
        title: of the panel.
        percent: draw fractions as percent.
        numbers: write the values into the cells.
        ax: draw into these axes; default a new figure.

    Returns:
        the figure, and what is drawn: x, y, value (NaN if hatched), diverged (round or NaN).

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
    loss = frame[(frame["metric"] == "loss") & (frame["split"] == split)].sort_values("round")
    ends = loss.groupby([x, y])["value"].agg(["first", "last"])
    ends = ends.reindex(pd.MultiIndex.from_frame(data[[x, y]]))
    gone = data["diverged"].notna() | (ends["last"] > ends["first"]).to_numpy()
    data["value"] = data["value"].mask(gone) * (100 if percent else 1)
    grid = data.pivot(index=y, columns=x, values="value")
    with style.axes(ax) as ax:
        image = draw_cells(
            ax, grid, grid.isna().to_numpy(), numbers=numbers, smaller=metric == "loss"
        )
        ax.set_title(title)
        figure = figure_of(ax)
        bar = figure.colorbar(image, ax=ax, label=axis_label(metric, split, percent))
        if isinstance(image.norm, LogNorm):
            plain_log_ticks(bar.ax)
    return figure, data


def draw_cells(
    ax: Axes,
    grid: pd.DataFrame,
    gone: np.ndarray,
    *,
    numbers: bool = True,
    smaller: bool = False,
    limits: tuple[float | None, float | None] = (None, None),
) -> ScalarMappable:
    """One heat map; bright is good. The caller adds title and colour bar.

    Args:
        ax: to draw into.
        grid: values, rows and columns by two hyperparameters whose names its axes bear.
        gone: bool, as ``grid``: hatched, without a colour.
        numbers: write the values into the cells.
        smaller: whether small values are the good ones; such are on a logarithmic scale, since
            errors span orders of magnitude.
        limits: of the colours; None: the smallest, the largest value.
    """
    import seaborn as sns  # here: it takes seconds, and most commands draw nothing
    from seaborn.utils import relative_luminance

    values = grid.astype(float).where(np.isfinite(grid.to_numpy(float)) & ~gone)
    seen = (0.0, 1.0) if values.isna().all(axis=None) else (np.nanmin(values), np.nanmax(values))
    # A limit that is given may lie on the other side of all values.
    low, high = sorted(b if a is None else a for a, b in zip(limits, seen, strict=True))
    scale = LogNorm if smaller and low > 0 else Normalize
    colors = {"cmap": "cividis_r" if smaller else "cividis", "norm": scale(low, high)}
    texts = {"annot": values.map(style.short) if numbers else None, "annot_kws": {"fontsize": 6}}
    bare = {"cbar": False, "xticklabels": False, "yticklabels": False}
    sns.heatmap(values, ax=ax, fmt="", **colors, **texts, **bare)
    ax.set_ylim(0, len(grid))  # the smallest below
    mesh = ax.collections[0]
    # A mesh without any value has one colour.
    colours = np.resize(np.asarray(mesh.get_facecolor()), (values.size, 4))
    shown = colours[values.notna().to_numpy().ravel()]
    for text, background in zip(ax.texts, shown, strict=False):
        # Whichever contrasts more; seaborn writes white on brighter cells, too.
        text.set_color("black" if relative_luminance(background) > MIDDLE else "white")
    for i, j in np.argwhere(gone):
        ax.add_patch(Rectangle((j, i), 1, 1, hatch="////", fill=False, edgecolor="0.6", lw=0))
    for axis, places in ((ax.xaxis, grid.columns), (ax.yaxis, grid.index)):
        name = str(places.name)
        axis.set_ticks(np.arange(len(places)) + 0.5, [style.readable(v) for v in places])
        axis.set_label_text(WORDS.get(name, name.replace("_", " ")))
    return mesh
