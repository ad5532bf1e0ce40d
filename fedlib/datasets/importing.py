"""Import of users' files: arrays, texts, and the output of LEAF's scripts.

A file is accepted or refused as a whole, with one line that says what is wrong. Nothing is ever
unpickled. The whole file is read into memory.
"""

from __future__ import annotations

import codecs
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fedlib.arguments import checked
from fedlib.datasets import npy, store
from fedlib.datasets.catalogue import CATALOGUE, Description
from fedlib.datasets.dataset import OPTIONAL, REQUIRED, SPLITS
from fedlib.errors import Error, first_line, unknown

GUIDE = "see docs/guide/recipes.md"
_MEMBERS = (*REQUIRED, *OPTIONAL, "classes")
# Array names of Keras and MedMNIST.
ALIASES = {f"{part}_{split}": f"{split}_{part}" for part in "xy" for split in SPLITS}
ALIASES |= {f"{split}_images": f"{split}_x" for split in SPLITS}
ALIASES |= {f"{split}_labels": f"{split}_y" for split in SPLITS}


@checked
def import_file(
    name: str,
    path: str | os.PathLike[str],
    data_root: store.Root = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Check a file or a folder and store it as the prepared data set ``name``.

    ``.npz``: ``train_x, train_y, test_x, test_y`` (or Keras' ``x_train`` and MedMNIST's
    ``train_images``), and if known ``train_client, test_client,
    train_coarse, test_coarse, classes``. Images or features are uint8 (other integers only from 0
    to 255) or floating point, stored as float32, channels last. Labels and codes are integers, 0 or
    more. Labels and clients may also be words.

    ``.jsonl``: one object per line with ``client``, ``split`` (``"train"`` or ``"test"``) and
    ``text``. All lines may have ``label`` (an integer, or a word, then the classes are the sorted
    words), or all may have ``tags`` (a list of strings).

    A folder with ``train/*.json`` and ``test/*.json`` as LEAF writes them, of numbers or texts.

    Args:
        name: a known data set, whose format the file must then have, or a new name made of a-z,
            0-9, ``_`` and ``-``.
        path: the file or folder.
        data_root: folder of the data. Default: ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.

    Returns:
        The new card.

    Raises:
        Error: the name is taken or not allowed, or the file has the wrong format. Nothing is
            written then.
    """
    path = Path(path)
    store.prepared_folder(name, data_root)
    if not path.exists():
        raise Error(f"there is no file {path}")
    path = path.absolute()  # so that messages name '.', too
    file = path.resolve().name.encode(errors="backslashreplace").decode()
    content = _contents(path, file)
    kind, by = "arrays" if isinstance(content, dict) else "text", "imported by the user"
    own = Description(name, name, by, f"{by} from {file}", kind, "as the user knows it")
    known = CATALOGUE.get(name, own)
    if known.kind != kind:
        source = {
            "arrays": "imported from a .npz file of arrays or the like",
            "text": "imported from a .jsonl file or the like",
            "posts": f"got with 'fedlib data prepare {name}'",
        }
        raise Error(f"{name!r} is {source[known.kind]}, not from {file}")
    with store.writing(name, data_root, overwrite) as folder:
        make = _arrays if isinstance(content, dict) else _texts
        card = make(content, file, folder, known)
        return store.write_card(folder, {**known.origin(), "file": file, **card})


def _contents(path: Path, file: str) -> Any:
    """The content of a file or folder: arrays by their names, or the lines of texts.

    Raises:
        Error: its format is unknown, or it is damaged.
    """
    if path.is_dir() and any(path.glob("train/*.json")):
        return _leaf(path)
    if path.is_dir():
        advice = "for a folder of images use torchvision's ImageFolder and fedlib.from_datasets"
        raise Error(f"{file} is no folder of LEAF's JSON: {advice}: {GUIDE}")
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".jsonl"):
        advice = "for a table use pandas (read_csv, read_parquet) and fedlib.table_task"
        raise Error(f"{file} is neither .npz nor .jsonl: {advice}: {GUIDE}")
    return _members(path) if suffix == ".npz" else path.read_bytes().splitlines()


def _leaf(folder: Path) -> dict[str, np.ndarray] | list[bytes]:
    """The output of LEAF's scripts, ``train/*.json`` and ``test/*.json``.

    Raises:
        Error: a file has another format.
    """
    rows: dict[str, list[tuple[str, Any, Any]]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        for file in sorted((folder / split).glob("*.json")):
            try:
                for user, examples in json.loads(file.read_text("utf-8"))["user_data"].items():
                    for x, y in zip(examples["x"], examples["y"], strict=True):
                        whole = isinstance(y, float) and y.is_integer()  # as FEMNIST's are
                        rows[split].append((user, x, int(y) if whole else y))
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                reason = f"{type(error).__name__}: {first_line(error)}"
                raise Error(f"{split}/{file.name} is not as LEAF writes it: {reason}") from None
        if not rows[split]:
            raise Error(f"{folder.name}: the {split} split has no examples")
    if isinstance(rows["train"][0][1], str):
        texts = [(split, *row) for split in SPLITS for row in rows[split]]
        keys = ("split", "client", "text", "label")
        return [json.dumps(dict(zip(keys, row, strict=True))).encode() for row in texts]
    members = {}
    for split in SPLITS:
        clients, x, y = zip(*rows[split], strict=True)
        try:
            points = np.array(x, dtype=np.float32)
            members[f"{split}_y"] = np.array(y)
        except (TypeError, ValueError) as error:
            what = f"{folder.name}: x is neither texts nor numbers: {first_line(error)}"
            raise Error(f"{what}. For rows of words, as in Sent140, keep the text, x[4]") from None
        members[f"{split}_x"] = points.reshape(len(x), -1)  # rows of pictures one after the other
        members[f"{split}_client"] = np.array(clients)
    return members


# ---------------------------------------------------------------------------------------- arrays


def _members(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a ``.npz`` file."""
    if not zipfile.is_zipfile(path):
        raise Error(f"{path.name} is not a .npz file, or is truncated")
    members, where = {}, path.name
    try:
        with np.load(path, allow_pickle=False) as archive:
            for key in archive.files:
                where = f"{path.name}: {key!r}"
                members[ALIASES.get(key, key)] = np.asarray(archive[key])
    except Exception as error:  # a damaged file can raise anything
        raise Error(
            f"{where} is damaged, or holds Python objects, which would have to be unpickled (save "
            f"words as array.astype(str)): {first_line(error)}"
        ) from None
    for key, values in members.items():
        if key.endswith("_y") and values.ndim == 2 and values.shape[1] == 1:
            members[key] = values[:, 0]
        if key.startswith("val_"):
            what = "give validation arrays to train or to test, or leave them out, and rename"
            raise Error(f"{path.name}: {key!r} is in neither split: {what}: {', '.join(REQUIRED)}")
        if key not in _MEMBERS:
            raise Error(f"{path.name}: {unknown('array', key, _MEMBERS)}. Rename it")
    if missing := [key for key in REQUIRED if key not in members]:
        raise Error(f"{path.name} lacks {', '.join(missing)}")
    return members


def _arrays(
    members: dict[str, np.ndarray], file: str, folder: Path, known: Description
) -> dict[str, Any]:
    names = members.pop("classes", None)
    if names is not None and (names.dtype.kind != "U" or names.ndim != 1):
        raise Error(f"{file}: classes must be a one-dimensional array of strings")
    classes: list[str] | None = None if names is None else names.tolist()
    numbered = known.class_count is not None  # the data set itself numbers its classes
    if classes and numbered and len(classes) != known.class_count:
        what = f"{file}: classes has {len(classes)} names"
        raise Error(f"{what}, but {known.title} has {known.class_count} labels")
    labels = _numbered(members, "y", file, (known.classes or ()) if numbered else classes)
    classes = classes if numbered else classes or labels
    clients = _numbered(members, "client", file)
    arrays: dict[str, np.ndarray] = {}
    for key in (*REQUIRED, *OPTIONAL):
        if key in members:
            values, x = members[key], f"{key.split('_')[0]}_x"
            if key == x and known.shape and values.shape[1:] == (np.prod(known.shape),):
                values = values.reshape(len(values), *known.shape)
            arrays[key] = values = _checked(values, f"{file}: {key}")
            if len(values) != len(arrays[x]):
                what = f"{file}: {key} has {len(values)} entries"
                raise Error(f"{what}, but {x} has {len(arrays[x])}")
            if key.endswith("_y"):
                _check_labels(int(values.max()), f"{file}: {key}", known, classes)
    train, test = arrays["train_x"], arrays["test_x"]
    if (train.dtype, train.shape[1:]) != (test.dtype, test.shape[1:]):
        what = f"{file}: an example is {train.dtype} {train.shape[1:]} in train_x"
        raise Error(f"{what}, but {test.dtype} {test.shape[1:]} in test_x")
    if known.shape and train.shape[1:] != known.shape:
        what = f"{file}: an example has shape {train.shape[1:]}"
        raise Error(f"{what}, but {known.title} has {known.shape}")
    card = npy.write(folder, arrays, clients, known)
    return {**card, "classes": classes or card["classes"]}


def _numbered(
    members: dict[str, np.ndarray], field: str, file: str, names: Sequence[str] | None = None
) -> list[str] | None:
    """Replace labels or clients that are words by numbers in all splits.

    Args:
        names: the words in their order. Default: the words that occur, in alphabetical order.

    Returns:
        The words, ascending.
    """
    keys = [key for key in members if key.endswith(f"_{field}")]
    if not keys or any(members[key].dtype.kind != "U" for key in keys):
        return None
    words = np.unique(np.concatenate([members[key].ravel() for key in keys])).tolist()
    places = {name: place for place, name in enumerate(words if names is None else names)}
    if wrong := [word for word in words if word not in places]:
        raise Error(f"{file}: {unknown('label', wrong[0], places)}")
    numbers = np.array([places[word] for word in words])
    for key in keys:
        members[key] = numbers[np.searchsorted(words, members[key])]
    return words


def _checked(values: np.ndarray, where: str) -> np.ndarray:
    """An array in its stored type: float32, uint8, or int64 for labels and codes."""
    is_x, shape = where.endswith("_x"), values.shape
    if not (2 <= values.ndim <= 4 if is_x else values.ndim == 1):
        needed = f"one label per example. For masks make a fedlib.Task: {GUIDE}"
        if is_x:
            needed = "examples, then features, or height, width, or height, width, channels"
        raise Error(f"{where} has shape {shape}, but needs {needed}")
    if not values.size:
        raise Error(f"{where} is empty (shape {shape})")
    if values.dtype.kind not in ("biuf" if is_x else "biu"):
        words = "" if where.endswith("_coarse") else ", or words in both splits"
        needed = "uint8 or floating point" if is_x else f"integers{words}"
        raise Error(f"{where} is {values.dtype}, but needs {needed}")
    if values.ndim == 4 and shape[3] > 4:
        channels, height, width = shape[1:]
        if channels < min(height, width) or height == width != channels:
            what = f"{where} has shape {shape}, so its channels seem to come first"
            raise Error(f"{what}: give height, width and channels: x.transpose(0, 2, 3, 1)")
    if values.dtype.kind == "f":
        # Values beyond float32 become infinite here, and are then refused.
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        if not np.isfinite(values).all():
            raise Error(f"{where} has values that are not finite float32")
        return values
    low, high, limit = int(values.min()), int(values.max()), 255 if is_x else 2**63 - 1
    if low < 0 or high > limit:
        hint = ". Give other features than images as float32" if is_x else ""
        raise Error(f"{where} has integers from {low} to {high} (allowed: 0 to {limit}){hint}")
    return values.astype(np.uint8 if is_x else np.int64)


def _check_labels(
    largest: int, where: str, known: Description, classes: list[str] | None = None
) -> None:
    if known.class_count is not None and largest >= known.class_count:
        last = known.class_count - 1
        raise Error(f"{where} has label {largest}, but {known.title} has labels 0 to {last}")
    if classes is not None and largest >= len(classes):
        raise Error(f"{where} has label {largest}, but classes names only {len(classes)}")


# ----------------------------------------------------------------------------------------- texts


class _Line(BaseModel):
    """A line of a ``.jsonl`` file, with defaults for missing fields."""

    model_config = ConfigDict(strict=True, extra="allow")
    client: str
    split: Literal["train", "test"]
    text: str
    label: Any = None
    tags: list[str] = []

    @property
    def target(self) -> str:
        """The target of the line: label (a number or a word), tags, or neither."""
        if "label" in self.model_fields_set:
            return "a word as label" if isinstance(self.label, str) else "label"
        return "tags" if "tags" in self.model_fields_set else "neither label nor tags"


def _texts(content: list[bytes], file: str, folder: Path, known: Description) -> dict[str, Any]:
    rows = []
    ignored: set[str] = set()
    for line in _lines(content, file, known):
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
    card = npy.write(folder, *npy.text_arrays(file, texts), known)
    return {**card, "classes": classes or None, "ignored_fields": sorted(ignored)}


def _lines(contents: list[bytes], file: str, known: Description) -> Iterator[_Line]:
    """The lines of a file, all with the same kind of target."""
    before: _Line | None = None
    for number, content in enumerate(contents, start=1):
        where = f"{file}, line {number}"
        content = content.removeprefix(codecs.BOM_UTF8).strip()
        if not content:
            continue
        try:
            line = _Line.model_validate_json(content)
        except ValidationError as error:
            (first, *_) = error.errors()
            place = "".join(f"{part}: " for part in first["loc"])
            unread = first["type"] in ("missing", "json_invalid")
            given = "" if unread else f", not {first['input']!r:.40}"
            raise Error(f"{where}: {place}{first['msg']}{given}") from None
        if {"label", "tags"} <= line.model_fields_set:
            raise Error(f"{where}: has both label and tags, but only one of them is allowed")
        if known.class_count and "label" not in line.model_fields_set:
            raise Error(f"{where}: lacks 'label', which {known.title} needs")
        if "label" in line.model_fields_set:
            _check_label(line.label, where, known)
        if before and line.target != before.target:
            raise Error(f"{where}: has {line.target}, but the lines before have {before.target}")
        before = line
        yield line


def _check_label(label: Any, where: str, known: Description) -> None:
    """Require a number or a word, and for a known data set one of its labels."""
    if type(label) is int and 0 <= label < 2**63:
        _check_labels(label, where, known)
    elif not isinstance(label, str) or not label:
        raise Error(f"{where}: label is {label!r:.40} (allowed: a whole number >= 0, or a word)")
    elif known.classes and label not in known.classes:
        raise Error(f"{where}: {unknown('label', label, known.classes)}")
    elif known.class_count and not known.classes:
        raise Error(f"{where} has label {label!r}, but the labels of {known.title} are numbers")
