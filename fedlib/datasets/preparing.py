"""From an official source to a prepared data set: space, download, check, unpack, read, store."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from http.client import HTTPException
from pathlib import Path
from typing import Any

import torch.hub

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets import store
from fedlib.datasets.catalogue import CATALOGUE, SOURCES, File, Source
from fedlib.errors import Error, Failure, first_line, unknown

# How long a server may say nothing.
SECONDS = 60.0


@checked
def prepare(
    name: str,
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Download a data set from its official source, check it, and store it as arrays with a card.

    The files come to ``<data root>/raw/<name>/``. A file that is there is not downloaded again, and
    nothing is read before its SHA-256 has been found right.

    Args:
        name: one of ``SOURCES``.
        data_root: default ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.
        from_folder: a folder with the official files, downloaded by hand, in place of a download.
        progress: show progress bars.

    Returns:
        The new card.

    Raises:
        Error: a mistake in what is asked.
        Failure: no network, no space, or a file that is not the official one. Nothing has been
            stored then.
    """
    if name not in SOURCES:
        other = "import a copy of another with 'fedlib data import NAME FILE', see data/README.md"
        raise Error(f"{unknown('data set to prepare', name, SOURCES)}; {other}")
    wanted = SOURCES[name]
    given = None if from_folder is None else Path(from_folder)
    if given is not None and not given.is_dir():
        raise Error(f"there is no folder {given}")
    store.require_new(name, data_root, overwrite)
    root = paths.data_root(data_root)
    raw = root / "raw" / name
    try:
        raw.mkdir(parents=True, exist_ok=True)
        files.clean(raw)
        missing = [file.size for file in wanted.files if not (raw / file.name).exists()]
        needed = {
            "to download": sum(missing) if given is None else 0,
            "unpacked": wanted.unpacked,
            "prepared": wanted.prepared,
        }
        _require_space(root, needed)
        fetched = [fetch(file, raw, given, progress) for file in wanted.files]
        unpacked = files.beside(raw / "unpacked")
        try:
            readable = _readable(wanted, fetched, unpacked)
            with store.writing(name, data_root, overwrite) as folder:
                made = _made(name, readable, folder, progress)
                card = store.write_card(folder, {**_about(name, wanted), **made})
        finally:
            files.remove(unpacked)
    except OSError as error:
        raise Failure(f"cannot write in {raw}: {files.reason(error)}") from None
    return card


def _made(name: str, readable: dict[str, Path], folder: Path, progress: bool) -> dict[str, Any]:
    """What the official files become; their SHA-256 was right, so they should be as expected."""
    from fedlib.datasets.writers import WRITERS  # with h5py, which nothing else needs

    try:
        return WRITERS[name](readable, folder, progress)
    except Exception as error:
        if isinstance(error, Error) or getattr(error, "errno", None):  # the latter: a full disk
            raise
        what = f"{type(error).__name__}, {first_line(error)}"
        raise Failure(f"the official files of {name!r} are not as fedlib expects: {what}") from None


def _require_space(folder: Path, needed: dict[str, int]) -> None:
    """Refuse to begin what will not fit: bytes by what they are for."""
    free, total = shutil.disk_usage(folder).free, sum(needed.values())
    if total > free:
        parts = ", ".join(f"{size / 1e6:,.1f} MB {what}" for what, size in needed.items() if size)
        what = f"about {total / 1e6:,.1f} MB needed ({parts}), {free / 1e6:,.1f} MB free"
        raise Failure(f"not enough space in {folder}: {what}")


def _readable(source: Source, fetched: list[Path], unpacked: Path) -> dict[str, Path]:
    """The files to read by name: the downloaded ones, or what is in these archives.

    Of a tar, Python's ``data`` filter refuses members that would leave the folder, links to
    elsewhere and devices; a zip's members that would leave the folder are passed over.

    Raises:
        Failure: an archive is damaged or not safe, or lacks a file; or there is no space.
    """
    if not source.members:
        return {path.name: path for path in fetched}
    for archive in fetched:
        safely: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
        try:
            shutil.unpack_archive(archive, unpacked, **safely)
        except Exception as error:  # whatever a damaged archive makes the readers raise
            raise Failure(f"{archive.name} cannot be unpacked: {first_line(error)}") from None
    readable = {path.name: path for path in unpacked.rglob("*") if path.is_file()}
    missing = [member for member in source.members if member not in readable]
    if missing:
        archives = ", ".join(path.name for path in fetched)
        raise Failure(f"there is no {missing[0]} in {archives}")
    return readable


def _about(name: str, source: Source) -> dict[str, Any]:
    """The part of the card that does not depend on what is in the files."""
    known, hash_from = CATALOGUE[name], {"sha256_from": source.hash_from}
    fetched = [
        {"name": file.name, "url": file.urls[0], "sha256": file.sha256} | hash_from
        for file in source.files
    ]
    return {**known.origin(), "source": source.origin or known.source, "files": fetched}


# ------------------------------------------------------------------------------------- downloads


def fetch(file: File, folder: Path, from_folder: Path | None = None, progress: bool = True) -> Path:
    """A file of an official source, checked.

    Args:
        file: which one.
        folder: an existing folder; a file that lies there already is checked again and used.
        from_folder: take the file from here instead.
        progress: show a progress bar.

    Returns:
        Where the file is.

    Raises:
        Error: ``from_folder`` lacks the file.
        Failure: it cannot be downloaded, or its SHA-256 is wrong.
    """
    path = (folder if from_folder is None else Path(from_folder)) / file.name
    if from_folder is None and not path.exists():
        _download(file, path, progress)
        return path
    if not path.is_file():
        raise Error(f"there is no {file.name} in {from_folder}; it comes from {file.urls[0]}")
    with open(path, "rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 != file.sha256:
        what = f"{path} has SHA-256 {sha256}, expected {file.sha256}: nothing was prepared"
        raise Failure(f"{what}; remove it, it comes from {file.urls[0]}")
    return path


def _download(file: File, path: Path, progress: bool) -> None:
    """Get the file with its SHA-256 at the first of its addresses that has it."""
    reasons: dict[str, str] = {}
    aside, waits = files.beside(path), socket.getdefaulttimeout()
    for url in file.urls:
        socket.setdefaulttimeout(SECONDS)
        try:
            torch.hub.download_url_to_file(url, str(aside), file.sha256, progress)
            os.replace(aside, path)
            return
        except (OSError, HTTPException, RuntimeError) as error:  # the last: another SHA-256
            reasons[url] = first_line(error)
        finally:
            socket.setdefaulttimeout(waits)
            files.remove(aside)
    tried = "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
    other = "try again, or download it by hand and give its folder with --from"
    raise Failure(f"cannot download {tried}: nothing was prepared; {other}")
