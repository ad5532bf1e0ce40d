"""Writing files and folders so that a name stands only for what is complete.

What is being written has a name of its own beside its place, ``.<machine>-<pid>-<token>.<name>``,
and takes the place in one step; a folder that it replaces waits as
``.<machine>-<pid>-<token>-old.<name>`` meanwhile. So whoever comes later sees what a killed process
left: :func:`recover` gives a folder its name back, :func:`clean` removes the rest. What a living
process writes is never touched.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlib.errors import Error, Failure

ASIDE = re.compile(r"\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}(-old)?\.(.+)", re.DOTALL)
# Another machine's process is taken for dead when it has written nothing for so long.
DEAD_SECONDS = 24 * 3600.0


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there.

    Raises:
        Failure: it cannot be written; what lay there stays.

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
    that has it; when the block raises it is removed, and what lay there stays. Missing parents are
    made, and what killed processes left beside ``path`` is removed. Several processes may write
    the same file: the last one wins.

    Raises:
        Failure: it cannot be written; in the block too, an OSError becomes one.
    """
    aside = beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clean_once(path.parent.absolute())
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
    """No system replaces a folder that is not empty in one step: the old one waits beside it."""
    old = beside(path, "-old")
    if path.is_dir():
        os.rename(path, old)
    try:
        os.replace(aside, path)
    except BaseException:
        if old.exists():
            with suppress(OSError):  # then recover() does it
                os.rename(old, path)
        raise
    gone = beside(path)
    with suppress(OSError):
        os.rename(old, gone)  # recover() must not take it for a whole folder while it is removed
    remove(gone)
    remove(old)


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
            remove_if_empty(part)


def remove(path: Path) -> None:
    """Remove a file or folder if it is there; what cannot be removed stays for :func:`clean`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is there, empty, and can be removed."""
    with suppress(OSError):
        folder.rmdir()


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
        while not _is_there(there):
            there = there.parent
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=there) as file:  # without a name, wherever that can be
            file.write(b"0")
            file.flush()
    except OSError as problem:
        why = f"{reason(problem)}; nothing has been done. Name another folder by {instead}"
        raise Error(f"cannot write in {folder}: {why}") from None


def _is_there(path: Path) -> bool:
    """Unlike ``Path.exists``, names that nothing can have raise an OSError."""
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise
        return False
    return True


# ------------------------------------------------------------------- what killed processes leave


def recover(folder: Path) -> list[Path]:
    """Give back its name to every folder that a killed process had put aside to replace it.

    Returns:
        the folders that are back.
    """
    back = []
    for aside in remains(folder):
        match = ASIDE.fullmatch(aside.name)
        path = folder / match[4] if match and match[3] else None
        if path is not None and not path.exists():
            with suppress(OSError):
                os.rename(aside, path)
                back.append(path)
    return back


def remains(folder: Path) -> list[Path]:
    """What lies directly in a folder and was being written by processes that are dead."""
    left = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = ASIDE.fullmatch(entry.name)
            if match and _dead(Path(entry.path), match[1], int(match[2])):
                left.append(Path(entry.path))
    return sorted(left)


def clean(folder: Path) -> list[Path]:
    """Remove what killed processes left directly in a folder, after :func:`recover`.

    Returns:
        what was removed.
    """
    recover(folder)
    left = remains(folder)
    for aside in left:
        remove(aside)
    return [aside for aside in left if not aside.exists()]


@functools.cache
def _clean_once(folder: Path) -> None:
    """Once in a process: a folder may hold thousands of runs."""
    clean(folder)


def beside(path: Path, kind: str = "") -> Path:
    """A free name for what this process writes, see above."""
    token = secrets.token_hex(4)
    return path.with_name(f".{_machine()}-{os.getpid()}-{token}{kind}.{path.name}")


@functools.cache
def _machine() -> str:
    """Tells apart where process ids mean something: machines that share a disk, and containers."""
    known = [platform.node()]
    with suppress(OSError):
        known.append(Path("/etc/machine-id").read_text(encoding="utf-8"))
    with suppress(OSError):
        known.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(known).encode()).hexdigest()[:8]


def _dead(aside: Path, machine: str, pid: int) -> bool:
    """Whether the process that was writing there is no more."""
    if machine == _machine() and os.name == "posix":  # elsewhere signal 0 is no question
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            return False
        return False
    try:
        latest = max(path.lstat().st_mtime for path in (aside, *aside.rglob("*")))
    except OSError:  # it changes right now
        return False
    return time.time() - latest > DEAD_SECONDS
