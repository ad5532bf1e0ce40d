"""Step sizes that clients find for themselves, the conditions they obey, and how far they carry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import ABOVE

# The paper's colours of the conditions: green for the local smoothness, blue for the growth.
LINES = {
    "local": ("1st: local smoothness", "#009E73", 0.7),
    "growth": ("2nd: growth", "#0072B2", 0.7),
    "eta": ("step size", "black", 1.0),
}


def step_sizes(paths: Mapping[str, pd.DataFrame]) -> Figure:
    """Delta-SGD's two conditions over local steps, and the step size, which is the lower one.

    Args:
        paths: title of a panel -> a row per step with columns local, the condition from the local
            smoothness (infinite where there is none); growth, the condition that bounds how fast
            steps grow; eta, the step size.

    Raises:
        Error: no paths, or a column is missing.
    """
    if not paths:
        raise Error("no step sizes to draw; give at least one path")
    for title, path in paths.items():
        for name in LINES:
            if name not in path:
                needed = ", ".join(LINES)
                raise Error(f"step sizes of {title!r} have no column {name!r}; needed: {needed}")
    with style.panels(len(paths), 1, (5.5, 0.4 + 1.8 * len(paths))) as (figure, panels):
        for ax, (title, path) in zip(panels, paths.items(), strict=True):
            for name, (label, color, width) in LINES.items():
                ax.semilogy(path.index, path[name], color=color, linewidth=width, label=label)
            ax.set_ylim(path["eta"].min() / 2, 10 * path["growth"].max())
            ax.set(ylabel="η", title=title)
        panels[-1].set_xlabel("local step")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=len(LINES))
    return figure


def auto_tuned(
    by_scale: pd.DataFrame, by_floor: pd.DataFrame, values: Mapping[str, np.ndarray]
) -> Figure:
    """Losses over the scale of the problem and over a floor below it, and Lyapunov values.

    Args:
        by_scale: excess loss per method (columns), indexed by scale; infinite where it diverged.
        by_floor: the same, indexed by the floor added to the losses; the floor 0 is left out.
        values: kind of problem -> V_t ``[rounds, problems]``, drawn relative to the first one: the
            median, and nine tenths of the problems.
    """
    with style.panels(1, 3, (7.5, 2.8)) as (figure, (left, middle, right)):
        for ax, table in ((left, by_scale), (middle, by_floor[by_floor.index > 0])):
            every = max(1, len(table) // 8)
            for mark, name in zip("osv", table, strict=False):
                shown = table[name].clip(1e-16, 1e3)
                ax.loglog(table.index, shown, f"{mark}-", label=str(name), markevery=every)
            ax.set(xlabel=table.index.name, ylabel="loss above the least / first")
            ax.legend(**ABOVE)
        left.set_ylim(1e-4, 10)
        for kind, each in values.items():
            drawn = pd.DataFrame(each / each[0]).melt(ignore_index=False)["value"]
            band = {"estimator": "median", "errorbar": ("pi", 90)}
            sns.lineplot(x=drawn.index, y=drawn, label=kind, ax=right, **band)
        right.set_yscale("symlog", linthresh=1e-2)
        right.set(xlabel="round", ylabel="$V_t / V_1$", ylim=(-0.003, 30))
        right.legend(**ABOVE)
    return figure
