"""Where ``fedlib data prepare`` gets each data set, read from ``sources.toml``."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedlib.errors import Error
from fedlib.paths import read_toml


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class File:
    """A file to download.

    Attributes:
        name: what it is called on disk.
        urls: addresses of the same bytes, tried in this order.
        sha256: of the file, hexadecimal.
        size: in bytes.
        exact: whether that size was published; else it is rough, for the check of free space only.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int
    exact: bool = True


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Source:
    """The files of a data set.

    Attributes:
        files: to download.
        members: which files of the archives are needed, by name without folders; empty if the files
            are read as they are.
        unpacked: bytes of those members; rough for TFF's.
        prepared: bytes of the arrays made from them; rough likewise.
        hash_from: where the files' SHA-256 were read.
        origin: one line for the card where the catalogue speaks of more than this copy.
    """

    files: tuple[File, ...]
    members: tuple[str, ...] = ()
    unpacked: int = 0
    prepared: int = 0
    hash_from: str = ""
    origin: str = ""


SOURCES = {name: Source(**source) for name, source in read_toml("datasets/sources.toml").items()}


def source(name: str) -> Source:
    """The source of a data set; Error if it cannot be downloaded.

    Example:
        >>> [file.name for file in source("cifar10").files]
        ['cifar-10-binary.tar.gz']
    """
    if name not in SOURCES:
        raise Error(
            f"{name!r} cannot be downloaded; import a copy with 'fedlib data import {name} FILE' "
            f"(see data/README.md). Can be downloaded: {', '.join(sorted(SOURCES))}"
        )
    return SOURCES[name]
