"""What a figure or table of the series is.

How to add one, in ``figures.py`` of the paper's room::

    Entry(
        "fedopt/figure_4",
        {"emnist_cr": "12_emnist_cr"},  # task -> the notebook that makes its runs
        fedopt_figure_4,  # (histories) -> (figure, or None for a table; data)
    ),
    printed_entry("fedopt", "Table 10"),

and in ``figures.toml`` what stands below it, and what a reader learns from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.paths import read_toml

Drawing = tuple[Figure | None, pd.DataFrame]


@dataclass(frozen=True)
class Entry:
    """A figure or table.

    Attributes:
        id: ``<paper>/<name>``.
        notebooks: task -> the notebook that makes its runs. A figure of several tasks shows those
            that were run. A figure that needs no runs has the one task "".
        draw: from histories, chosen ones, to a figure (None for a table) and its data; of a figure
            that needs no runs, from the data root.
        clients: whether it is drawn from the clients' values; published runs keep them then.
        parts: of the notebooks' plans, whose runs these are; none: all.
        table: whether it sets runs beside a printed table's cells, a note beside each: then it may
            show runs of both presets with the papers' tasks.
        cells: whether each run counts by itself; else a method's runs are shown all or none.
        choose: which of these runs are drawn, for instance those at the tuned rates; default all.
    """

    id: str
    notebooks: Mapping[str, str]
    draw: Callable[[Any], Drawing]
    clients: bool = False
    parts: tuple[str, ...] = ()
    table: bool = False
    cells: bool = False
    choose: Callable[[Sequence[History]], Sequence[History]] = list

    @property
    def paper(self) -> str:
        """The first part of the id."""
        return self.id.split("/")[0]

    @property
    def needs_runs(self) -> bool:
        """Whether it is drawn from runs."""
        return "" not in self.notebooks

    @property
    def caption(self) -> str:
        """What stands below it, without the paper's title."""
        paper, name = self.id.split("/")
        return str(read_toml("reproduction/figures.toml")[paper][name]["caption"])

    @property
    def notebook(self) -> str:
        """The notebooks' names, with commas."""
        return ", ".join(dict.fromkeys(self.notebooks.values()))


@dataclass(frozen=True)
class Drawn:
    """What was drawn and saved: figure (None for a table), data, path of the PNG or HTML."""

    figure: Figure | None
    data: pd.DataFrame
    path: Path
