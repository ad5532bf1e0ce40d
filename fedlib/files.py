"""Writing files and folders atomically: a name only ever stands for complete contents.

A new file or folder has a temporary name beside its target, ``.fedlib-<token>.<name>``, and takes
the target's name when it is complete. A folder that it replaces is called ``.fedlib-old.<name>``
meanwhile, and :func:`recover` restores its name if the process was killed. Other remains of killed
processes are removed by the next writer in the folder, once they are a day old.
"""

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
OLD = f"{ASIDE}old."  # prefix of a folder while another one replaces it
# A process that has written nothing for this long is considered dead.
DEAD_SECONDS = 24 * 3600.0


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there.

    Raises:
        Failure: it cannot be written. An existing file stays.

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
    """A free name beside ``path`` for a file or a folder that replaces it at the end.

    Contents written there get the name ``path`` when the block ends, and replace an existing file
    or folder. If the block raises, they are removed and the existing file stays. Missing parents
    are made, and remains of killed processes beside ``path`` are removed. If several processes
    write the same file, the last one wins.

    Raises:
        Failure: it cannot be written. Any OSError in the block also becomes a Failure.
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
                os.fsync(file.fileno())  # the contents must reach the disk before the name
            os.replace(aside, path)
    except OSError as problem:
        raise Failure(f"cannot write {path}: {reason(problem)}") from None
    finally:
        remove(aside)


def _replace_folder(aside: Path, path: Path) -> None:
    """Replace a folder. No system does it in one step, so the old one is moved away first.

    If the process is killed in between, :func:`recover` restores it.
    """
    recover(path.parent)
    if path.is_dir():
        os.rename(path, path.with_name(f"{OLD}{path.name}"))
    try:
        os.replace(aside, path)
    finally:
        recover(path.parent)


def recover(folder: Path) -> None:
    """Restore the names of folders that were moved away, or remove them if the name is taken."""
    for old in folder.glob(f"{OLD}*"):
        path = folder / old.name.removeprefix(OLD)
        with suppress(OSError):  # another process already does it
            if path.exists():
                gone = beside(path)
                os.rename(old, gone)  # so that nobody takes it for a whole folder meanwhile
                remove(gone)
            else:
                os.rename(old, path)


def remove(path: Path) -> None:
    """Remove a file or folder if it exists. If that fails, it stays for :func:`clean`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def reason(problem: OSError) -> str:
    """The system's error message, in one line."""
    return " ".join(str(problem.strerror or problem).split())


def require_writable(folder: Path, instead: str = "FEDLIB_DATA") -> None:
    """Raise early if results could not be stored: try to write in a folder, and leave nothing.

    Args:
        folder: need not exist yet. Then the folder where it would be made is tried.
        instead: the variable that sets another folder, for the error.

    Raises:
        Error: nothing can be written there.
    """
    parent = folder.absolute()
    try:
        while not (parent.exists() or parent.is_symlink()):
            parent = parent.parent
        with tempfile.TemporaryFile(dir=parent) as file:  # without a name, on systems that allow it
            file.write(b"0")
            file.flush()
    except OSError as problem:
        why = f"{reason(problem)}; nothing has been done. Name another folder by {instead}"
        raise Error(f"cannot write in {folder}: {why}") from None


@functools.cache
def clean(folder: Path) -> None:
    """Remove remains of killed processes directly in a folder, after :func:`recover`. Done once per
    process, as a folder may hold thousands of runs.
    """
    recover(folder)
    for aside in folder.glob(f"{ASIDE}*"):
        with suppress(OSError):  # it is changing right now
            latest = max(path.lstat().st_mtime for path in (aside, *aside.rglob("*")))
            if time.time() - latest > DEAD_SECONDS:
                remove(aside)


def beside(path: Path) -> Path:
    """A free temporary name beside a path, see above."""
    return path.with_name(f"{ASIDE}{secrets.token_hex(8)}.{path.name}")
