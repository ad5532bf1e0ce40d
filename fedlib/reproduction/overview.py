"""All printed numbers beside ours in one picture, a panel a paper."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.figures import style
from fedlib.reproduction.compare import TOLERANCE
from fedlib.reproduction.metrics import METRICS

TITLES = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}
# The kinds of runs, in the order in which they are drawn: colour and size of a dot.
KINDS = {
    "small problem on stand-in data: not comparable": ("#C9C2AC", 1.5),
    "real data, fewer rounds or clients or a smaller network": ("#56B4E9", 2.5),
    "the paper's settings": ("#D55E00", 3.5),
}
LABELLED = 2  # of the numbers that do not agree, those furthest from the printed ones


def paper_against_ours(frame: pd.DataFrame) -> Figure:
    """Ours over the printed numbers, those in percent, in the colours of :data:`KINDS`.

    Of the numbers at the paper's settings that do not agree the two furthest off are named.

    Args:
        frame: from :func:`fedlib.reproduction.compare.compare`.
    """
    percent = frame["metric"].map(lambda name: METRICS[name].factor == 100)
    shown = frame[percent & frame["ours"].notna() & frame["printed"].notna()]
    with style.panels(1, len(TITLES), (8.5, 2.9), sharey=True) as (figure, panels):
        for ax, (paper, title) in zip(panels, TITLES.items(), strict=True):
            _panel(ax, shown[shown["paper"] == paper], title)
        panels[0].set_ylabel("ours (%)")
        handles = panels[-1].get_lines()[-len(KINDS) :]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(KINDS))
    return figure


def _panel(ax: Axes, part: pd.DataFrame, title: str) -> None:
    fair = part[part["fair"]]
    ax.fill_between(
        [0, 100], [-TOLERANCE, 100 - TOLERANCE], [TOLERANCE, 100 + TOLERANCE], color="0.9"
    )
    ax.plot([0, 100], [0, 100], color="0.6", linewidth=0.6)
    small = (part["data"] == "stand-in") | (part["preset"] == "quick")
    groups = (part[small & ~part["fair"]], part[~small & ~part["fair"]], fair)
    for (kind, (color, size)), group in zip(KINDS.items(), groups, strict=True):
        ax.plot(group["printed"], group["ours"], "o", color=color, markersize=size, label=kind)
    apart = fair[~fair["agrees"]]
    furthest = apart["difference"].abs().nlargest(LABELLED).index
    for place, row in enumerate(apart.loc[furthest].itertuples()):
        name = ", ".join(filter(None, (style.name(str(row.row)), str(row.column))))
        left = float(row.printed) > 50  # type: ignore[arg-type]
        text = ax.annotate(
            f"{name}: {row.ours:.0f}",
            (row.printed, row.ours),  # type: ignore[arg-type]
            (-3 if left else 3, -6 if place else 6),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=5.5,
        )
        text.set_in_layout(False)
    agree = int(fair["agrees"].sum())
    told = f"{agree} of {len(fair)} comparable agree" if len(fair) else "no number is comparable"
    style.titled(ax, title, told)
    ticks = (0, 50, 100)
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal", xlabel="printed (%)")
    ax.set(xticks=ticks, yticks=ticks)
