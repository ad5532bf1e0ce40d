"""Checkpoints: a program's whole state in one file, so that a stopped run goes on as if it had not.

Every draw is a function of the seed and the round, so the state holds tensors and numbers only.
"""

from __future__ import annotations

import hashlib
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from fedlib import files
from fedlib.engine.config import RunConfig
from fedlib.errors import Error, Failure, first_line

# The exit status of a process whose time is over: the same command goes on (EX_TEMPFAIL).
PAUSED = 75
SECONDS = 60.0  # between checkpoints, unless rounds were asked for
FORMAT = 4
HASH_BYTES = 32  # at the end of the file: SHA-256 of what is before it
UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError)


class Stopped(KeyboardInterrupt):
    """The process was asked to end. What was computed is in a checkpoint.

    Attributes:
        status: with which the process is to end: for a signal 128 and its number.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.status = 128 + number


class Paused(Stopped):
    """The time that there was is over. What was computed is in a checkpoint."""

    def __init__(self, what: str) -> None:
        super().__init__(PAUSED - 128, what)


class Deadline:
    """The end of the time that there is: no round is begun that would not end before it.

    A round is expected to take as long as the longest of the last ones that were evaluated like it.
    The first after a checkpoint, as long as those before took on average.

    Args:
        seconds: from now.
        clock: gives seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.end = clock() + seconds
        self.begin()

    def begin(self, expected: float = 0.0) -> bool:
        """A program begins or goes on, whose rounds have another length. Whether there is time.

        Args:
            expected: seconds of its first round.
        """
        self._last = {evaluated: deque[float](maxlen=5) for evaluated in (False, True)}
        self._mark = self.clock()
        return self._mark + expected <= self.end

    def over(self) -> bool:
        """Whether no time is left."""
        return self.clock() >= self.end

    def allows(self, evaluated: bool, next_evaluated: bool) -> bool:
        """Whether the next round would end in time, after one that ends now.

        Args:
            evaluated, next_evaluated: whether these rounds are.
        """
        now = self.clock()
        self._last[evaluated].append(now - self._mark)
        self._mark = now
        alike = self._last[next_evaluated] or self._last[not next_evaluated]
        return now + max(alike) <= self.end


# A program between two rounds, in dicts and lists of tensors, numbers and names.
Snapshot = dict[str, Any]


class Checkpoint:
    """The folder for the state of one program.

    Args:
        folder: may hold checkpoints of several programs.
        configs: the program's configurations; only their own state is ever loaded.
        every: rounds between checkpoints. Default: one a minute.
    """

    def __init__(self, folder: Path, configs: Sequence[RunConfig], every: int | None) -> None:
        self.digests = [config.digest for config in configs]
        self.path = folder / f"{file_stem(self.digests)}.pt"
        self.every = every
        self._last = time.monotonic()

    def due(self, done: int) -> bool:
        """Whether it is time to save, after ``done`` rounds."""
        if self.every is None:
            return time.monotonic() - self._last >= SECONDS
        return done % self.every == 0

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot aside and put it in the place of the last one.

        Raises:
            Failure: it cannot be written. The last one stays.
        """
        content = {"format": FORMAT, "digests": self.digests, **_plain(snapshot)}
        try:
            with files.replacing(self.path) as aside:
                torch.save(content, aside)  # piece by piece: what clients remember may be large
                with open(aside, "rb+") as file:
                    file.write(hashlib.file_digest(file, "sha256").digest())
        except (Failure, RuntimeError) as problem:  # the latter from torch, on a full disk
            kept = "the one before is kept" if self.path.exists() else "there is none before"
            raise Failure(f"cannot write a checkpoint: {first_line(problem)}; {kept}") from None
        self._last = time.monotonic()

    def load(self, device: torch.device) -> Snapshot | None:
        """The last snapshot, its tensors on ``device``. None if there is none.

        Raises:
            Error: the file is not what was written, or of another run or format.
        """
        if not self.path.is_file():
            return None
        try:
            content = _read(self.path, device)
        except UNREADABLE as error:
            why = f"is damaged or of another version ({first_line(error)})"
            raise Error(f"checkpoint {self.path} {why}; delete it to start again") from None
        if (content.pop("format"), content.pop("digests")) != (FORMAT, self.digests):
            why = "belongs to another run or version"
            raise Error(f"checkpoint {self.path} {why}; delete it to start again")
        return content

    def discard(self) -> None:
        """Remove the state of a finished run."""
        files.remove(self.path)


def file_stem(digests: Sequence[str]) -> str:
    """The name of the checkpoint of these runs, without its suffix."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's: torch reads back no others."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    """What torch wrote, if the hash behind it is right."""
    with open(path, "rb") as file:
        with mmap(file.fileno(), 0, access=ACCESS_READ) as whole, memoryview(whole) as view:
            if hashlib.sha256(view[:-HASH_BYTES]).digest() != view[-HASH_BYTES:]:
                raise ValueError("its content has changed")
        content: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    return content


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collects SIGTERM and the first interrupt, so that the current round can end in order.

    The list is empty until one comes. A second interrupt acts at once. Outside the main thread
    signals act as ever.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
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
