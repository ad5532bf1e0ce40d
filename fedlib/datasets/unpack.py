"""Unpacking archives so that nothing outside the target folder is touched and no disk fills up."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO

from tqdm.auto import tqdm

from fedlib.errors import Error, Failure, first_line

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


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
        Failure: the archive is damaged or not safe, or there is no space; some of its files may be
            in the folder then.
    """
    if not archive.name.endswith((*_TAR, ".zip")):
        raise Error(f"{archive.name} is no archive by its name; allowed: {', '.join(_TAR)}, .zip")
    unpack_stream = _unpack_zip if archive.suffix == ".zip" else _unpack_tar
    label = f"unpacking {archive.name}"
    try:
        with (
            open(archive, "rb") as stream,
            tqdm.wrapattr(
                stream,
                "read",
                total=archive.stat().st_size,
                desc=label,
                leave=False,
                disable=not progress,
            ) as watched,
        ):
            return unpack_stream(watched, folder, wanted, limit)
    except tarfile.FilterError as error:
        raise Failure(f"{archive.name} is refused: {first_line(error)}") from None
    except _TooMuch as error:
        raise Failure(f"{archive.name} holds more than is allowed, at {error}") from None
    except OSError as error:
        # The decompressors raise OSError too, without a number.
        if error.errno is not None:
            raise Failure(f"cannot unpack {archive.name}: {error.strerror}") from None
        raise _damaged(archive, error) from None
    except (
        *(EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
        *(NotImplementedError, RuntimeError),
    ) as error:
        raise _damaged(archive, error) from None


class _TooMuch(Exception):
    """The name of the member that goes beyond the limit."""


def _unpack_tar(
    stream: IO[bytes], folder: Path, wanted: Collection[str] | None, limit: int
) -> dict[str, Path]:
    files = {}
    # Not as a stream ("r|*"), where several compressed pieces would not be one file.
    with tarfile.open(fileobj=stream, mode="r:*") as tar:
        for member in tar:
            member = tarfile.data_filter(member, str(folder))
            path = folder / member.name
            if not member.isreg() or (wanted is not None and path.name not in wanted):
                continue
            limit -= member.size
            if limit < 0:
                raise _TooMuch(repr(member.name))
            tar.extract(member, folder, filter="data")
            files[path.name] = path
        # To the end of the compressed file, where its check sum is.
        while tar.fileobj is not None and tar.fileobj.read(1 << 20):
            pass
    return files


def _unpack_zip(
    stream: IO[bytes], folder: Path, wanted: Collection[str] | None, limit: int
) -> dict[str, Path]:
    files = {}
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            name = Path(info.filename).name
            if info.is_dir() or (wanted is not None and name not in wanted):
                continue
            limit -= info.file_size  # No more than that is ever read.
            if limit < 0:
                raise _TooMuch(repr(info.filename))
            files[name] = Path(archive.extract(info, folder))
    return files


def _damaged(archive: Path, error: Exception) -> Failure:
    return Failure(f"{archive.name} is damaged or cut off: {first_line(error)}")
