"""Checkpoints: the whole state of a batch of runs in one file, so that stopped runs can resume.

Every draw is a function of the seed and the round, so the state holds tensors and numbers only.
"""

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

# The exit status of a process whose time is over. The same command resumes it (EX_TEMPFAIL).
PAUSED = 75
# Seconds between checkpoints, unless rounds are given. Clients' memories may take long to write, so
# the pause after a checkpoint is at least so many times as long as its writing took.
SECONDS = 60.0
PAUSE = 20
FORMAT = 4
HASH_BYTES = 32  # length of the SHA-256 at the end of the file, of all bytes before it
UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError)


class Stopped(KeyboardInterrupt):
    """The process was asked to end. Its results so far are in a checkpoint.

    Attributes:
        status: exit status of the process, 128 plus the number of a signal.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.status = 128 + number


class Paused(Stopped):
    """The available time is over. The results so far are in a checkpoint."""

    def __init__(self, what: str) -> None:
        super().__init__(PAUSED - 128, what)


class Deadline:
    """The end of the available time: a round begins only if it would end before it.

    A round is expected to take as long as the longest of the last rounds with the same evaluation.
    The first after a checkpoint is expected to take the average of those before.

    Args:
        seconds: time from now.
        clock: returns seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.end = clock() + seconds
        self.begin()

    def begin(self, expected: float = 0.0) -> bool:
        """Begin or resume a batch of runs, whose rounds have another length. Whether there is time.

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
            evaluated, next_evaluated: whether these rounds are evaluated.
        """
        now = self.clock()
        self._last[evaluated].append(now - self._mark)
        self._mark = now
        alike = self._last[next_evaluated] or self._last[not next_evaluated]
        return now + max(alike) <= self.end


# The state between two rounds, in dicts and lists of tensors, numbers and names.
Snapshot = dict[str, Any]


class Checkpoint:
    """The folder for the state of one batch of runs.

    Args:
        folder: may hold checkpoints of several batches.
        configs: the batch's configurations. Only their own state is ever loaded.
        every: rounds between checkpoints. Default: one a minute, or fewer if they take long.
    """

    def __init__(self, folder: Path, configs: Sequence[RunConfig], every: int | None) -> None:
        self.digests = [config.digest for config in configs]
        self.path = folder / f"{file_stem(self.digests)}.pt"
        self.every = every
        self._last = time.monotonic()
        self._writing = 0.0

    def due(self, done: int) -> bool:
        """Whether it is time to save, after ``done`` rounds."""
        if self.every is None:
            return time.monotonic() - self._last >= max(SECONDS, PAUSE * self._writing)
        return done % self.every == 0

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot to a temporary file and replace the last one by it.

        Raises:
            Failure: it cannot be written. The last one stays.
        """
        content = {"format": FORMAT, "digests": self.digests, **_plain(snapshot)}
        begun = time.monotonic()
        try:
            with files.replacing(self.path) as aside:
                torch.save(content, aside)  # piece by piece, as clients' memories may be large
                with open(aside, "rb+") as file:
                    file.write(hashlib.file_digest(file, "sha256").digest())
        except (Failure, RuntimeError) as problem:  # the latter from torch, on a full disk
            before = "The one before is kept" if self.path.exists() else "There is none before"
            raise Failure(f"cannot write a checkpoint: {first_line(problem)}. {before}") from None
        self._last = time.monotonic()
        self._writing = self._last - begun

    def load(self, device: torch.device) -> Snapshot | None:
        """The last snapshot, with its tensors on ``device``, or None.

        Raises:
            Error: the file has changed since it was written, or is of another run or format.
        """
        if not self.path.is_file():
            return None
        try:
            content = _read(self.path, device)
        except UNREADABLE as error:
            why = f"is damaged or of another version ({first_line(error)})"
            raise Error(f"checkpoint {self.path} {why}: delete it to start again") from None
        if (content.pop("format"), content.pop("digests")) != (FORMAT, self.digests):
            why = "belongs to another run or version"
            raise Error(f"checkpoint {self.path} {why}: delete it to start again")
        return content

    def discard(self) -> None:
        """Remove the state of a finished run."""
        files.remove(self.path)


def file_stem(digests: Sequence[str]) -> str:
    """The name of the checkpoint of these runs, without its suffix."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, as torch loads no others."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    """The content of a file written by torch, if the hash at its end is right."""
    with open(path, "rb") as file:
        with mmap(file.fileno(), 0, access=ACCESS_READ) as whole, memoryview(whole) as view:
            if hashlib.sha256(view[:-HASH_BYTES]).digest() != view[-HASH_BYTES:]:
                raise ValueError("its content has changed")
        content: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    return content


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collect SIGTERM and the first interrupt, so that the current round can end normally.

    The list is empty until one comes. A second interrupt acts at once. Outside the main thread
    signals act as usual.
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
