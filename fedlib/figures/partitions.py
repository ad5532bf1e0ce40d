"""Pictures of partitions: the labels of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fedlib import partitioners as partition
from fedlib.arguments import checked
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing, figure_of

# Colours of up to ten labels: the house's and a pale one. Light and dark alternate.
ORDER = ("blue", "sky", "brown", "amber", "pink", "green", "black", "grey", "red")
TEN = (*(style.COLORS[name] for name in ORDER), "#F2E394")
WORDS = {"α": "alpha", "β": "beta"}  # names of columns


@checked
def client_labels(
    labels: ArrayLike,
    parts: Sequence[ArrayLike],
    *,
    shares: bool = True,
    title: str = "",
    legend: bool = True,
    ax: Axes | None = None,
) -> Drawing:
    """The labels of each client as a stacked bar, one bar per client and one colour per label.

    Args:
        labels: ``[N]`` integers, 0 or more.
        parts: index arrays, one per client.
        shares: bars of the same length. If False, a bar's length is the client's examples.
        title: title of the panel.
        legend: name the labels.
        ax: draw into these axes. Default: a new figure.

    Returns:
        The figure and the drawn data: client, label, examples, share, without the zeros.

    Raises:
        Error: no clients, an index outside the labels, or no examples at all.
    """
    counts = partition.label_counts(labels, parts)
    sizes = counts.sum(axis=1, keepdims=True)
    if not sizes.any():
        raise Error("the clients have no examples: there is nothing to draw")
    share = counts / np.maximum(sizes, 1)
    lengths = share if shares else counts
    colors = _colors(counts.shape[1])
    with style.axes(ax) as ax:
        left = np.zeros(len(parts))
        for label, color in enumerate(colors):
            right = left + lengths[:, label]
            _stack(ax, left, right, color=color, label=str(label))
            left = right
        ax.grid(False)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        longest = 1.0 if shares else max(left.max(), ax.get_xlim()[1])  # of all panels
        ax.set(xlim=(0, longest), ylim=(-0.5, len(parts) - 0.5), ylabel="client")
        ax.set(xlabel="share of the labels" if shares else "examples", title=title)
        if not shares:
            ax.xaxis.set_major_formatter("{x:,.0f}")
        if legend:
            label_legend(ax, counts.shape[1])
    cells = np.nonzero(counts)
    data = pd.DataFrame({"client": cells[0], "label": cells[1], "examples": counts[cells]})
    return figure_of(ax), data.assign(share=share[cells])


def label_panels(
    labels: ArrayLike,
    partitions: Mapping[float, Sequence[ArrayLike]],
    symbol: str,
    *,
    rows: int,
    size: tuple[float, float],
    shares: bool = True,
) -> Drawing:
    """Several partitions of the same labels, with a panel of :func:`client_labels` for each.

    Args:
        labels: ``[N]`` integers, 0 or more.
        partitions: concentration -> index arrays, one per client.
        symbol: the concentration's Greek letter, for instance ``"α"``.
        rows: number of rows of panels.
        size: size of the figure, in inches.
        shares: bars of the same length.

    Returns:
        The figure, and the data of all panels with the concentration.
    """
    frames = []
    columns, classes = len(partitions) // rows, len(np.unique(np.asarray(labels)))
    with style.panels(rows, columns, size, sharex=True, sharey=True) as (figure, panels):
        for ax, (value, parts) in zip(panels, partitions.items(), strict=True):
            _, data = client_labels(labels, parts, shares=shares, legend=False, ax=ax)
            by_client = data.sort_values("share", ascending=False).groupby("client")["share"]
            most = by_client.agg(lambda part: (part.cumsum() < 0.9).sum() + 1).median()
            found = f"{most:g} label{'s' * bool(most != 1)} of {classes}"
            title = f"{symbol} = {value:g}: {found}"
            style.titled(ax, title, "in 90 % of a median client")
            ax.label_outer()
            frames.append(data.assign(**{WORDS.get(symbol, symbol): value}))
        for ax in panels:
            _write_labels(ax)
    return figure, pd.concat(frames, ignore_index=True)


def _colors(classes: int) -> list[Any]:
    """A colour for each label."""
    if classes <= len(TEN):
        return list(TEN[:classes])
    # Light and dark alternate, so that everybody can tell neighbours apart.
    shades = matplotlib.colormaps["cividis"](np.linspace(0, 1, classes))
    half = (classes + 1) // 2
    return [shades[label // 2 + (label % 2) * half] for label in range(classes)]


def _write_labels(ax: Axes) -> None:
    """Write the labels into the bars of :func:`client_labels` that have room for them."""
    room = 0.03 * ax.get_xlim()[1]
    for bar in ax.patches:
        if isinstance(bar, Rectangle) and bar.get_width() > room:
            middle = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
            # Below this luminance white has the higher contrast.
            dark = np.dot(np.power(bar.get_facecolor()[:3], 2.2), (0.2126, 0.7152, 0.0722)) < 0.18
            ink = "white" if dark else "0.1"
            words: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6, "color": ink}
            ax.text(*middle, str(bar.get_gid()), **words)


def _stack(ax: Axes, left: np.ndarray, right: np.ndarray, **look: Any) -> None:
    """One label's bars of all clients. If there are many, they are one shape without gaps."""
    clients = np.arange(len(left))
    if len(clients) <= 40:
        look |= {"edgecolor": "white", "linewidth": 0.4}
        for bar in ax.barh(clients, right - left, left=left, height=0.86, **look):
            bar.set_gid(look["label"])
    else:
        edges = np.repeat(np.arange(len(left) + 1) - 0.5, 2)[1:-1]
        ax.fill_betweenx(edges, np.repeat(left, 2), np.repeat(right, 2), linewidth=0, **look)


def label_legend(ax: Axes, classes: int) -> None:
    """Name the labels of :func:`client_labels` below the whole figure."""
    handles, names = ax.get_legend_handles_labels()
    if classes <= 20:
        look = {"ncols": 10, "title_fontsize": 7, "handlelength": 0.8, "columnspacing": 0.9}
        named = {"handles": handles[:classes], "labels": names[:classes], "title": "label"}
        figure_of(ax).legend(loc="outside lower center", **named, **look)


@checked
def unique_labels(
    labels: ArrayLike, partitions: Sequence[Sequence[ArrayLike]], *, ax: Axes | None = None
) -> Drawing:
    """A histogram over clients of the number of different labels that a client has.

    Args:
        labels: ``[N]`` integers, 0 or more.
        partitions: one partition or several (from several seeds). Bars are their mean, and thin
            lines go from the smallest to the largest.
        ax: draw into these axes. Default: a new figure.

    Returns:
        The figure and the drawn data: unique_labels, clients (mean over the partitions), smallest,
        largest.

    Raises:
        Error: no partitions, no clients, or an index outside the labels.
    """
    import seaborn as sns  # here, as it takes seconds and most commands draw nothing

    if not len(partitions):
        raise Error("no partitions to draw")
    unique = [(partition.label_counts(labels, parts) > 0).sum(axis=1) for parts in partitions]
    bins = 1 + max(int(counts.max()) for counts in unique)
    heights = pd.DataFrame([np.bincount(counts, minlength=bins) for counts in unique])
    counted = heights.melt(var_name="unique_labels", value_name="clients")
    with style.axes(ax) as ax:
        spread = ("pi", 100) if len(partitions) > 1 else None
        lines = {"errorbar": spread, "err_kws": {"color": "0.3", "linewidth": 0.6}}
        bars = {"color": "C5", "saturation": 1, "width": 0.9, "native_scale": True}
        sns.barplot(counted, x="unique_labels", y="clients", ax=ax, **bars, **lines)
        ax.set(xlabel="different labels of a client", ylabel="clients")
    groups = counted.groupby("unique_labels")["clients"]
    data = groups.agg(clients="mean", smallest="min", largest="max").reset_index()
    return figure_of(ax), data
