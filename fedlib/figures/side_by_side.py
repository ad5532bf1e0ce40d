"""Printed tables of several metrics: a row per method, printed and ours beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures.printed import of_task
from fedlib.results import items
from fedlib.results.compare import cells


def side_by_side(
    paper: str, item: str, metrics: Mapping[str, str], *, setting: str = "setting"
) -> Callable[[Sequence[History]], tuple[Figure | None, pd.DataFrame]]:
    """The drawing of a printed table that keeps its rows: three columns for each metric.

    They are the printed number, ours weighted by examples, and ours with the clients alike.

    Args:
        paper, item: for instance ``"adafedadam"``, ``"Table 6"``.
        metrics: the cells' metrics in order, and how the columns are headed.
        setting: heading of the printed column (Dirichlet concentration, local solver), where the
            table has one.
    """

    def draw(histories: Sequence[History]) -> tuple[Figure | None, pd.DataFrame]:
        shown = [one for one in items.find(paper, item) if of_task(histories, one.task)]
        if not shown:
            raise Error(f"{paper} {item}: none of these runs is of its tasks")
        frame = cells(histories, shown)
        rows = [
            _row(names, part, metrics, setting)
            for names, part in frame.groupby(["column", "row"], sort=False)
        ]
        data = pd.DataFrame(rows)
        empty = [name for name in (setting, "unclear") if (data[name] == "").all()]
        return None, data.drop(columns=empty)

    return draw


def _row(
    names: tuple[str, str], part: pd.DataFrame, metrics: Mapping[str, str], setting: str
) -> dict[str, object]:
    """A method's row, from its cells: one per metric."""
    own = part.set_index("metric").loc[list(metrics)]
    row: dict[str, object] = {setting: names[0], "method": names[1]}
    for metric, label in metrics.items():
        cell = own.loc[metric]
        row[f"{label}: printed"] = cell["printed"]
        row[f"{label}: ours"] = cell["ours"]
        row[f"{label}: clients alike"] = cell["ours_unweighted"]
    first = own.iloc[0]
    notes = (text.split(":")[0] for text in own["unclear"] if text)
    return {
        **row,
        **{name: first[name] for name in ("seeds", "rounds", "data", "note")},
        "unclear": ", ".join(dict.fromkeys(notes)),
    }
