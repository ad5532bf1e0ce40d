"""The folder of prepared data: ``<data root>/prepared/<name>/`` with ``.npy`` files and a card.

A data set appears there whole or not at all: it is written in a separate folder and then renamed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets.catalogue import edition_of, editions
from fedlib.datasets.dataset import describe, fingerprint
from fedlib.errors import Error, first_line

CARD = "card.json"
NAME = r"[a-z0-9_-]{1,64}"
Root = str | os.PathLike[str] | None


class _Card(BaseModel):
    """The part of a card that is read later. Other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="allow")
    format: Literal[1]
    name: str
    kind: Literal["arrays", "text", "posts"]
    arrays: dict[str, Any]  # the fingerprint is taken of these
    fingerprint: str
    source: str
    title: str = ""
    counts: dict[str, int] = {}
    classes: list[str] | None = None
    polarity: str | None = None


def prepared_folder(name: str, data_root: Root = None) -> Path:
    """The folder of ``name``, which may not exist yet. Error if a data set cannot have the name."""
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise Error(f"{name!r} cannot name a data set (allowed: 1 to 64 of a-z, 0-9, '_' and '-')")
    folder = paths.data_root(data_root) / "prepared" / name
    if not folder.exists():
        files.recover(folder.parent)
    return folder


def prepared_names(data_root: Root = None) -> list[str]:
    """Names of the data sets in the prepared folder, sorted."""
    parent = paths.data_root(data_root) / "prepared"
    if not parent.is_dir():
        return []
    files.recover(parent)
    folders = sorted(folder.name for folder in parent.iterdir() if folder.is_dir())
    return [name for name in folders if re.fullmatch(NAME, name)]


def read_card(name: str, data_root: Root = None) -> dict[str, Any] | None:
    """The card of a prepared data set. None if there is none, Error if it is unusable."""
    folder = prepared_folder(name, data_root)
    if not folder.exists():
        return None
    try:
        content = (folder / CARD).read_bytes()
        _Card.model_validate_json(content)
    except OSError as error:
        what = f"cannot be read: {files.reason(error)}"
    except ValidationError as error:
        (first, *_) = error.errors()
        place = "".join(f"{part}: " for part in first["loc"])
        what = f"is no card of this version of fedlib: {place}{first['msg']}"
    else:
        card: dict[str, Any] = json.loads(content)
        right = fingerprint(card["arrays"], card.get("classes"))
        if (card["name"], card["fingerprint"]) == (name, right):
            return card
        what = "was altered: its name or fingerprint does not match"
    known = next(iter(editions(name)), "")
    preparing = f"'fedlib data prepare {known} --overwrite' or " if known else ""
    again = f"Make it again with {preparing}'fedlib data import {name} FILE --overwrite'"
    raise Error(f"{folder / CARD} {what}. {again}")


def open_arrays(card: dict[str, Any], data_root: Root = None) -> dict[str, np.ndarray]:
    """All arrays of a card, memory-mapped and read-only.

    Raises:
        Error: an array is missing, unreadable, or does not match the card's dtype and shape.
    """
    folder = prepared_folder(card["name"], data_root)
    arrays = {}
    for key, expected in card["arrays"].items():
        path, what = folder / f"{key}.npy", f"array {key!r} of {card['name']!r}"
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise Error(f"{what} is missing: {path}") from None
        except Exception as error:  # a damaged file can raise anything
            why = f"{path} cannot be read: {first_line(error)}"
            raise Error(f"{what} was altered, {why}") from None
        if array.dtype.str != expected["dtype"] or list(array.shape) != expected["shape"]:
            why = f"it is {array.dtype.str} {list(array.shape)}"
            said = f"{expected['dtype']} {expected['shape']}"
            raise Error(f"{what} was altered: {why}, the card says {said}")
        arrays[key] = array
    return arrays


@checked
def verify(name: str, data_root: Root = None) -> dict[str, Any]:
    """Read every array of a prepared data set and compare it with the card.

    Returns:
        The card.

    Raises:
        Error: the data set is not prepared, or one of its arrays (named) is missing or altered.
    """
    card = read_card(name, data_root)
    if card is None:
        raise Error(f"data set {name!r} is not prepared, so there is nothing to verify")
    for key, array in open_arrays(card, data_root).items():
        sha256, expected = describe(array)["sha256"], card["arrays"][key]["sha256"]
        if sha256 != expected:
            why = f"its SHA-256 is {sha256[:16]}..., the card says {expected[:16]}..."
            raise Error(f"array {key!r} of {name!r} was altered: {why}")
    return card


def require_new(name: str, data_root: Root = None, overwrite: bool = False) -> Path:
    """The folder of a new data set. Error if it exists and may not be replaced."""
    target = prepared_folder(name, data_root)
    if target.exists() and not overwrite:
        where = f"data set {name!r} exists already in {target.parent}"
        raise Error(f"{where}: replace it with overwrite=True, or --overwrite")
    return target


@contextmanager
def writing(name: str, data_root: Root = None, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder to write a data set in. It becomes ``prepared/<name>`` at the end.

    If the block raises, nothing is left behind, and a data set of that name stays as it was.

    Raises:
        Error: the name exists already and ``overwrite`` is False, or the folder is not writable.
        Failure: it cannot be written.
    """
    target = require_new(name, data_root, overwrite)
    files.require_writable(target.parent)
    with files.replacing(target) as aside:
        aside.mkdir()
        yield aside


def write_card(folder: Path, card: dict[str, Any]) -> dict[str, Any]:
    """Complete ``card`` with format, date, description of the arrays, and fingerprint.

    Returns:
        The whole card, which is written to the folder.
    """
    arrays = {
        file.stem: describe(np.load(file, mmap_mode="r", allow_pickle=False))
        for file in sorted(folder.glob("*.npy"))
    }
    whole = {
        "format": 1,
        **card,
        "arrays": arrays,
        "stand_in": False,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "fingerprint": fingerprint(arrays, card.get("classes")),
    }
    if known := edition_of(whole["fingerprint"]):  # an imported copy too
        whole["edition"] = known
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    (folder / CARD).write_text(text, encoding="utf-8")
    return whole
