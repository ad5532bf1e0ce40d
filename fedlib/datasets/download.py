"""Downloads that go on where they broke off, and are used only if their SHA-256 is right."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tqdm.auto import tqdm

from fedlib.datasets.sources import File
from fedlib.errors import Error, Failure

_PIECE = 1 << 17
_TIMEOUT = (15, 60)  # seconds to connect, and between two pieces
_ATTEMPTS = 4  # in a row that bring nothing new
_WAIT = 1.0  # seconds before the second attempt; doubled each time
_NO_NAME = "the server's name is not known here (no network?)"


class _Refused(Exception):
    """The server's answer will not change by asking again."""


class _Broken(Exception):
    """The transfer failed on its way; asking again may help."""


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
    if from_folder is not None:
        given = Path(from_folder) / file.name
        if not given.is_file():
            raise Error(f"there is no {file.name} in {from_folder}; it comes from {file.urls[0]}")
        if wrong := _wrong_hash(given, file):
            raise Failure(f"{given} has {wrong}: nothing was prepared")
        return given
    target, part = folder / file.name, folder / f"{file.name}.part"
    if not target.exists():
        _download(file, part, progress)
        _check(part, folder, file)
        os.replace(part, target)
    else:
        _check(target, folder, file)
    return target


def missing_bytes(file: File, folder: Path) -> int:
    """How much of a file is still to be downloaded; rough where its size is not known."""
    if (folder / file.name).exists():
        return 0
    return max(0, file.size - _size(folder / f"{file.name}.part"))


def require_space(folder: Path, needed: dict[str, int]) -> None:
    """Refuse to begin what will not fit.

    Args:
        folder: where it will be written; need not exist yet.
        needed: bytes by what they are for.

    Raises:
        Failure: less is free than is needed in all.
    """
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free, total = shutil.disk_usage(there).free, sum(needed.values())
    if total > free:
        parts = ", ".join(f"{_gigabytes(size)} {what}" for what, size in needed.items() if size)
        raise Failure(
            f"not enough space in {folder}: about {_gigabytes(total)} needed ({parts}), "
            f"{_gigabytes(free)} free"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 10**8 else f"{size / 1e6:.1f} MB"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _wrong_hash(path: Path, file: File) -> str:
    """The SHA-256 of a file and the expected one in words, or nothing if they are equal."""
    with open(path, "rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return "" if sha256 == file.sha256 else f"SHA-256 {sha256}, expected {file.sha256}"


def _check(path: Path, folder: Path, file: File) -> None:
    if wrong := _wrong_hash(path, file):
        aside = folder / f"{file.name}.wrong"
        os.replace(path, aside)
        raise Failure(
            f"{file.name} has {wrong}: nothing was prepared; it is kept as {aside}, and the next "
            f"run downloads it from {file.urls[0]} again"
        )


# ------------------------------------------------------------------------------------- transfers


def _download(file: File, part: Path, progress: bool) -> None:
    reasons = []
    for url in file.urls:
        try:
            _from_url(url, file, part, progress)
            return
        except (_Refused, _Broken) as error:
            reasons.append(f"{url}: {error}")
    kept = (
        f"{_size(part)} bytes are kept and the next run goes on from there" if _size(part) else ""
    )
    by_hand = "or download it by hand and give its folder with --from"
    raise Failure(
        f"cannot download {'; '.join(reasons)}: {kept or 'try again with a network'}, {by_hand}"
    )


def _from_url(url: str, file: File, part: Path, progress: bool) -> None:
    """Transfer until the file is whole; give up after some attempts that bring nothing new."""
    failed, furthest = 0, _size(part)
    while True:
        try:
            _transfer(url, file, part, progress)
            return
        except _Broken:
            failed = 1 if _size(part) > furthest else failed + 1
            furthest = max(furthest, _size(part))
            if failed >= _ATTEMPTS:
                raise
            time.sleep(_WAIT * 2 ** (failed - 1))


def _transfer(url: str, file: File, part: Path, progress: bool) -> None:
    if file.exact and part.exists():
        if _size(part) == file.size:
            return
        if _size(part) > file.size:
            part.unlink()
    with _opened(url, _size(part)) as (begin, total, pieces):
        if file.exact and total not in (None, file.size):
            raise _Refused(f"it offers {total} bytes, the official file has {file.size}")
        with (
            open(part, "r+b" if part.exists() else "wb") as out,
            tqdm(
                desc=file.name,
                total=total or file.size,
                initial=begin,
                unit="B",
                unit_scale=True,
                leave=False,
                disable=not progress,
            ) as bar,
        ):
            out.seek(begin)
            out.truncate()
            for piece in pieces:
                out.write(piece)
                bar.update(len(piece))
    if total is not None and _size(part) != total:
        raise _Broken(f"broke off after {_size(part)} of {total} bytes")


@contextmanager
def _opened(url: str, start: int) -> Iterator[tuple[int, int | None, Iterator[bytes]]]:
    """(where the body begins, size of the whole file or None, pieces of the body)."""
    if urlsplit(url).scheme == "file":
        path = Path(url2pathname(urlsplit(url).path))
        if not path.is_file():
            raise _Refused("there is no such file")
        with open(path, "rb") as stream:
            begin = min(start, _size(path))
            stream.seek(begin)
            yield begin, _size(path), iter(lambda: stream.read(_PIECE), b"")
        return
    import requests
    import urllib3

    # Without identity a server may compress what it sends, and its bytes are not the file's then.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            begin, total = _placed(answer, start)
            yield begin, total, answer.raw.stream(_PIECE, decode_content=False)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        reason = _reason(error)
        raise (_Refused if reason == _NO_NAME else _Broken)(reason) from None


def _placed(answer: Any, start: int) -> tuple[int, int | None]:
    """Where the body of an answer begins, and the size of the whole file."""
    status, headers = answer.status_code, answer.headers
    if status == 200:
        length = headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    given = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
    if status == 206 and given and int(given[1]) == start:
        return start, int(given[2]) if given[2].isdecimal() else None
    if status == 416 and headers.get("Content-Range") == f"bytes */{start}":
        return start, start  # Nothing is left to send.
    if status in (408, 429) or status >= 500:
        raise _Broken(f"the server answers {status} {answer.reason}")
    raise _Refused(f"the server answers {status} {answer.reason}")


def _reason(error: Exception) -> str:
    """What went wrong in a few words; the libraries' own messages run over several lines."""
    causes = repr(error)  # Those inside it are in there by their classes' names.
    for words, signs in (
        (_NO_NAME, ("NameResolutionError",)),
        ("the certificate is refused", ("SSLError",)),
        ("a proxy refuses", ("ProxyError",)),
        ("no answer in time", ("ConnectTimeout", "ReadTimeout")),
        ("broke off", ("IncompleteRead", "ProtocolError")),
        ("no connection", ("NewConnectionError", "ConnectionError")),
    ):
        if any(sign in causes for sign in signs):
            return words
    return " ".join(causes.split())[:100]
