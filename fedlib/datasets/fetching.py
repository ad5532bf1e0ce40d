"""Files of others: from their addresses or from a folder, and read only with the right SHA-256.

A folder of raw files, and one that a user gives, have the same form: an official file lies in
``<data set>/`` or directly there; of a repository ``owner/name`` the files lie, by their paths, in
``owner+name/``, ``owner/name/``, ``name/`` or ``name-<commit>/``, which may be a git clone, or the
same name with ``.tar.gz``, ``.tgz`` or ``.zip`` is an archive of them.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fedlib import files
from fedlib.datasets.catalogue import File, Repository
from fedlib.errors import Error, Failure, first_line

# How long a server may say nothing.
SECONDS = 60.0
ARCHIVES = ("", ".tar.gz", ".tgz", ".zip")
_PIECE = 1 << 20
Contents = dict[str, bytes]  # of a repository's files, by path
Advance = Callable[[int], Any]  # is told how many bytes are done


class NotDownloaded(Failure):
    """No address of a file has it."""


@dataclass(frozen=True)
class Shelf:
    """Where files come from and lie.

    Attributes:
        raw: an existing folder for what is downloaded.
        given: the user's folder; nothing is downloaded then.
        advance: called with bytes that are downloaded, or were there and are read.
    """

    raw: Path
    given: Path | None = None
    advance: Advance = lambda count: None

    def official(self, data: str, file: File) -> Path:
        """An official file of a data set, checked.

        Raises:
            Error: the user's folder lacks it.
            NotDownloaded: it cannot be downloaded.
            Failure: its SHA-256 is wrong.
        """
        if self.given is None:
            path = self.raw / data / file.name
            if not path.exists():
                download(file, path, self.advance)
                return path
        else:
            path = next(filter(Path.is_file, self._places(data, file)), Path())
            if path == Path():
                raise Error(
                    f"there is no {file.name} in {self.given}; it comes from {file.urls[0]}"
                )
        with open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        _require(sha256, file.sha256, str(path), file.urls[0])
        self.advance(file.size)
        return path

    def holds(self, data: str, file: File) -> bool:
        """Whether an official file lies in the user's folder."""
        return any(map(Path.is_file, self._places(data, file)))

    def _places(self, data: str, file: File) -> list[Path]:
        given = self.given or self.raw
        return [given / data / file.name, given / file.name]

    def missing(self, source: Repository) -> list[File]:
        """What is still to be downloaded of a repository."""
        if self.given is not None:
            return []
        return [file for file in source.downloads() if not (self.raw / file.name).exists()]

    def repository(self, source: Repository) -> Contents:
        """The files that a recipe takes from a repository, checked.

        Raises:
            Error: the user's folder lacks them.
            NotDownloaded: they cannot be downloaded.
            Failure: they are others.
        """
        fresh = 0
        for file in self.missing(source):
            download(file, self.raw / file.name, self.advance)
            fresh += file.size
        place = _place(self.given or self.raw, source)
        contents = _tree(place, source) if source.tree else _listed(place, source)
        self.advance(source.size - fresh)
        return contents


def _require(sha256: str, expected: str, what: str, address: str) -> None:
    if sha256 != expected:
        wrong = f"{what} has SHA-256 {sha256}, expected {expected}: nothing was prepared"
        raise Failure(f"{wrong}; remove it, it comes from {address}")


# ---------------------------------------------------------------------------------- repositories


def _place(folder: Path, source: Repository) -> Path:
    """The folder, clone or archive of a repository in a folder of raw files."""
    owner, name = source.repo.split("/")
    stems = (f"{owner}+{name}", source.repo, f"{name}-{source.commit}", name)
    for stem in stems:
        for ending in ARCHIVES:
            if (folder / f"{stem}{ending}").exists():
                return folder / f"{stem}{ending}"
    ways = f"a folder {stems[0]} with its files, a clone, or {stems[0]}.tar.gz"
    raise Error(f"there is no {source.repo} in {folder}: put there {ways} from {source.archive}")


def _listed(place: Path, source: Repository) -> Contents:
    """The listed files of a repository."""
    found = {}
    wanted = {file.path: file for file in source.files}
    if place.is_dir() and not _git(place, source):
        found = {path: (place / path).read_bytes() for path in wanted if (place / path).is_file()}
    else:
        names = "|".join(map(re.escape, wanted))
        found = dict(_members(place, source, re.compile(rf"(?:^|/)({names})$")))
    for path, file in wanted.items():
        address = source.downloads()[list(wanted).index(path)].urls[0]
        if path not in found:
            what = f"there is no {path} in {place}; it comes from {address}"
            raise Error(f"{what}, of the commit {source.commit}")
        sha256 = hashlib.sha256(found[path]).hexdigest()
        _require(sha256, file.sha256, f"{path} in {place}", address)
    return {path: found[path] for path in wanted}


def _tree(place: Path, source: Repository) -> Contents:
    """The many files of a repository."""
    tree = source.tree
    assert tree is not None
    found: Contents = {}
    size = 0
    for path, content in _members(place, source, re.compile(rf"(?:^|/)({tree.pattern})$")):
        found[path] = content
        size += len(content)
        if size > tree.bytes:  # no archive, however small it is, fills the memory
            break
    order = sorted(found, key=str.encode)
    lines = (f"{hashlib.sha256(found[path]).hexdigest()}  {path}\n" for path in order)
    sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
    if sha256 != tree.sha256:
        what = f"{place} has {len(found):,} files {tree.pattern!r} that are not the {tree.files:,}"
        why = f"of the commit {source.commit} of {source.repo}: nothing was prepared"
        raise Failure(f"{what} {why}; remove it, it comes from {source.archive}")
    return {path: found[path] for path in order}


def _git(place: Path, source: Repository) -> list[str]:
    """The git command for a clone that has the commit; empty: it is none, or has not."""
    folders = [folder for folder in (place / ".git", place) if (folder / "HEAD").exists()]
    for folder in folders[:1]:
        command = ["git", f"--git-dir={folder.absolute()}"]
        try:
            asked = [*command, "cat-file", "-e", f"{source.commit}^{{commit}}"]
            if subprocess.run(asked, capture_output=True).returncode == 0:
                return command
        except OSError:  # there is no git: its files may be the right ones
            continue
    return []


def _members(
    place: Path, source: Repository, wanted: re.Pattern[str]
) -> Iterator[tuple[str, bytes]]:
    """Path (the pattern's group) and content of what matches in a folder, clone or archive."""
    try:
        if place.is_dir() and (git := _git(place, source)):
            yield from _of_git(git, source.commit, wanted)
        elif place.is_dir():
            for folder, _, names in os.walk(place):
                for name in names:
                    path = Path(folder, name)
                    if match := wanted.search(path.relative_to(place).as_posix()):
                        yield match[1], path.read_bytes()
        elif place.suffix == ".zip":
            with zipfile.ZipFile(place) as archive:
                for member in archive.infolist():
                    if match := wanted.search(member.filename):
                        yield match[1], archive.read(member)
        else:
            yield from _of_tar(tarfile.open(place, "r|gz"), wanted)
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
        raise Failure(f"{place} cannot be read: {first_line(error)}; remove it") from None


def _of_git(git: list[str], commit: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    listing = subprocess.run([*git, "ls-tree", "-rz", commit], capture_output=True).stdout
    entries = [entry.split("\t", 1) for entry in listing.decode(errors="replace").split("\0")[:-1]]
    found = [
        (match[1], about.split()[2]) for about, path in entries if (match := wanted.search(path))
    ]
    asked = "".join(f"{blob}\n" for _, blob in found).encode()
    told = subprocess.run([*git, "cat-file", "--batch"], input=asked, capture_output=True).stdout
    stream = io.BytesIO(told)
    for path, _ in found:
        *_, size = stream.readline().split()
        if not size.isdigit():
            raise OSError(f"the clone lacks {path}")
        yield path, stream.read(int(size))
        stream.read(1)


def _of_tar(archive: tarfile.TarFile, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    with archive:
        for member in archive:
            match = wanted.search(member.name)
            content = archive.extractfile(member) if match and member.isfile() else None
            if match and content:
                yield match[1], content.read()


# ------------------------------------------------------------------------------------- downloads


def download(file: File, path: Path, advance: Advance = lambda count: None) -> None:
    """Get a file at the first of its addresses that has it.

    What came before a connection broke stays beside it as ``.part``, and the next time goes on
    there where the server can.

    Raises:
        NotDownloaded: no address has it, or what came has another SHA-256.
    """
    reasons: dict[str, str] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for url in file.urls:
        try:
            sha256 = _receive(url, part, advance)
        except HTTPError as error:
            if error.code == 416:  # there is nothing after what was there
                files.remove(part)
            reasons[url] = first_line(error)
        except (OSError, HTTPException, ValueError) as error:
            reasons[url] = first_line(error)
        else:
            if sha256 == file.sha256 or not file.sha256:
                os.replace(part, path)
                return
            files.remove(part)
            reasons[url] = f"what came has SHA-256 {sha256}, expected {file.sha256}"
    tried = "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
    other = "try again, or download it by hand and give its folder with --from"
    raise NotDownloaded(f"cannot download {tried}: nothing was prepared; {other}")


def _receive(url: str, part: Path, advance: Advance) -> str:
    """Fill a file from an address, from where it ends if the server can; its SHA-256."""
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
