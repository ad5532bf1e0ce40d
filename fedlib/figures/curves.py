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
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from fedlib.arguments import called, checked
from fedlib.engine.config import TRAINING_KEYS
from fedlib.engine.history import History, rounds_of
from fedlib.errors import Error, require
from fedlib.figures import style
from fedlib.figures.save import picture
from fedlib.figures.scale import scale, small

Drawing = tuple[Figure, pd.DataFrame]  # and what is drawn
# So many lines have their labels at their ends; more have a legend.
LABELLED = 8
# What a logarithmic axis shows at most, from its largest value down: below is rounding.
ROUNDING = 1e-12
# Matplotlib's logarithmic ticks overflow far above: a curve that goes there leaves the axis.
HUGE = 1e100
BANDWIDTH = 5.0  # standard deviation of a density's kernel, in percentage points
# Metrics that are fractions begin with one of these words.
FRACTIONS = ("accuracy", "recall")


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
    legend: bool | None = True,
    by: Callable[[History], str] = algorithm,
    looks: Mapping[str, style.Look] | None = None,
    window: int | Callable[[History], int] | None = None,
    shown: str | None = None,
    ax: Axes | None = None,
) -> Drawing:
    """A metric over rounds: a line per algorithm, the mean over seeds with a band of ± one std.

    A line is the mean over a window of rounds around each, at the end over the last rounds, so that
    it ends in the number that a table gives. The band is that of the line: ± one standard deviation
    over the seeds; of one seed, whose line ends in a hollow mark, of the evaluations in the window.
    Up to eight lines have their labels and last numbers at their ends, lines that lie on each other
    one in common. A run that diverged ends in a cross. The axis shows what comes after the first
    twentieth of the rounds.

    Args:
        histories: runs of one task.
        metric, split: which series.
        printed: the paper's final values by algorithm, in the drawn unit: in brackets after ours.
        title: of the panel.
        percent: draw fractions as percent. Default: for accuracies and recalls.
        log_y: logarithmic values.
        legend: name the lines. False: their ends have numbers only, and
            :func:`fedlib.figures.style.key` can name them; None: nothing at their ends.
        by: what a line stands for, a key of :data:`fedlib.figures.style.LOOKS` or of ``looks``.
        looks: of lines that look otherwise here.
        window: rounds that a line averages, of all or of each run. Default :meth:`History.window`,
            1 for none.
        shown: under the title. Default: ``fedlib.figures.scale.scale``.
        ax: draw into these axes. Default: a new figure.

    Returns:
        the figure, and what is drawn: task, algorithm (what ``by`` says), round, mean, std (n - 1,
            NaN for one seed), seeds; line and spread, the line that is drawn and its band.

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
                raise Error(f"a line's label is {look.label!r}; give one that starts otherwise")
            how: dict[str, Any] = {"color": look.color, "linestyle": look.linestyle}
            # Not seaborn's lineplot: on a logarithmic axis it takes the mean of the logarithms.
            ax.plot(part["round"], part["line"], label=look.label, **how)
            # Of one seed that diverged it would be the fall.
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
        elif legend is not None:
            style.label_ends(ax, stated, crossed, names=legend)
    return figure_of(ax), data


def smoothed(
    series: pd.Series, window: int, reduce: Callable[[np.ndarray], Any] = np.mean
) -> pd.Series:
    """The means over a window of rounds around each, so that they do not lag behind.

    The window is as narrow at the beginning as there are rounds before. Over its last half it stays
    at the last rounds, so that the line ends in what a table gives.

    Args:
        series: values by round, in order.
        window: rounds.
        reduce: another statistic of the window.

    >>> smoothed(pd.Series([9.0, 3.0, 6.0, 3.0, 5.0], index=[0, 10, 20, 30, 40]), 30).tolist()
    [9.0, 3.0, 4.0, 4.666666666666667, 4.666666666666667]
    """
    rounds, values = series.index.to_numpy(), series.to_numpy()
    last = rounds[-1]
    late = rounds > last - max(1, min(window, last))  # as fedlib.engine.history.mean_of_last
    out = []
    for at in rounds:
        half = min(window / 2, at)
        known = late if at + window / 2 >= last else np.abs(rounds - at) < half
        out.append(float(reduce(values[known | (rounds == at)] if at < last else values[late])))
    return pd.Series(out, series.index)


def _show(ax: Axes, values: Sequence[float]) -> None:
    """Have the axis show these values with a margin, and what it shows of other curves."""
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
    window: int | Callable[[History], int] | None,
) -> pd.DataFrame:
    if not histories:
        raise Error("no runs to draw; give at least one history")
    frames = []
    for history in histories:
        series = history.series(metric, split) * (100.0 if percent else 1.0)
        named = {"task": history.config.task["name"], "algorithm": line_of(history, by)}
        over = window(history) if callable(window) else window or history.window()
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # one evaluation has no deviation
            within = smoothed(series, over, lambda values: np.std(values, ddof=1))
        named |= {"line": smoothed(series, over).to_numpy(), "within": within.to_numpy()}
        frames.append(series.reset_index().assign(**named))
    values = pd.concat(frames, ignore_index=True)
    grouped = values.groupby(["task", "algorithm", "round"], sort=False)
    data = grouped["value"].agg(mean="mean", std="std", seeds="count")
    data["line"], data["spread"] = grouped["line"].mean(), grouped["line"].std()
    data["spread"] = data["spread"].where(data["seeds"] > 1, grouped["within"].mean())
    data = data.reset_index()
    # A mean is of all seeds but those that diverged: where one was ended the line ends, too.
    left = Counter(
        (run.config.task["name"], line_of(run, by)) for run in histories if run.diverged is None
    )
    known = [left[line] for line in zip(data["task"], data["algorithm"], strict=True)]
    return data[grouped.size().to_numpy() >= known].reset_index(drop=True)


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
            ax.plot(at, density, linestyle=look.linestyle, color=look.color, label=look.label)
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


# ----------------------------------------------------------------- one call from runs to a picture

# What tells runs apart besides task, method and seeds.
SETTINGS = ("rounds", "clients_per_round", "eval_every", "eval_last", "dtype", *TRAINING_KEYS)


class Picture(Figure):
    """A figure that notebooks show as a picture, whether or not pyplot was set up."""

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
    ax: Axes | None = None,
) -> Figure:
    """Learning curves: a metric over rounds, the mean over seeds with a band of ± one std.

    Args:
        histories: a run, or several. Runs that differ in nothing but their seeds are one line. The
            others have lines of their own, named by what tells them apart. A dict names the lines
            itself: label -> run, or label -> runs, which are the seeds of one line.
        metric, split: which series, for instance ``"loss"`` and ``"train"``.
        title: above the curves.
        percent: draw fractions as percent. Default: for accuracies and recalls.
        log_y: logarithmic values.
        ax: draw into these axes. Default: a new figure.

    Returns:
        the figure; ``figure.savefig("curves.pdf")`` writes it. Under its title stands what the
        runs are, stand-in data among it.

    Raises:
        Error: no runs, a run without this metric (names the metrics that there are), or runs that
            nothing but their data tells apart.

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
            by=lambda run: label_of[id(run)],
            looks=looks,
            ax=where,
        )
    return figure_of(where)


def _runs(label: str, given: History | Sequence[History]) -> list[History]:
    """The seeds of a line, each run once.

    Raises:
        Error: none, or such as differ in more than their seeds.
    """
    runs = [given] if isinstance(given, History) else list(given)
    if len({_line(run) for run in runs}) != 1:
        many = "runs that differ in more than their seeds" if runs else "no runs"
        raise Error(f"plot: line {label!r} has {many}; a line is the seeds of one run")
    return _once(runs)


def _line(run: History) -> tuple[str, str, str]:
    """Task, algorithm and setting: the same for the seeds of a run."""
    return run.config.task["name"], run.config.algorithm, str(_settings(run))


def _once(runs: Sequence[History]) -> list[History]:
    return list({run.config.digest: run for run in runs}.values())


def _told_apart(
    histories: Sequence[History],
) -> tuple[dict[str, list[History]], dict[str, style.Look]]:
    """Runs by the label of their line, and how the lines look."""
    groups: dict[tuple[str, str, str], list[History]] = {}
    for run in histories:
        groups.setdefault(_line(run), []).append(run)
    tasks = {task for task, _, _ in groups}
    lines: dict[str, list[History]] = {}
    known: dict[str, style.Look] = {}
    for (task, algorithm, _), runs in groups.items():
        _require_one_problem(runs)
        alike = [
            _settings(other[0]) for key, other in groups.items() if key[:2] == (task, algorithm)
        ]
        settings = _settings(runs[0])
        words = [
            f"{key}={_short(value)}"
            for key, value in settings.items()
            if any(other.get(key) != value for other in alike)
        ]
        place = f" on {task}" if len(tasks) > 1 else ""
        label = ", ".join([style.look(algorithm).label + place, *words])
        if label in lines:  # numbers that differ in their last digits only
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
                "same name; give a dict that names the lines: {'label': runs}"
            )


def _settings(run: History) -> dict[str, Any]:
    """What decides a run's numbers but for its task's name and its seeds, by short names."""
    config = run.config
    values: dict[str, Any] = {"preset": config.task["preset"], **config.task["options"]}
    (method,) = pd.json_normalize(dict(config.method)).to_dict("records")
    for path, value in method.items():
        # ``client_lr``, ``server_type``, but ``tau``; the method's own type its name tells.
        *_, name = parts = str(path).split(".")
        short = "_".join(parts[-2:]) if name in ("lr", "type") else name
        if path != "type":
            values["_".join(parts) if short in values else short] = value
    return values | {name: getattr(config, name) for name in SETTINGS}


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
