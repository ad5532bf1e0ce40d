"""Readers of TensorFlow Federated's files: HDF5, and SQLite with serialised examples.

Both forms hold examples by split and client. Clients come in the order of their sorted ids, which
is the order that TFF samples from, and a client's examples in the order of the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

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
                f"{self._path.name} is not a whole HDF5 file: {first_line(error)}"
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
                f"{self._path.name} is not TFF's SQLite file: {first_line(error)}"
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


def first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
