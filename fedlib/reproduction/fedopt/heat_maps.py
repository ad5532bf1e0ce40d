"""FedOpt's heat maps: what each pair of client and server learning rates comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import plain_log_ticks
from fedlib.figures.scale import scale
from fedlib.reproduction.entry import Drawing
from fedlib.reproduction.fedopt import outcomes

AXES = ["server_lr", "client_lr"]
# The colours tell points of percent apart down to so many below the best, errors up to its double.
POINTS, DOUBLE = 15.0, 2.0
# Of a figure, in inches; of a number's four letters, in ems; the smallest that can be read.
WIDTH, FOUR, LEAST = 7.5, 2.6, 3.8
MIDDLE = 0.2  # luminance that contrasts about as much with black as with white


def grids(*algorithms: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of one task's heat maps, a panel per algorithm, all on one scale.

    They show the printed metric; bright is good, means over the seeds. The scale ends 15 points
    below the best cell of all (an error's at its double), so that methods which differ by a point
    can be told apart; each method's best cell is framed. Hatched, and without a colour, is what
    diverged or left the test loss above the untrained model's.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.collect(histories)
        shown = [name for name in algorithms if (frame["algorithm"] == name).any()]
        if not shown:
            raise Error(f"heat maps: none of these runs is of {', '.join(algorithms)}")
        frame = outcomes.over_seeds(frame[frame["algorithm"].isin(shown)])
        frame["hatched"] = outcomes.useless(frame)
        smaller = outcomes.smaller_is_better(frame)
        useful = frame.loc[~frame["hatched"], "performance"]
        best = useful.min() if smaller else useful.max()
        limits = (best, DOUBLE * best) if smaller else (max(useful.min(), best - POINTS), best)
        with style.panels(1, len(shown), (WIDTH, 2.3), sharey=True) as (figure, panels):
            for ax, name in zip(panels, shown, strict=True):
                image = _map(ax, frame[frame["algorithm"] == name], smaller, limits, len(shown))
                ax.set(xlabel="", ylabel="server rate" if ax is panels[0] else "")
            clipped = (useful > limits[1]).any() if smaller else (useful < limits[0]).any()
            extend = "neither" if not clipped else "max" if smaller else "min"
            bar = figure.colorbar(image, ax=list(panels), extend=extend, pad=0.01, aspect=15)
            bar.set_label(outcomes.label(frame), fontsize=7)
            if isinstance(image.norm, LogNorm):
                plain_log_ticks(bar.ax)
            bar.ax.tick_params(labelsize=6)
            figure.supxlabel("client learning rate", fontsize=8)
            figure.suptitle(scale(histories), fontsize=7, color="0.4", x=0.01, ha="left")
        return figure, frame

    return draw


def _map(
    ax: Axes, part: pd.DataFrame, smaller: bool, limits: tuple[float, float], panels: int
) -> ScalarMappable:
    """One algorithm's map, its best cell framed; the caller adds the colour bar."""
    import seaborn as sns  # here: it takes seconds, and most commands draw nothing
    from seaborn.utils import relative_luminance

    cells = part.pivot(index=AXES[0], columns=AXES[1])
    gone = cells["hatched"].to_numpy(bool)
    values = cells["performance"].astype(float).where(~gone)
    size = 72 * 0.82 * WIDTH / panels / values.shape[1] / FOUR
    # Errors span orders of magnitude. The best of all may lie on the other side of the limits.
    low, high = sorted(limits)
    scale = LogNorm if smaller and low > 0 else Normalize
    colors = {"cmap": "cividis_r" if smaller else "cividis", "norm": scale(low, high)}
    texts = {"annot": values.map(style.short) if size >= LEAST else None}
    texts["annot_kws"] = {"fontsize": min(6.5, size)}
    bare = {"cbar": False, "xticklabels": False, "yticklabels": False}
    sns.heatmap(values, ax=ax, fmt="", **colors, **texts, **bare)
    ax.set_ylim(0, len(values))  # the smallest below
    mesh = ax.collections[0]
    # A mesh without any value has one colour.
    colours = np.resize(np.asarray(mesh.get_facecolor()), (values.size, 4))
    shown = colours[values.notna().to_numpy().ravel()]
    for text, background in zip(ax.texts, shown, strict=False):
        # Whichever contrasts more; seaborn writes white on brighter cells, too.
        text.set_color("black" if relative_luminance(background) > MIDDLE else "white")
    for i, j in np.argwhere(gone):
        ax.add_patch(Rectangle((j, i), 1, 1, hatch="////", fill=False, edgecolor="0.6", lw=0))
    title, known = style.look(str(part["algorithm"].iloc[0])).label, values.to_numpy()
    if np.isfinite(known).any():
        place = np.nanargmin(known) if smaller else np.nanargmax(known)
        row, column = map(int, np.unravel_index(int(place), known.shape))
        ax.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor="#D55E00", linewidth=1.5))
        title += f": {style.short(known[row, column])}"
    ax.set_title(title, fontsize=8, fontweight="bold")
    ax.tick_params(labelsize=6, length=2)
    for axis, rates in ((ax.xaxis, values.columns), (ax.yaxis, values.index)):
        axis.set_ticks(np.arange(len(rates)) + 0.5, [style.readable(rate) for rate in rates])
    ax.tick_params(axis="x", labelrotation=90 if values.shape[1] > 5 else 0)
    return mesh
