"""Many published runs in three files: ``<results>/bundles/<name>/``.

``history.csv``  ``run, round, split, metric, value``; ``run`` is the place in runs.jsonl, from 0
``clients.csv``  ``run, client, split, metric, value, examples``, for tasks whose figures need it
``runs.jsonl``   the first line: format, name, SHA-256 of the tables and of the lines below; the
                 second: what the runs' meta data share; then a line per run: configuration and
                 the rest of the meta data

The numbers are those of the run's own files, exactly; the final parameters are left out. A bundle
appears under its name only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.results.files import CLIENTS, HISTORY, Damaged, Stored, parse_config, read_csv, to_csv

RUNS = "runs.jsonl"
FORMAT = 1
FRAME = ("round", "split", "metric", "value")
PER_CLIENT = ("client", "split", "metric", "value", "examples")
# Of a run's own folder.
LEFT_OUT = ("files", "parameters")


@dataclass(frozen=True)
class Bundled(Stored):
    """A run of a bundle; ``path`` is the bundle's folder, ``place`` the run's place in it."""

    place: int = 0

    def history(self, params: bool = True) -> History:
        """Read the run; its parameters are empty. See :meth:`Stored.history`."""
        frames, clients = _tables(self.path, _stamp(self.path))
        frame = frames[self.place]
        per_client = clients.get(self.place, clients[-1])
        return History(frame.copy(), per_client.copy(), {}, self.config, dict(self.meta))


def write_bundle(
    results: Path, name: str, histories: Sequence[History], clients_of: Collection[str] = ()
) -> Path:
    """Write a bundle, in place of an earlier one of that name.

    Args:
        results: the folder of published runs, for instance ``data/results``.
        histories: from the store; equal runs once.
        clients_of: tasks whose values per client are kept.

    Returns:
        the bundle's folder.

    Raises:
        Error: no histories, or one that does not come from a store.
    """
    unique = list({history.config.digest: history for history in histories}.values())
    if not unique:
        raise Error(f"bundle {name}: no runs to publish")
    for history in unique:
        if "created" not in history.meta:
            raise Error(f"bundle {name}: {history!r} does not come from a store")
    kept = [h if h.config.task["name"] in clients_of else None for h in unique]
    tables = {
        HISTORY: _joined([history.frame for history in unique], FRAME),
        CLIENTS: _joined([None if h is None else h.clients for h in kept], PER_CLIENT),
    }
    metas = [{k: v for k, v in h.meta.items() if k not in LEFT_OUT} for h in unique]
    shared = {k: v for k, v in metas[0].items() if all(k in m and m[k] == v for m in metas)}
    lines = [
        {"config": h.config.as_dict(), "meta": {k: v for k, v in m.items() if k not in shared}}
        for h, m in zip(unique, metas, strict=True)
    ]
    body = "".join(json.dumps(line) + "\n" for line in [shared, *lines]).encode()
    head = {
        "bundle": FORMAT,
        "name": name,
        "runs": hashlib.sha256(body).hexdigest(),
        "files": {file: hashlib.sha256(data).hexdigest() for file, data in tables.items()},
    }
    target = results / "bundles" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}.{secrets.token_hex(4)}"
    temporary, old = (target.with_name(f".{name}.{mark}{end}") for end in ("", ".old"))
    temporary.mkdir()
    try:
        for file, data in tables.items():
            (temporary / file).write_bytes(data)
        (temporary / RUNS).write_bytes(json.dumps(head).encode() + b"\n" + body)
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    return target


def _joined(frames: Sequence[pd.DataFrame | None], columns: Sequence[str]) -> bytes:
    parts = [
        frame[list(columns)].assign(run=place)
        for place, frame in enumerate(frames)
        if frame is not None and len(frame)
    ]
    every = pd.concat(parts) if parts else pd.DataFrame(columns=[*columns, "run"])
    return to_csv(every[["run", *columns]])


def folders(results: Path) -> Iterator[Path]:
    """The bundles in a folder of published runs; names that begin with a dot are unfinished."""
    for path in sorted(results.glob(f"bundles/*/{RUNS}")):
        if not path.parent.name.startswith("."):
            yield path.parent


def open_bundle(folder: Path) -> dict[str, Bundled]:
    """The runs of a bundle by digest; their numbers are read when they are asked for.

    Raises:
        Error: it is damaged.
    """
    return _open(folder, _stamp(folder))


def _stamp(folder: Path) -> tuple[int, ...]:
    """Changes when a file of the bundle does."""
    try:
        stats = [(folder / file).stat() for file in (RUNS, HISTORY, CLIENTS)]
    except OSError as problem:
        raise _damaged(folder, f"{Path(problem.filename).name} is missing") from None
    return tuple(number for stat in stats for number in (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=64)
def _open(folder: Path, stamp: tuple[int, ...]) -> dict[str, Bundled]:
    head, body = _head(folder)
    if hashlib.sha256(body).hexdigest() != head["runs"]:
        raise _damaged(folder, f"{RUNS} is not what was written (cut off or changed)")
    found = {}
    try:
        shared, *lines = (json.loads(line) for line in body.decode().splitlines())
        for place, plain in enumerate(lines):
            config = parse_config(plain["config"], folder)
            meta = {**shared, **plain["meta"]}
            found[config.digest] = Bundled(folder, config, meta, place)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        if isinstance(problem, Damaged):
            raise
        raise _damaged(folder, f"{RUNS} cannot be read ({problem})") from None
    return found


def _head(folder: Path) -> tuple[dict[str, Any], bytes]:
    try:
        first, _, body = (folder / RUNS).read_bytes().partition(b"\n")
        head = json.loads(first)
        if head["bundle"] != FORMAT:
            raise _damaged(folder, f"format {head['bundle']}, this fedlib reads {FORMAT}")
        head["runs"], head["files"][HISTORY], head["files"][CLIENTS]
    except (OSError, KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, Damaged):
            raise
        raise _damaged(folder, f"{RUNS} cannot be read ({problem})") from None
    return head, body


@lru_cache(maxsize=8)
def _tables(
    folder: Path, stamp: tuple[int, ...]
) -> tuple[dict[int, pd.DataFrame], dict[int, pd.DataFrame]]:
    """Each run's frame, and its clients'; -1 are no clients."""
    head, _ = _head(folder)
    types: dict[str, dict[str, Any]] = {
        HISTORY: {"run": "int64", "round": "int64"},
        CLIENTS: {"run": "int64", "client": str, "examples": "int64"},
    }
    tables = []
    for file, own in types.items():
        data = (folder / file).read_bytes()
        if hashlib.sha256(data).hexdigest() != head["files"][file]:
            raise _damaged(folder, f"{file} is not what was written (cut off or changed)")
        every = read_csv(data, own)
        parts = {
            int(place): part.drop(columns="run").reset_index(drop=True)
            for place, part in every.groupby("run", sort=False)
        }
        parts[-1] = every[:0].drop(columns="run")
        tables.append(parts)
    return tables[0], tables[1]


def _damaged(folder: Path, what: str) -> Damaged:
    return Damaged(f"damaged bundle {folder}: {what}; delete this folder and publish it again")
