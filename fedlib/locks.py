"""Locks between processes: a file that is there as long as somebody has or awaits the lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedlib import files
from fedlib.errors import Failure

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """While no other process is in such a block; where the system cannot lock, at once.

    Args:
        path: of the lock, a file that is there as long as somebody has or awaits the lock.

    Raises:
        Failure: it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        while not _lock(handle, path):  # another process removed the file when it was done
            os.close(handle)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as problem:
        raise Failure(f"cannot lock {path}: {files.reason(problem)}") from None
    try:
        yield
    finally:
        files.remove(path)
        os.close(handle)


def _lock(handle: int, path: Path, wait: bool = True) -> bool:
    """Lock an open file; whether that is done and the file still has its name."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def free_lock(path: Path, remove_it: bool) -> bool:
    """Whether a lock's file is there though nobody has the lock; if asked it is removed."""
    if fcntl is None:
        return False
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        free = _lock(handle, path, wait=False)
        if free and remove_it:
            files.remove(path)
        return free
    finally:
        os.close(handle)
