"""Readers of the original files of image and text sets, and what is made of each.

TensorFlow Federated's files are read in :mod:`fedlib.datasets.tff`. A writer is given the files by
their names, the folder where the ``.npy`` files go and whether to show a progress bar; it returns
the part of the card that the files determine.
"""

from __future__ import annotations

import csv
import gzip
import math
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets import npy
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS
from fedlib.errors import Error, first_line, require
from fedlib.randomness import numpy_generator

_SEED = 0  # of splits made here: a prepared data set is one fixed data set
Files = Mapping[str, Path]
Writer = Callable[..., dict[str, Any]]


def _labels(values: np.ndarray, count: int, where: str) -> np.ndarray:
    if int(values.max(initial=0)) >= count:
        raise Error(f"{where}: label is {int(values.max())}; allowed: 0 to {count - 1}")
    return values.astype(np.int64)


# ---------------------------------------------------------------------------------------- images


def _idx_writer(
    name: str, prefix: str, splits: Mapping[str, str], transposed: bool = False
) -> Writer:
    """A writer of a data set in MNIST's format, which torchvision reads.

    Args:
        name: of the data set.
        prefix: of the files' names.
        splits: the files' names for ``train`` and ``test``.
        transposed: images are stored column by column, as EMNIST's are.
    """

    def write(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
        known = CATALOGUE[name]
        for split, theirs in splits.items():
            images = _idx(files[f"{prefix}{theirs}-images-idx3-ubyte.gz"], 3, folder)
            path = files[f"{prefix}{theirs}-labels-idx1-ubyte.gz"]
            labels = _labels(_idx(path, 1, folder), known.class_count or 0, path.name)
            if images.shape[1:] != known.shape:
                raise Error(f"{name}: images are {images.shape[1:]}, not {known.shape}")
            if len(images) != len(labels):
                raise Error(f"{name}: {len(images)} {split} images, but {len(labels)} labels")
            images = images.transpose(0, 2, 1) if transposed else images
            npy.save(folder, f"{split}_x", images)
            npy.save(folder, f"{split}_y", labels)
        return npy.arrays_card(folder, known)

    return write


def _idx(path: Path, dimensions: int, folder: Path) -> np.ndarray:
    """The images (3 dimensions) or labels (1) in a gzip-compressed idx file, by torchvision, which
    wants it unpacked."""
    from torchvision.datasets.mnist import read_image_file, read_label_file

    read = read_image_file if dimensions == 3 else read_label_file
    damaged = (gzip.BadGzipFile, EOFError, zlib.error)
    wrong = (ValueError, TypeError, KeyError, RuntimeError, AssertionError)
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as unpacked, gzip.open(path) as packed:
            shutil.copyfileobj(packed, unpacked)
            unpacked.flush()
            values: np.ndarray = read(unpacked.name).numpy()
            return values
    except (*damaged, *wrong) as error:
        raise Error(f"{path.name} is not a whole idx file: {first_line(error)}") from None


def _cifar_writer(
    name: str,
    parts: Mapping[str, Sequence[str]],
    labels: Mapping[str, int],
    names: Mapping[str, tuple[str, int]],
) -> Writer:
    """A writer of CIFAR's binary version, in the order of its files.

    A record is its labels (CIFAR-10: one byte; CIFAR-100: coarse, fine), then 1024 red, 1024 green
    and 1024 blue bytes, each row by row. Torchvision reads the pickled version only, without the
    coarse labels.

    Args:
        name: of the data set.
        parts: files of each split.
        labels: how many there are of each kind of label, in the order of the bytes.
        names: for the card's entries of names, their file and number.
    """

    def write(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
        for split, wanted in parts.items():
            data = np.concatenate([_cifar_records(files[part], len(labels)) for part in wanted])
            images = data[:, len(labels) :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            npy.save(folder, f"{split}_x", images)
            for place, (key, count) in enumerate(labels.items()):
                values = _labels(data[:, place], count, f"{name} {split}, {key}")
                npy.save(folder, f"{split}_{key}", values)
        card = npy.arrays_card(folder, CATALOGUE[name])
        return card | {key: _lines(files[file], count) for key, (file, count) in names.items()}

    return write


def _cifar_records(path: Path, label_bytes: int) -> np.ndarray:
    """uint8 ``[n, label_bytes + 3072]``."""
    data, size = np.fromfile(path, dtype=np.uint8), label_bytes + 3072
    if data.size % size or not data.size:
        raise Error(f"{path.name} has {data.size} bytes, not a number of whole records of {size}")
    return data.reshape(-1, size)


def _lines(path: Path, count: int) -> list[str]:
    """The non-empty lines of a small file of names."""
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(names) != count:
        raise Error(f"{path.name} has {len(names)} names; needed: {count}")
    return names


# ----------------------------------------------------------------------------------------- texts


def _csv_rows(
    path: Path, columns: int, encoding: str, progress: bool
) -> Iterator[tuple[str, list[str]]]:
    """(where it stands, fields) for each row of a csv file without a header."""
    with (
        open(path, encoding=encoding, newline="") as lines,
        tqdm(desc=path.name, unit="row", leave=False, disable=not progress) as bar,
    ):
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
            bar.update()


def _news_writer(name: str, with_title: bool) -> Writer:
    """A writer of Zhang, Zhao and LeCun's csv files: label from 1, title, text.

    A text is its title, a space and what follows, or what follows alone. There are no authors: one
    client named ``all`` holds everything.
    """
    known = CATALOGUE[name]
    allowed = [str(label) for label in range(1, (known.class_count or 0) + 1)]

    def write(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
        def texts() -> Iterator[npy.Text]:
            for split in SPLITS:
                for where, (label, title, text) in _csv_rows(
                    files[f"{split}.csv"], 3, "utf-8", progress
                ):
                    if label not in allowed:
                        raise Error(f"{where}: label is {label!r}; allowed: 1 to {allowed[-1]}")
                    whole = f"{title} {text}" if with_title else text
                    yield split, "all", whole.strip().encode(), int(label) - 1

        return npy.write_texts(folder, name, texts(), "label", known=known)

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
        folder, progress: as for every writer.
        min_tweets: 2 or more.
        train_fraction: between 0 and 1.
    """
    whole = isinstance(min_tweets, int) and not isinstance(min_tweets, bool)
    require(whole and min_tweets >= 2, "min_tweets", min_tweets, "a whole number >= 2")
    real = isinstance(train_fraction, float)
    require(real and 0 < train_fraction < 1, "train_fraction", train_fraction, "between 0 and 1")
    path = files["training.1600000.processed.noemoticon.csv"]

    def tweets() -> Iterator[tuple[str, int, str]]:
        for where, (polarity, _, _, _, user, text) in _csv_rows(path, 6, "latin-1", progress):
            if polarity not in ("0", "4"):
                raise Error(f"{where}: polarity is {polarity!r}; allowed: 0 or 4")
            yield user, int(polarity) // 4, text

    sizes = Counter(user for user, _, _ in tweets())
    users = sorted(user for user, size in sizes.items() if size >= min_tweets)
    if not users:
        raise Error(f"no user has {min_tweets} tweets; the most are {max(sizes.values())}")
    by_user: dict[str, list[tuple[int, str]]] = {user: [] for user in users}
    for user, label, text in tweets():
        if user in by_user:
            by_user[user].append((label, text))

    def texts() -> Iterator[npy.Text]:
        for user, rows in by_user.items():
            for split, places in _split(user, len(rows), train_fraction).items():
                for place in places:
                    label, text = rows[place]
                    yield split, user, text.encode(), label

    card = npy.write_texts(folder, "sent140", texts(), "label", known=CATALOGUE["sent140"])
    return {**card, "options": {"min_tweets": min_tweets, "train_fraction": train_fraction}}


def _split(user: str, size: int, train_fraction: float) -> dict[str, list[int]]:
    """Positions of a user's tweets in each split."""
    # The small term keeps 0.8 * 35 at 28 whatever the rounding.
    train = min(max(1, math.floor(train_fraction * size + 1e-9)), size - 1)
    order = numpy_generator(_SEED, f"sent140 split of {user}").permutation(size)
    return {"train": sorted(order[:train].tolist()), "test": sorted(order[train:].tolist())}


_MNIST = {"train": "train", "test": "t10k"}
_EMNIST = {"train": "train", "test": "test"}

# What is given are the files by their names (archives unpacked), as in sources.SOURCES.
WRITERS: dict[str, Writer] = {
    "mnist": _idx_writer("mnist", "", _MNIST),
    "fashion_mnist": _idx_writer("fashion_mnist", "", _MNIST),
    "emnist_byclass": _idx_writer("emnist_byclass", "emnist-byclass-", _EMNIST, transposed=True),
    "cifar10": _cifar_writer(
        "cifar10",
        {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]},
        {"y": 10},
        {"classes": ("batches.meta.txt", 10)},
    ),
    "cifar100": _cifar_writer(
        "cifar100",
        {"train": ["train.bin"], "test": ["test.bin"]},
        {"coarse": 20, "y": 100},
        {
            "classes": ("fine_label_names.txt", 100),
            "coarse_classes": ("coarse_label_names.txt", 20),
        },
    ),
    "ag_news": _news_writer("ag_news", with_title=True),
    "dbpedia": _news_writer("dbpedia", with_title=False),
    "sent140": write_sent140,
}
