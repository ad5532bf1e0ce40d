"""Writing files and folders so that a name stands only for what is complete.

What is being written has a name of its own beside its place, ``.fedlib-<token>.<name>``, and takes
the place when it is whole. A folder that it replaces waits as ``.fedlib-old.<name>`` meanwhile, and
:func:`recover` gives it its name back if the process was killed. What else a killed process left is
removed once nobody has written to it for a day, by whoever writes in the folder next.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlib.errors import Error, Failure

ASIDE = ".fedlib-"
OLD = f"{ASIDE}old."  # a folder while another one takes its place
# A process that has written nothing for so long is taken for dead.
DEAD_SECONDS = 24 * 3600.0


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there.

    Raises:
        Failure: it cannot be written. What lay there stays.

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
def replacing(path: Path) -> Iterator[Path]:
    """A free name beside ``path`` for a file or a folder that takes its place at the end.

    What is written there gets the name ``path`` when the block ends, in place of a file or folder
    that has it. When the block raises it is removed, and what lay there stays. Missing parents are
    made, and what killed processes left beside ``path`` is removed. Several processes may write
    the same file: the last one wins.

    Raises:
        Failure: it cannot be written; in the block too, an OSError becomes one.
    """
    aside = beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clean(path.parent.absolute())
        yield aside
        if aside.is_dir():
            _replace_folder(aside, path)
        else:
            with open(aside, "rb+") as file:
                os.fsync(file.fileno())  # the name must not come to the disk before the contents
            os.replace(aside, path)
    except OSError as problem:
        raise Failure(f"cannot write {path}: {reason(problem)}") from None
    finally:
        remove(aside)


def _replace_folder(aside: Path, path: Path) -> None:
    """No system replaces a folder in one step, so the old one is moved away first.

    It comes back by :func:`recover` where the process is killed in between.
    """
    recover(path.parent)
    if path.is_dir():
        os.rename(path, path.with_name(f"{OLD}{path.name}"))
    try:
        os.replace(aside, path)
    finally:
        recover(path.parent)


def recover(folder: Path) -> None:
    """Give what was moved away to be replaced its name back, or remove it where that is taken."""
    for old in folder.glob(f"{OLD}*"):
        path = folder / old.name.removeprefix(OLD)
        with suppress(OSError):  # another process does it
            if path.exists():
                gone = beside(path)
                os.rename(old, gone)  # nobody takes it for a whole folder while it is removed
                remove(gone)
            else:
                os.rename(old, path)


def remove(path: Path) -> None:
    """Remove a file or folder if it is there. What cannot be removed stays for :func:`clean`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def reason(problem: OSError) -> str:
    """What the system says went wrong, in a line."""
    return " ".join(str(problem.strerror or problem).split())


def require_writable(folder: Path, instead: str = "FEDLIB_DATA") -> None:
    """Refuse to begin what could not be stored: try to write in a folder, and leave nothing.

    Args:
        folder: need not exist yet; then where it would be made is tried.
        instead: what names another folder, for the error.

    Raises:
        Error: nothing can be written there.
    """
    there = folder.absolute()
    try:
        while not (there.exists() or there.is_symlink()):
            there = there.parent
        with tempfile.TemporaryFile(dir=there) as file:  # without a name, wherever that can be
            file.write(b"0")
            file.flush()
    except OSError as problem:
        why = f"{reason(problem)}; nothing has been done. Name another folder by {instead}"
        raise Error(f"cannot write in {folder}: {why}") from None


@functools.cache
def clean(folder: Path) -> None:
    """Remove what killed processes left directly in a folder, after :func:`recover`. Once in a
    process, as a folder may hold thousands of runs.
    """
    recover(folder)
    for aside in folder.glob(f"{ASIDE}*"):
        with suppress(OSError):  # it changes right now
            latest = max(path.lstat().st_mtime for path in (aside, *aside.rglob("*")))
            if time.time() - latest > DEAD_SECONDS:
                remove(aside)


def beside(path: Path) -> Path:
    """A free name for what is being written, see above."""
    return path.with_name(f"{ASIDE}{secrets.token_hex(8)}.{path.name}")
