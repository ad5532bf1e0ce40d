"""A notebook's plan in tables that a reader understands at a glance."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedlib import algorithms, tasks
from fedlib.plans import Request
from fedlib.task import Task
from fedlib.tasks.presets import AtMost

# Up to this many values are listed. Of more numbers, the ends and their count are given.
WRITTEN_OUT = 3


def task_table(
    requests: Iterable[Request],
    preset: str,
    options: Collection[str] = (),
    loaded: Mapping[str, Task] | None = None,
) -> pd.DataFrame:
    """The sizes of the tasks that some requests train on. No data are loaded.

    Centralised runs, which have no cohort, do not count.

    Args:
        preset: preset of the requests' plan.
        options: options of tasks that get a column each.
        loaded: tasks by their keys (:meth:`Request.task_key`). They give exact values that the
            preset leaves to the data.

    Returns:
        One row per task, of texts: ``task``, ``clients``, ``clients_per_round``, ``rounds``,
        ``batch_size``, ``local_epochs``, and the options that the tasks have.
        ``batch_size``, ``local_epochs``, and the options that the tasks have.
    """
    values: dict[str, dict[str, list[Any]]] = {}
    for request in requests:
        if algorithms.build(request.algorithm).pooled:
            continue
        columns = values.setdefault(request.task, {})
        task = (loaded or {}).get(request.task_key(preset))
        for name, value in _sizes(request, preset, options, task).items():
            columns.setdefault(name, []).append(value)
    rows = [
        {"task": task, **{name: listed(column) for name, column in columns.items()}}
        for task, columns in values.items()
    ]
    return pd.DataFrame(rows).fillna("–")


def _sizes(
    request: Request, preset: str, options: Collection[str] = (), loaded: Task | None = None
) -> dict[str, Any]:
    """A request's number of clients, settings of the run and options, by name."""
    given = {key: value for key, value in request.task_options(preset).items() if value is not None}
    task = {**tasks.preset_values(request.task, given["preset"]), **given}
    if loaded is not None:
        task |= {**loaded.options, "clients": len(loaded.train)}
    training = {**task, **request.overrides}
    sizes = {
        "clients": task["clients"],
        "clients_per_round": request.clients_per_round or task.get("clients_per_round"),
        "rounds": task["rounds"] if request.rounds is None else request.rounds,
        "batch_size": training.get("batch_size"),
        "local_epochs": training.get("local_epochs", 1),
    }
    sizes = {name: "all" if value is None else value for name, value in sizes.items()}
    return {**sizes, **{name: task[name] for name in options if name in task and name not in sizes}}


def run_table(
    requests: Sequence[Request], preset: str, rates: Callable[[Request], Mapping[str, Any]]
) -> pd.DataFrame:
    """The requested runs. A grid is one row, and so are methods that try the same values.

    Args:
        preset: preset of the requests' plan.
        rates: returns a request's learning rates by override key, used if it names none.

    Returns:
        ``part``, ``task``, ``algorithm``, ``settings`` (learning rates and all other values that
        differ from the task's), ``rounds``, ``seeds``, and the number of ``runs``.
    """
    groups: dict[tuple[str, str, str], list[tuple[Request, dict[str, Any]]]] = {}
    for request in requests:
        known = {} if "client_lr" in request.overrides else rates(request)
        options = {name: value for name, value in request.options.items() if name != "seed"}
        values = {**options, **known, **request.overrides}
        key = (request.part, request.task, request.algorithm)
        groups.setdefault(key, []).append((request, values))
    rows = []
    for (part, task, algorithm), asked in groups.items():
        names = dict.fromkeys(name for _, values in asked for name in values)
        tried = [f"{name} {_with_gaps([v.get(name) for _, v in asked])}" for name in names]
        rounds = listed(_sizes(request, preset)["rounds"] for request, _ in asked)
        seeds = listed(request.seed for request, _ in asked)
        rows.append((part, task, algorithm, "; ".join(tried), rounds, seeds, len(asked)))
    columns = ["part", "task", "algorithm", "settings", "rounds", "seeds", "runs"]
    frame = pd.DataFrame(rows, columns=columns)
    for name in ("algorithm", "task"):
        same = [column for column in columns if column not in (name, "runs")]
        merged = frame.groupby(same, sort=False, as_index=False)
        frame = merged.agg({name: ", ".join, "runs": "sum"})
    return frame[columns]


def _with_gaps(values: Sequence[Any]) -> str:
    """:func:`listed`, and "or none" if some have no value."""
    present = [value for value in values if value is not None]
    return listed(present) + (" or none" if len(present) < len(values) else "")


def listed(values: Iterable[Any]) -> str:
    """Each value once, as a text. Many numbers become the smallest, the largest and their count.

    >>> listed([0.1, 1.0, 0.1]), listed([10**-2.5, 0.01, 0.1, 1.0]), listed([(1, 3)])
    ('0.1, 1', '0.00316 … 1 (4)', '1 to 3')
    """
    values = list(values)
    numbers = all(type(value) in (int, float) for value in values)
    texts = list(dict.fromkeys(map(_text, sorted(values) if numbers else values)))
    if numbers and len(texts) > WRITTEN_OUT:
        return f"{texts[0]} … {texts[-1]} ({len(texts)})"
    return ", ".join(texts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{float(f'{value:.3g}'):g}"
    if isinstance(value, AtMost):
        return "all" if value.limit is None else f"up to {value.limit}"
    if isinstance(value, tuple):
        return " to ".join(map(_text, value))
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "–" if value is None else str(value)
