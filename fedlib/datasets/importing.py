"""The way in for files the user has: ``.npz`` for arrays, ``.jsonl`` for texts.

A file is taken whole or refused whole, with one line that says what is wrong. Nothing is ever
unpickled, and large files are read in pieces.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedlib.datasets import store
from fedlib.datasets.catalogue import ENTRIES, Entry
from fedlib.datasets.dataset import describe, record
from fedlib.errors import Error, unknown

REQUIRED = ("train_x", "train_y", "test_x", "test_y")
OPTIONAL = ("train_client", "test_client", "train_coarse", "test_coarse", "classes")
SPLITS = ("train", "test")
_CHUNK = 1 << 24


def import_file(
    name: str,
    path: str | os.PathLike[str],
    data_root: store.Root = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Check a file and store it as the prepared data set ``name``.

    ``.npz``: ``train_x, train_y, test_x, test_y``, and if known ``train_client, test_client,
    train_coarse, test_coarse, classes``. Images or features are uint8 (other integers only from 0
    to 255) or floating point, stored as float32; labels and codes are integers, 0 or more.

    ``.jsonl``: an object a line with ``client``, ``split`` (``"train"`` or ``"test"``), ``text``,
    and on all lines ``label`` (an integer), on all lines ``tags`` (a list of strings), or neither.

    Args:
        name: of a known data set, whose format the file must then have, or any new name made of
            a-z, 0-9, ``_`` and ``-``.
        path: the file.
        data_root: default ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.

    Returns:
        The new card.

    Raises:
        Error: the name is taken or not allowed, or the file is not as it should be. Nothing is
            written then.
    """
    path = Path(path)
    store.prepared_folder(name, data_root)
    if not path.is_file():
        raise Error(f"there is no file {path}")
    kind = {".npz": "arrays", ".jsonl": "text"}.get(path.suffix)
    if kind is None:
        raise Error(f"{path.name} cannot be imported: give a .npz (arrays) or .jsonl (text) file")
    entry = ENTRIES.get(name)
    if entry is not None and entry.kind == "posts":
        raise Error(f"{name!r} cannot be imported; get it with 'fedlib data prepare {name}'")
    if entry is not None and entry.kind != kind:
        wanted = ".npz file of arrays" if entry.kind == "arrays" else ".jsonl file of texts"
        raise Error(f"{name!r} is imported from a {wanted}, not from {path.name}")
    with store.writing(name, data_root, overwrite) as folder:
        card = _arrays(path, folder, entry) if kind == "arrays" else _texts(path, folder, entry)
        return store.write_card(folder, {**_about(name, kind, path, entry), **card})


def _about(name: str, kind: str, path: Path, entry: Entry | None) -> dict[str, Any]:
    return {
        "name": name,
        "title": entry.title if entry else name,
        "kind": kind,
        "about": entry.about if entry else "imported by the user",
        "source": entry.source if entry else f"imported by the user from {path.name}",
        "licence": entry.licence if entry else "as the user knows it",
        "file": path.name,
    }


# ---------------------------------------------------------------------------------------- arrays


@dataclass
class _Member:
    """An array inside the archive, known from its header only."""

    info: zipfile.ZipInfo
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    offset: int


def _arrays(path: Path, folder: Path, entry: Entry | None) -> dict[str, Any]:
    with _reading(path), zipfile.ZipFile(path) as archive:
        members = _headers(archive, path)
        _check_headers(members, path, entry)
        arrays, largest = {}, {}
        for key, member in members.items():
            if key != "classes":
                arrays[key], largest[key] = _copy(archive, member, folder, key, path)
        classes = _classes(archive, members.get("classes"), path)
    for split in SPLITS:
        count = entry.class_count if entry else None
        if count is not None and largest[f"{split}_y"] >= count:
            raise Error(
                f"{path.name}: {split}_y has label {largest[f'{split}_y']}, "
                f"but {entry.title if entry else ''} has labels 0 to {count - 1}"
            )
        if classes is not None and largest[f"{split}_y"] >= len(classes):
            raise Error(
                f"{path.name}: {split}_y has label {largest[f'{split}_y']}, "
                f"but classes names only {len(classes)}"
            )
    if entry and classes and entry.class_count and len(classes) != entry.class_count:
        raise Error(
            f"{path.name}: classes has {len(classes)} names, but {entry.title} has "
            f"{entry.class_count} labels"
        )
    if classes is None and entry and entry.classes:
        classes = list(entry.classes)
    counts = {split: arrays[f"{split}_x"]["shape"][0] for split in SPLITS}
    for split in SPLITS:
        if f"{split}_client" in arrays:
            codes = np.load(folder / f"{split}_client.npy", mmap_mode="r")
            counts[f"{split}_clients"] = len(np.unique(codes))
    polarity = None
    if entry and entry.polarity:
        polarity = measured_polarity(np.load(folder / "train_x.npy", mmap_mode="r"))
    return {"counts": counts, "classes": classes, "arrays": arrays, "polarity": polarity}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged archive raises into one line."""
    damaged = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    try:
        yield
    except damaged as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Error(f"{path.name} is not a .npz file, or is damaged or cut off: {reason}") from None


def _headers(archive: zipfile.ZipFile, path: Path) -> dict[str, _Member]:
    members: dict[str, _Member] = {}
    for info in archive.infolist():
        key = info.filename.removesuffix(".npy")
        if key not in REQUIRED + OPTIONAL:
            raise Error(f"{path.name}: {unknown('array', key, REQUIRED + OPTIONAL)}")
        if key in members:
            raise Error(f"{path.name} holds the array {key!r} twice")
        with archive.open(info) as stream:
            try:
                version = np.lib.format.read_magic(stream)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, fortran, dtype = read(stream)
            except (ValueError, KeyError) as error:
                reason = str(error).splitlines()[0]
                raise Error(f"{path.name}: {key!r} is not a NumPy array: {reason}") from None
            if dtype.hasobject:
                raise Error(
                    f"{path.name}: {key!r} holds Python objects, which would have to be unpickled; "
                    "give plain numbers (or, for classes, strings)"
                )
            members[key] = _Member(info, dtype, tuple(shape), fortran, stream.tell())
    return members


def _check_headers(members: dict[str, _Member], path: Path, entry: Entry | None) -> None:
    missing = [key for key in REQUIRED if key not in members]
    if missing:
        raise Error(f"{path.name} lacks {', '.join(missing)}")
    for key, member in members.items():
        if key == "classes":
            continue
        dimensions = len(member.shape)
        if key.endswith("_x") and not 2 <= dimensions <= 4:
            raise Error(
                f"{path.name}: {key} has {dimensions} dimensions; needed: 2 to 4, examples first "
                "([N, features], [N, height, width] or [N, height, width, channels])"
            )
        if not key.endswith("_x") and dimensions != 1:
            raise Error(f"{path.name}: {key} has {dimensions} dimensions; needed: 1")
        if 0 in member.shape:
            raise Error(f"{path.name}: {key} is empty (shape {member.shape})")
        if not key.endswith("_x") and member.dtype.kind not in "iu":
            raise Error(f"{path.name}: {key} is {member.dtype}; needed: integers")
        if key.endswith("_x") and member.dtype.kind not in "biuf":
            raise Error(f"{path.name}: {key} is {member.dtype}; needed: uint8 or floating point")
        expected = member.offset + member.dtype.itemsize * int(np.prod(member.shape, dtype=object))
        if member.info.file_size != expected:
            raise Error(
                f"{path.name}: {key} is cut off or damaged: {member.info.file_size} bytes, "
                f"{expected} expected"
            )
        split = key.split("_")[0]
        examples = members[f"{split}_x"].shape[0]
        if member.shape[0] != examples:
            raise Error(
                f"{path.name}: {key} has {member.shape[0]} entries, but {split}_x has {examples}"
            )
    train, test = members["train_x"], members["test_x"]
    if train.shape[1:] != test.shape[1:]:
        raise Error(
            f"{path.name}: an example has shape {train.shape[1:]} in train_x, "
            f"but {test.shape[1:]} in test_x"
        )
    if (train.dtype.kind == "f") != (test.dtype.kind == "f"):
        raise Error(f"{path.name}: train_x is {train.dtype}, but test_x is {test.dtype}")
    if entry and entry.shape and train.shape[1:] != entry.shape:
        raise Error(
            f"{path.name}: an example has shape {train.shape[1:]}, but {entry.title} has "
            f"{entry.shape}"
        )


def _copy(
    archive: zipfile.ZipFile, member: _Member, folder: Path, key: str, path: Path
) -> tuple[dict[str, Any], int]:
    """Check and convert an array piece by piece into ``folder``; its record and largest value."""
    is_x = key.endswith("_x")
    target = np.dtype(np.float32 if member.dtype.kind == "f" else np.uint8 if is_x else np.int64)
    digest, largest = hashlib.sha256(), 0
    with open(folder / f"{key}.npy", "wb") as out:
        _write_header(out, target, member.shape)
        for piece in _pieces(archive, member):
            if piece.dtype.kind == "f":
                # Values beyond float32 become infinite here, and are then refused.
                with np.errstate(over="ignore"):
                    piece = piece.astype(target)
                if not np.isfinite(piece).all():
                    raise Error(f"{path.name}: {key} has values that are not finite float32")
            else:
                low, high = int(piece.min()), int(piece.max())
                if is_x and (low < 0 or high > 255):
                    raise Error(
                        f"{path.name}: {key} has integers from {low} to {high}; integer images "
                        "go from 0 to 255, give other features as float32"
                    )
                if low < 0:
                    raise Error(f"{path.name}: {key} has {low}; needed: integers, 0 or more")
                if high > np.iinfo(np.int64).max:
                    raise Error(f"{path.name}: {key} has {high}, which is too large")
                largest = max(largest, high)
            data = np.ascontiguousarray(piece, dtype=target).data
            out.write(data)
            digest.update(data)
    return record(target, member.shape, digest.hexdigest()), largest


def _pieces(archive: zipfile.ZipFile, member: _Member) -> Iterator[np.ndarray]:
    with archive.open(member.info) as stream:
        if member.fortran and len(member.shape) > 1:
            # Column-major files cannot be cut into examples; they are rare and read in one go.
            yield np.lib.format.read_array(stream, allow_pickle=False)
            return
        stream.read(member.offset)
        row = member.dtype.itemsize * int(np.prod(member.shape[1:], dtype=object))
        step = max(1, _CHUNK // row)
        for start in range(0, member.shape[0], step):
            rows = min(step, member.shape[0] - start)
            data = stream.read(rows * row)
            if len(data) != rows * row:
                raise EOFError(f"{member.info.filename} ends early")
            yield np.frombuffer(data, dtype=member.dtype).reshape(rows, *member.shape[1:])


def _write_header(out: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)


def _classes(archive: zipfile.ZipFile, member: _Member | None, path: Path) -> list[str] | None:
    if member is None:
        return None
    if member.dtype.kind != "U" or len(member.shape) != 1 or member.shape[0] == 0:
        raise Error(f"{path.name}: classes must be a one-dimensional array of strings")
    with archive.open(member.info) as stream:
        try:
            names: list[str] = np.lib.format.read_array(stream, allow_pickle=False).tolist()
        except ValueError as error:
            raise Error(f"{path.name}: classes is damaged: {str(error).splitlines()[0]}") from None
    return names


def measured_polarity(images: np.ndarray) -> str:
    """Whether the border of the first thousand images, which is paper, is bright or dark."""
    first = np.asarray(images[:1000], dtype=np.float32)
    border = np.concatenate([first[:, 0], first[:, -1], first[:, :, 0], first[:, :, -1]], axis=1)
    return "ink_dark" if float(np.median(border)) > float(first.max()) / 2 else "ink_bright"


# ----------------------------------------------------------------------------------------- texts


@dataclass
class _Split:
    """One split while its texts stream to disk."""

    text: IO[bytes]
    tags: IO[bytes]
    offsets: array = field(default_factory=lambda: array("q", [0]))
    tags_offsets: array = field(default_factory=lambda: array("q", [0]))
    client: array = field(default_factory=lambda: array("q"))
    label: array = field(default_factory=lambda: array("q"))


def _texts(path: Path, folder: Path, entry: Entry | None) -> dict[str, Any]:
    codes: dict[str, int] = {}
    target, ignored = None, set()
    with ExitStack() as files:
        splits = {
            split: _Split(
                text=files.enter_context(open(folder / f"{split}_text.raw", "wb")),
                tags=files.enter_context(open(folder / f"{split}_tags.raw", "wb")),
            )
            for split in SPLITS
        }
        for number, row in _rows(path):
            where = f"{path.name}, line {number}"
            split, kind = _check_row(row, where, entry)
            if target is None:
                target = kind
            if kind != target:
                raise Error(
                    f"{where}: has {kind or 'neither label nor tags'}, but the lines before have "
                    f"{target or 'neither label nor tags'}"
                )
            ignored |= row.keys() - {"client", "split", "text", "label", "tags"}
            _add(splits[split], row, codes, where)
    for split, one in splits.items():
        if not one.client:
            raise Error(f"{path.name} has no line with split {split!r}")
        if one.offsets[-1] == 0:
            raise Error(f"{path.name}: all texts with split {split!r} are empty")
    arrays = _store_texts(folder, splits, target, codes)
    counts = {split: len(one.client) for split, one in splits.items()}
    counts |= {f"{split}_clients": len(set(one.client)) for split, one in splits.items()}
    return {
        "counts": counts,
        "clients": len(codes),
        "target": target,
        "classes": list(entry.classes) if entry and entry.classes else None,
        "arrays": arrays,
        "ignored_fields": sorted(ignored),
    }


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path.name}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if not text.strip():
                    continue
                row = json.loads(text)
            except UnicodeDecodeError:
                raise Error(f"{where}: is not UTF-8 text") from None
            except (ValueError, RecursionError) as error:
                raise Error(f"{where}: is not JSON: {error}") from None
            if not isinstance(row, dict):
                raise Error(f"{where}: is not a JSON object")
            yield number, row


def _check_row(row: dict[str, Any], where: str, entry: Entry | None) -> tuple[str, str | None]:
    for key in ("client", "split", "text"):
        if key not in row:
            raise Error(f"{where}: lacks {key!r}")
        if not isinstance(row[key], str):
            raise Error(f"{where}: {key!r} must be a string, not {row[key]!r:.40}")
    if row["split"] not in SPLITS:
        raise Error(f"{where}: split is {row['split']!r:.40}; allowed: 'train' or 'test'")
    if "label" in row and "tags" in row:
        raise Error(f"{where}: has both label and tags; allowed: one of them")
    if "label" in row:
        label = row["label"]
        if type(label) is not int or not 0 <= label < 2**63:
            raise Error(f"{where}: label is {label!r:.40}; allowed: an integer, 0 or more")
        if entry and entry.class_count and label >= entry.class_count:
            raise Error(
                f"{where}: label is {label}, but {entry.title} has labels 0 to "
                f"{entry.class_count - 1}"
            )
        return row["split"], "label"
    if entry and entry.class_count:
        raise Error(f"{where}: lacks 'label', which {entry.title} needs")
    if "tags" in row:
        tags = row["tags"]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise Error(f"{where}: tags must be a list of strings")
        return row["split"], "tags"
    return row["split"], None


def _add(split: _Split, row: dict[str, Any], codes: dict[str, int], where: str) -> None:
    try:
        row["client"].encode("utf-8")
        written = split.text.write(row["text"].encode("utf-8"))
    except UnicodeEncodeError:
        raise Error(f"{where}: has half of a surrogate pair, which is not valid text") from None
    split.offsets.append(split.offsets[-1] + written)
    split.client.append(codes.setdefault(row["client"], len(codes)))
    if "label" in row:
        split.label.append(row["label"])
    if "tags" in row:
        written = split.tags.write(json.dumps(row["tags"]).encode("ascii"))
        split.tags_offsets.append(split.tags_offsets[-1] + written)


def _store_texts(
    folder: Path, splits: dict[str, _Split], target: str | None, codes: dict[str, int]
) -> dict[str, Any]:
    for split, one in splits.items():
        _wrap(folder, f"{split}_text", one.offsets[-1])
        np.save(folder / f"{split}_offsets.npy", np.array(one.offsets, dtype=np.int64))
        np.save(folder / f"{split}_client.npy", np.array(one.client, dtype=np.int64))
        if target == "label":
            np.save(folder / f"{split}_label.npy", np.array(one.label, dtype=np.int64))
        if target == "tags":
            _wrap(folder, f"{split}_tags", one.tags_offsets[-1])
            np.save(
                folder / f"{split}_tags_offsets.npy", np.array(one.tags_offsets, dtype=np.int64)
            )
        (folder / f"{split}_tags.raw").unlink(missing_ok=True)
    names = json.dumps(list(codes)).encode("ascii")
    np.save(folder / "client_names.npy", np.frombuffer(names, dtype=np.uint8))
    return {
        file.stem: describe(np.load(file, mmap_mode="r", allow_pickle=False))
        for file in sorted(folder.glob("*.npy"))
    }


def _wrap(folder: Path, key: str, length: int) -> None:
    """Turn ``key.raw``, whose length was not known while writing, into ``key.npy``."""
    raw = folder / f"{key}.raw"
    with open(raw, "rb") as source, open(folder / f"{key}.npy", "wb") as out:
        _write_header(out, np.dtype(np.uint8), (length,))
        shutil.copyfileobj(source, out, _CHUNK)
    raw.unlink()
