"""What writes to disk, and disks that fail: at the k-th operation on files, or for good.

A :class:`Scene` is something that fedlib writes: what lies there before, the writing, and what a
reader sees. Whatever fails on the way, a reader sees what lay there before or what was to be
written, and writing it again works.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import datasets, figures, files
from fedlib.datasets import sources
from fedlib.reproduction import draw
from fedlib.reproduction.memory import remember, remembered
from fedlib.results import Store
from fedlib.results.files import open_runs
from fedlib.results.published import publish

# Operations that change files, of the module os.
CHANGES = ("mkdir", "rename", "replace", "unlink", "remove", "rmdir", "posix_fallocate", "fsync")
REMOVALS = ("unlink", "remove", "rmdir", "rename")


@dataclass
class Operations:
    """Operations on files under a folder so far, and what is done instead of one of them.

    Attributes:
        under: the folder; at: the number of the operation, from 0; act: is called with its name.
    """

    under: Path
    at: int | None
    act: Callable[[str], None]
    names: list[str]

    def now(self, name: str, path: Any) -> bool:
        """Note an operation; True if it is the one."""
        inside = isinstance(path, (str, os.PathLike)) and (
            not os.path.isabs(path) or Path(path).is_relative_to(self.under)
        )
        if not inside and not isinstance(path, int):
            return False
        self.names.append(name)
        return len(self.names) - 1 == self.at


class _File:
    """A file whose writes are operations; the one that is to fail has written half by then."""

    def __init__(self, file: Any, operations: Operations) -> None:
        self._file, self._operations = file, operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> int:
        if self._operations.now("write", self._file.name):
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            self._operations.act("write")
        return int(self._file.write(data))


@contextmanager
def operations(
    under: Path, at: int | None = None, act: Callable[[str], None] = lambda name: None
) -> Iterator[list[str]]:
    """Count what changes files under a folder; ``act`` is called at operation number ``at``."""
    counted = Operations(under, at, act, [])
    real_open = builtins.open

    def opened(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(path, int):
            return real_open(path, mode, *rest, **more)
        if counted.now("open", path):
            act("open")
        file = real_open(path, mode, *rest, **more)
        return _File(file, counted) if Path(path).is_relative_to(under) else file

    def changed(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def change(path: Any, *rest: Any, **more: Any) -> Any:
            if counted.now(name, path):
                act(name)
            return real(path, *rest, **more)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for owner in (builtins, io):
            patch.setattr(owner, "open", opened)
        for name in CHANGES:
            if hasattr(os, name):
                patch.setattr(os, name, changed(name))
        yield counted.names


def failing(number: int) -> Callable[[str], None]:
    """Raises an OSError of this number."""

    def fail(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def killed(write: Callable[[], Any], under: Path, at: int) -> bool:
    """Whether a forked process that writes is killed at operation number ``at``; else it ended."""
    pid = os.fork()
    if not pid:
        try:
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            files._clean_once.cache_clear()
            with operations(under, at, lambda name: os.kill(os.getpid(), signal.SIGKILL)):
                write()
        finally:
            os._exit(3)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def left_behind(place: Path) -> list[str]:
    """Unfinished files and folders under a folder."""
    return [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.name.startswith(".") or path.name.endswith((".part", ".wrong", ".pt"))
    ]


# ---------------------------------------------------------------------------------------- scenes


@dataclass(frozen=True)
class Scene:
    """Something that is written.

    Attributes:
        name: for the test's name.
        before: makes what lies there before.
        write: writes in its place.
        read: what a reader sees; None: nothing.
    """

    name: str
    before: Callable[[Path], None]
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]

    def sound(self, after: Any, before: Any, wanted: Any) -> bool:
        """Whether what is read after a failure is the old or the new; a figure's files are several,
        each the old or the new one.
        """
        if self.read is _drawn:
            return all(part in pair for part, *pair in zip(after, before, wanted, strict=True))
        return bool(after in (before, wanted))


def _nothing(place: Path) -> None:
    (place / "given").mkdir(exist_ok=True)


def arrays(place: Path, seed: int) -> Path:
    """A .npz file to import; not under ``place``, whose operations count."""
    draw_numbers = np.random.default_rng(seed)
    path = place.with_name(f"{place.name}_own_{seed}.npz")
    if not path.exists():
        np.savez(
            path,
            train_x=draw_numbers.random((9, 4), dtype=np.float32),
            train_y=draw_numbers.integers(0, 2, 9),
            test_x=draw_numbers.random((5, 4), dtype=np.float32),
            test_y=draw_numbers.integers(0, 2, 5),
        )
    return path


def _import(seed: int) -> Callable[[Path], Any]:
    def write(place: Path) -> None:
        datasets.import_file("own", arrays(place, seed), place, overwrite=True)

    return write


def _import_texts(place: Path) -> None:
    path = place.with_name(f"{place.name}_own.jsonl")
    if not path.exists():
        lines = [f'{{"client": "a", "split": "{s}", "text": "t"}}\n' for s in ("train", "test")]
        path.write_text("".join(lines))
    datasets.import_file("own", path, place, overwrite=True)


def _imported(place: Path) -> Any:
    if "own" not in datasets.names(place):
        return None
    return datasets.verify("own", place)["fingerprint"]


CSV = b'"3","Oil, up","Prices rise"\n"1","World","Peace"\n' * 50


def _prepare(place: Path) -> None:
    """AG News, "downloaded" from two small files."""
    official = []
    for split in ("train", "test"):
        path = place.with_name(f"{place.name}_{split}.csv")
        if not path.exists():
            path.write_bytes(CSV)
        url, digest = path.as_uri(), sha256(CSV).hexdigest()
        official.append(sources.File(f"{split}.csv", (url,), digest, len(CSV)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sources.SOURCES, "ag_news", sources.Source(tuple(official)))
        datasets.prepare("ag_news", place, overwrite=True, progress=False)


def _prepared(place: Path) -> Any:
    if "ag_news" not in [card["name"] for card in datasets.prepared(place)]:
        return None
    return datasets.verify("ag_news", place)["fingerprint"]


TASK = fedlib.quadratic_task(np.eye(2)[None] * [[[1.0]], [[2.0]]], np.ones((2, 2)))
STEPS = {"local_steps": 1}


def _store(place: Path) -> Store:
    return Store(place / "runs", published=[place / "results"])


def _run(**settings: Any) -> Callable[[Path], Any]:
    def write(place: Path) -> None:
        _store(place).run(TASK, "fedadam", rounds=3, overrides=STEPS, **settings)

    return write


def _stored(place: Path) -> Any:
    runs = _store(place).stored()
    return [run.history().frame["value"].tolist() for run in runs] or None


def _checkpointed(place: Path) -> None:
    history = fedlib.run(
        *(TASK, "fedadam"), rounds=3, overrides=STEPS, checkpoint=place / "c", checkpoint_every=1
    )
    (place.with_name(f"{place.name}_result")).write_text(str(history.frame["value"].tolist()))


def _result(place: Path) -> Any:
    path = place.with_name(f"{place.name}_result")
    return path.read_text() if path.exists() else None


def _histories(place: Path) -> list[fedlib.History]:
    store = Store(place.with_name(f"{place.name}_source") / "runs", published=[])
    requests = [{"algorithm": "fedavg"}, {"algorithm": "fedadam"}]
    return store.runs(TASK, requests, rounds=2, overrides=STEPS)


def _publish(first: int) -> Callable[[Path], Any]:
    def write(place: Path) -> None:
        publish(place / "results", "own", _histories(place)[first:])

    return write


def _published(place: Path) -> Any:
    path = place / "results" / "own.parquet"
    return sorted(open_runs(path)) if path.exists() else None


def _figure(value: float) -> Callable[[Path], Any]:
    def write(place: Path) -> None:
        data = pd.DataFrame({"a": [value]})
        figures.save(None, "own/table", data, caption="", histories=[], root=place / "figures")

    return write


def _drawn(place: Path) -> Any:
    parts = [place / "figures" / "own" / f"table.{suffix}" for suffix in ("csv", "html")]
    return [part.read_text() if part.exists() else None for part in parts]


def _remember(first: int) -> Callable[[Path], Any]:
    def write(place: Path) -> None:
        histories = _histories(place)[first:]
        with draw.alone(_store(place), "fedopt/figure_1"):
            remember(_store(place), "fedopt/figure_1", histories, "quick")

    return write


def _memory(place: Path) -> Any:
    return remembered(_store(place), draw.entry("fedopt/figure_1"), "quick").runs


SCENES = [
    Scene("import", _nothing, _import(1), _imported),
    Scene("import in place of another", _import(0), _import(1), _imported),
    Scene("import of texts in place of arrays", _import(0), _import_texts, _imported),
    Scene("prepare", _nothing, _prepare, _prepared),
    Scene("prepare again", _prepare, _prepare, _prepared),
    Scene("run", _nothing, _run(), _stored),
    Scene("run again", _run(), _run(refresh=True), _stored),
    Scene("run without parameters", _nothing, _run(keep_params=False), _stored),
    Scene("run with checkpoints", _nothing, _checkpointed, _result),
    Scene("publish", _nothing, _publish(0), _published),
    Scene("publish again", _publish(1), _publish(0), _published),
    Scene("save a figure", _figure(0), _figure(1), _drawn),
    Scene("remember a figure's runs", _remember(1), _remember(0), _memory),
]
