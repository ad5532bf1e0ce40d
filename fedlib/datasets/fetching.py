"""Files from others: downloaded or from a folder, and read only if their SHA-256 is right.

The folder of raw files and a folder that a user gives have the same form. An official file is in
``<data set>/``, or directly in the user's folder. The files of a repository ``owner/name`` are, by
their paths, in ``owner+name/``, ``owner/name/``, ``name/`` or ``name-<commit>/``, or below the one
folder in an archive of the same name with ``.tar.gz``.
"""

import hashlib
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from fedlib import files
from fedlib.datasets.catalogue import File, Repository
from fedlib.errors import Failure, first_line

# Seconds to wait for a silent server.
SECONDS = 60.0
_PIECE = 1 << 20
Contents = dict[str, bytes]  # contents of a repository's files, by path
Advance = Callable[[int], Any]  # gets the number of bytes that are done


class Absent(Failure):
    """A file is not there: not in the user's folder, or at none of its addresses."""


@dataclass(frozen=True)
class Shelf:
    """The folders of files.

    Attributes:
        raw: a folder for downloads.
        given: the user's folder. If it is set, nothing is downloaded.
        advance: called with the bytes that were downloaded, or read from an existing file.
    """

    raw: Path
    given: Path | None = None
    advance: Advance = lambda count: None

    def missing(self, wanted: Sequence[File], folder: str = "") -> list[File]:
        """The files that are still to be downloaded into a folder of the raw files."""
        if self.given is not None:
            return []
        return [file for file in wanted if not (self.raw / folder / file.name).exists()]

    def official(self, data: str, file: File) -> Path:
        """An official file of a data set, checked.

        Raises:
            Absent: the user's folder lacks it, or it cannot be downloaded.
            Failure: its SHA-256 is wrong.
        """
        path = (self.given or self.raw) / data / file.name
        if self.given is not None and not path.is_file():
            path = self.given / file.name
            if not path.is_file():
                raise Absent(
                    f"there is no {file.name} in {self.given}: it comes from {file.urls[0]}"
                )
        elif not path.exists():
            download(file, path, self.advance)
            return path
        with open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if sha256 != file.sha256:
            raise _other(str(path), sha256, file)
        self.advance(file.size)
        return path

    def repository(self, source: Repository) -> Contents:
        """The files that a recipe takes from a repository, checked.

        Raises:
            Absent: the user's folder lacks them, or they cannot be downloaded.
            Failure: their SHA-256 is wrong.
        """
        missing = self.missing(source.downloads())
        for file in missing:
            download(file, self.raw / file.name, self.advance)
        place = _place(self.given or self.raw, source)
        contents = _tree(place, source) if source.tree else _listed(place, source)
        self.advance(source.size - sum(file.size for file in missing))
        return contents


def _other(what: str, sha256: str, file: File) -> Failure:
    """The error for a file with the wrong SHA-256."""
    wrong = f"{what} has SHA-256 {sha256}, expected {file.sha256}: nothing was prepared"
    return Failure(f"{wrong}. Remove it, it comes from {file.urls[0]}")


# ---------------------------------------------------------------------------------- repositories


def _place(folder: Path, source: Repository) -> Path:
    """The folder or archive of a repository in a folder of raw files."""
    owner, name = source.repo.split("/")
    stems = (f"{owner}+{name}", source.repo, f"{name}-{source.commit}", name)
    for path in (folder / f"{stem}{ending}" for stem in stems for ending in ("", ".tar.gz")):
        if path.exists():
            return path
    ways = f"a folder {stems[0]} with its files, or {stems[0]}.tar.gz"
    raise Absent(f"there is no {source.repo} in {folder}: put there {ways} from {source.archive}")


def _listed(place: Path, source: Repository) -> Contents:
    """The listed files of a repository."""
    files = dict(zip([file.name for file in source.files], source.downloads(), strict=True))
    found = dict(_members(place, "|".join(map(re.escape, files))))
    for path, file in files.items():
        if path not in found:
            what = f"there is no {path} in {place}: it comes from {file.urls[0]}"
            raise Absent(f"{what}, of the commit {source.commit}")
        if (sha256 := hashlib.sha256(found[path]).hexdigest()) != file.sha256:
            raise _other(f"{path} in {place}", sha256, file)
    return {path: found[path] for path in files}


def _tree(place: Path, source: Repository) -> Contents:
    """The many files of a repository."""
    tree = source.tree
    assert tree is not None
    found: Contents = {}
    size = 0
    for path, content in _members(place, tree.pattern):
        found[path] = content
        size += len(content)
        if size > tree.bytes:  # so that no archive, however small, can fill the memory
            break
    order = sorted(found, key=str.encode)
    lines = (f"{hashlib.sha256(found[path]).hexdigest()}  {path}\n" for path in order)
    if hashlib.sha256("".join(lines).encode()).hexdigest() != tree.sha256:
        what = f"{place} has {len(found):,} files {tree.pattern!r} that are not the {tree.files:,}"
        why = f"of the commit {source.commit} of {source.repo}: nothing was prepared"
        raise Failure(f"{what} {why}. Remove it, it comes from {source.archive}")
    return {path: found[path] for path in order}


def _members(place: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files in a folder, or below the one in an archive, whose path matches
    a regular expression.
    """
    try:
        if place.is_dir():
            for path in place.rglob("*"):
                name = path.relative_to(place).as_posix()
                if re.fullmatch(pattern, name) and path.is_file():
                    yield name, path.read_bytes()
            return
        with tarfile.open(place, "r|gz") as tar:
            for member in tar:
                match = re.fullmatch(f"[^/]*/({pattern})", member.name)
                if match and (content := tar.extractfile(member)):
                    yield match[1], content.read()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise Failure(f"{place} cannot be read: {first_line(error)}. Remove it") from None


# ------------------------------------------------------------------------------------- downloads


def download(file: File, path: Path, advance: Advance = lambda count: None) -> None:
    """Get a file at the first of its addresses that has it.

    If the connection breaks, the received bytes stay beside the file as ``.part``, and the next
    download continues there if the server can.

    Raises:
        Absent: no address has it, or the received file has another SHA-256.
    """
    reasons: dict[str, str] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for url in file.urls:
        try:
            sha256 = _receive(url, part, advance)
        except (OSError, HTTPException, ValueError) as error:
            if getattr(error, "code", None) == 416:  # the partial file was complete
                files.remove(part)
            reasons[url] = first_line(error)
            continue
        if sha256 == file.sha256 or not file.sha256:
            os.replace(part, path)
            return
        files.remove(part)
        reasons[url] = f"the received file has SHA-256 {sha256}, expected {file.sha256}"
    tried = ", ".join(f"{url}: {reason}" for url, reason in reasons.items())
    other = "Try again, or download it by hand and give its folder with --from"
    raise Absent(f"cannot download {tried}: nothing was prepared. {other}")


def _receive(url: str, part: Path, advance: Advance) -> str:
    """Download into a file, continuing at its end if the server can. Returns its SHA-256."""
    start, digest = part.stat().st_size if part.exists() else 0, hashlib.sha256()
    headers = {"User-Agent": "fedlib"} | ({"Range": f"bytes={start}-"} if start else {})
    with urlopen(Request(url, headers=headers), timeout=SECONDS) as answer:
        if start and answer.status == 206:
            with open(part, "rb") as stream:
                digest = hashlib.file_digest(stream, "sha256")
            advance(start)
        else:
            start = 0
        expected = start + int(answer.headers.get("Content-Length") or 0)
        with open(part, "ab" if start else "wb") as stream:
            while piece := answer.read(_PIECE):
                stream.write(piece)
                digest.update(piece)
                advance(len(piece))
            received = stream.tell()
    if answer.headers.get("Content-Length") and received < expected:
        raise OSError(f"the connection broke after {received:,} of {expected:,} bytes")
    return digest.hexdigest()
