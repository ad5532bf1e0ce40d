"""From which runs a figure was drawn last: ``<store>/figures/<paper>__<name>.json``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.files import write
from fedlib.reproduction.compare import how_to_make
from fedlib.reproduction.entry import Entry
from fedlib.results.store import Store


def _file(folder: Path, id: str) -> Path:
    return folder / "figures" / f"{id.replace('/', '__')}.json"


def remembered(store: Store, entry: Entry) -> dict[str, list[str]]:
    """Task -> digests; from the published runs where the store knows nothing of a task."""
    merged: dict[str, list[str]] = {}
    for folder in (*reversed(store.published), store.root):
        merged |= _read(folder, entry)
    return merged


def _read(folder: Path, entry: Entry) -> dict[str, list[str]]:
    path = _file(folder, entry.id)
    if not path.is_file():
        return {}
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        return {str(task): [str(digest) for digest in digests] for task, digests in runs.items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as problem:
        remedy = " and ".join(map(how_to_make, entry.notebooks.values()))
        raise Error(f"{path} cannot be read ({problem}); delete it, then {remedy}") from None


def remember(store: Store, id: str, histories: Sequence[History]) -> None:
    """Note the runs that a figure was drawn from."""
    runs: dict[str, list[str]] = {}
    for history in histories:
        runs.setdefault(history.config.task["name"], []).append(history.config.digest)
    _write(store.root, id, runs)


def known(store: Store, entry: Entry, tasks: Collection[str]) -> dict[str, list[str]]:
    """What the store itself knows of some tasks of a figure: task -> digests."""
    return {task: runs for task, runs in _read(store.root, entry).items() if task in tasks}


def publish(results: Path, entry: Entry, runs: Mapping[str, Sequence[str]]) -> None:
    """Note runs of a figure in a folder of published runs; those of other tasks stay."""
    if runs:
        _write(results, entry.id, {**_read(results, entry), **runs})


def _write(folder: Path, id: str, runs: Mapping[str, Sequence[str]]) -> None:
    path = _file(folder, id)
    write(path, (json.dumps({"id": id, "runs": runs}, indent=2) + "\n").encode())


@contextmanager
def alone(store: Store, id: str) -> Iterator[None]:
    """Draw a figure while no other process does: two notebooks may add to it at the same time."""
    folder = store.root / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{id.replace('/', '__')}.lock", "w") as file:
        _lock(file)
        yield


def _lock(file: IO[Any]) -> None:
    """Wait for a file's lock, which ends with the file; where there is no such thing do nothing."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX)
