"""Checkpoints: a program's whole state in one file, so that a stopped run goes on as if it had not.

Every draw is a function of the seed and the round, so the state holds tensors and numbers only.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from fedlib import files
from fedlib.engine.config import RunConfig
from fedlib.errors import Error

SECONDS = 60.0  # between checkpoints, unless rounds were asked for
FORMAT = 3
HASH_BYTES = 32  # SHA-256 of what follows it in the file


class Stopped(KeyboardInterrupt):
    """The process was asked to end; what was computed is in a checkpoint."""


@dataclass(frozen=True)
class Snapshot:
    """A program between two rounds, in dicts and lists of tensors, numbers and names.

    Attributes:
        progress: the fields of :class:`fedlib.engine.states.Progress`.
        memory: what clients remember; record: what is recorded.
    """

    progress: dict[str, Any]
    memory: dict[str, Any]
    record: dict[str, Any]


class Checkpoint:
    """Where the state of one program is kept.

    Args:
        folder: may hold checkpoints of several programs.
        configs: the program's configurations; only their own state is ever loaded.
        every: rounds between checkpoints; default one a minute.
    """

    def __init__(self, folder: Path, configs: Sequence[RunConfig], every: int | None) -> None:
        self.digests = [config.digest for config in configs]
        name = hashlib.sha256(" ".join(self.digests).encode()).hexdigest()[:16]
        self.path = folder / f"{name}.pt"
        self.every = every
        self._last = time.monotonic()

    def due(self, done: int) -> bool:
        """Whether it is time to save, after ``done`` rounds."""
        if self.every is None:
            return time.monotonic() - self._last >= SECONDS
        return done % self.every == 0

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot aside and put it in the place of the last one."""
        content = {"format": FORMAT, "digests": self.digests, **vars(snapshot)}
        packed = io.BytesIO()
        torch.save(content, packed)
        try:
            with files.replacing(self.path) as aside, open(aside, "wb") as file:
                file.write(hashlib.sha256(packed.getbuffer()).digest())
                file.write(packed.getbuffer())
        except OSError as error:
            raise Error(f"cannot write a checkpoint in {self.path.parent}: {error}") from None
        self._last = time.monotonic()

    def load(self, device: torch.device) -> Snapshot | None:
        """The last snapshot, its tensors on ``device``; None if there is none.

        Raises:
            Error: the file is not what was written, or of another run or format.
        """
        old = self.path.with_suffix(".safetensors")  # format 1
        if old.is_file():
            raise self._refused(old, "belongs to another run or version")
        if not self.path.is_file():
            return None
        try:
            written = memoryview(self.path.read_bytes())
            if hashlib.sha256(written[HASH_BYTES:]).digest() != written[:HASH_BYTES]:
                raise self._refused(self.path, "is damaged (its content has changed)")
            packed = io.BytesIO(written[HASH_BYTES:])
            content = torch.load(packed, map_location=device, weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
            reason = str(error).splitlines()[0]
            raise self._refused(self.path, f"is damaged ({reason})") from None
        if (content.pop("format", 1), content.pop("digests", [])) != (FORMAT, self.digests):
            raise self._refused(self.path, "belongs to another run or version")
        return Snapshot(**content)

    @staticmethod
    def _refused(path: Path, why: str) -> Error:
        return Error(f"checkpoint {path} {why}; delete it to start again")

    def discard(self) -> None:
        """Remove the state of a finished run."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()


@contextmanager
def stop_requests(listen: bool) -> Iterator[list[int]]:
    """Collects SIGTERM and the first interrupt, so that the current round can end in order.

    The list is empty until one comes. A second interrupt acts at once. Without ``listen``, and
    outside the main thread, signals act as ever.
    """
    asked: list[int] = []
    if not listen or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
