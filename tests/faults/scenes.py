"""What writes to disk, and disks that fail or processes that die at the k-th operation on files.

A :class:`Scene` is something that fedlib writes: what lies there before, the writing, and what a
reader sees. Whatever fails on the way, a reader sees what lay there before or what was to be
written, and writing it again works.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import datasets, figures, files
from fedlib.datasets import catalogue
from fedlib.results import Store
from fedlib.results.files import open_runs
from fedlib.results.published import publish
from tests import copies

REMOVALS = ("os.remove", "os.rmdir", "os.rename")
EVENTS = (*REMOVALS, "os.mkdir", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Operations:
    """Operations that change files under a folder; ``act`` is called in place of number ``at``."""

    under: Path
    at: int | None
    act: Callable[[], None]
    names: list[str] = field(default_factory=list)

    def note(self, name):
        self.names.append(name)
        return len(self.names) - 1 == self.at

    def audit(self, event, arguments):
        if event not in EVENTS and not (event == "open" and arguments[2] & WRITING):
            return
        if isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(arguments[0])
            inside = not os.path.isabs(path) or path.startswith(f"{self.under}{os.sep}")
            if inside and self.note(event):
                self.act()


_current = []
_fsync = os.fsync


def _audit(event, arguments):
    if _current:
        _current[-1].audit(event, arguments)


def _half(handle):
    """Python tells of no write: what is to come to the disk is cut in half here."""
    if _current and _current[-1].note("fsync"):
        now = _current.pop()
        os.ftruncate(handle, os.fstat(handle).st_size // 2)
        _current.append(now)
        now.act()
    _fsync(handle)


sys.addaudithook(_audit)  # it cannot be removed


@contextmanager
def operations(under, at=None, act=lambda: None):
    """The names of the operations that change files under a folder inside the block."""
    _current.append(Operations(under, at, act))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _half)
        try:
            yield _current[-1].names
        finally:
            _current.clear()


def failing(number):
    """Raises an OSError of this number."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


def killed(write, under, at):
    """Whether a forked process that writes is killed at operation number ``at``; else it ended."""
    pid = os.fork()
    if not pid:
        try:
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            files.clean.cache_clear()
            with operations(under, at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                write()
        finally:
            os._exit(3)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def left_behind(place):
    """Unfinished files and folders under a folder."""
    return [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.name != ".checkpoints" and (path.name[0] == "." or path.name.endswith(".pt"))
    ]


# ---------------------------------------------------------------------------------------- scenes


@dataclass(frozen=True)
class Scene:
    """Something that is written.

    Attributes:
        before: makes what lies there before; write: writes in its place.
        read: what a reader sees; None: nothing.
    """

    name: str
    before: Callable[[Path], Any]
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]

    def sound(self, after, before, expected):
        """Whether what is read after a failure is the old or the new; of several files, each."""
        if isinstance(after, dict):
            return all(part in (before.get(name), expected[name]) for name, part in after.items())
        return bool(after in (before, expected))


def nothing(place):
    (place / "given").mkdir(exist_ok=True)


def arrays(place, seed):
    """A .npz file to import; not under ``place``, whose operations count."""
    draw = np.random.default_rng(seed)
    path = place.with_name(f"{place.name}_own_{seed}.npz")
    if not path.exists():
        both = {"train_x": draw.random((9, 4)), "train_y": draw.integers(0, 2, 9)}
        both |= {"test_x": draw.random((5, 4)), "test_y": draw.integers(0, 2, 5)}
        np.savez(path, **{k: v.astype(np.float32) if v.ndim > 1 else v for k, v in both.items()})
    return path


def _import(seed):
    return lambda place: datasets.import_file("own", arrays(place, seed), place, overwrite=True)


def _prepare(place):
    """AG News, "downloaded" from two small files, which are not under ``place``."""
    with pytest.MonkeyPatch.context() as patch:
        source = copies.news(place.with_name(f"{place.name}_news"))
        patch.setitem(catalogue.SOURCES, "ag_news", source)
        datasets.prepare("ag_news", place, overwrite=True, progress=False)


def _verified(name):
    def read(place):
        there = [card["name"] for card in datasets.prepared(place)]
        return datasets.verify(name, place)["fingerprint"] if name in there else None

    return read


TASK = fedlib.quadratic_task(np.eye(2)[None] * [[[1.0]], [[2.0]]], np.ones((2, 2)))
STEPS = {"local_steps": 1}


def _store(place):
    return Store(place / "runs", published=[place / "results"])


def _run(**settings):
    """A run in a store that leaves a checkpoint after every round."""

    def write(place):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedlib.engine.checkpoint.SECONDS", 0.0)
            _store(place).run(TASK, "fedadam", rounds=3, overrides=STEPS, **settings)

    return write


def _stored(place):
    histories = [run.history() for run in _store(place).stored()]
    return [str((each.frame["value"].tolist(), each.params)) for each in histories] or None


def _publish(first):
    def write(place):
        store = Store(place.with_name(f"{place.name}_source") / "runs", published=[])
        requests = [{"algorithm": "fedavg"}, {"algorithm": "fedadam"}]
        histories = store.runs(TASK, requests, rounds=2, overrides=STEPS)
        publish(place / "results", "own", histories[first:])

    return write


def _published(place):
    path = place / "results" / "own.parquet"
    return sorted(open_runs(path)) if path.exists() else None


def _figure(value):
    about = {"data": pd.DataFrame({"a": [value]}), "caption": "", "histories": []}
    return lambda place: figures.save(None, "own/table", **about, root=place / "figures")


def _drawn(place):
    parts = place.glob("figures/own/table.*")
    return {path.name: path.read_text() for path in parts if path.suffix in (".csv", ".html")}


SCENES = [
    Scene("import", nothing, _import(1), _verified("own")),
    Scene("import in place of another", _import(0), _import(1), _verified("own")),
    Scene("prepare", nothing, _prepare, _verified("ag_news")),
    Scene("run", nothing, _run(), _stored),
    Scene("run again", _run(), _run(refresh=True), _stored),
    Scene("publish again", _publish(1), _publish(0), _published),
    Scene("save a figure", _figure(0), _figure(1), _drawn),
]
