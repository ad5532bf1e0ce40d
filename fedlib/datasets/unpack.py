"""Unpacking archives so that nothing outside the target folder is touched and no disk fills up."""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from tqdm.auto import tqdm

from fedlib.errors import Error, Failure

_PIECE = 1 << 20
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_SINGLE: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".lzma": lzma.open}
_DAMAGED = (
    *(EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(NotImplementedError, RuntimeError),
)


def unpack(
    archive: Path,
    folder: Path,
    wanted: Collection[str] | None = None,
    limit: int = 10**12,
    progress: bool = False,
) -> dict[str, Path]:
    """Unpack a tar (plain, gz, bz2, xz), a zip, or a single compressed file.

    The names and kinds of all members are checked, also of those that are not wanted: an archive
    with an absolute path, a step out of the folder, a link or a device is refused. Nothing is
    unpickled or executed.

    Args:
        archive: its suffix says what it is.
        folder: an existing folder; members keep their folders inside it.
        wanted: names of files (without folders) to unpack; default all.
        limit: of bytes unpacked in all.
        progress: show a progress bar.

    Returns:
        The unpacked files by name, without folders.

    Raises:
        Failure: the archive is damaged or not safe, or there is no space; what was unpacked from it
            is removed again.
    """
    found: dict[str, Path] = {}
    try:
        with (
            _reading(archive),
            tqdm(
                desc=f"unpacking {archive.name}",
                unit="B",
                unit_scale=True,
                leave=False,
                disable=not progress,
            ) as bar,
        ):
            for name, stream in _members(archive):
                place = _place(name, archive)
                if stream is None or (wanted is not None and place.name not in wanted):
                    continue
                if place.name in found:
                    raise Failure(f"{archive.name} holds {place.name!r} twice")
                path = folder.joinpath(*place.parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "xb") as out:
                    found[place.name] = path
                    while piece := stream.read(_PIECE):
                        limit -= len(piece)
                        if limit < 0:
                            raise Failure(f"{archive.name} holds more than is allowed, at {name!r}")
                        out.write(piece)
                        bar.update(len(piece))
    except BaseException:
        for path in found.values():
            path.unlink(missing_ok=True)
        raise
    return found


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """(name, content) of each file in turn; the content of a folder is None."""
    if archive.stat().st_size == 0:
        raise EOFError("it is empty")
    if archive.name.endswith(_TAR):
        with tarfile.open(archive) as tar:
            for member in tar:
                if not member.isreg() and not member.isdir():
                    raise _unsafe(archive, member.name, "is a link or a device")
                yield member.name, None if member.isdir() else tar.extractfile(member)
            # To the end of the compressed file, where its check sum is.
            while tar.fileobj is not None and tar.fileobj.read(_PIECE):
                pass
    elif archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as whole:
            for info in whole.infolist():
                # The upper half is the file's mode where the archive was made on Unix, else 0.
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _unsafe(archive, info.filename, "is a link or a device")
                if info.is_dir():
                    yield info.filename, None
                    continue
                with whole.open(info) as stream:
                    yield info.filename, stream
    elif archive.suffix in _SINGLE:
        with _SINGLE[archive.suffix](archive, "rb") as stream:
            yield archive.name.removesuffix(archive.suffix), stream
    else:
        known = ", ".join((*_TAR, ".zip", *_SINGLE))
        raise Error(f"{archive.name} is no archive by its name; allowed: {known}")


def _place(name: str, archive: Path) -> PurePosixPath:
    """The place of a member inside the folder; Failure if it would be elsewhere."""
    place, windows = PurePosixPath(name), PureWindowsPath(name)
    if not place.parts and name.strip("./") == "":
        return PurePosixPath("folder")  # "./", the folder itself
    if place.is_absolute() or windows.drive or windows.root:
        raise _unsafe(archive, name, "has an absolute path")
    if ".." in place.parts or ".." in windows.parts:
        raise _unsafe(archive, name, "leaves the folder")
    if "\0" in name or "\\" in name or not place.parts:
        raise _unsafe(archive, name, "has a name that is not allowed")
    return place


def _unsafe(archive: Path, name: str, why: str) -> Failure:
    return Failure(f"{archive.name} is refused: its member {name!r} {why}")


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Turn whatever a damaged archive or a full disk raises into one line."""
    try:
        yield
    except _DAMAGED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Failure(f"{archive.name} is damaged or cut off: {reason}") from None
    except FileExistsError as error:
        name = Path(str(error.filename)).name
        raise Failure(f"{archive.name} holds {name!r} twice, or as file and folder") from None
    except OSError as error:
        # The decompressors raise OSError too, without a number.
        if error.errno is None:
            raise Failure(f"{archive.name} is damaged or cut off: {error}") from None
        raise Failure(f"cannot unpack {archive.name}: {error.strerror}") from None
