"""One call from histories to a picture: a line per method, a band over seeds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.arguments import checked
from fedlib.engine.config import TRAINING_KEYS
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import figure_of, learning_curves
from fedlib.figures.save import picture

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
