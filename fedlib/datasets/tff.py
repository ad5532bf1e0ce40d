"""Readers of TensorFlow Federated's files (HDF5 and SQLite), and what is made of each data set.

Both forms hold examples by split and client. Clients come in the order of their sorted ids, which
is the order that TFF samples from, and a client's examples in the order of the file.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets.catalogue import ENTRIES
from fedlib.datasets.growing import GrowingArray
from fedlib.datasets.importing import measured_polarity
from fedlib.datasets.posts import TAGS, WORDS, PostsWriter, vocabulary
from fedlib.errors import Error

# A feature is a string of bytes (None), or numbers of a kind ("f" or "i") and a shape.
Feature = tuple[str, tuple[int, ...]] | None
_PIECE = 4096


class Reader(Protocol):
    """One split of a file."""

    def clients(self) -> list[str]:
        """The clients' ids, sorted as strings (by code point)."""

    def pieces(self, features: Mapping[str, Feature]) -> Iterator[tuple[str, dict[str, Any]]]:
        """(client, values by feature), client by client; a client with many examples comes in
        several pieces, one without examples in one empty piece.

        Values are a list of bytes, or an array ``[n, *shape]``.
        """


# ------------------------------------------------------------------------------------------ HDF5


class HDF5Reader:
    """``/examples/<client id>/<feature>``, one data set per feature with the examples first."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)

    def clients(self) -> list[str]:
        """See :class:`Reader`."""
        with self._examples() as examples:
            return sorted(examples)

    def pieces(self, features: Mapping[str, Feature]) -> Iterator[tuple[str, dict[str, Any]]]:
        """See :class:`Reader`."""
        with self._examples() as examples:
            for client in sorted(examples):
                group, where = examples[client], f"{self._path.name}, client {client!r}"
                found = {key: self._dataset(group, key, features[key], where) for key in features}
                lengths = {key: len(dataset) for key, dataset in found.items()}
                if len(set(lengths.values())) > 1:
                    raise Error(f"{where}: features of unequal lengths {lengths}")
                size = next(iter(lengths.values()))
                for start in range(0, max(size, 1), _PIECE):
                    stop = min(start + _PIECE, size)
                    yield (
                        client,
                        {
                            key: dataset[start:stop].tolist()
                            if features[key] is None
                            else dataset[start:stop]
                            for key, dataset in found.items()
                        },
                    )

    @contextmanager
    def _examples(self) -> Iterator[h5py.Group]:
        try:
            with h5py.File(self._path, "r") as file:
                examples = file.get("examples")
                if not isinstance(examples, h5py.Group):
                    raise Error(f"{self._path.name} has no group 'examples': it is not TFF's file")
                yield examples
        except (OSError, RuntimeError, KeyError) as error:
            raise Error(
                f"{self._path.name} is not a whole HDF5 file: {_first_line(error)}"
            ) from None

    @staticmethod
    def _dataset(group: Any, key: str, feature: Feature, where: str) -> h5py.Dataset:
        dataset = group.get(key) if isinstance(group, h5py.Group) else None
        if not isinstance(dataset, h5py.Dataset):
            raise Error(f"{where}: no feature {key!r}")
        if feature is None:
            good = h5py.check_string_dtype(dataset.dtype) is not None and dataset.ndim == 1
            needed = "strings, [n]"
        else:
            kinds = "f" if feature[0] == "f" else "iu"
            good = dataset.dtype.kind in kinds and dataset.shape[1:] == feature[1]
            needed = f"{'floats' if kinds == 'f' else 'integers'}, [n, *{feature[1]}]"
        if not good:
            raise Error(f"{where}: {key} is {dataset.dtype} {dataset.shape}; needed: {needed}")
        return dataset


# ---------------------------------------------------------------------------------------- SQLite


class SQLiteReader:
    """One split of ``examples(split_name, client_id, serialized_example_proto)``."""

    def __init__(self, path: Path, split: str) -> None:
        self._path, self._split = Path(path), split

    def clients(self) -> list[str]:
        """See :class:`Reader`."""
        with self._connection() as connection:
            return self._clients(connection)

    def pieces(self, features: Mapping[str, Feature]) -> Iterator[tuple[str, dict[str, Any]]]:
        """See :class:`Reader`."""
        query = (
            "SELECT serialized_example_proto FROM examples "
            "WHERE split_name = ? AND client_id = ? ORDER BY rowid"
        )
        with self._connection() as connection:
            expected = dict(
                connection.execute(
                    "SELECT client_id, num_examples FROM client_metadata WHERE split_name = ?",
                    (self._split,),
                )
            )
            for client in self._clients(connection):
                where = f"{self._path.name}, {self._split} client {client!r}"
                rows = connection.execute(query, (self._split, client))
                seen = 0
                while True:
                    piece = [proto for (proto,) in rows.fetchmany(_PIECE)]
                    if piece or not seen:
                        yield client, _columns(piece, features, where)
                    seen += len(piece)
                    if len(piece) < _PIECE:
                        break
                if seen != expected[client]:
                    raise Error(
                        f"{where}: {seen} examples, but its metadata say {expected[client]}"
                    )

    def _clients(self, connection: sqlite3.Connection) -> list[str]:
        rows = connection.execute(
            "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ?", (self._split,)
        )
        clients = [client for (client,) in rows]
        if not all(isinstance(client, str) for client in clients):
            raise Error(f"{self._path.name}: a client id of split {self._split!r} is not a text")
        clients.sort()
        if not clients:
            raise Error(f"{self._path.name} has no split {self._split!r}")
        return clients

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if not self._path.is_file():
            raise Error(f"there is no file {self._path}")
        try:
            uri = f"{self._path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise Error(
                f"{self._path.name} is not TFF's SQLite file: {_first_line(error)}"
            ) from None


def _columns(
    protos: Sequence[Any], features: Mapping[str, Feature], where: str
) -> dict[str, list[bytes] | np.ndarray]:
    """Parse examples, check each feature, and put the values of each together."""
    columns: dict[str, list[Any]] = {key: [] for key in features}
    for proto in protos:
        try:
            example = parse_example(proto, features)
        except ValueError as error:
            raise Error(f"{where}: an example cannot be read: {error}") from None
        for key, feature in features.items():
            value = example.get(key)
            if value is None:
                raise Error(f"{where}: no feature {key!r}")
            if feature is None:
                if not isinstance(value, list) or len(value) != 1:
                    raise Error(f"{where}: {key} is not one string")
                columns[key].append(value[0])
                continue
            kind, shape = feature
            size = int(np.prod(shape, dtype=np.int64))
            if not isinstance(value, np.ndarray) or (value.dtype.kind, value.size) != (kind, size):
                raise Error(
                    f"{where}: {key} is not {size} {'floats' if kind == 'f' else 'integers'}"
                )
            columns[key].append(value.reshape(shape))
    whole: dict[str, list[bytes] | np.ndarray] = {}
    for key, feature in features.items():
        if feature is None:
            whole[key] = columns[key]
        else:
            dtype = np.float32 if feature[0] == "f" else np.int64
            whole[key] = np.array(columns[key], dtype=dtype).reshape(-1, *feature[1])
    return whole


def parse_example(
    proto: bytes, wanted: Container[str] | None = None
) -> dict[str, list[bytes] | np.ndarray]:
    """The features of a serialised ``tf.train.Example``, all or those that are wanted.

    The message is ``Example{1: Features{1: map<string, Feature>}}``, where a Feature holds one of
    ``1: BytesList``, ``2: FloatList``, ``3: Int64List``, each with the repeated field 1. Numbers
    may be packed or not.

    Returns:
        For each name a list of bytes, a float32 array, or an int64 array.

    Raises:
        ValueError: these bytes are not such a message.
    """
    if not isinstance(proto, bytes):
        raise ValueError("not a string of bytes")
    features: dict[str, list[bytes] | np.ndarray] = {}
    for entry in _messages(proto, 1):
        for pair in _messages(entry, 1):
            name, value = b"", b""
            for number, wire, content in _fields(pair):
                if number == 1 and wire == 2:
                    name = content
                elif number == 2 and wire == 2:
                    value = content
            key = name.decode("utf-8")
            if wanted is None or key in wanted:
                features[key] = _feature(value)
    return features


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, wire, content in _fields(data):
        if number == wanted:
            if wire != 2:
                raise ValueError(f"field {number} has wire type {wire}; needed: 2")
            yield content


def _feature(data: bytes) -> list[bytes] | np.ndarray:
    values: list[bytes] | np.ndarray = []
    for number, wire, content in _fields(data):
        if number in (1, 2, 3):
            if wire != 2:
                raise ValueError(f"a list of values has wire type {wire}; needed: 2")
            values = (_byte_list, _float_list, _int64_list)[number - 1](content)
    return values


def _byte_list(data: bytes) -> list[bytes]:
    return list(_messages(data, 1))


def _float_list(data: bytes) -> np.ndarray:
    parts = []
    for number, wire, content in _fields(data):
        if number == 1:
            if wire not in (2, 5) or len(content) % 4:
                raise ValueError("a list of floats is damaged")
            parts.append(content)
    return np.frombuffer(b"".join(parts), dtype="<f4").astype(np.float32)


def _int64_list(data: bytes) -> np.ndarray:
    parts = []
    for number, wire, content in _fields(data):
        if number == 1:
            if wire not in (0, 2):
                raise ValueError("a list of integers is damaged")
            # Modulo 2**64, as varints are: negative numbers have ten bytes.
            numbers = _varints(content) if wire == 2 else np.array([content], dtype=np.uint64)
            parts.append(numbers)
    return np.concatenate([*parts, np.zeros(0, dtype=np.uint64)]).view(np.int64)


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, content) of a message: an int for varints (0), else bytes."""
    at, end = 0, len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, wire, value
            continue
        if wire == 2:
            # Nearly all numbers here fit into one byte; a call for each is slow.
            short = at < end and data[at] < 128
            size, at = (data[at], at + 1) if short else _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > end:
            raise ValueError("it ends early")
        yield tag >> 3, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise ValueError("a number does not end")


def _varints(data: bytes) -> np.ndarray:
    """All varints of a packed field, uint64."""
    raw = np.frombuffer(data, dtype=np.uint8)
    last = np.flatnonzero(raw < 128)
    if len(raw) and (not len(last) or last[-1] != len(raw) - 1):
        raise ValueError("a number does not end")
    first = np.concatenate([[0], last + 1])[:-1]
    sizes = last - first + 1
    if len(sizes) == 0:
        return np.zeros(0, dtype=np.uint64)
    if sizes.max() > 10:
        raise ValueError("a number does not end")
    place = np.arange(len(raw)) - np.repeat(first, sizes)
    bits = (raw & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, first)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


# ----------------------------------------------------------------------------------------- files

# How a file is known among those given: by its key, or by the end of its name.
_ROLES = {
    "sqlite": r"sqlite|.*\.sqlite",
    "train": r"train|.*_train\.h5",
    "heldout": r"held_?out|.*_held_?out\.h5",
    "test": r"test|.*_test\.h5",
    "word_count": r"words?|word_counts?|.*\.word_count",
    "tag_count": r"tags?|tag_counts?|.*\.tag_count",
}


def _find(name: str, files: Mapping[str, Path], role: str) -> Path | None:
    found = [
        Path(path)
        for key, path in files.items()
        if re.fullmatch(_ROLES[role], key) or re.fullmatch(_ROLES[role], Path(path).name)
    ]
    if len(found) > 1:
        raise Error(f"{name}: more than one {role} file: {', '.join(path.name for path in found)}")
    return found[0] if found else None


def _need(name: str, files: Mapping[str, Path], role: str) -> Path:
    path = _find(name, files, role)
    if path is None:
        given = ", ".join(Path(path).name for path in files.values()) or "nothing"
        wanted = role if role.endswith("count") else f"{role} (.h5) or sqlite"
        raise Error(f"{name}: no {wanted} file among the given ones ({given})")
    return path


def _readers(
    name: str, files: Mapping[str, Path], splits: Mapping[str, str]
) -> dict[str, HDF5Reader | SQLiteReader]:
    """A reader for each of our splits, given their names in the SQLite file."""
    sqlite = _find(name, files, "sqlite")
    if sqlite is not None:
        return {split: SQLiteReader(sqlite, theirs) for split, theirs in splits.items()}
    return {split: HDF5Reader(_need(name, files, split)) for split in splits}


def _watched(
    name: str, split: str, reader: Reader, features: Mapping[str, Feature], progress: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The reader's pieces, under a progress bar that counts clients."""
    total = len(reader.clients())
    previous = None
    with tqdm(total=total, desc=f"{name} {split}", unit="client", disable=not progress) as bar:
        for client, values in reader.pieces(features):
            bar.update(previous is not None and client != previous)
            previous = client
            yield client, values
        bar.update(previous is not None)


# --------------------------------------------------------------------------------- arrays, texts


class _Inexact(Exception):
    """Some pixels are not k / 255 in float32."""


def write_emnist(files: Mapping[str, Path], folder: Path, progress: bool = False) -> dict[str, Any]:
    """Federated EMNIST, 62 labels: writers are matched between the splits by their ids.

    Pixels are stored as uint8 if ``k / 255`` in float32 gives back every one of them bit for bit
    (on the CPU; CUDA multiplies by the reciprocal), and as float32 otherwise. Their polarity is
    kept: paper is 1 in TFF's files.

    Args:
        files: ``fed_emnist_train.h5`` and ``fed_emnist_test.h5``, or ``emnist_all.sqlite`` (of
            which the splits ``all_train`` and ``all_test`` are taken).
        folder: where the ``.npy`` files go.
        progress: show a progress bar.

    Returns:
        The part of the card that the files determine.
    """
    readers = _readers("emnist", files, {"train": "all_train", "test": "all_test"})
    codes = _codes(reader.clients() for reader in readers.values())
    features: dict[str, Feature] = {"pixels": ("f", (28, 28)), "label": ("i", ())}

    def write(as_bytes: bool) -> dict[str, Any]:
        dtype = np.uint8 if as_bytes else np.float32
        convert = _exact_bytes if as_bytes else _finite
        columns = {"x": ("pixels", dtype, (28, 28), convert), "y": ("label", np.int64, (), _label)}
        return _arrays("emnist", readers, folder, features, columns, codes, progress)

    try:
        arrays = write(as_bytes=True)
    except _Inexact:
        arrays = write(as_bytes=False)
    card = _array_card("emnist", folder, arrays, codes)
    return {**card, "polarity": measured_polarity(np.load(folder / "train_x.npy", mmap_mode="r"))}


def write_fed_cifar100(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Federated CIFAR-100: 500 training and 100 other test clients, 100 images each.

    Both splits call their clients ``0``, ``1``, ...; they are different clients, so a test client's
    name here is ``test/`` and its id, and no code occurs in both splits.

    Args:
        files: ``fed_cifar100_train.h5`` and ``fed_cifar100_test.h5``, or ``cifar100.sqlite``.
        folder: where the ``.npy`` files go.
        progress: show a progress bar.

    Returns:
        The part of the card that the files determine.
    """
    readers = _readers("fed_cifar100", files, {"train": "train", "test": "test"})
    train = _codes([readers["train"].clients()])
    test = readers["test"].clients()
    codes = {**train, **{f"test/{client}": len(train) + i for i, client in enumerate(test)}}
    features: dict[str, Feature] = {
        "image": ("i", (32, 32, 3)),
        "label": ("i", ()),
        "coarse_label": ("i", ()),
    }
    columns = {
        "x": ("image", np.uint8, (32, 32, 3), _byte),
        "y": ("label", np.int64, (), _label),
        "coarse": ("coarse_label", np.int64, (), _label),
    }
    prefix = {"train": "", "test": "test/"}
    arrays = _arrays("fed_cifar100", readers, folder, features, columns, codes, progress, prefix)
    return _array_card("fed_cifar100", folder, arrays, codes)


def write_shakespeare(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Shakespeare by role, as texts: one per snippet, train and test roles matched by their ids.

    Args:
        files: ``shakespeare_train.h5`` and ``shakespeare_test.h5``, or ``shakespeare.sqlite``.
        folder: where the ``.npy`` files go.
        progress: show a progress bar.

    Returns:
        The part of the card that the files determine.
    """
    readers = _readers("shakespeare", files, {"train": "train", "test": "test"})
    codes = _codes(reader.clients() for reader in readers.values())
    arrays: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for split, reader in readers.items():
        kinds = {"text": np.uint8, "offsets": np.int64, "client": np.int64}
        with _growing(folder, {f"{split}_{key}": (kind, ()) for key, kind in kinds.items()}) as out:
            end, seen = 0, set()
            out[f"{split}_offsets"].append([0])
            for client, values in _watched(
                "shakespeare", split, reader, {"snippets": None}, progress
            ):
                snippets = values["snippets"]
                text = b"".join(snippets)
                _require_utf8(snippets, f"shakespeare, {split} client {client!r}")
                out[f"{split}_text"].append(np.frombuffer(text, dtype=np.uint8))
                offsets = end + np.cumsum([len(snippet) for snippet in snippets], dtype=np.int64)
                out[f"{split}_offsets"].append(offsets)
                out[f"{split}_client"].append(np.full(len(snippets), codes[client]))
                end += len(text)
                seen |= {client} if snippets else set()
            _require_examples("shakespeare", split, end)
            counts |= {split: out[f"{split}_client"].length, f"{split}_clients": len(seen)}
            arrays |= {key: one.close() for key, one in out.items()}
    arrays["client_names"] = _json_array(folder, "client_names", list(codes))
    return {
        "kind": "text",
        "counts": counts,
        "clients": len(codes),
        "target": None,
        "classes": None,
        "arrays": arrays,
    }


Column = tuple[str, type, tuple[int, ...], Callable[[np.ndarray, str, str, str], np.ndarray]]


def _arrays(
    name: str,
    readers: Mapping[str, Reader],
    folder: Path,
    features: Mapping[str, Feature],
    columns: Mapping[str, Column],
    codes: Mapping[str, int],
    progress: bool,
    prefix: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Stream all splits into ``<split>_<column>.npy`` and ``<split>_client.npy``."""
    arrays: dict[str, Any] = {}
    for split, reader in readers.items():
        wanted = {f"{split}_{key}": (dtype, row) for key, (_, dtype, row, _) in columns.items()}
        with _growing(folder, {**wanted, f"{split}_client": (np.int64, ())}) as out:
            for client, values in _watched(name, split, reader, features, progress):
                where = f"{split} client {client!r}"
                for key, (feature, _, _, convert) in columns.items():
                    out[f"{split}_{key}"].append(convert(values[feature], name, feature, where))
                code = codes[(prefix or {}).get(split, "") + client]
                out[f"{split}_client"].append(np.full(len(values["label"]), code))
            _require_examples(name, split, out[f"{split}_y"].length)
            arrays |= {key: one.close() for key, one in out.items()}
    return arrays


def _array_card(
    name: str, folder: Path, arrays: dict[str, Any], codes: Mapping[str, int]
) -> dict[str, Any]:
    arrays["client_names"] = _json_array(folder, "client_names", list(codes))
    counts = {}
    for split in ("train", "test"):
        counts[split] = arrays[f"{split}_x"]["shape"][0]
        present = np.load(folder / f"{split}_client.npy", mmap_mode="r")
        counts[f"{split}_clients"] = len(np.unique(present))
    entry = ENTRIES.get(name)
    classes = list(entry.classes) if entry and entry.classes else None
    return {"kind": "arrays", "counts": counts, "classes": classes, "arrays": arrays}


def _exact_bytes(pixels: np.ndarray, *_: str) -> np.ndarray:
    pixels = pixels.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        levels = np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)
    again = levels.astype(np.float32) / np.float32(255)
    # As bits, so that a negative zero or a NaN does not pass.
    if not np.array_equal(again.view(np.uint32), pixels.view(np.uint32)):
        raise _Inexact
    return levels


def _finite(pixels: np.ndarray, name: str, feature: str, where: str) -> np.ndarray:
    if not np.isfinite(pixels).all():
        raise Error(f"{name}, {where}: {feature} has values that are not finite")
    return pixels.astype(np.float32)


def _byte(values: np.ndarray, name: str, feature: str, where: str) -> np.ndarray:
    _require_range(values, 256, name, feature, where)
    return values.astype(np.uint8)


def _label(values: np.ndarray, name: str, feature: str, where: str) -> np.ndarray:
    limits = {("emnist", "label"): 62, ("fed_cifar100", "label"): 100}
    _require_range(values, limits.get((name, feature), 20), name, feature, where)
    return values.astype(np.int64)


def _require_range(values: np.ndarray, limit: int, name: str, feature: str, where: str) -> None:
    if values.size and not (0 <= int(values.min()) and int(values.max()) < limit):
        found = f"{int(values.min())} to {int(values.max())}"
        raise Error(f"{name}, {where}: {feature} is {found}; allowed: 0 to {limit - 1}")


def _require_utf8(texts: Iterable[bytes], where: str) -> None:
    for text in texts:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            raise Error(f"{where}: a text is not UTF-8: {text[:40]!r}") from None


def _require_examples(name: str, split: str, count: int) -> None:
    if count == 0:
        raise Error(f"{name}: the {split} split has no examples")


def _codes(clients: Iterable[Sequence[str]]) -> dict[str, int]:
    """Each id's place among all sorted ids."""
    ids = sorted({client for some in clients for client in some})
    return {client: code for code, client in enumerate(ids)}


@contextmanager
def _growing(
    folder: Path, wanted: Mapping[str, tuple[type, tuple[int, ...]]]
) -> Iterator[dict[str, GrowingArray]]:
    """Arrays to append to and close; those that are not closed are removed."""
    with ExitStack() as stack:
        out = {}
        for key, (dtype, row) in wanted.items():
            out[key] = GrowingArray(folder, key, dtype, row)
            stack.callback(out[key].discard)
        yield out


def _json_array(folder: Path, key: str, content: Any) -> dict[str, Any]:
    data = json.dumps(content).encode("ascii")
    with _growing(folder, {key: (np.uint8, ())}) as out:
        out[key].append(np.frombuffer(data, dtype=np.uint8))
        return out[key].close()


# --------------------------------------------------------------------------------- Stack Overflow


def write_stackoverflow(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Stack Overflow as :class:`fedlib.datasets.posts.Posts`, splits train, heldout and test.

    The vocabularies are the 10,000 first words and the 500 most frequent tags of TFF's own counts
    (FedOpt section 4 and its public code). Memory is bounded by the largest client's ids: texts
    are read and encoded some thousands at a time.

    Args:
        files: ``stackoverflow_train.h5``, ``stackoverflow_held_out.h5`` and
            ``stackoverflow_test.h5``, or ``stackoverflow.sqlite``; with both
            ``stackoverflow.word_count`` and ``stackoverflow.tag_count``.
        folder: where the ``.npy`` files go.
        progress: show a progress bar.

    Returns:
        The part of the card that the files determine.
    """
    name = "stackoverflow"
    readers = _readers(name, files, {split: split for split in ("train", "heldout", "test")})
    words = read_word_counts(_need(name, files, "word_count"), WORDS)
    tags = read_tag_counts(_need(name, files, "tag_count"), TAGS)
    features: dict[str, Feature] = {"tokens": None, "title": None, "tags": None}
    arrays: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for split, reader in readers.items():
        with PostsWriter(folder, split, words, tags) as writer:
            for client, values in _watched(name, split, reader, features, progress):
                writer.add(client, values["tokens"], values["title"], values["tags"])
            _require_examples(name, split, len(writer))
        counts |= {split: len(writer), f"{split}_clients": writer.clients}
        arrays |= writer.records
    arrays["vocabulary"] = _json_array(folder, "vocabulary", {"words": words, "tags": tags})
    return {"kind": "posts", "counts": counts, "classes": None, "arrays": arrays}


def read_word_counts(path: Path, size: int) -> list[str]:
    """The ``size`` first words of lines ``word count`` in rank order."""

    def words() -> Iterator[str]:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                parts = line.split()
                if len(parts) != 2 or not parts[1].isdecimal():
                    raise Error(f"{path.name}, line {number}: is not 'word count': {line[:60]!r}")
                yield parts[0]

    with _counts(path):
        found = list(vocabulary(words(), size))
    return _all(found, size, "words", path)


def read_tag_counts(path: Path, size: int) -> list[str]:
    """The ``size`` most frequent tags of a JSON object ``{tag: count}``; the first of equal ones
    in the file comes first."""
    with _counts(path):
        counts = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(counts, dict) or not all(type(n) is int for n in counts.values()):
            raise Error(f"{path.name} is not a JSON object of tags and counts")
    return _all(list(vocabulary(counts, size)), size, "tags", path)


def _all(found: list[str], size: int, what: str, path: Path) -> list[str]:
    if len(found) < size:
        raise Error(f"{path.name} has {len(found)} {what}; needed: at least {size}")
    return found


@contextmanager
def _counts(path: Path) -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path.name} cannot be read: {_first_line(error)}") from None


# What is given are the unpacked files, by any key or by TFF's file names (see each function).
WRITERS: dict[str, Callable[[Mapping[str, Path], Path, bool], dict[str, Any]]] = {
    "emnist": write_emnist,
    "fed_cifar100": write_fed_cifar100,
    "shakespeare": write_shakespeare,
    "stackoverflow": write_stackoverflow,
}
