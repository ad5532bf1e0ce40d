"""All printed numbers beside ours in one picture, a panel a paper."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.figures import style
from fedlib.reproduction.metrics import METRICS

TITLES = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}
LABELLED = 3  # of the numbers that do not agree, those furthest from the printed ones


def paper_against_ours(frame: pd.DataFrame) -> Figure:
    """Ours over the printed numbers, those in percent.

    Full markers: numbers that are compared with the paper (``fair``); of those that do not agree
    the three furthest from it are named. Grey rings: other settings, rounds or data.

    Args:
        frame: from :func:`fedlib.reproduction.compare.compare`.
    """
    percent = frame["metric"].map(lambda name: METRICS[name].factor == 100)
    shown = frame[percent & frame["ours"].notna() & frame["printed"].notna()]
    with style.context():
        figure = Figure(figsize=(7, 6.6), layout="constrained")
        for ax, (paper, title) in zip(figure.subplots(2, 2).flat, TITLES.items(), strict=True):
            _panel(ax, shown[shown["paper"] == paper], title)
        figure.supxlabel("printed (%)")
        figure.supylabel("ours (%)")
    return figure


def _panel(ax: Axes, part: pd.DataFrame, title: str) -> None:
    fair = part[part["fair"]]
    ax.plot([0, 100], [0, 100], color="0.8", linewidth=1)
    other = part[~part["fair"]]
    ax.plot(other["printed"], other["ours"], "o", color="0.7", markerfacecolor="none", markersize=3)
    for row in fair.itertuples():
        look = style.look(str(row.algorithm))
        ax.plot([row.printed], [row.ours], look.marker, color=look.color)  # type: ignore[list-item]
    apart = fair[~fair["agrees"]]
    furthest = apart["difference"].abs().nlargest(LABELLED).index
    for row in apart.loc[furthest].itertuples():
        name = ", ".join(filter(None, (str(row.row), str(row.column), str(row.metric))))
        ax.annotate(
            name,
            (row.printed, row.ours),  # type: ignore[arg-type]
            (6, -10),
            textcoords="offset points",
            fontsize=6,
        )
    counted = f"{len(fair)} compared, {int(fair['agrees'].sum())} agree"
    ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal", title=f"{title}: {counted}")
