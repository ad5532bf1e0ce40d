"""Readers of the original files of image and text sets, and what is made of each.

TensorFlow Federated's files are read in :mod:`fedlib.datasets.tff`.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets.catalogue import ENTRIES
from fedlib.datasets.growing import GrowingArray
from fedlib.datasets.importing import measured_polarity
from fedlib.errors import Error, require
from fedlib.randomness import numpy_generator

_ROWS = 4096  # examples read or written at once
_SEED = 0  # of splits made here: a prepared data set is one fixed data set
Files = Mapping[str, Path]


@contextmanager
def _growing(folder: Path, wanted: Mapping[str, tuple[type, tuple[int, ...]]]) -> Iterator[Any]:
    """Arrays to append to by key; those that are not closed in the end are removed."""
    with ExitStack() as stack:
        out = {}
        for key, (dtype, row) in wanted.items():
            out[key] = GrowingArray(folder, key, dtype, row)
            stack.callback(out[key].discard)
        yield out


def _labels(values: np.ndarray, count: int, where: str) -> np.ndarray:
    if values.size and int(values.max()) >= count:
        raise Error(f"{where}: label is {int(values.max())}; allowed: 0 to {count - 1}")
    return values.astype(np.int64)


# ---------------------------------------------------------------------------------------- images


def idx_pieces(path: Path, dimensions: int) -> Iterator[np.ndarray]:
    """The examples of a gzip-compressed idx file of bytes (MNIST's format), some thousands at once.

    The format: two zero bytes, the kind of numbers (8: unsigned bytes), the number of dimensions,
    each dimension as a big-endian 32-bit integer, then the values.

    Yields:
        uint8 ``[n, ...]``.
    """
    with _whole(path), gzip.open(path, "rb") as stream:
        magic = stream.read(4)
        if magic != bytes((0, 0, 8, dimensions)):
            raise Error(
                f"{path.name} is not an idx file of bytes in {dimensions} dimensions: it begins "
                f"with {magic.hex()}"
            )
        shape = struct.unpack(f">{dimensions}I", _exactly(stream, 4 * dimensions, path))
        row = math.prod(shape[1:])
        for start in range(0, shape[0], _ROWS):
            rows = min(_ROWS, shape[0] - start)
            data = _exactly(stream, rows * row, path)
            yield np.frombuffer(data, dtype=np.uint8).reshape(rows, *shape[1:])
        if stream.read(1):
            raise Error(f"{path.name} is longer than its header says")


def _exactly(stream: Any, size: int, path: Path) -> bytes:
    data: bytes = stream.read(size)
    if len(data) != size:
        raise Error(f"{path.name} is cut off")
    return data


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Error(f"{path.name} is damaged or cut off: {error}") from None


def _idx_writer(
    name: str, images: str, labels: str, splits: Mapping[str, str], transposed: bool = False
) -> Callable[..., dict[str, Any]]:
    """A writer of a data set in MNIST's format.

    Args:
        name: of the data set.
        images, labels: names of the files, with ``{}`` for the split's name in them.
        splits: that name for ``train`` and ``test``.
        transposed: images are stored column by column, as EMNIST's are.
    """

    def write(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
        entry, shape = ENTRIES[name], ENTRIES[name].shape or ()
        arrays: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for split, theirs in splits.items():
            wanted = {f"{split}_x": (np.uint8, shape), f"{split}_y": (np.int64, ())}
            with _growing(folder, wanted) as out:
                path = files[images.format(theirs)]
                for piece in _watched(idx_pieces(path, 3), f"{name} {split}", progress):
                    if piece.shape[1:] != shape:
                        raise Error(f"{path.name}: images are {piece.shape[1:]}, not {shape}")
                    out[f"{split}_x"].append(piece.transpose(0, 2, 1) if transposed else piece)
                path = files[labels.format(theirs)]
                for piece in idx_pieces(path, 1):
                    count = entry.class_count or 0
                    out[f"{split}_y"].append(_labels(piece, count, path.name))
                _require_equal(out, split, name)
                counts[split] = out[f"{split}_x"].length
                arrays |= {key: one.close() for key, one in out.items()}
        return {
            "kind": "arrays",
            "counts": counts,
            "classes": list(entry.classes) if entry.classes else None,
            "arrays": arrays,
            "polarity": _polarity(name, folder),
        }

    return write


def _polarity(name: str, folder: Path) -> str | None:
    if ENTRIES[name].polarity is None:
        return None
    return measured_polarity(np.load(folder / "train_x.npy", mmap_mode="r"))


def _require_equal(out: Mapping[str, GrowingArray], split: str, name: str) -> None:
    images, labels = out[f"{split}_x"].length, out[f"{split}_y"].length
    if images != labels or images == 0:
        raise Error(f"{name}: {images} {split} images, but {labels} labels")


def _watched(pieces: Iterable[Any], what: str, progress: bool) -> Iterator[Any]:
    """The pieces, under a progress bar that counts examples."""
    with tqdm(desc=what, unit="example", leave=False, disable=not progress) as bar:
        for piece in pieces:
            yield piece
            bar.update(len(piece))


def cifar_pieces(path: Path, label_bytes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The records of a file of CIFAR's binary version.

    A record is its labels (CIFAR-10: one byte; CIFAR-100: coarse, fine), then 1024 red, 1024 green
    and 1024 blue bytes, each row by row.

    Yields:
        labels uint8 ``[n, label_bytes]`` and images uint8 ``[n, 32, 32, 3]``.
    """
    size = label_bytes + 3072
    if path.stat().st_size % size or path.stat().st_size == 0:
        raise Error(
            f"{path.name} has {path.stat().st_size} bytes, not a number of whole records of {size}"
        )
    with open(path, "rb") as stream:
        while data := stream.read(size * _ROWS):
            records = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
            images = records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            yield records[:, :label_bytes], images


def write_cifar10(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
    """CIFAR-10 from its binary version, in the order of the files."""
    names = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
    card = _write_cifar("cifar10", files, folder, progress, names, {"y": (0, 10)})
    return {**card, "classes": _lines(files["batches.meta.txt"], 10)}


def write_cifar100(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
    """CIFAR-100 with fine and coarse labels from its binary version, in the order of the files."""
    names = {"train": ["train.bin"], "test": ["test.bin"]}
    labels = {"coarse": (0, 20), "y": (1, 100)}
    card = _write_cifar("cifar100", files, folder, progress, names, labels)
    return {
        **card,
        "classes": _lines(files["fine_label_names.txt"], 100),
        "coarse_classes": _lines(files["coarse_label_names.txt"], 20),
    }


def _write_cifar(
    name: str,
    files: Files,
    folder: Path,
    progress: bool,
    names: Mapping[str, Sequence[str]],
    labels: Mapping[str, tuple[int, int]],
) -> dict[str, Any]:
    """``labels``: for each array of labels its byte in a record, and how many labels there are."""
    arrays: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for split, parts in names.items():
        kinds: dict[str, tuple[type, tuple[int, ...]]] = {f"{split}_x": (np.uint8, (32, 32, 3))}
        kinds |= {f"{split}_{key}": (np.int64, ()) for key in labels}
        with _growing(folder, kinds) as out:
            for part in _watched(parts, f"{name} {split}", progress):
                for found, images in cifar_pieces(files[part], len(labels)):
                    out[f"{split}_x"].append(images)
                    for key, (byte, count) in labels.items():
                        values = _labels(found[:, byte], count, f"{part}, {key}")
                        out[f"{split}_{key}"].append(values)
            counts[split] = out[f"{split}_x"].length
            arrays |= {key: one.close() for key, one in out.items()}
    return {"kind": "arrays", "counts": counts, "arrays": arrays, "polarity": None}


def _lines(path: Path, count: int) -> list[str]:
    """The non-empty lines of a small file of names."""
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(names) != count:
        raise Error(f"{path.name} has {len(names)} names; needed: {count}")
    return names


# ----------------------------------------------------------------------------------------- texts


class _Texts:
    """Labelled texts of one split on their way to disk."""

    def __init__(self, folder: Path, split: str, stack: ExitStack) -> None:
        kinds = {"text": np.uint8, "offsets": np.int64, "client": np.int64, "label": np.int64}
        wanted = {f"{split}_{key}": (kind, ()) for key, kind in kinds.items()}
        self._out = stack.enter_context(_growing(folder, wanted))
        self._split, self._end = split, 0
        self._out[f"{split}_offsets"].append([0])
        self._waiting: list[tuple[bytes, int, int]] = []

    def __len__(self) -> int:
        return int(self._out[f"{self._split}_client"].length) + len(self._waiting)

    def add(self, text: str, client: int, label: int) -> None:
        self._waiting.append((text.encode("utf-8"), client, label))
        if len(self._waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        texts, clients, labels = zip(*self._waiting, strict=True)
        self._waiting = []
        offsets = self._end + np.cumsum([len(text) for text in texts])
        self._end = int(offsets[-1])
        values = {
            "text": np.frombuffer(b"".join(texts), dtype=np.uint8),
            "offsets": offsets,
            "client": np.array(clients),
            "label": np.array(labels),
        }
        for key, array in values.items():
            self._out[f"{self._split}_{key}"].append(array)

    def close(self) -> dict[str, Any]:
        self._flush()
        return {key: one.close() for key, one in self._out.items()}


def _close_texts(
    name: str, folder: Path, splits: Mapping[str, _Texts], clients: Sequence[str]
) -> dict[str, Any]:
    """Put the arrays in place; the part of the card that follows from them."""
    counts = {split: len(texts) for split, texts in splits.items()}
    for split, count in counts.items():
        if count == 0:
            raise Error(f"{name}: the {split} split has no texts")
    arrays: dict[str, Any] = {}
    for texts in splits.values():
        arrays |= texts.close()
    names = np.frombuffer(json.dumps(list(clients)).encode("ascii"), dtype=np.uint8)
    with _growing(folder, {"client_names": (np.uint8, ())}) as out:
        out["client_names"].append(names)
        arrays["client_names"] = out["client_names"].close()
    for split in splits:
        codes = np.load(folder / f"{split}_client.npy", mmap_mode="r")
        counts[f"{split}_clients"] = len(np.unique(codes))
    entry = ENTRIES[name]
    return {
        "kind": "text",
        "counts": counts,
        "clients": len(clients),
        "target": "label",
        "classes": list(entry.classes) if entry.classes else None,
        "arrays": arrays,
    }


def csv_rows(path: Path, columns: int, encoding: str) -> Iterator[tuple[str, list[str]]]:
    """(where it stands, fields) for each row of a csv file without a header."""
    with open(path, encoding=encoding, newline="") as lines:
        rows = csv.reader(lines)
        while True:
            where = f"{path.name}, line {rows.line_num + 1}"
            try:
                row = next(rows)
            except StopIteration:
                return
            except UnicodeDecodeError:
                raise Error(f"{where}: is not {encoding} text") from None
            except csv.Error as error:
                raise Error(f"{where}: is not csv: {error}") from None
            if len(row) != columns:
                raise Error(f"{where}: has {len(row)} fields; needed: {columns}")
            yield where, row


def _news_writer(name: str, with_title: bool) -> Callable[..., dict[str, Any]]:
    """A writer of Zhang, Zhao and LeCun's csv files: label from 1, title, text.

    A text is its title, a space and what follows, or what follows alone. There are no authors: one
    client named ``all`` holds everything.
    """

    def write(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
        count = ENTRIES[name].class_count or 0
        with ExitStack() as stack:
            splits = {split: _Texts(folder, split, stack) for split in ("train", "test")}
            for split, texts in splits.items():
                rows = csv_rows(files[f"{split}.csv"], 3, "utf-8")
                with tqdm(desc=f"{name} {split}", unit="text", disable=not progress) as bar:
                    for where, (label, title, text) in rows:
                        if label not in map(str, range(1, count + 1)):
                            raise Error(f"{where}: label is {label!r}; allowed: 1 to {count}")
                        whole = f"{title} {text}" if with_title else text
                        texts.add(whole.strip(), 0, int(label) - 1)
                        bar.update()
            return _close_texts(name, folder, splits, ["all"])

    return write


def write_sent140(
    files: Files,
    folder: Path,
    progress: bool = False,
    min_tweets: int = 30,
    train_fraction: float = 0.8,
) -> dict[str, Any]:
    """Sent140's training file by user; the hand-labelled test file has no users in it and is left.

    Every user with enough tweets is a client. As in LEAF, a random ``train_fraction`` of a client's
    tweets, rounded down, trains, and each split gets at least one. The draw is keyed by the user's
    name, so it does not depend on ``min_tweets``. Clients come in the order of their names, tweets
    in the order of the file, which is all negative ones first.

    Args:
        files: ``training.1600000.processed.noemoticon.csv`` (Latin-1: polarity 0 or 4, id, date,
            query, user, text).
        folder: where the ``.npy`` files go.
        progress: show a progress bar.
        min_tweets: 2 or more.
        train_fraction: between 0 and 1.

    Returns:
        The part of the card that the files determine.
    """
    whole = isinstance(min_tweets, int) and not isinstance(min_tweets, bool)
    require(whole and min_tweets >= 2, "min_tweets", min_tweets, "a whole number >= 2")
    real = isinstance(train_fraction, float)
    require(real and 0 < train_fraction < 1, "train_fraction", train_fraction, "between 0 and 1")
    path = files["training.1600000.processed.noemoticon.csv"]

    def tweets(what: str) -> Iterator[tuple[str, int, str]]:
        with tqdm(desc=f"sent140 {what}", unit="tweet", disable=not progress) as bar:
            for where, (polarity, _, _, _, user, text) in csv_rows(path, 6, "latin-1"):
                if polarity not in ("0", "4"):
                    raise Error(f"{where}: polarity is {polarity!r}; allowed: 0 or 4")
                yield user, int(polarity) // 4, text
                bar.update()

    sizes = Counter(user for user, _, _ in tweets("users"))
    users = sorted(user for user, size in sizes.items() if size >= min_tweets)
    if not users:
        raise Error(f"no user has {min_tweets} tweets; the most are {max(sizes.values())}")
    own: dict[str, list[tuple[int, str]]] = {user: [] for user in users}
    for user, label, text in tweets("texts"):
        if user in own:
            own[user].append((label, text))
    with ExitStack() as stack:
        splits = {split: _Texts(folder, split, stack) for split in ("train", "test")}
        for client, user in enumerate(users):
            for split, chosen in _split(user, len(own[user]), train_fraction).items():
                for i in chosen:
                    label, text = own[user][i]
                    splits[split].add(text, client, label)
        card = _close_texts("sent140", folder, splits, users)
    return {**card, "options": {"min_tweets": min_tweets, "train_fraction": train_fraction}}


def _split(user: str, size: int, train_fraction: float) -> dict[str, list[int]]:
    """Positions of a user's tweets in each split."""
    # The small term keeps 0.8 * 35 at 28 whatever the rounding.
    train = min(max(1, math.floor(train_fraction * size + 1e-9)), size - 1)
    order = numpy_generator(_SEED, f"sent140 split of {user}").permutation(size)
    return {"train": sorted(order[:train].tolist()), "test": sorted(order[train:].tolist())}


_MNIST = ("{}-images-idx3-ubyte.gz", "{}-labels-idx1-ubyte.gz", {"train": "train", "test": "t10k"})
_EMNIST = (
    "emnist-byclass-{}-images-idx3-ubyte.gz",
    "emnist-byclass-{}-labels-idx1-ubyte.gz",
    {"train": "train", "test": "test"},
)

# What is given are the files by their names (archives unpacked), as in sources.SOURCES.
WRITERS: dict[str, Callable[..., dict[str, Any]]] = {
    "mnist": _idx_writer("mnist", *_MNIST),
    "fashion_mnist": _idx_writer("fashion_mnist", *_MNIST),
    "emnist_byclass": _idx_writer("emnist_byclass", *_EMNIST, transposed=True),
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "ag_news": _news_writer("ag_news", with_title=True),
    "dbpedia": _news_writer("dbpedia", with_title=False),
    "sent140": write_sent140,
}
