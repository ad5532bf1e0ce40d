"""FedOpt's heat maps: what each pair of client and server learning rates comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import figure_of, plain_log_ticks
from fedlib.figures.heat_map import draw_cells
from fedlib.reproduction.entry import Drawing
from fedlib.reproduction.fedopt import outcomes

# Up to so many cells a map has its numbers written into them.
WITH_NUMBERS = 24
AXES = ["server_lr", "client_lr"]


def grids(*algorithms: str) -> Callable[[Sequence[History]], Drawing]:
    """The drawing of one task's heat maps, a column per algorithm, all on one scale.

    Above is the printed metric, as in the paper; below the test loss, which the paper does not
    show, unless the metric is the loss (the autoencoder's error). Bright is good in both; means
    over the seeds. Hatched, and without a colour, is what diverged or left the test loss above the
    untrained model's.
    """

    def draw(histories: Sequence[History]) -> Drawing:
        frame = outcomes.collect(histories)
        shown = [name for name in algorithms if (frame["algorithm"] == name).any()]
        if not shown:
            raise Error(f"heat maps: none of these runs is of {', '.join(algorithms)}")
        frame = outcomes.over_seeds(frame[frame["algorithm"].isin(shown)])
        if frame.duplicated(["algorithm", *AXES]).any():
            raise Error("heat maps: several runs for one pair of rates; choose one tau")
        frame["hatched"] = outcomes.useless(frame)
        columns = (
            ["performance"] if frame["metric"].iloc[0] == "mse_x1000" else ["performance", "loss"]
        )
        spaces = dict(left=0.09, right=0.89, wspace=0.12, hspace=0.12)
        spaces |= dict(bottom=0.2, top=0.93) if len(columns) == 2 else dict(bottom=0.32, top=0.88)
        how: dict[str, Any] = {"sharex": True, "sharey": True, "gridspec_kw": spaces}
        size = (5.5, 3.4 if len(columns) == 2 else 2.1)
        with style.panels(len(columns), len(shown), size, **how) as (figure, panels):
            # Placed by hand: the automatic layout of so many panels takes longer than drawing them.
            figure.set_layout_engine("none")
            rows = panels.reshape(len(columns), -1)
            for axes, column in zip(rows, columns, strict=True):
                _row(axes, frame, shown, column)
                axes[0].set_ylabel("server rate")
            for ax, name in zip(rows[0], shown, strict=True):
                ax.set_title(style.look(name).label, fontsize=8)
            rows[-1][len(shown) // 2].set_xlabel("client learning rate")
        return figure, frame

    return draw


def _row(axes: np.ndarray, frame: pd.DataFrame, algorithms: Sequence[str], column: str) -> None:
    """The maps of one column of ``frame``, and their colour bar."""
    colours = frame.loc[~frame["hatched"], column]
    limits = (None, None) if colours.empty else (colours.min(), colours.max())
    for ax, name in zip(axes, algorithms, strict=True):
        cells = frame[frame["algorithm"] == name].pivot(index=AXES[0], columns=AXES[1])
        image = draw_cells(
            ax,
            cells[column],
            cells["hatched"].to_numpy(bool),
            numbers=cells[column].size <= WITH_NUMBERS,
            smaller=outcomes.smaller_is_better(frame, column),
            limits=limits,
        )
        for text in ax.texts:
            text.set_fontsize(4.5)
        ax.tick_params(labelsize=6, length=2)
        ax.tick_params(axis="x", labelrotation=90)
        ax.set(xlabel="", ylabel="")
    figure, place = figure_of(axes[-1]), axes[-1].get_position()
    bar = figure.colorbar(image, cax=figure.add_axes((0.905, place.y0, 0.015, place.height)))
    bar.set_label(outcomes.label(frame, column), fontsize=7)
    if isinstance(image.norm, LogNorm):
        plain_log_ticks(bar.ax)
    bar.ax.tick_params(labelsize=6)
