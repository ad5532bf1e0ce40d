"""FedOpt's curves: validation metrics over rounds, a panel per task."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import printed_key, shared_legend
from fedlib.reproduction import tables
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.printed import of_task, printed_curves
from fedlib.reproduction.table import Table

COLUMNS = 3
# Figure 4 has this task, Figure 1 all others.
ALONE = "emnist_cr"


def fedopt_figure_1(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Validation curves of six methods, a panel per task that was run; all tasks but EMNIST CR."""
    table = tables.find("fedopt", "Table 1")
    return _panels(histories, [item for item in table if item.task != ALONE])


def fedopt_figure_4(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """The same for EMNIST CR."""
    return _panels(histories, tables.find("fedopt", "Table 1", ALONE))


def _panels(histories: Sequence[History], tables: Sequence[Table]) -> tuple[Figure, pd.DataFrame]:
    """A panel per table that has runs, each with the metric and the numbers that the table prints.

    Returns:
        the figure and what is drawn: see :func:`fedlib.reproduction.printed.printed_curves`; the metric
        added.
    """
    shown = [item for item in tables if of_task(histories, item.task)]
    if not shown:
        raise Error("none of these runs is of the figure's tasks")
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    size = (5.5, 3.4) if len(shown) == 1 else (2.9 * columns, 2.4 * rows + 0.8)
    frames = []
    with style.context():
        figure = Figure(figsize=size)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for ax in panels[len(shown) :]:
            ax.remove()
        for ax, item in zip(panels, shown, strict=False):
            metric = item.cells[0].metric
            own = of_task(histories, item.task)
            data = printed_curves(item, own, metric, series=metric, ax=ax)
            if METRICS[metric].smaller:
                # Errors fall by orders of magnitude.
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
                ax.yaxis.set_minor_formatter(NullFormatter())
            frames.append(data.assign(metric=metric))
        shared_legend(figure, printed_key(*(item.rounds for item in shown)))
    return figure, pd.concat(frames, ignore_index=True)
