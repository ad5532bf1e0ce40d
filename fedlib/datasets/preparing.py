"""From an official source to a prepared data set: space, download, check, unpack, read, store."""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedlib import paths
from fedlib.datasets import download, originals, sources, store
from fedlib.datasets.catalogue import ENTRIES
from fedlib.datasets.unpack import unpack
from fedlib.errors import Error, Failure, unknown


def prepare(
    name: str,
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    keep_raw: bool = True,
    from_folder: str | os.PathLike[str] | None = None,
    form: str | None = None,
    sha256: str | None = None,
    progress: bool = True,
    **options: Any,
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
        form: ``"hdf5"`` (default) or ``"sqlite"`` for the federated data sets.
        sha256: of a file for which none has been published.
        progress: show progress bars.
        **options: ``sent140``: ``min_tweets`` and ``train_fraction``.

    Returns:
        The new card.

    Raises:
        Error: a mistake in what is asked.
        Failure: no network, no space, or a file that is not the official one. Nothing has been
            stored then.
    """
    if name not in ENTRIES:
        raise unknown("data set to prepare", name, sources.SOURCES)
    chosen, source = sources.source(name, form)
    writer = _writer(name)
    _check_options(name, writer, options)
    given = None if from_folder is None else Path(from_folder)
    if given is not None and not given.is_dir():
        raise Error(f"there is no folder {given}")
    _check_sha256(source, sha256)
    hashes = {file.name: download.expected_hash(file, sha256) for file in source.files}
    store.require_new(name, data_root, overwrite)
    root = paths.data_root(data_root)
    raw = root / "raw" / name
    with _working_in(raw, name):
        left = sum(download.missing_bytes(file, raw) for file in source.files)
        needed = {
            "to download": left if given is None else 0,
            "unpacked": source.unpacked,
            "prepared": source.prepared,
        }
        download.require_space(root, needed)
        fetched = [download.fetch(file, raw, sha256, given, progress) for file in source.files]
        unpacked = raw / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        try:
            files = _readable(source, fetched, unpacked, progress)
            with store.writing(name, data_root, overwrite) as folder:
                card = _about(name, chosen, source, hashes)
                card |= writer(files, folder, progress, **options)
                card = store.write_card(folder, card)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        if not keep_raw and given is None:
            for path in fetched:
                path.unlink()
    return card


def _writer(name: str) -> Callable[..., dict[str, Any]]:
    """What makes arrays of the files of a data set."""
    if name in originals.WRITERS:
        return originals.WRITERS[name]
    from fedlib.datasets import tff

    if name == "emnist_digits":

        def digits(files: Mapping[str, Path], folder: Path, progress: bool) -> dict[str, Any]:
            card = tff.write_emnist(files, folder, progress)
            return {**card, "classes": list(ENTRIES[name].classes or ())}

        return digits
    return tff.WRITERS[name]


def _check_options(
    name: str, writer: Callable[..., dict[str, Any]], options: Mapping[str, Any]
) -> None:
    known = list(inspect.signature(writer).parameters)[3:]
    for option in options:
        if option not in known:
            raise unknown(f"option of data set {name}", option, known)


def _check_sha256(source: sources.Source, sha256: str | None) -> None:
    if sha256 is None:
        return
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise Error(f"sha256 is {sha256!r}; allowed: 64 of 0-9 and a-f")
    if all(file.sha256 for file in source.files):
        raise Error("sha256 is given, but the files of this data set have published ones")


@contextmanager
def _working_in(raw: Path, name: str) -> Iterator[None]:
    """The raw folder, made if need be, for one process at a time; an empty one is removed again."""
    made = [folder for folder in (raw, raw.parent, raw.parent.parent) if not folder.exists()]
    try:
        raw.mkdir(parents=True, exist_ok=True)
        with _locked(raw, name):
            yield
    except OSError as error:
        raise Failure(f"cannot write in {raw}: {error.strerror or error}") from None
    finally:
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def _locked(raw: Path, name: str) -> Iterator[None]:
    """Keep other processes out, where the system can; a killed process leaves no lock behind."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(raw, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another process is preparing {name!r} in {raw}") from None
        yield
    finally:
        os.close(handle)


def _readable(
    source: sources.Source, fetched: list[Path], unpacked: Path, progress: bool
) -> dict[str, Path]:
    """The files to read by name: the downloaded ones, or what is needed of their contents."""
    if not source.members:
        return {path.name: path for path in fetched}
    unpacked.mkdir()
    files: dict[str, Path] = {}
    for path in fetched:
        # Far above what is expected, which is an estimate for some; it stops an endless stream.
        limit = 4 * source.unpacked + 10**9
        files |= unpack(path, unpacked, source.members, limit, progress)
    missing = [member for member in source.members if member not in files]
    if missing:
        archives = ", ".join(path.name for path in fetched)
        raise Failure(f"there is no {missing[0]} in {archives}")
    return files


def _about(
    name: str, form: str | None, source: sources.Source, hashes: Mapping[str, str]
) -> dict[str, Any]:
    """The part of the card that does not depend on what is in the files."""
    entry = ENTRIES[name]
    return {
        "name": name,
        "title": entry.title,
        "about": entry.about,
        "source": source.origin or entry.source,
        "licence": entry.licence,
        "form": form,
        "files": [
            {
                "name": file.name,
                "url": file.urls[0],
                "sha256": hashes[file.name],
                "sha256_from": file.hash_from or "the user",
            }
            for file in source.files
        ],
    }
