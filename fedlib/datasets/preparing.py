"""From an official source to a prepared data set: space, download, check, unpack, read, store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets import download, originals, sources, store
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.errors import Error, Failure, first_line, unknown

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@checked
def prepare(
    name: str,
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    keep_raw: bool = True,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Download a data set from its official source, check it, and store it as arrays with a card.

    The files come to ``<data root>/raw/<name>/``. A download that broke off goes on where it
    stopped, a file that is there is not downloaded again, and nothing is read before its SHA-256
    has been found right.

    Args:
        name: one of ``sources.SOURCES``.
        data_root: default ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.
        keep_raw: keep the downloaded files, for the next time.
        from_folder: a folder with the official files, downloaded by hand, in place of a download.
        progress: show progress bars.

    Returns:
        The new card.

    Raises:
        Error: a mistake in what is asked.
        Failure: no network, no space, or a file that is not the official one. Nothing has been
            stored then.
    """
    if name not in CATALOGUE:
        raise unknown("data set to prepare", name, sources.SOURCES)
    source = sources.source(name)
    writer = _writer(name)
    given = None if from_folder is None else Path(from_folder)
    if given is not None and not given.is_dir():
        raise Error(f"there is no folder {given}")
    store.require_new(name, data_root, overwrite)
    root = paths.data_root(data_root)
    raw = root / "raw" / name
    with _working_in(raw, name):
        missing = [file.size for file in source.files if not (raw / file.name).exists()]
        needed = {
            "to download": sum(missing) if given is None else 0,
            "unpacked": source.unpacked,
            "prepared": source.prepared,
        }
        _require_space(root, needed)
        fetched = [download.fetch(file, raw, given, progress) for file in source.files]
        unpacked = raw / "unpacked"
        files.remove(unpacked)
        try:
            readable = _readable(source, fetched, unpacked)
            with store.writing(name, data_root, overwrite) as folder:
                made = _made(name, writer, readable, folder, progress)
                card = store.write_card(folder, {**_about(name, source), **made})
        finally:
            files.remove(unpacked)
        if not keep_raw and given is None:
            for path in fetched:
                path.unlink()
    return card


def _made(
    name: str, writer: originals.Writer, readable: originals.Files, folder: Path, progress: bool
) -> dict[str, Any]:
    """What the official files become; their SHA-256 was right, so they should be as expected."""
    try:
        return writer(readable, folder, progress)
    except Exception as error:
        if isinstance(error, Error) or getattr(error, "errno", None):  # the latter: a full disk
            raise
        what = f"{type(error).__name__}, {first_line(error)}"
        raise Failure(f"the official files of {name!r} are not as fedlib expects: {what}") from None


def _writer(name: str) -> originals.Writer:
    """What makes arrays of the files of a data set."""
    if name in originals.WRITERS:
        return originals.WRITERS[name]
    from fedlib.datasets import tff

    return tff.WRITERS[name]


@contextmanager
def _working_in(raw: Path, name: str) -> Iterator[None]:
    """The raw folder, made if need be, for one process at a time; an empty one is removed again.

    Where the system can lock. A killed process leaves no lock behind.
    """
    try:
        with files.making(raw), ExitStack() as stack:
            if fcntl is not None:
                handle = os.open(raw, os.O_RDONLY)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise Failure(f"another process is preparing {name!r} in {raw}") from None
    except OSError as error:
        raise Failure(f"cannot write in {raw}: {files.reason(error)}") from None


def _require_space(folder: Path, needed: dict[str, int]) -> None:
    """Refuse to begin what will not fit: bytes by what they are for."""
    free, total = shutil.disk_usage(folder).free, sum(needed.values())
    if total > free:
        parts = ", ".join(f"{size / 1e6:,.1f} MB {what}" for what, size in needed.items() if size)
        raise Failure(
            f"not enough space in {folder}: about {total / 1e6:,.1f} MB needed ({parts}), "
            f"{free / 1e6:,.1f} MB free"
        )


def _readable(source: sources.Source, fetched: list[Path], unpacked: Path) -> dict[str, Path]:
    """The files to read by name: the downloaded ones, or what is needed of their contents."""
    if not source.members:
        return {path.name: path for path in fetched}
    unpacked.mkdir()
    readable: dict[str, Path] = {}
    for path in fetched:
        readable |= download.unpack(path, unpacked)
    missing = [member for member in source.members if member not in readable]
    if missing:
        archives = ", ".join(path.name for path in fetched)
        raise Failure(f"there is no {missing[0]} in {archives}")
    return readable


def _about(name: str, source: sources.Source) -> dict[str, Any]:
    """The part of the card that does not depend on what is in the files."""
    fetched = [
        {"name": file.name, "url": file.urls[0]}
        | {"sha256": file.sha256, "sha256_from": source.hash_from}
        for file in source.files
    ]
    known = CATALOGUE[name]
    return {**known.origin(), "source": source.origin or known.source, "files": fetched}
