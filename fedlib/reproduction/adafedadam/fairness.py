"""AdaFedAdam's curves and distributions over clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
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


def common_split(histories: Sequence[History]) -> str:
    """What all of these runs were evaluated on: ``"local"``, or ``"test"``."""
    return "local" if all(split_of(history) == "local" for history in histories) else "test"


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
            split, label = common_split(runs), style.name(cells.iloc[0]["label"])
            whole = all(run.config.task["preset"] == "paper" for run in runs)
            for ax, word, metric, series in (
                (left, "average", "avg", "accuracy"),
                (middle, "worst 30 %", "worst30", "accuracy_worst_30_weighted"),
            ):
                how: dict[str, Any] = {"series": series, "split": split, "beside": whole}
                how |= {"title": f"{label}: {word}", "window": 1}
                data = printed_curves(cells, runs, metric, **how, ax=ax)
                frames.append(data.assign(panel=word))
                if not whole:
                    frames[-1]["printed_rounds"] = None
                of_what = "accuracy, all data (%)" if split == "local" else "test accuracy (%)"
                ax.set_ylabel(of_what if ax is left else "")
            _, data = client_density(runs, split=split, legend=False, ax=right)
            frames.append(data.assign(panel="clients"))
            style.titled(right, "all clients", "density of their final accuracies")
            right.set(xlabel="client accuracy (%)", ylabel="", yticks=[])
    data = pd.concat(frames, ignore_index=True)
    first = ["task", "panel", "algorithm"]
    data = data[first + [name for name in data.columns if name not in first]]
    return figure, data.astype({"round": "Int64", "seeds": "Int64", "printed_rounds": "Int64"})
