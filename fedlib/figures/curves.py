"""Curves over rounds, and densities over clients."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from fedlib.arguments import called, checked, whole
from fedlib.engine.config import TRAINING_KEYS
from fedlib.engine.history import History, rounds_of
from fedlib.errors import Error, require
from fedlib.figures import style
from fedlib.figures.save import picture
from fedlib.figures.scale import scale, small

Drawing = tuple[Figure, pd.DataFrame]  # the figure and the drawn data
# Up to this number of lines, labels are at the lines' ends. More lines have a legend.
LABELLED = 8
# The largest range of a logarithmic axis, from its largest value down. Below it is rounding.
ROUNDING = 1e-12
# Matplotlib's logarithmic ticks overflow far above this, so higher curves leave the axis.
HUGE = 1e100
LAST_MEAN: dict[str, Any] = {"linestyle": style.DOT, "linewidth": 0.8, "label": "_"}
BANDWIDTH = 5.0  # standard deviation of a density's kernel, in percentage points
# Metrics that are fractions begin with one of these words.
FRACTIONS = ("accuracy", "recall")


def algorithm(history: History) -> str:
    """The default label of a run's line."""
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
    legend: bool | None = True,
    by: Callable[[History], str] = algorithm,
    looks: Mapping[str, style.Look] | None = None,
    window: int | Callable[[History], int] | None = None,
    shown: str | None = None,
    ax: Axes | None = None,
) -> Drawing:
    """A metric over rounds: one line per algorithm, the mean over seeds ± one std as a band.

    A line is a moving average over a window of rounds, and over the last rounds at its end, so it
    ends in the number that a table gives. The band is ± one standard deviation of the line over the
    seeds. With one seed, whose line ends in a hollow mark, it is over the evaluations in the
    window. Up to eight lines have their labels and last numbers at their ends. Lines that overlap
    share a label. A run that diverged ends in a cross. The axis fits the values after the first
    twentieth of the rounds.

    Args:
        histories: runs of one task.
        metric, split: the series to draw.
        printed: the paper's final values by algorithm, in the drawn unit. They follow ours in
            brackets.
        title: title of the panel.
        percent: draw fractions as percent. Default: for accuracies and recalls.
        log_y: logarithmic values.
        legend: name the lines. If False, their ends have numbers only, and
            :func:`fedlib.figures.style.key` can name them. If None, their ends have nothing.
        by: the label of a run's line, a key of :data:`fedlib.figures.style.LOOKS` or of ``looks``.
        looks: looks that replace the usual ones here.
        window: rounds that a line averages, for all runs or for each. Default:
            :meth:`History.window`. 1 averages nothing.
        shown: text under the title. Default: ``fedlib.figures.scale.scale``, and how many rounds a
            line averages.

    Returns:
        The figure and the drawn data: task, algorithm (the result of ``by``), round, mean, std
        (n - 1, NaN for one seed), seeds, line and spread (the drawn line and its band).

    Raises:
        Error: no runs, a run without this metric, or a window below 1.

    Example:
        >>> import fedlib
        >>> from fedlib import figures
        >>> history = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=5)
        >>> figure, data = figures.learning_curves([history], "loss", percent=False)
        >>> len(data)
        6
    """
    percent = metric.startswith(FRACTIONS) if percent is None else percent
    data = _data(histories, metric, split, percent, by, window)
    lost = {line_of(run, by) for run in histories if run.diverged is not None}
    rounds = max(map(rounds_of, histories))
    dots: list[Line2D] = []
    ends, stated, crossed = [], {}, set()
    lines = data["algorithm"].nunique()
    with style.axes(ax) as ax:
        for key, part in data.groupby("algorithm", sort=False):
            look = (looks or {}).get(str(key)) or style.look(str(key))
            if not look.label or look.label.startswith("_"):  # matplotlib leaves such lines out
                raise Error(f"a line's label is {look.label!r}: give one that starts otherwise")
            how: dict[str, Any] = {"color": look.color, "linestyle": look.linestyle}
            # Not seaborn's lineplot, which on a logarithmic axis takes the mean of the logarithms.
            (solid,) = ax.plot(part["round"], part["line"], label=look.label, **how)
            # The last mean is dotted, so that nobody takes it for a plateau of the evaluations.
            same = part["line"].eq(part["line"].iloc[-1])[::-1].cumprod()[::-1].astype(bool)
            if 2 < same.sum() < len(same) and part["mean"][same].nunique() > 1:
                ax.plot(part["round"][same], part["line"][same], **how | LAST_MEAN)
                until, across = part["round"][same].iloc[0], ax.get_xaxis_transform()
                solid.set_clip_path(Rectangle((0, 0), until, 1, transform=across))
            # With one seed that diverged the band would be the fall.
            if part["spread"].notna().any() and (key not in lost or part["seeds"].max() > 1):
                shade = look.color, min(0.15, 0.6 / lines)
                style.band(ax, part["round"], part["line"], part["spread"], *shade)
            last = part.iloc[-1]
            mark: dict[str, Any] = {"marker": "x" if key in lost else "o", "markersize": 3}
            mark |= {"markerfacecolor": "white"} if last["seeds"] == 1 else {}
            dots += ax.plot(last["round"], last["line"], color=look.color, **mark)
            ends.append(float(last["line"]))
            stated[look.label] = (printed or {}).get(str(key), np.nan)
            crossed |= {look.label} if key in lost else set()
        if log_y:
            ax.set_yscale("log")
        late = data["round"] > style.EARLY * data["round"].max()
        seen = data.loc[late & np.isfinite(data["line"]), "line"]
        seen = seen[seen <= HUGE] if log_y else seen
        _show(ax, [*seen.quantile([0.02, 0.98]), *ends])
        low, high = ax.get_ylim()
        for dot, end in zip(dots, ends, strict=True):
            dot.set_clip_on(not low <= end <= high)  # whole at the border, absent beyond the axis
        ax.set(xlabel="round", ylabel=axis_label(metric, split, percent), xlim=(0, rounds))
        spec = ax.get_subplotspec()
        ticks = 3 if spec and spec.get_gridspec().ncols > 2 else 5
        ax.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10], integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        if log_y:
            plain_log_ticks(ax)
        if shown is None:
            one = data["seeds"].max() == 1
            shown = scale(histories) + _averaged(histories, metric, split, window, one)
        below = shown
        below += "; [printed]" if np.isfinite(list(stated.values())).any() else ""
        style.titled(ax, title, below, small=small(histories))
        if legend and len(ends) > LABELLED:
            ax.legend()
        elif legend is not None:
            style.label_ends(ax, stated, crossed, names=legend)
    return figure_of(ax), data


def smoothed(
    series: pd.Series,
    window: int,
    reduce: Callable[[np.ndarray], Any] = np.mean,
    *,
    settles: bool = True,
) -> pd.Series:
    """Centred means over a window of rounds, which do not lag behind.

    At the beginning the window is as narrow as the number of rounds before. In its last half the
    line averages the last rounds, so it ends in the number that a table gives. A line that does not
    settle has its own values in the last window.

    Args:
        series: values by round, in order.
        window: number of rounds.
        reduce: another statistic of the window.
        settles: False for a run that diverged.

    >>> smoothed(pd.Series([9.0, 3.0, 6.0, 3.0, 5.0], index=[0, 10, 20, 30, 40]), 30).tolist()
    [9.0, 3.0, 4.0, 4.666666666666667, 4.666666666666667]
    >>> fall = pd.Series([9.0, 8.0, 7.0, 6.0, 0.0], index=[0, 10, 20, 30, 40])
    >>> smoothed(fall, 30, settles=False).tolist()
    [9.0, 8.0, 7.0, 6.0, 0.0]
    """
    rounds, values = series.index.to_numpy(), series.to_numpy()
    last = rounds[-1]
    late = rounds > last - max(1, min(window, last))  # as in fedlib.engine.history.mean_of_last
    out = []
    for at in rounds:
        half = min(window / 2, at, window if settles else max(0, last - window - at))
        ends = settles and at + window / 2 >= last
        known = late if ends else np.abs(rounds - at) < half
        out.append(float(reduce(values[known | (rounds == at)])))
    return pd.Series(out, series.index)


def _show(ax: Axes, values: Sequence[float]) -> None:
    """Extend the axis to show these values with some space, and the other curves."""
    log = ax.get_yscale() == "log"
    known = [] if ax.get_autoscaley_on() else ax.get_ylim()
    finite = [value for value in values if np.isfinite(value)]
    shown = [value for value in finite if value <= HUGE or not log]
    shown = shown or ([1.0, HUGE] if finite else [])
    if shown and (max(shown) > 0 or not log):
        low, high = min(shown), max(shown)
        low = max(low, ROUNDING * high) if log else low  # zero, too, is below rounding
        margin = (high / low) ** 0.06 if log else 0.06 * (high - low)
        reach = (low / margin, high * margin) if log else (low - margin, high + margin)
        if high > low and np.isfinite(reach).all():
            ax.set_ylim(min(*reach, *known), max(*reach, *known))


def line_of(history: History, by: Callable[[History], str]) -> str:
    """The label of a run's line.

    Raises:
        Error: ``by`` fails, or gives no text.
    """
    line = called(f"by of {history!r}", by, history)
    require(isinstance(line, str), f"by of {history!r}", line, "a text")
    return str(line)


def _over(history: History, window: int | Callable[[History], int] | None) -> int:
    """The rounds that a run's line averages."""
    if window is None:
        return history.window()
    return whole("window", window(history) if callable(window) else window, 1)


def _averaged(
    histories: Sequence[History],
    metric: str,
    split: str,
    window: int | Callable[[History], int] | None,
    one_seed: bool,
) -> str:
    """What lines average, in words. Empty if each of their points is one evaluation."""
    spans, along = set(), False
    for history in histories:
        rounds, _ = history.points(metric, split)
        over = min(_over(history, window), int(rounds[-1]))
        if (rounds > rounds[-1] - over).sum() > 1:
            spans.add(over)
            along |= bool(np.diff(rounds).min() < over / 2)
    if not spans:
        return ""
    whose = "lines and bands: mean ± std" if one_seed else "lines: means"
    many = " to ".join(map(str, dict.fromkeys((min(spans), max(spans)))))
    return f"; {whose if along else 'ends: means'} of {many} rounds"


def _data(
    histories: Sequence[History],
    metric: str,
    split: str,
    percent: bool,
    by: Callable[[History], str],
    window: int | Callable[[History], int] | None,
) -> pd.DataFrame:
    if not histories:
        raise Error("no runs to draw: give at least one history")
    frames = []
    for history in histories:
        series = history.series(metric, split) * (100.0 if percent else 1.0)
        named = {"task": history.config.task["name"], "algorithm": line_of(history, by)}
        over = _over(history, window)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # one evaluation has no deviation
            ends: dict[str, Any] = {"settles": history.diverged is None}
            within = smoothed(series, over, lambda values: np.std(values, ddof=1), **ends)
        named |= {"line": smoothed(series, over, **ends).to_numpy(), "within": within.to_numpy()}
        frames.append(series.reset_index().assign(**named))
    values = pd.concat(frames, ignore_index=True)
    grouped = values.groupby(["task", "algorithm", "round"], sort=False)
    data = grouped["value"].agg(mean="mean", std="std", seeds="count")
    data["line"], data["spread"] = grouped["line"].mean(), grouped["line"].std()
    data["spread"] = data["spread"].where(data["seeds"] > 1, grouped["within"].mean())
    data = data.reset_index()
    # A mean is over all seeds that did not diverge: if such a run stops early, the line ends too.
    left = Counter(
        (run.config.task["name"], line_of(run, by)) for run in histories if run.diverged is None
    )
    known = [left[line] for line in zip(data["task"], data["algorithm"], strict=True)]
    return data[grouped.size().to_numpy() >= known].reset_index(drop=True)


def axis_label(metric: str, split: str, percent: bool) -> str:
    """An axis' label for a metric.

    >>> axis_label("recall_at_5", "test", percent=True)
    'test recall at 5 (%)'
    """
    return f"{split} {style.name(metric)}{' (%)' if percent else ''}"


def plain_log_ticks(ax: Axes) -> None:
    """Label a logarithmic y-axis of a few decades with 5 or 0.2, not 5e0 or 2e-1."""
    low, high = ax.get_ylim()
    if high > 1e4 * low:
        return
    subs = (1.0, 2.0, 5.0) if high > 5 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    ax.yaxis.set_major_locator(LogLocator(subs=subs))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def figure_of(ax: Axes) -> Figure:
    """The figure of some axes."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise Error("these axes belong to no figure: make them with Figure().subplots()")
    return figure


@checked
def client_density(
    histories: Sequence[History],
    metric: str = "accuracy",
    split: str = "test",
    *,
    ax: Axes | None = None,
) -> Drawing:
    """The density of the clients' final values, one line per algorithm (seeds pooled).

    It uses a Gaussian kernel with a standard deviation of 5 points around each client's value,
    reflected at 0 and at 100 %, so that it integrates to one between them (seaborn's ``kdeplot``
    cannot reflect). All clients count the same. Runs that diverged have no final values, and are
    left out.

    Args:
        metric: a metric per client, a fraction.

    Returns:
        The figure and the drawn data: task, algorithm, value (percent), density (per point).

    Raises:
        Error: no runs, or a run without values per client.
    """
    at = np.linspace(0.0, 100.0, 201)
    frames = []
    with style.axes(ax) as ax:
        for key, values in client_values(histories, metric, split).items():
            density = _density(100.0 * values, at)
            look = style.look(key)
            ax.plot(at, density, linestyle=look.linestyle, color=look.color, label=look.label)
            frames.append(pd.DataFrame({"algorithm": key, "value": at, "density": density}))
        ax.set(xlabel=f"client {axis_label(metric, split, True)}", ylabel="density")
        ax.set_ylim(bottom=0)
    data = pd.concat(frames, ignore_index=True)
    data.insert(0, "task", histories[0].config.task["name"])
    return figure_of(ax), data


def client_values(histories: Sequence[History], metric: str, split: str) -> dict[str, np.ndarray]:
    """The clients' final values by algorithm, those of several seeds one after the other."""
    finished = [history for history in histories if history.diverged is None]
    if not finished:
        raise Error("no runs to draw: give at least one history that did not diverge")
    parts: dict[str, list[np.ndarray]] = {}
    for history in finished:
        frame = history.clients
        chosen = frame[(frame["metric"] == metric) & (frame["split"] == split)]["value"].dropna()
        if chosen.empty:
            raise Error(
                f"{history!r} has no {split} {metric} per client: draw runs of another task"
            )
        parts.setdefault(algorithm(history), []).append(chosen.to_numpy(float))
    return {key: np.concatenate(values) for key, values in parts.items()}


def _density(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    mirrored = np.concatenate([values, -values, 200.0 - values])
    kernels = np.exp(-0.5 * ((at[:, None] - mirrored) / BANDWIDTH) ** 2)
    return kernels.sum(1) / (len(values) * BANDWIDTH * np.sqrt(2 * np.pi))


# ----------------------------------------------------------------- one call from runs to a picture

# Fields that distinguish runs, besides task, method and seeds.
SETTINGS = ("rounds", "clients_per_round", "eval_every", "eval_last", "dtype", *TRAINING_KEYS)


class Picture(Figure):
    """A figure that notebooks show as a picture, whether pyplot is set up or not."""

    def _repr_png_(self) -> bytes:
        with style.context():
            return picture(self)


@checked
def plot(
    histories: History | Sequence[History] | Mapping[str, History | Sequence[History]],
    metric: str = "accuracy",
    split: str = "test",
    *,
    title: str = "",
    percent: bool | None = None,
    log_y: bool = False,
    window: int | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Learning curves: a metric over rounds, the mean over seeds with a band of ± one std.

    A line is a moving average, see :func:`learning_curves`.

    Args:
        histories: one run or several. Runs that differ only in their seeds are one line. Other
            runs have their own lines, labelled by their differences. A dict gives the labels:
            label -> run, or label -> runs, which are the seeds of one line.
        metric, split: the series, for instance ``"loss"`` and ``"train"``.
        title: title above the curves.
        percent: draw fractions as percent. Default: for accuracies and recalls.
        log_y: logarithmic values.
        window: rounds that a line averages. Default: a fifteenth of the rounds, 100 at most. 1
            draws every evaluation.
        ax: draw into these axes. Default: a new figure.

    Returns:
        The figure. ``figure.savefig("curves.pdf")`` writes it. Under its title it describes the
        runs, including any stand-in data, and the average.

    Raises:
        Error: no runs, a run without this metric (the message lists its metrics), runs that
            differ only in their data, or a window below 1.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> runs = {
        ...     f"{steps} steps": fedlib.run(
        ...         task, "fedavg", rounds=3, overrides={"local_steps": steps}
        ...     )
        ...     for steps in (1, 5)
        ... }
        >>> fedlib.plot(runs, "loss").axes[0].get_ylabel()
        'test loss'
    """
    if isinstance(histories, History):
        histories = [histories]
    if isinstance(histories, Mapping):
        lines = {label: _runs(label, given) for label, given in histories.items()}
        looks = style.distinct(lines)
    else:
        lines, looks = _told_apart(histories)
    # Copies, as a dict may name a run twice.
    named = [(copy.copy(run), label) for label, runs in lines.items() for run in runs]
    label_of = {id(run): label for run, label in named}
    with style.context():
        where = Picture(figsize=(5.5, 3.0)).subplots() if ax is None else ax
        learning_curves(
            [run for run, _ in named],
            metric,
            split,
            title=title,
            percent=percent,
            log_y=log_y,
            window=window,
            by=lambda run: label_of[id(run)],
            looks=looks,
            ax=where,
        )
    return figure_of(where)


def _runs(label: str, given: History | Sequence[History]) -> list[History]:
    """The seeds of a line, each run once.

    Raises:
        Error: there are no runs, or they differ in more than their seeds.
    """
    runs = [given] if isinstance(given, History) else list(given)
    if len({_line(run) for run in runs}) != 1:
        many = "runs that differ in more than their seeds" if runs else "no runs"
        raise Error(f"plot: line {label!r} has {many}: a line is the seeds of one run")
    return _once(runs)


def _line(run: History) -> tuple[str, str, str]:
    """Task, algorithm and setting: the same for the seeds of a run."""
    return run.config.task["name"], run.config.algorithm, str(_setting(run))


def _once(runs: Sequence[History]) -> list[History]:
    return list({run.config.digest: run for run in runs}.values())


def _told_apart(
    histories: Sequence[History],
) -> tuple[dict[str, list[History]], dict[str, style.Look]]:
    """Runs by the label of their line, and the looks of the lines."""
    groups: dict[tuple[str, str, str], list[History]] = {}
    for run in histories:
        groups.setdefault(_line(run), []).append(run)
    settings = {key: _setting(runs[0]) for key, runs in groups.items()}
    tasks = {task for task, _, _ in groups}
    lines: dict[str, list[History]] = {}
    known: dict[str, style.Look] = {}
    for (task, algorithm, own), runs in groups.items():
        _require_one_problem(runs)
        alike = [values for key, values in settings.items() if key[:2] == (task, algorithm)]
        words = [
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in settings[task, algorithm, own].items()
            if any(other.get(name) != value for other in alike)
        ]
        place = f" on {task}" if len(tasks) > 1 else ""
        label = ", ".join([style.look(algorithm).label + place, *words])
        if label in lines:  # numbers that differ only in their last digits
            label = f"{label} ({len(lines) + 1})"
        lines[label] = _once(runs)
        if algorithm in style.LOOKS and len(tasks) == len(alike) == 1:
            known[label] = style.LOOKS[algorithm]
    return lines, style.distinct(lines, known)


def _require_one_problem(runs: Sequence[History]) -> None:
    """Require that data differ by the seed of the partition only."""
    data: dict[int, str] = {}
    for run in runs:
        task = run.config.task
        if data.setdefault(task["seed"], task["data"]) != task["data"]:
            raise Error(
                f"plot: runs of task {task['name']!r} have other data, model or loss under the "
                "same name: give a dict that names the lines: {'label': runs}"
            )


def _setting(run: History) -> dict[str, Any]:
    """The settings that a run's numbers depend on, without task name and seeds, by short names."""
    config = run.config
    values: dict[str, Any] = {"preset": config.task["preset"], **config.task["options"]}
    (method,) = pd.json_normalize(dict(config.method)).to_dict("records")
    for path, value in method.items():
        # ``client_lr``, ``server_type``, but ``tau``. The method's name already gives its type.
        *_, name = parts = str(path).split(".")
        short = "_".join(parts[-2:]) if name in ("lr", "type") else name
        if path != "type":
            values["_".join(parts) if short in values else short] = value
    return values | {name: getattr(config, name) for name in SETTINGS}
