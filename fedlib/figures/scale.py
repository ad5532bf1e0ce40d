"""A description of runs in words: data, clients, vocabulary, rounds, seeds."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from fedlib import tasks
from fedlib.datasets.catalogue import edition_of
from fedlib.engine.history import History, rounds_of
from fedlib.figures import style


def small(histories: Collection[History]) -> bool:
    """Whether runs are of a small problem that replaces a paper's, in the quick preset."""
    return any(_paper(run) and run.config.task["preset"] == "quick" for run in histories)


def whole(histories: Collection[History]) -> bool:
    """Whether the paper's numbers may be shown beside these runs: they are of the paper preset, on
    its data, with as many clients and words.
    """
    return all(run.config.task["preset"] == "paper" and _paper_data(run) for run in histories)


def _paper_data(run: History) -> bool:
    """Whether a run has the whole data set of the paper, and the model's full width."""
    task = run.config.task
    full, options = tasks.paper_values(task["name"]) if _paper(run) else {}, task["options"]
    whole = [key for key in ("data", "clients", "examples", "words", "width") if full.get(key)]
    allowed = {key: full[key] if isinstance(full[key], list) else [full[key], 0] for key in whole}
    alike = all(options[key] in known for key, known in allowed.items() if key in options)
    return alike and not task["stand_in"]


def scale(histories: Sequence[History], usual: Mapping[str, Any] | None = None) -> str:
    """Data, clients, words, rounds and seeds of one task's runs, for the line under a title.

    Args:
        histories: runs of one task.
        usual: the paper's options and rounds, if they differ from the task's.

    Returns:
        For instance ``"FEMNIST-105 for EMNIST, 105 of 3,400 clients, 20 of 1,500 rounds, 1 seed"``.
        Only the papers' tasks give clients.
    """
    run, made_up = histories[0], [run.stand_in for run in histories]
    config, words = run.config, []
    full = {
        **(tasks.paper_values(config.task["name"]) if _paper(run) else {}),
        **(usual or {}),
    }
    if small(histories):
        part = "" if all(made_up) else "partly "
        words.append("small problem" + (f" {part}on stand-in data" if any(made_up) else ""))
    elif any(made_up):
        words.append("stand-in data" if all(made_up) else "partly stand-in data")
    elif config.task["options"].get("data"):
        named = dict.fromkeys(_data(run, full.get("data")) for run in histories)
        words.append(" and ".join(named))
    for option in ("clients", "examples", "words") if _paper(run) else ():
        values = {run.config.task["options"].get(option) for run in histories} - {None, 0}
        words += [f"{_of(values, full.get(option))} {option}"] if values else []
    widths = {run.config.task["options"].get("width", 1.0) for run in histories} - {1.0}
    words += [f"{_values(widths)} of the width"] if widths else []
    factors = {run.config.task["options"].get("lr_factor", 1.0) for run in histories} - {1.0}
    words += [f"client rates × {'/'.join(f'{each:g}' for each in sorted(factors))}"] * bool(factors)
    rounds = set(map(rounds_of, histories))
    words.append(f"{_of(rounds, None if small(histories) else full.get('rounds'))} rounds")
    seeds = _seeds(histories)
    words.append(f"{_values(seeds).replace('/', ' to ')} seed{'s' * (max(seeds) > 1)}")
    return ", ".join(words)


def titled(ax: Axes, title: str, histories: Sequence[History], *more: str) -> None:
    """A panel's title, with one task's runs and more in lines below. Small problems are tinted."""
    below = "; ".join([scale(histories), *more])
    style.titled(ax, title, below, small=small(histories))


def note(histories: Sequence[History]) -> str:
    """The scale of each task's runs, one after the other, with its name if there are several."""
    by_task: dict[str, list[History]] = {}
    for history in histories:
        by_task.setdefault(history.config.task["name"], []).append(history)
    parts = {style.name(task): scale(runs) for task, runs in by_task.items()}
    if len(set(parts.values())) == 1:
        return next(iter(parts.values()))
    return "; ".join(t if t.startswith(name) else f"{name}: {t}" for name, t in parts.items())


def _paper(run: History) -> bool:
    """Whether a run is of a paper's task. Only these have presets."""
    return bool(tasks.TASKS.get(run.config.task["name"], {}).get("papers"))


def _data(run: History, paper: Any) -> str:
    """The training data of a run, and the data that it replaces."""
    task = run.config.task
    own = style.name(task["options"].get("data", ""))
    named = style.name(edition_of(task["data"]) or "") or own
    meant = style.name(paper) if isinstance(paper, str) else own
    return named if own == meant else f"{named} for {meant}"


def _seeds(histories: Sequence[History]) -> set[int]:
    """The smallest and the largest number of seeds of the settings."""
    groups: dict[str, set[int]] = {}
    for run in histories:
        options, config = run.config.task["options"], run.config
        key = [config.algorithm, config.method, options, config.rounds, config.local_epochs]
        groups.setdefault(json.dumps(key, sort_keys=True), set()).add(config.seeds["init"])
    counts = [len(seeds) for seeds in groups.values()]
    return {min(counts), max(counts)}


def _of(values: set[Any], full: Any) -> str:
    text = _values(values)
    part = isinstance(full, int) and full and set(values) != {full}  # 0: all that there are
    word = "instead of" if part and max(values) > full else "of"
    return f"{text} {word} {full:,}" if part else text


def _values(values: Iterable[Any]) -> str:
    return "/".join(f"{value:,}" for value in sorted(set(values)))
