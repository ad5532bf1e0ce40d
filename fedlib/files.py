"""Writing files and folders so that a name stands only for what is complete.

What is being written has a name of its own beside its place, ``.<machine>-<pid>-<token>.<name>``,
and a folder that it replaces waits as ``.<machine>-<pid>-<token>-old.<name>``. So whoever comes
later sees what a killed process left: :func:`recover` gives a folder its name back, :func:`clean`
removes the rest. What a living process writes is never touched.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import logging
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from fedlib.errors import Error, Failure

log = logging.getLogger("fedlib")

# What says that a folder that is not empty, or a file, has the name.
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
# File systems that cannot allocate in advance.
CANNOT_ALLOCATE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
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
    with replacing(path) as aside, open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # the name must not come to the disk before the contents


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files that belong together: all are new, or all are as they were.

    None is replaced before all are written; where one cannot be replaced, those that were get their
    old contents back. (A process that is killed between two of them leaves both kinds.)

    Raises:
        Failure: one cannot be written.
    """
    before = {path: path.read_bytes() if path.is_file() else None for path in contents}
    try:
        with ExitStack() as complete:
            for path, content in contents.items():
                complete.enter_context(replacing(path)).write_bytes(content)
    except BaseException:
        for path, old in before.items():
            with suppress(OSError, Failure):
                if old is None:
                    remove(path)
                elif path.read_bytes() != old:
                    write(path, old)
        raise


@contextmanager
def replacing(path: Path, stays: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """A free name beside ``path`` for a file or a folder that takes its place at the end.

    What is written there gets the name ``path`` when the block ends, in place of a file or folder
    that has it; when the block raises it is removed, and what lay there stays. Missing parents are
    made, and what killed processes left beside ``path`` is removed. Several processes may write
    the same path: the last one wins.

    Args:
        stays: asked at the end if a folder has the name; if true it stays, and what was written is
            removed.

    Raises:
        Failure: it cannot be written; in the block too, an OSError becomes one.
    """
    aside = beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clean_once(path.parent.absolute())
        yield aside
        install(aside, path, stays)
    except OSError as problem:
        raise Failure(f"cannot write {path}: {reason(problem)}") from None
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
            remove_if_empty(part)


def install(aside: Path, path: Path, stays: Callable[[], bool] = lambda: False) -> None:
    """Give the file or folder ``aside`` the name ``path``; see :func:`replacing`."""
    # A folder that is not empty cannot be replaced in one step; the old one waits beside it.
    writer = aside.name.removesuffix(f".{path.name}")
    old = aside.with_name(f"{writer}-old.{path.name}")
    try:
        for _ in range(100):  # other processes may take the name between the steps
            try:
                os.replace(aside, path)
            except OSError as problem:
                if problem.errno not in TAKEN and not path.is_dir():
                    raise
                if old.exists():  # another process put a newer one in its place
                    _discard(old)
                if stays():
                    return
                with suppress(FileNotFoundError):
                    os.rename(path, old)
            else:
                if old.exists():
                    _discard(old)
                return
    except BaseException:
        if old.exists() and not path.exists():
            with suppress(OSError):  # then recover() does it
                os.rename(old, path)
        raise
    raise FileExistsError(f"other processes keep replacing {path}; try again")


def _discard(old: Path) -> None:
    """Remove what was replaced, under a name that :func:`recover` takes for no whole folder."""
    gone = old.with_name(beside(old).name)
    os.rename(old, gone)
    remove(gone)


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


# ------------------------------------------------------------------------------------------ space


def require_writable(folder: Path, size: int = 1) -> None:
    """Refuse to begin what could not be stored: try to write in a folder, and leave nothing.

    Args:
        folder: need not exist yet; then where it would be made is tried.
        size: bytes that must fit.

    Raises:
        Error: nothing can be written there, or less than ``size``.
    """
    there = folder.absolute()
    try:
        while not _is_there(there):
            there = there.parent
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=there) as file:  # without a name, wherever that can be
            allocate(file, size, there)
    except OSError as problem:
        raise Error(
            f"cannot write {size:,} bytes in {folder}: {reason(problem)}; nothing has been done"
        ) from None


def _is_there(path: Path) -> bool:
    """Unlike ``Path.exists``, names that nothing can have raise an OSError."""
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise
        return False
    return True


def allocate(file: IO[bytes], size: int, folder: Path) -> None:
    """Take ``size`` bytes for a file in a folder that is open for writing.

    Raises:
        OSError: there is less space.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as problem:
            if problem.errno not in CANNOT_ALLOCATE:
                raise
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.write(b"\0")
    file.flush()


class Reserved:
    """A file whose next content has its space already, so that it can be written on a full disk.

    Args:
        path: of the file. The space lies beside it, where the file system can allocate.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside: Path | None = None

    def take(self, size: int) -> None:
        """Take space for the next content, in place of what was taken.

        Raises:
            OSError: there is less; nothing is taken then.
        """
        self.release()
        aside = beside(self.path)
        for attempt in range(100):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _clean_once(self.path.parent.absolute())
            try:
                with open(aside, "wb") as file:
                    self._aside = aside
                    allocate(file, size, aside.parent)
                return
            except FileNotFoundError:  # another process removed the folder, which was empty
                if attempt == 99:
                    raise
            except BaseException:
                self.release()
                raise

    @contextmanager
    def replacing(self) -> Iterator[BinaryIO]:
        """The file to write new content to, which then takes the place of the old one.

        It is cut off where writing ends; what was taken is used up.

        Raises:
            OSError: it cannot be written; the file stays as it was.
        """
        if self._aside is None:
            self.take(0)
        assert self._aside is not None
        try:
            with open(self._aside, "r+b") as file:
                yield file
                file.truncate()
            os.replace(self._aside, self.path)
        finally:
            self.release()

    def release(self) -> None:
        """Give back what was taken."""
        if self._aside is not None:
            remove(self._aside)
            self._aside = None


# ------------------------------------------------------------------- what killed processes leave


def recover(folder: Path) -> list[Path]:
    """Give back its name to every folder that a killed process had put aside to replace it.

    Logged as a warning. Where nothing can be renamed, nothing is.

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
                log.warning("%s is back: the process that replaced it was killed meanwhile", path)
    return back


def remains(folder: Path) -> list[Path]:
    """What lies directly in a folder and was being written by processes that are dead."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = ASIDE.fullmatch(entry.name)
            if match and _dead(Path(entry.path), match[1], int(match[2])):
                found.append(Path(entry.path))
    return sorted(found)


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


def beside(path: Path) -> Path:
    """A free name for what this process writes, see above."""
    return path.with_name(f".{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.{path.name}")


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
    inside = aside.rglob("*") if aside.is_dir() else ()
    try:
        latest = max(path.lstat().st_mtime for path in (aside, *inside))
    except OSError:  # it changes right now
        return False
    return time.time() - latest > DEAD_SECONDS
