"""From an official source to a prepared data set: space, download, check, unpack, read, store."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm.auto import tqdm

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets import store
from fedlib.datasets.catalogue import CATALOGUE, SOURCES, File, Source, source
from fedlib.errors import Error, Failure, first_line, unknown

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_TIMEOUT = 60  # seconds to connect, and between two pieces
_ATTEMPTS = 3  # at each address
_WAIT = 1.0  # seconds before the second attempt; doubled for the third


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
        name: one of ``SOURCES``.
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
        raise unknown("data set to prepare", name, SOURCES)
    wanted = source(name)
    given = None if from_folder is None else Path(from_folder)
    if given is not None and not given.is_dir():
        raise Error(f"there is no folder {given}")
    store.require_new(name, data_root, overwrite)
    root = paths.data_root(data_root)
    raw = root / "raw" / name
    with _working_in(raw, name):
        missing = [file.size for file in wanted.files if not (raw / file.name).exists()]
        needed = {
            "to download": sum(missing) if given is None else 0,
            "unpacked": wanted.unpacked,
            "prepared": wanted.prepared,
        }
        _require_space(root, needed)
        fetched = [fetch(file, raw, given, progress) for file in wanted.files]
        unpacked = raw / "unpacked"
        files.remove(unpacked)
        try:
            readable = _readable(wanted, fetched, unpacked)
            with store.writing(name, data_root, overwrite) as folder:
                made = _made(name, readable, folder, progress)
                card = store.write_card(folder, {**_about(name, wanted), **made})
        finally:
            files.remove(unpacked)
        if not keep_raw and given is None:
            for path in fetched:
                path.unlink()
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
        what = f"about {total / 1e6:,.1f} MB needed ({parts}), {free / 1e6:,.1f} MB free"
        raise Failure(f"not enough space in {folder}: {what}")


def _readable(source: Source, fetched: list[Path], unpacked: Path) -> dict[str, Path]:
    """The files to read by name: the downloaded ones, or what is needed of their contents."""
    if not source.members:
        return {path.name: path for path in fetched}
    unpacked.mkdir()
    readable: dict[str, Path] = {}
    for path in fetched:
        readable |= unpack(path, unpacked)
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

    A download grows as ``<name>.part`` in ``folder`` and goes on from there after a break, if the
    server can (HTTP Range). Only a file with the right SHA-256 gets its name; one with a wrong
    SHA-256 is put aside as ``<name>.wrong``.

    Args:
        file: which one.
        folder: an existing folder; a file that lies there already is checked again and used.
        from_folder: take the file from here instead, and leave it there.
        progress: show a progress bar.

    Returns:
        Where the file is.

    Raises:
        Error: ``from_folder`` lacks the file.
        Failure: it cannot be downloaded, or its SHA-256 is wrong.
    """
    path = (folder if from_folder is None else Path(from_folder)) / file.name
    if from_folder is not None and not path.is_file():
        raise Error(f"there is no {file.name} in {from_folder}; it comes from {file.urls[0]}")
    if not path.exists():
        part = folder / f"{file.name}.part"
        _download(file, part, progress)
        os.replace(part, path)
    with open(path, "rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 == file.sha256:
        return path
    wrong = f"{path} has SHA-256 {sha256}, expected {file.sha256}: nothing was prepared"
    if from_folder is not None:
        raise Failure(wrong)
    aside = folder / f"{file.name}.wrong"
    os.replace(path, aside)
    kept = f"it is kept as {aside}, and the next run downloads it from {file.urls[0]} again"
    raise Failure(f"{wrong}; {kept}")


def _download(file: File, part: Path, progress: bool) -> None:
    """Get the file at one of its addresses, each asked a few times."""
    reasons: dict[str, str] = {}
    for attempt in range(_ATTEMPTS):
        for url in file.urls:
            try:
                return _transfer(url, file, part, progress)
            except (OSError, HTTPException) as error:
                reasons[url] = first_line(error)
        if attempt < _ATTEMPTS - 1:
            time.sleep(_WAIT * 2**attempt)
    tried = "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
    kept = f"{part.stat().st_size} bytes are kept and " if part.exists() else ""
    other = "or download it by hand and give its folder with --from"
    raise Failure(f"cannot download {tried}: {kept}the next run goes on from there, {other}")


def _transfer(url: str, file: File, part: Path, progress: bool) -> None:
    """Append to ``part`` what is still lacking; OSError if the server breaks off."""
    begin = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "fedlib"} | ({"Range": f"bytes={begin}-"} if begin else {})
    try:
        answer = urlopen(Request(url, headers=headers), timeout=_TIMEOUT)
    except HTTPError as error:
        if error.code == 416:  # nothing is left to send; whether it is the file, its SHA-256 says
            return
        raise
    goes_on = answer.status == 206  # else it begins again
    length = int(answer.headers.get("Content-Length", -1))
    bar: dict[str, Any] = {"desc": file.name, "leave": False, "disable": not progress}
    with answer, open(part, "ab" if goes_on else "wb") as out:
        start = out.tell()
        with tqdm.wrapattr(out, "write", total=file.size, initial=start, **bar) as counted:
            shutil.copyfileobj(answer, counted, 1 << 17)
        if length >= 0 and out.tell() - start != length:
            raise OSError(f"broke off after {out.tell()} of {start + length} bytes")


def unpack(archive: Path, folder: Path) -> dict[str, Path]:
    """Unpack a tar or a zip; its suffix says which.

    Of a tar, Python's ``data`` filter refuses members that would leave the folder, links to
    elsewhere and devices; a zip's members that would leave the folder are passed over.

    Returns:
        The unpacked files by name, without folders.

    Raises:
        Failure: the archive is damaged or not safe, or there is no space.
    """
    safely: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
    try:
        shutil.unpack_archive(archive, folder, **safely)
    except Exception as error:  # whatever a damaged archive makes the readers raise
        raise Failure(f"{archive.name} cannot be unpacked: {first_line(error)}") from None
    return {path.name: path for path in folder.rglob("*") if path.is_file()}
