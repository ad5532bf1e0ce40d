"""Checkpoints: a program's whole state in one file, so that a stopped run goes on as if it had not.

Every draw is a function of the seed and the round, so the state holds tensors and numbers only.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import torch

from fedlib import files
from fedlib.engine.config import RunConfig
from fedlib.errors import Error, Failure, first_line

SECONDS = 60.0  # between checkpoints, unless rounds were asked for
FORMAT = 3
HASH_BYTES = 32  # SHA-256 of what follows it in the file
UNREADABLE = (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError)
# Of a file without its tensors, and what a round adds to the record.
FILE_BYTES, ROUND_BYTES = 2**16, 2**9


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
        self.path = folder / f"{file_stem(self.digests)}.pt"
        self.every = every
        self._last = time.monotonic()
        self._file = files.Reserved(self.path)

    def due(self, done: int) -> bool:
        """Whether it is time to save, after ``done`` rounds."""
        if self.every is None:
            return time.monotonic() - self._last >= SECONDS
        return done % self.every == 0

    @contextmanager
    def reserved(self, snapshot: Snapshot, rounds: int) -> Iterator[None]:
        """Have the space for a checkpoint inside, so that a disk that fills up cannot prevent it.

        Args:
            snapshot: as large as those that will be saved; rounds: still to be recorded.

        Raises:
            Error: there is no such space, or nothing can be written.
        """
        try:
            self._file.take(_bytes(vars(snapshot)) + self._overhead(rounds))
        except OSError as problem:
            raise Error(
                f"cannot write a checkpoint in {self.path.parent}: {files.reason(problem)}; "
                "nothing has been trained"
            ) from None
        try:
            yield
        finally:
            self._file.release()

    def _overhead(self, rounds: int) -> int:
        return FILE_BYTES + ROUND_BYTES * rounds * len(self.digests)

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot aside and put it in the place of the last one.

        Raises:
            Failure: it cannot be written; the last one stays.
        """
        content = {"format": FORMAT, "digests": self.digests, **vars(snapshot)}
        try:
            with self._file.replacing() as file:
                written = _write(content, file)
        except OSError as problem:
            kept = "the one before is kept" if self.path.exists() else "there is none before"
            raise Failure(
                f"cannot write a checkpoint in {self.path.parent}: {files.reason(problem)}; {kept}"
            ) from None
        with suppress(OSError):  # a full disk takes no second one; then the next write tries again
            self._file.take(written)
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
            content = _read(self.path, device)
        except UNREADABLE as error:
            raise self._refused(self.path, f"is damaged ({first_line(error)})") from None
        if (content.pop("format", 1), content.pop("digests", [])) != (FORMAT, self.digests):
            raise self._refused(self.path, "belongs to another run or version")
        return Snapshot(**content)

    @staticmethod
    def _refused(path: Path, why: str) -> Error:
        return Error(f"checkpoint {path} {why}; delete it to start again")

    def discard(self) -> None:
        """Remove the state of a finished run."""
        self._file.release()
        files.remove(self.path)
        files.remove_if_empty(self.path.parent)


def file_stem(digests: Sequence[str]) -> str:
    """The name of the checkpoint of these runs, without its suffix."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def read_digests(path: Path) -> list[str]:
    """Of the runs that a checkpoint is of; none if it cannot be read."""
    try:
        return [str(digest) for digest in _read(path, torch.device("cpu"))["digests"]]
    except (
        OSError,
        EOFError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
        pickle.PickleError,
    ):
        return []


class _Hashed:
    """Where torch writes a checkpoint piece by piece: what clients remember may be large."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.problem: OSError | None = None

    def write(self, part: bytes) -> int:
        self._hash.update(part)
        try:
            return self._file.write(part)
        except OSError as problem:  # torch makes another error of it
            self.problem = problem
            raise

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> bytes:
        return self._hash.digest()


class _Behind(io.RawIOBase):
    """A file as if it began behind the hash."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._file.seek(HASH_BYTES)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = HASH_BYTES if whence == os.SEEK_SET else 0
        return self._file.seek(offset + start, whence) - HASH_BYTES

    def tell(self) -> int:
        return self._file.tell() - HASH_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _write(content: dict[str, Any], file: BinaryIO) -> int:
    """Write the hash of what torch makes of some content, and that; returns the bytes."""
    file.write(bytes(HASH_BYTES))
    hashed = _Hashed(file)
    try:
        torch.save(content, hashed)  # type: ignore[arg-type]
    except RuntimeError as problem:
        raise hashed.problem or problem from None
    size = file.tell()
    file.seek(0)
    file.write(hashed.digest())
    file.seek(size)
    return size


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    with open(path, "rb") as file:
        expected = file.read(HASH_BYTES)
        if hashlib.file_digest(file, "sha256").digest() != expected:
            raise ValueError("its content has changed")
        content: dict[str, Any] = torch.load(
            _Behind(file),  # type: ignore[arg-type]
            map_location=device,
            weights_only=True,
        )
    return content


def _bytes(state: Any) -> int:
    """Of the tensors in a state."""
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size()
    parts = state.values() if isinstance(state, dict) else state
    return sum(map(_bytes, parts)) if isinstance(state, (dict, list, tuple)) else 0


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
