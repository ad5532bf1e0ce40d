"""The way in for files the user has: arrays, texts, and what :mod:`~fedlib.datasets.foreign` reads.

A file is taken whole or refused whole, with one line that says what is wrong. Nothing is ever
unpickled. All of it is in memory.
"""

from __future__ import annotations

import codecs
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fedlib.arguments import checked
from fedlib.datasets import foreign, npy, store
from fedlib.datasets.catalogue import CATALOGUE, Description
from fedlib.datasets.dataset import OPTIONAL, REQUIRED
from fedlib.errors import Error, first_line, unknown

_MEMBERS = (*REQUIRED, *OPTIONAL, "classes")
# Keras' names of arrays, and MedMNIST's.
ALIASES = {f"{part}_{split}": f"{split}_{part}" for part in "xy" for split in ("train", "test")}
ALIASES |= {f"{split}_images": f"{split}_x" for split in ("train", "test")}
ALIASES |= {f"{split}_labels": f"{split}_y" for split in ("train", "test")}


@checked
def import_file(
    name: str,
    path: str | os.PathLike[str],
    data_root: store.Root = None,
    overwrite: bool = False,
    *,
    label: str = "label",
    client: str = "client",
    split: str = "split",
) -> dict[str, Any]:
    """Check a file or a folder and store it as the prepared data set ``name``.

    ``.npz``: ``train_x, train_y, test_x, test_y`` (or Keras' ``x_train`` and MedMNIST's
    ``train_images``), and if known ``train_client, test_client,
    train_coarse, test_coarse, classes``. Images or features are uint8 (other integers only from 0
    to 255) or floating point, stored as float32, channels last; labels and codes are integers, 0 or
    more, and labels and clients may be words.

    ``.jsonl``: an object a line with ``client``, ``split`` (``"train"`` or ``"test"``), ``text``,
    and on all lines ``label`` (an integer; or a word: the classes are then the words, sorted), on
    all lines ``tags`` (a list of strings), or neither.

    ``.csv`` (also of semicolons and decimal commas), ``.tsv``, both also as ``.gz``, and
    ``.parquet``: a row an example, with the columns of labels, clients (without them there are
    none) and splits (without them every fifth row tests); the other columns are numbers, its
    features. With a column ``text`` they are texts, as the lines of a ``.jsonl`` file.

    A folder: of images ``<class>/<image>``, or ``train`` and ``test`` with such ones, all of one
    size and of 8 bits a point, and no other files but hidden ones; or ``train/*.json`` and
    ``test/*.json`` as LEAF writes them.

    Args:
        name: of a known data set, whose format the file must then have, or any new name made of
            a-z, 0-9, ``_`` and ``-``.
        path: the file or folder.
        data_root: default ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.
        label, client, split: names of a table's columns.

    Returns:
        The new card.

    Raises:
        Error: the name is taken or not allowed, or the file is not as it should be. Nothing is
            written then.
    """
    path = Path(path)
    store.prepared_folder(name, data_root)
    if not path.exists():
        raise Error(f"there is no file {path}")
    path = path.absolute()  # of '.' the name is said, too
    file = path.resolve().name.encode(errors="backslashreplace").decode()
    frame, columns = None, {"label": label, "client": client, "split": split}
    if foreign.kind(path) in foreign.TABLES:
        frame = foreign.table(path, columns)
    elif named := [role for role, column in columns.items() if column != role]:
        raise Error(f"{named[0]} names a column of a table (.csv, .parquet); {file} is none")
    elif path.is_dir() and any(path.glob("train/*.json")):
        frame = foreign.leaf(path)
    elif not path.is_dir() and path.suffix not in (".npz", ".jsonl"):
        raise Error(
            f"{file} cannot be imported: give a .npz, .jsonl, .csv, .tsv or .parquet file, or a "
            "folder of images or of LEAF's JSON; of a spreadsheet save a table as .csv"
        )
    texts = path.suffix == ".jsonl" or (frame is not None and "text" in frame)
    kind, by = "text" if texts else "arrays", "imported by the user"
    own = Description(name, name, by, f"{by} from {file}", kind, "as the user knows it")
    known = CATALOGUE.get(name, own)
    if known.kind != kind:
        wanted = {
            "arrays": "imported from a .npz file of arrays or the like",
            "text": "imported from a .jsonl file, or a table with a column 'text'",
            "posts": f"got with 'fedlib data prepare {name}'",
        }
        raise Error(f"{name!r} is {wanted[known.kind]}, not from {file}")
    with store.writing(name, data_root, overwrite) as folder:
        if texts:
            content = path.read_bytes() if frame is None else foreign.texts(frame, file)
            card = _texts(content.splitlines(), path, folder, known)
        else:
            if frame is not None:
                members = foreign.arrays(frame, file, known.shape is not None)
            else:
                members = _members(path) if path.suffix == ".npz" else foreign.images(path)
            card = _arrays(members, path, folder, known)
        return store.write_card(folder, {**known.origin(), "file": file, **card})


# ---------------------------------------------------------------------------------------- arrays


def _members(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a ``.npz`` file."""
    if not zipfile.is_zipfile(path):
        raise Error(f"{path.name} is not a .npz file, or is cut off")
    members, where = {}, path.name
    try:
        with np.load(path, allow_pickle=False) as archive:
            for key in archive.files:
                where = f"{path.name}: {key!r}"
                members[key] = np.asarray(archive[key])
    except Exception as error:  # the bytes of a damaged one may say anything
        raise Error(
            f"{where} is damaged, or holds Python objects, which would have to be unpickled (save "
            f"words as array.astype(str)): {first_line(error)}"
        ) from None
    members = {ALIASES.get(key, key): values for key, values in members.items()}
    for key, values in members.items():
        if key.endswith("_y") and values.ndim == 2 and values.shape[1] == 1:
            members[key] = values[:, 0]
        if key.startswith("val_"):
            what = "give the validation's to train or to test, or leave them out"
            raise Error(
                f"{path.name}: {key!r} is neither; {what}, and rename: {', '.join(REQUIRED)}"
            )
        if key not in _MEMBERS:
            raise Error(f"{path.name}: {unknown('array', key, _MEMBERS)}; rename it")
    if missing := [key for key in REQUIRED if key not in members]:
        raise Error(f"{path.name} lacks {', '.join(missing)}")
    return members


def _arrays(
    members: dict[str, np.ndarray], path: Path, folder: Path, known: Description
) -> dict[str, Any]:
    classes = _classes(members, path, known)
    numbered = known.class_count is not None  # by the data set itself
    labels = _numbered(members, "y", path, (known.classes or ()) if numbered else classes)
    classes = classes if numbered else classes or labels
    clients = _numbered(members, "client", path)
    arrays: dict[str, np.ndarray] = {}
    for key in (*REQUIRED, *OPTIONAL):
        if key in members:
            values, x = members.pop(key), f"{key.split('_')[0]}_x"
            if key == x and values.ndim == 2 and known.shape:
                if values.shape[1] == np.prod(known.shape):
                    values = values.reshape(len(values), *known.shape)
            arrays[key] = values = _checked(values, f"{path.name}: {key}")
            if len(values) != len(arrays[x]):
                what = f"{path.name}: {key} has {len(values)} entries"
                raise Error(f"{what}, but {x} has {len(arrays[x])}")
            if key.endswith("_y"):
                _check_labels(int(values.max()), f"{path.name}: {key}", known, classes)
    train, test = arrays["train_x"], arrays["test_x"]
    if (train.dtype, train.shape[1:]) != (test.dtype, test.shape[1:]):
        what = f"{path.name}: an example is {train.dtype} {train.shape[1:]} in train_x"
        raise Error(f"{what}, but {test.dtype} {test.shape[1:]} in test_x")
    if known.shape and train.shape[1:] != known.shape:
        what = f"{path.name}: an example has shape {train.shape[1:]}"
        raise Error(f"{what}, but {known.title} has {known.shape}")
    card = npy.write(folder, arrays, clients, known)
    return {**card, "classes": classes or card["classes"]}


def _numbered(
    members: dict[str, np.ndarray], field: str, path: Path, names: Sequence[str] | None = None
) -> list[str] | None:
    """Put numbers in place of labels or clients that are words in all splits.

    Args:
        names: which words there are, in their order; default those that occur, in alphabetical.

    Returns:
        the words, ascending.
    """
    keys = [key for key in members if key.endswith(f"_{field}")]
    if not keys or any(members[key].dtype.kind != "U" for key in keys):
        return None
    words = np.unique(np.concatenate([members[key].ravel() for key in keys])).tolist()
    places = {name: place for place, name in enumerate(words if names is None else names)}
    if wrong := [word for word in words if word not in places]:
        raise Error(f"{path.name}: {unknown('label', wrong[0], places)}")
    numbers = np.array([places[word] for word in words])
    for key in keys:
        members[key] = numbers[np.searchsorted(words, members[key])]
    return words


def _checked(values: np.ndarray, where: str) -> np.ndarray:
    """The values of an array as they are stored: float32, uint8, or for labels and codes int64."""
    is_x = where.endswith("_x")
    needed = "1"
    if is_x:
        needed = "2 to 4, examples first (then features; height, width; or those and channels)"
    if values.ndim not in ((2, 3, 4) if is_x else (1,)):
        raise Error(f"{where} has {values.ndim} dimensions; needed: {needed}")
    if not values.size:
        raise Error(f"{where} is empty (shape {values.shape})")
    if values.dtype.kind not in ("biuf" if is_x else "iu"):
        words = "" if where.endswith("_coarse") else ", or words in both splits"
        needed = "uint8 or floating point" if is_x else f"integers{words}"
        raise Error(f"{where} is {values.dtype}; needed: {needed}")
    if values.ndim == 4 and values.shape[1] in (1, 3, 4) and values.shape[3] > 4:
        what = f"{where} has shape {values.shape}, so its channels seem to come first"
        raise Error(f"{what}; give height, width and channels: x.transpose(0, 2, 3, 1)")
    if values.dtype.kind == "f":
        # Values beyond float32 become infinite here, and are then refused.
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        if not np.isfinite(values).all():
            raise Error(f"{where} has values that are not finite float32")
        return values
    low, high, limit = int(values.min()), int(values.max()), 255 if is_x else 2**63 - 1
    if low < 0 or high > limit:
        hint = "; give other features than images as float32" if is_x else ""
        raise Error(f"{where} has integers from {low} to {high}; allowed: 0 to {limit}{hint}")
    return values.astype(np.uint8 if is_x else np.int64)


def _check_labels(largest: int, where: str, known: Description, classes: list[str] | None) -> None:
    if known.class_count is not None and largest >= known.class_count:
        last = known.class_count - 1
        raise Error(f"{where} has label {largest}, but {known.title} has labels 0 to {last}")
    if classes is not None and largest >= len(classes):
        raise Error(f"{where} has label {largest}, but classes names only {len(classes)}")


def _classes(members: dict[str, np.ndarray], path: Path, known: Description) -> list[str] | None:
    if "classes" not in members:
        return None
    names = members["classes"]
    if names.dtype.kind != "U" or names.ndim != 1 or not names.size:
        raise Error(f"{path.name}: classes must be a one-dimensional array of strings")
    if known.class_count and len(names) != known.class_count:
        what = f"{path.name}: classes has {len(names)} names"
        raise Error(f"{what}, but {known.title} has {known.class_count} labels")
    listed: list[str] = names.tolist()
    return listed


# ----------------------------------------------------------------------------------------- texts


class _Line(BaseModel):
    """A line of a ``.jsonl`` file; the defaults stand for what is not there."""

    model_config = ConfigDict(strict=True, extra="allow")
    client: str
    split: Literal["train", "test"]
    text: str
    label: Any = None
    tags: list[str] = []

    @property
    def target(self) -> str:
        """Which of label, a number or a word, and tags there is."""
        if "label" in self.model_fields_set:
            return "a word as label" if isinstance(self.label, str) else "label"
        return "tags" if "tags" in self.model_fields_set else "neither label nor tags"


def _texts(content: list[bytes], path: Path, folder: Path, known: Description) -> dict[str, Any]:
    rows = []
    ignored: set[str] = set()
    for line in _lines(content, path, known):
        ignored.update(line.model_extra or ())
        goal = line.tags if line.target == "tags" else line.label
        rows.append((line.split, line.client, line.text.encode(), goal))
    words = {goal for *_, goal in rows if isinstance(goal, str)}
    classes = list(known.classes or sorted(words))
    codes = {word: code for code, word in enumerate(classes)}
    texts = (
        (split, client, text, codes[goal] if isinstance(goal, str) else goal)
        for split, client, text, goal in rows
    )
    card = npy.write(folder, *npy.text_arrays(path.name, texts), known)
    return {**card, "classes": classes or None, "ignored_fields": sorted(ignored)}


def _lines(contents: list[bytes], path: Path, known: Description) -> Iterator[_Line]:
    """The lines of a file, of which all have the same kind of target."""
    before: _Line | None = None
    unit = "line" if path.suffix == ".jsonl" else "row"
    for number, content in enumerate(contents, start=1):
        where = f"{path.name}, {unit} {number}"
        content = content.removeprefix(codecs.BOM_UTF8).strip()
        if not content:
            continue
        try:
            line = _Line.model_validate_json(content)
        except ValidationError as error:
            (first, *_) = error.errors()
            place = "".join(f"{part}: " for part in first["loc"])
            told = first["type"] in ("missing", "json_invalid")
            given = "" if told else f", not {first['input']!r:.40}"
            raise Error(f"{where}: {place}{first['msg']}{given}") from None
        if {"label", "tags"} <= line.model_fields_set:
            raise Error(f"{where}: has both label and tags; allowed: one of them")
        if known.class_count and "label" not in line.model_fields_set:
            raise Error(f"{where}: lacks 'label', which {known.title} needs")
        if "label" in line.model_fields_set:
            _check_label(line.label, where, known)
        if before and line.target != before.target:
            raise Error(f"{where}: has {line.target}, but the {unit}s before have {before.target}")
        before = line
        yield line


def _check_label(label: Any, where: str, known: Description) -> None:
    """Require a number or a word, and one that a known data set has."""
    if type(label) is int and 0 <= label < 2**63:
        _check_labels(label, where, known, None)
    elif not isinstance(label, str) or not label:
        raise Error(f"{where}: label is {label!r:.40}; allowed: a whole number >= 0, or a word")
    elif known.classes and label not in known.classes:
        raise Error(f"{where}: {unknown('label', label, known.classes)}")
    elif known.class_count and not known.classes:
        raise Error(f"{where} has label {label!r}, but the labels of {known.title} are numbers")
