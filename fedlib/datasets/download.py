"""Downloads that go on where they broke off, and are used only if their SHA-256 is right."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm.auto import tqdm

from fedlib.datasets.sources import File
from fedlib.errors import Error, Failure, first_line

_TIMEOUT = 60  # seconds to connect, and between two pieces
_ATTEMPTS = 3  # at each address
_WAIT = 1.0  # seconds before the second attempt; doubled for the third


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
    raise Failure(
        f"{wrong}; it is kept as {aside}, and the next run downloads it from {file.urls[0]} again"
    )


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
    raise Failure(
        f"cannot download {tried}: {kept}the next run goes on from there, or download it by hand "
        "and give its folder with --from"
    )


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
