"""Unpacking archives so that nothing outside the target folder is touched and no disk fills up."""

from __future__ import annotations

import lzma
import platform
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from tqdm.auto import tqdm

from fedlib.errors import Error, Failure, first_line

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_DAMAGED = (
    *(OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(NotImplementedError, RuntimeError),
)


def unpack(
    archive: Path,
    folder: Path,
    wanted: Collection[str] | None = None,
    limit: int = 10**12,
    progress: bool = False,
) -> dict[str, Path]:
    """Unpack a tar (plain, gz, bz2, xz) or a zip.

    Members of a tar pass Python's ``data`` filter first, also those that are not wanted: an archive
    with a step out of the folder, a device, or a link to somewhere else is refused. A zip's members
    cannot leave the folder: ``zipfile`` drops such parts of their names.

    Args:
        archive: its suffix says what it is.
        folder: an existing folder; members keep their folders inside it.
        wanted: names of files (without folders) to unpack; default all.
        limit: of bytes unpacked in all.
        progress: show a progress bar.

    Returns:
        The unpacked files by name, without folders.

    Raises:
        Failure: the archive is damaged or not safe, or there is no space (some of its files may be
            in the folder then), or this Python is older than 3.11.4.
    """
    if not archive.name.endswith((*_TAR, ".zip")):
        raise Error(f"{archive.name} is no archive by its name; allowed: {', '.join(_TAR)}, .zip")
    if not hasattr(tarfile, "data_filter"):
        raise Failure(
            f"cannot unpack {archive.name} safely: this is Python {platform.python_version()}, "
            "whose tarfile has no data filter; use Python 3.11.4 or later"
        )
    members = _zip_members if archive.suffix == ".zip" else _tar_members
    bar = {"desc": f"unpacking {archive.name}", "leave": False, "disable": not progress}
    files: dict[str, Path] = {}
    try:
        with (
            open(archive, "rb") as raw,
            tqdm.wrapattr(raw, "read", total=archive.stat().st_size, **bar) as stream,
        ):
            for name, size, extract in members(stream, folder):
                file = Path(name).name
                if wanted is not None and file not in wanted:
                    continue
                limit -= size  # No more than that is ever read.
                if limit < 0:
                    raise Failure(f"{archive.name} holds more than is allowed, at {name!r}")
                # Where a zip's file went it says itself, its name made safe.
                files[file] = Path(extract() or folder / name)
    except Error:
        raise
    except tarfile.FilterError as error:
        raise Failure(f"{archive.name} is refused: {first_line(error)}") from None
    except _DAMAGED as error:
        # The decompressors raise OSError too, without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise Failure(f"cannot unpack {archive.name}: {error.strerror}") from None
        raise Failure(f"{archive.name} is damaged or cut off: {first_line(error)}") from None
    return files


# Name and size of a file in the archive, and what unpacks it.
_Member = tuple[str, int, Callable[[], str | None]]


def _tar_members(stream: IO[bytes], folder: Path) -> Iterator[_Member]:
    # Not as a stream ("r|*"), where several compressed pieces would not be one file.
    with tarfile.open(fileobj=stream, mode="r:*") as tar:
        for member in tar:
            member = tarfile.data_filter(member, str(folder))
            if member.isreg():
                yield member.name, member.size, partial(tar.extract, member, folder, filter="data")
        # To the end of the compressed file, where its check sum is.
        while tar.fileobj is not None and tar.fileobj.read(1 << 20):
            pass


def _zip_members(stream: IO[bytes], folder: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield info.filename, info.file_size, partial(archive.extract, info, folder)
