"""AdaFedAdam's curves and distributions over clients."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.figures import style
from fedlib.figures.curves import client_density
from fedlib.reproduction.printed import of_task, of_these, printed_curves
from fedlib.results.reading import split_of
from fedlib.results.selection import winners


def best_fedprox(histories: Sequence[History]) -> list[History]:
    """The runs, of FedProx those of one mu: the one with the smallest training loss, all its seeds.

    AdaFedAdam compares with FedProx "with optimal mu".
    """
    best = winners(h for h in histories if h.config.algorithm == "fedprox").get("fedprox", [])
    return [h for h in histories if h.config.algorithm != "fedprox" or h in best]


def adafedadam_figure_2(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """A row per setup that was run: average, worst 30 %, density of the final local accuracies,
    over all local data where all runs have them, see :func:`fedlib.results.reading.split_of`.

    Average and worst 30 % weigh clients by their examples, as Table 5 does, whose values stand in
    brackets after runs of the paper preset; in the density clients count alike.
    """
    printed = of_these(histories, "adafedadam", "Table 5")
    shown = [cells for _, cells in printed.groupby("task", sort=False)]
    frames = []
    with style.panels(len(shown), 3, (7.5, 2.1 * len(shown))) as (figure, panels):
        for (left, middle, right), cells in zip(panels.reshape(-1, 3), shown, strict=True):
            runs = best_fedprox(of_task(histories, cells.iloc[0]["task"]))
            split = "local" if all(split_of(run) == "local" for run in runs) else "test"
            drawn = {"average": _curves(cells, runs, "avg", "accuracy", split, left, "average")}
            series = "accuracy_worst_30_weighted"
            # Runs that an earlier version stored do not have this series.
            recorded = [run for run in runs if (run.frame["metric"] == series).any()]
            if recorded:
                drawn["worst 30 %"] = _curves(
                    cells, recorded, "worst30", series, split, middle, "worst 30 %"
                )
            else:
                middle.text(0.5, 0.5, "not recorded", transform=middle.transAxes, ha="center")
            drawn["clients"] = client_density(runs, split=split, legend=False, ax=right)[1]
            style.titled(right, "all clients", "density of their final accuracies")
            for ax in (left, middle):
                of_what = "accuracy, all data (%)" if split == "local" else "test accuracy (%)"
                ax.set_ylabel(of_what if ax is left else "")
            right.set(xlabel="client accuracy (%)", ylabel="", yticks=[])
            frames += [frame.assign(panel=panel) for panel, frame in drawn.items()]
    data = pd.concat(frames, ignore_index=True)
    first = ["task", "panel", "algorithm"]
    data = data[first + [name for name in data.columns if name not in first]]
    return figure, data.astype({"round": "Int64", "seeds": "Int64", "printed_rounds": "Int64"})


def _curves(
    cells: pd.DataFrame,
    runs: Sequence[History],
    metric: str,
    series: str,
    split: str,
    ax: Axes,
    word: str,
) -> pd.DataFrame:
    """Learning curves; at the paper's scale with its printed values of a metric."""
    title = f"{style.name(cells.iloc[0]['label'])}: {word}"
    whole = all(run.config.task["preset"] == "paper" for run in runs)
    data = printed_curves(
        cells,
        runs,
        metric,
        series=series,
        split=split,
        title=title,
        window=1,
        beside=whole,
        ax=ax,
    )
    return data if whole else data.assign(printed_rounds=None)
