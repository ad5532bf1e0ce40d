"""From which runs a figure was drawn last, at each preset.

``<store>/figures/<paper>__<name>.json`` knows the quick preset's, a folder beside it another's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from fedlib import files
from fedlib.engine.history import History
from fedlib.errors import Error, Failure
from fedlib.reproduction.answers import labelled
from fedlib.reproduction.compare import how_to_make
from fedlib.reproduction.entry import Entry
from fedlib.results.store import Store
from fedlib.tasks import PRESETS


@dataclass(frozen=True)
class Memory:
    """From which runs a figure was drawn.

    Attributes:
        runs: task -> digests.
        plans: digest -> what the run was requested for, as ``History.meta["plan"]`` says; runs
            without a plan are not in it.
    """

    runs: dict[str, list[str]] = field(default_factory=dict)
    plans: dict[str, dict[str, str]] = field(default_factory=dict)

    def __or__(self, newer: Memory) -> Memory:
        """Both, of a task that both know the newer runs."""
        return Memory(self.runs | newer.runs, self.plans | newer.plans)

    def of(self, tasks: Collection[str]) -> Memory:
        """What it knows of some tasks."""
        runs = {task: digests for task, digests in self.runs.items() if task in tasks}
        known = {digest for digests in runs.values() for digest in digests}
        return Memory(runs, {key: plan for key, plan in self.plans.items() if key in known})

    def histories(self, task: str, load: Callable[[str], History]) -> list[History]:
        """A task's runs with their plans.

        Args:
            load: from a digest to its history.
        """
        loaded = [(digest, load(digest)) for digest in self.runs.get(task, ())]
        return [
            labelled(history, self.plans[digest]) if digest in self.plans else history
            for digest, history in loaded
        ]


def _file(folder: Path, id: str, preset: str) -> Path:
    name = f"{id.replace('/', '__')}.json"
    return folder / "figures" / ("" if preset == PRESETS[0] else preset) / name


def remembered(store: Store, entry: Entry, preset: str) -> Memory:
    """What is known of a figure at a preset; of a task that the store does not know, from published
    runs.
    """
    memory = Memory()
    for folder in (*reversed(store.published), store.root):
        memory |= _read(folder, entry, preset)
    return memory


def preferred(store: Store, entry: Entry) -> tuple[str, Memory]:
    """The preset that a figure is drawn from, and what is known there.

    Runs on the papers' tasks come before those on small problems, of however few of the figure's
    tasks: of laptop and paper the preset at which the most tasks have runs (the larger, of as
    many), and quick where neither has any.
    """
    known = {preset: remembered(store, entry, preset) for preset in reversed(PRESETS)}
    tasks = {preset: len(known[preset].of(entry.notebooks).runs) for preset in known}
    small = PRESETS[0]
    real = max((preset for preset in known if preset != small), key=lambda preset: tasks[preset])
    preset = real if tasks[real] else small
    return preset, known[preset]


def _read(folder: Path, entry: Entry, preset: str) -> Memory:
    path = _file(folder, entry.id, preset)
    if not path.is_file():
        return Memory()
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        runs = {task: [str(digest) for digest in own] for task, own in plain["runs"].items()}
        plans = plain.get("plans", {})  # not in files of older versions
        return Memory(runs, {digest: dict(plan) for digest, plan in plans.items()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
        remedy = " and ".join(map(how_to_make, entry.notebooks.values()))
        raise Error(f"{path} cannot be read ({problem}); delete it, then {remedy}") from None


def remember(store: Store, id: str, histories: Sequence[History], preset: str) -> None:
    """Note the runs that a figure was drawn from at a preset."""
    memory = Memory()
    for history in histories:
        digest = history.config.digest
        memory.runs.setdefault(history.config.task["name"], []).append(digest)
        if "plan" in history.meta:
            memory.plans.setdefault(digest, history.meta["plan"])
    _write(_file(store.root, id, preset), id, memory)


def known(store: Store, entry: Entry, tasks: Collection[str], preset: str) -> Memory:
    """What the store itself knows of some tasks of a figure at a preset."""
    return _read(store.root, entry, preset).of(tasks)


def publish(results: Path, entry: Entry, memory: Memory, preset: str) -> None:
    """Note runs of a figure in a folder of published runs; those of other tasks stay."""
    if memory.runs:
        every = _read(results, entry, preset) | memory
        _write(_file(results, entry.id, preset), entry.id, every)


def _write(path: Path, id: str, memory: Memory) -> None:
    drawn = memory.of(memory.runs)  # without plans of runs that are replaced
    plain: dict[str, Any] = {"id": id, "runs": drawn.runs}
    if drawn.plans:
        plain["plans"] = drawn.plans
    files.write(path, (json.dumps(plain, indent=2) + "\n").encode())


@contextmanager
def alone(store: Store, id: str) -> Iterator[None]:
    """Draw a figure while no other process does: two notebooks may add to it at the same time."""
    folder = store.root / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f".{id.replace('/', '__')}.lock")
        lock.acquire()
    except OSError as problem:
        raise Failure(f"cannot lock {folder}: {files.reason(problem)}") from None
    with lock:
        yield
