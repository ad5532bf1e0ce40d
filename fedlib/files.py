"""Writing files and folders so that a name stands only for what is complete."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# What says that a folder that is not empty, or a file, has the name.
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there.

    Raises:
        OSError: it cannot be written; what lay there stays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "deeper" / "note.txt"
        >>> write(path, b"complete")
        >>> path.read_bytes()
        b'complete'
    """
    with replacing(path) as aside:
        aside.write_bytes(content)


@contextmanager
def replacing(path: Path, stays: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """A free name beside ``path`` for a file or a folder that takes its place at the end.

    What is written there gets the name ``path`` when the block ends, in place of a file or folder
    that has it; when the block raises it is removed, and what lay there stays. Missing parents are
    made. Several processes may write the same path: the last one wins.

    Args:
        stays: asked at the end if a folder has the name; if true it stays, and what was written is
            removed.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        yield aside
        install(aside, path, stays)
    finally:
        remove(aside)


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """A folder with its parents; those that were made here are removed if they stay empty.

    Raises:
        OSError: it cannot be made.
    """
    made = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for part in made:
            if part.is_dir() and not any(part.iterdir()):
                part.rmdir()


def install(aside: Path, path: Path, stays: Callable[[], bool] = lambda: False) -> None:
    """Give the file or folder ``aside`` the name ``path``; see :func:`replacing`."""
    # A folder that is not empty cannot be replaced in one step; the old one waits beside it.
    old = aside.with_name(f"{aside.name}.old")
    for _ in range(100):  # other processes may take the name between the steps
        try:
            os.replace(aside, path)
        except OSError as problem:
            if problem.errno not in TAKEN and not path.is_dir():
                if old.exists():
                    os.rename(old, path)
                raise
            remove(old)
            if stays():
                return
            with suppress(FileNotFoundError):
                os.rename(path, old)
        else:
            remove(old)
            return
    raise FileExistsError(f"cannot write {path}: other processes keep replacing it; try again")


def remove(path: Path) -> None:
    """Remove a file or folder if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
