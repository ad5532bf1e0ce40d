"""Curves over rounds, and densities over clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import Transform

from fedlib.arguments import called, checked
from fedlib.engine.history import History, mean_of_last, rounds_of
from fedlib.errors import Error, require
from fedlib.figures import style
from fedlib.figures.scale import scale, small

Drawing = tuple[Figure, pd.DataFrame]  # and what is drawn
# So many lines have their labels at their ends; more have a legend.
LABELLED = 8
# Where a panel's own legend does not lie on its lines.
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
# Lines nearer to each other than this share of the axis are one to the eye.
ALIKE = 0.015
MANY = "0.3"  # the colour of their common label, which is of none of them
# The height of a line's label and of a panel's title with what is below, in inches.
LINE, HEAD = 0.115, 0.75
# What a logarithmic axis shows at most, from its largest value down: below is rounding.
ROUNDING = 1e-12
BANDWIDTH = 5.0  # standard deviation of a density's kernel, in percentage points
# Metrics that are fractions begin with one of these words.
FRACTIONS = ("accuracy", "recall")
# Up to this share of the rounds a curve does not decide what the axis shows.
EARLY = 0.05


def algorithm(history: History) -> str:
    """What a line stands for by default."""
    return history.config.algorithm


@checked
def learning_curves(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    printed: Mapping[str, float] | None = None,
    *,
    title: str = "",
    percent: bool | None = None,
    log_y: bool = False,
    legend: bool = True,
    by: Callable[[History], str] = algorithm,
    looks: Mapping[str, style.Look] | None = None,
    window: int | None = None,
    shown: str | None = None,
    ax: Axes | None = None,
) -> Drawing:
    """A metric over rounds: a line per algorithm, the mean over seeds with a band of ± one std.

    Bold is the mean over the last rounds so far, so that a line ends in the number that a table
    gives; each evaluation is drawn faintly. Up to eight lines have their labels and these numbers
    at their ends, lines that lie on each other one in common; a run that diverged ends in a cross.
    The axis shows what comes after the first twentieth of the rounds.

    Args:
        histories: runs of one task.
        metric, split: which series.
        printed: the paper's final values by algorithm, in the drawn unit: in brackets after ours.
        title: of the panel.
        percent: draw fractions as percent; default for accuracies and recalls.
        log_y: logarithmic values.
        legend: name the lines; without it :func:`shared_legend` can.
        by: what a line stands for, a key of :data:`fedlib.figures.style.LOOKS` or of ``looks``.
        looks: of lines that look otherwise here.
        window: rounds that the bold line averages; default :meth:`History.window`, 1 for the last.
        shown: under the title; default ``fedlib.figures.scale.scale``.
        ax: draw into these axes; default a new figure.

    Returns:
        the figure, and what is drawn: task, algorithm (what ``by`` says), round, mean, std (n - 1,
            NaN for one seed), seeds.

    Raises:
        Error: no runs, or a run without this metric.

    Example:
        >>> import fedlib
        >>> from fedlib import figures
        >>> history = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=5)
        >>> figure, data = figures.learning_curves([history], "loss", percent=False)
        >>> len(data)
        6
    """
    percent = metric.startswith(FRACTIONS) if percent is None else percent
    data = _data(histories, metric, split, percent, by)
    lost = {line_of(run, by) for run in histories if run.diverged is not None}
    rounds = max(map(rounds_of, histories))
    over = {line_of(run, by): window or run.window() for run in histories}
    dots: list[Line2D] = []
    ends, stated, crossed = [], {}, set()
    lines = data["algorithm"].nunique()
    with style.axes(ax) as ax:
        for key, part in data.groupby("algorithm", sort=False):
            look = (looks or {}).get(str(key)) or style.look(str(key))
            if not look.label or look.label.startswith("_"):  # matplotlib leaves such lines out
                raise Error(f"a line's label is {look.label!r}; give one that starts otherwise")
            raw = part.set_index("round")["mean"]
            smooth = trailing(raw, over[str(key)])
            # Not seaborn's lineplot: on a logarithmic axis it takes the mean of the logarithms.
            if not smooth.equals(raw):
                ax.plot(raw.index, raw, color=look.color, linewidth=0.5, alpha=0.35)
            how: dict[str, Any] = {"color": look.color, "linestyle": look.linestyle}
            ax.plot(smooth.index, smooth, label=look.label, **how)
            if (part["seeds"] > 1).any():
                shade = look.color, min(0.15, 0.6 / lines)
                style.band(ax, part["round"], part["mean"], part["std"], *shade)
            marker = "x" if key in lost else "o"
            dots += ax.plot(smooth.index[-1:], smooth[-1:], marker, color=look.color)
            ends.append(float(smooth.iloc[-1]))
            stated[look.label] = (printed or {}).get(str(key), np.nan)
            crossed |= {look.label} if key in lost else set()
        if log_y:
            ax.set_yscale("log")
        late = data["round"] > EARLY * data["round"].max()
        seen = data.loc[late & np.isfinite(data["mean"]), "mean"]
        _show(ax, [*seen.quantile([0.02, 0.98]), *ends])
        low, high = ax.get_ylim()
        for dot, end in zip(dots, ends, strict=True):
            dot.set_clip_on(not low <= end <= high)  # whole at the edge, absent beyond the axis
        ax.set(xlabel="round", ylabel=axis_label(metric, split, percent), xlim=(0, rounds))
        spec = ax.get_subplotspec()
        ticks = 3 if spec and spec.get_gridspec().ncols > 2 else 5
        ax.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10], integer=True))
        if log_y:
            plain_log_ticks(ax)
        below = scale(histories) if shown is None else shown
        below += "; [printed]" if np.isfinite(list(stated.values())).any() else ""
        style.titled(ax, title, below, small=small(histories))
        if legend and len(ends) > LABELLED:
            ax.legend()
        elif legend:
            label_ends(ax, stated, crossed)
    return figure_of(ax), data


def trailing(series: pd.Series, window: int) -> pd.Series:
    """The means over the last rounds up to each: the last one is what a table gives.

    >>> trailing(pd.Series([9.0, 2.0, 4.0], index=[0, 10, 20]), 15).tolist()
    [9.0, 2.0, 3.0]
    """
    rounds, values = series.index.to_numpy(), series.to_numpy()
    ends = range(1, len(rounds) + 1)
    means = [mean_of_last(rounds[:end], values[:end], window) for end in ends]
    return pd.Series(means, series.index)


def _show(ax: Axes, values: Sequence[float]) -> None:
    """Have the axis show these values with a margin, and what it shows of other curves."""
    log = ax.get_yscale() == "log"
    known = [] if ax.get_autoscaley_on() else ax.get_ylim()
    shown = [value for value in values if np.isfinite(value)]
    if shown and (max(shown) > 0 or not log):
        low, high = min(shown), max(shown)
        low = max(low, ROUNDING * high) if log else low  # zero, too, is below rounding
        margin = (high / low) ** 0.06 if log else 0.06 * (high - low)
        reach = (low / margin, high * margin) if log else (low - margin, high + margin)
        if high > low and np.isfinite(reach).all():
            ax.set_ylim(min(*reach, *known), max(*reach, *known))


def label_ends(
    ax: Axes,
    printed: Mapping[str, float] | None = None,
    lost: Collection[str] = (),
    *,
    numbers: bool = True,
    alike: float = ALIKE,
) -> None:
    """Write the labels of lines behind their ends, in their colours (one for several lines in
    grey) and one below the other.

    Args:
        ax: with its limits set. Lines that lie on each other get one label.
        printed: the paper's numbers by label, in brackets after ours.
        lost: labels of runs that diverged; these have the word in place of the number.
        numbers: write each line's last number after its label.
        alike: up to this distance, in axes' heights, lines lie on each other.
    """
    from sklearn.isotonic import isotonic_regression  # here: most commands draw nothing

    place, stated = ax.transData + ax.transAxes.inverted(), printed or {}
    groups: list[list[Line2D]] = []
    for line in ax.get_lines():
        if str(line.get_label()).startswith("_"):
            continue
        known = (group for group in groups if _apart_by(line, group[0], place) < alike)
        alone = {str(line.get_label())} & set(lost)
        group = None if alone else next(known, None)
        groups.append([line]) if group is None else group.append(line)
    points = [place.transform(np.asarray(group[0].get_xydata())[-1]) for group in groups]
    ends = np.clip(np.nan_to_num([y for _, y in points]), 0, 1)
    spec = ax.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec else 1
    step = LINE / max(0.5, figure_of(ax).get_figheight() / rows - HEAD)
    order = np.argsort(ends, kind="stable")
    highest = 1 - step * (np.arange(len(order))[::-1] + 0.5)  # none beside the line under the title
    # Moved as little as it takes to be a step apart, none below the axis.
    steps = step * np.arange(len(order))
    places = np.clip(isotonic_regression(ends[order] - steps) + steps, steps, highest)
    for index, y in zip(order, places, strict=True):
        group = groups[index]
        labels = [str(line.get_label()) for line in group]
        last = dict.fromkeys(style.short(np.asarray(line.get_ydata())[-1]) for line in group)
        joint = " = " if len(last) == 1 or not numbers else ", "
        words = [joint.join(labels) + (":" if numbers and labels[-1][-1].isdigit() else "")]
        if labels[0] in lost:
            words.append("diverged")
        elif numbers:
            words.append(", ".join(last))
        theirs = [stated[name] for name in labels if np.isfinite(stated.get(name, np.nan))]
        words += [f"[{', '.join(map(style.short, theirs))}]"] if theirs else []
        color = group[0].get_color() if len(group) == 1 else MANY
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.4, "relpos": (0, 0.5)}
        arrow |= {"shrinkA": 0, "shrinkB": 2}
        look: dict[str, Any] = {"fontsize": 6.5, "color": color, "va": "center"}
        where: dict[str, Any] = {"xy": (points[index][0], ends[index]), "xytext": (1.06, y)}
        ax.annotate(" ".join(words), **where, xycoords="axes fraction", arrowprops=arrow, **look)


def _apart_by(line: Line2D, other: Line2D, place: Transform) -> float:
    """How far two lines are apart but for their beginnings; infinite if they have other places."""
    points = (np.asarray(drawn.get_xydata(), float) for drawn in (line, other))
    first, second = map(place.transform, points)
    if first.shape != second.shape or not np.allclose(first[:, 0], second[:, 0]):
        return np.inf
    return float(
        np.nanmax(np.abs(first - second)[first[:, 0] > EARLY * first[-1, 0], 1], initial=0.0)
    )


def line_of(history: History, by: Callable[[History], str]) -> str:
    """What a run's line stands for.

    Raises:
        Error: ``by`` fails, or gives no text.
    """
    line = called(f"by of {history!r}", by, history)
    require(isinstance(line, str), f"by of {history!r}", line, "a text")
    return str(line)


def _data(
    histories: Sequence[History],
    metric: str,
    split: str,
    percent: bool,
    by: Callable[[History], str],
) -> pd.DataFrame:
    if not histories:
        raise Error("no runs to draw; give at least one history")
    frames = []
    for history in histories:
        series = history.series(metric, split) * (100.0 if percent else 1.0)
        named = {"task": history.config.task["name"], "algorithm": line_of(history, by)}
        frames.append(series.reset_index().assign(**named))
    values = pd.concat(frames, ignore_index=True)
    grouped = values.groupby(["task", "algorithm", "round"], sort=False)["value"]
    data = grouped.agg(mean="mean", std="std", seeds="count").reset_index()
    # A mean is of all seeds but those that diverged: where one was ended the line ends, too.
    left = Counter(
        (run.config.task["name"], line_of(run, by)) for run in histories if run.diverged is None
    )
    known = [left[line] for line in zip(data["task"], data["algorithm"], strict=True)]
    return data[grouped.size().to_numpy() >= known].reset_index(drop=True)


def shared_legend(figure: Figure, *more: Line2D) -> None:
    """One legend above all panels: each label once, then ``more``."""
    handles: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    shown = [*handles.values(), *more]
    figure.legend(handles=shown, loc="outside upper center", ncols=min(5, len(shown)))


def axis_label(metric: str, split: str, percent: bool) -> str:
    """What an axis says of a metric.

    >>> axis_label("recall_at_5", "test", percent=True)
    'test recall at 5 (%)'
    """
    return f"{split} {style.name(metric)}{' (%)' if percent else ''}"


def plain_log_ticks(ax: Axes) -> None:
    """A logarithmic y-axis of a few decades says 5 or 0.2, not 5e0 or 2e-1."""
    low, high = ax.get_ylim()
    if high > 1e4 * low:
        return
    subs = (1.0, 2.0, 5.0) if high > 5 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    ax.yaxis.set_major_locator(LogLocator(subs=subs))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def figure_of(ax: Axes) -> Figure:
    """The figure that some axes belong to."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise Error("these axes belong to no figure; make them with Figure().subplots()")
    return figure


@checked
def client_density(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    *,
    ax: Axes | None = None,
) -> Drawing:
    """The density of the clients' final values, a line per algorithm (seeds pooled).

    A Gaussian kernel with a standard deviation of 5 points around each client's value, reflected at
    0 and at 100 %, so that the density is one between them (seaborn's ``kdeplot`` cannot reflect).
    Clients count alike. Runs that diverged have no final values, and are left out.

    Args:
        metric: per client, a fraction.

    Returns:
        the figure, and what is drawn: task, algorithm, value (percent), density (per point).

    Raises:
        Error: no runs, or one without values per client.
    """
    at = np.linspace(0.0, 100.0, 201)
    frames = []
    with style.axes(ax) as ax:
        for key, values in _client_values(histories, metric, split).items():
            density = _density(100.0 * values, at)
            look = style.look(key)
            ax.plot(at, density, look.linestyle, color=look.color, label=look.label)
            frames.append(pd.DataFrame({"algorithm": key, "value": at, "density": density}))
        ax.set(xlabel=f"client {axis_label(metric, split, True)}", ylabel="density")
        ax.set_ylim(bottom=0)
    data = pd.concat(frames, ignore_index=True)
    data.insert(0, "task", histories[0].config.task["name"])
    return figure_of(ax), data


def _client_values(histories: Sequence[History], metric: str, split: str) -> dict[str, np.ndarray]:
    """The clients' final values by line, those of several seeds one after the other."""
    finished = [history for history in histories if history.diverged is None]
    if not finished:
        raise Error("no runs to draw; give at least one history that did not diverge")
    parts: dict[str, list[np.ndarray]] = {}
    for history in finished:
        frame = history.clients
        chosen = frame[(frame["metric"] == metric) & (frame["split"] == split)]["value"].dropna()
        if chosen.empty:
            raise Error(
                f"{history!r} has no {split} {metric} per client; draw runs of another task"
            )
        parts.setdefault(algorithm(history), []).append(chosen.to_numpy(float))
    return {key: np.concatenate(values) for key, values in parts.items()}


def _density(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    mirrored = np.concatenate([values, -values, 200.0 - values])
    kernels = np.exp(-0.5 * ((at[:, None] - mirrored) / BANDWIDTH) ** 2)
    return kernels.sum(1) / (len(values) * BANDWIDTH * np.sqrt(2 * np.pi))
