"""Readers of the original files of image and text sets, and what is made of each.

TensorFlow Federated's files are read in :mod:`fedlib.datasets.tff`. A writer is given the files by
their names, whose SHA-256 is right, the folder where the ``.npy`` files go and whether to show a
progress bar; it returns the part of the card that the files determine.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets import npy
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS
from fedlib.errors import Error
from fedlib.randomness import numpy_generator

_SEED = 0  # of splits made here: a prepared data set is one fixed data set
MIN_TWEETS, TRAIN_FRACTION = 30, 0.8  # of Sent140's users
Files = Mapping[str, Path]
Writer = Callable[..., dict[str, Any]]


def _labels(values: np.ndarray, count: int, where: str) -> np.ndarray:
    if int(values.max(initial=0)) >= count:
        raise Error(f"{where}: label is {int(values.max())}; allowed: 0 to {count - 1}")
    return values.astype(np.int64)


# ---------------------------------------------------------------------------------------- images


def write_idx(
    name: str, pattern: str, files: Files, folder: Path, progress: bool = False
) -> dict[str, Any]:
    """A data set in MNIST's format.

    Args:
        name: of the data set; EMNIST's images are stored column by column.
        pattern: of the files' names, with the fields ``split`` (``train`` or ``test``), ``kind``.
        files, folder, progress: as for every writer.
    """
    known, arrays = CATALOGUE[name], {}
    for split in SPLITS:
        theirs = "t10k" if split == "test" and not name.startswith("emnist") else split
        images = _idx(files[pattern.format(split=theirs, kind="images-idx3")])
        path = files[pattern.format(split=theirs, kind="labels-idx1")]
        labels = _labels(_idx(path), known.class_count or 0, path.name)
        if images.shape != (len(labels), *(known.shape or ())):
            raise Error(f"{name}: images are {images.shape}, and there are {len(labels)} labels")
        arrays[f"{split}_x"] = images.mT if name.startswith("emnist") else images
        arrays[f"{split}_y"] = labels
    return npy.write(folder, arrays, None, known)


def _idx(path: Path) -> np.ndarray:
    """A gzip-compressed idx file of bytes: the number of dimensions, their sizes, the values."""
    with gzip.open(path) as packed:
        content = packed.read()
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def write_cifar(
    name: str,
    parts: Mapping[str, Sequence[str]],
    labels: Mapping[str, int],
    names: Mapping[str, str],
    files: Files,
    folder: Path,
    progress: bool = False,
) -> dict[str, Any]:
    """CIFAR's binary version, in the order of its files.

    A record is its labels (CIFAR-10: one byte; CIFAR-100: coarse, fine), then 1024 red, 1024 green
    and 1024 blue bytes, each row by row. Torchvision reads the pickled version only, without the
    coarse labels.

    Args:
        name: of the data set.
        parts: files of each split.
        labels: how many there are of each kind of label, in the order of the bytes.
        names: for the card's entries of names, their file.
        files, folder, progress: as for every writer.
    """
    arrays = {}
    for split, wanted in parts.items():
        data = np.concatenate([np.fromfile(files[part], np.uint8) for part in wanted])
        data = data.reshape(-1, len(labels) + 3072)
        images = data[:, len(labels) :].reshape(-1, 3, 32, 32)
        arrays[f"{split}_x"] = images.transpose(0, 2, 3, 1)
        for place, (key, count) in enumerate(labels.items()):
            values = _labels(data[:, place], count, f"{name} {split}, {key}")
            arrays[f"{split}_{key}"] = values
    listed = {key: files[file].read_text(encoding="utf-8").split() for key, file in names.items()}
    return npy.write(folder, arrays, None, CATALOGUE[name]) | listed


# ----------------------------------------------------------------------------------------- texts


def _csv_rows(path: Path, encoding: str, progress: bool) -> Iterator[list[str]]:
    """The rows of a csv file without a header."""
    with open(path, encoding=encoding, newline="") as lines:
        yield from tqdm(
            csv.reader(lines), desc=path.name, unit="row", leave=False, disable=not progress
        )


def write_news(
    name: str, with_title: bool, files: Files, folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Zhang, Zhao and LeCun's csv files: label from 1, title, text.

    A text is its title, a space and what follows, or what follows alone. There are no authors: one
    client named ``all`` holds everything.
    """
    known = CATALOGUE[name]
    allowed = [str(label) for label in range(1, (known.class_count or 0) + 1)]

    def texts() -> Iterator[npy.Text]:
        for split in SPLITS:
            for label, title, text in _csv_rows(files[f"{split}.csv"], "utf-8", progress):
                whole = f"{title} {text}" if with_title else text
                yield split, "all", whole.strip().encode(), allowed.index(label)

    return npy.write(folder, *npy.text_arrays(name, texts()), known)


def write_sent140(files: Files, folder: Path, progress: bool = False) -> dict[str, Any]:
    """Sent140's training file by user; the hand-labelled test file has no users in it and is left.

    Every user with at least 30 tweets is a client. As in LEAF, a random 80 % of a client's tweets,
    rounded down, trains. The draw is keyed by the user's name. Clients come in the order of their
    names, tweets in the order of the file, which is all negative ones first.

    Args:
        files: ``training.1600000.processed.noemoticon.csv`` (Latin-1: polarity 0 or 4, id, date,
            query, user, text).
        folder, progress: as for every writer.
    """
    path = files["training.1600000.processed.noemoticon.csv"]
    sizes = Counter(row[4] for row in _csv_rows(path, "latin-1", progress))
    users = sorted(user for user, size in sizes.items() if size >= MIN_TWEETS)
    if not users:
        raise Error(f"no user has {MIN_TWEETS} tweets; the most are {max(sizes.values())}")
    by_user: dict[str, list[tuple[int, str]]] = {user: [] for user in users}
    for polarity, _, _, _, user, text in _csv_rows(path, "latin-1", progress):
        if user in by_user:
            by_user[user].append((("0", "4").index(polarity), text))

    def texts() -> Iterator[npy.Text]:
        for user, rows in by_user.items():
            # The small term keeps 0.8 * 35 at 28 whatever the rounding.
            train = math.floor(TRAIN_FRACTION * len(rows) + 1e-9)
            order = numpy_generator(_SEED, f"sent140 split of {user}").permutation(len(rows))
            for split, places in (("train", order[:train]), ("test", order[train:])):
                for place in sorted(places.tolist()):
                    label, text = rows[place]
                    yield split, user, text.encode(), label

    card = npy.write(folder, *npy.text_arrays("sent140", texts()), CATALOGUE["sent140"])
    return {**card, "options": {"min_tweets": MIN_TWEETS, "train_fraction": TRAIN_FRACTION}}


_MNIST = "{split}-{kind}-ubyte.gz"

# What is given are the files by their names (archives unpacked), as in sources.SOURCES.
WRITERS: dict[str, Writer] = {
    "mnist": partial(write_idx, "mnist", _MNIST),
    "fashion_mnist": partial(write_idx, "fashion_mnist", _MNIST),
    "emnist_byclass": partial(write_idx, "emnist_byclass", f"emnist-byclass-{_MNIST}"),
    "cifar10": partial(
        write_cifar,
        "cifar10",
        {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]},
        {"y": 10},
        {"classes": "batches.meta.txt"},
    ),
    "cifar100": partial(
        write_cifar,
        "cifar100",
        {"train": ["train.bin"], "test": ["test.bin"]},
        {"coarse": 20, "y": 100},
        {"classes": "fine_label_names.txt", "coarse_classes": "coarse_label_names.txt"},
    ),
    "ag_news": partial(write_news, "ag_news", True),
    "dbpedia": partial(write_news, "dbpedia", False),
    "sent140": write_sent140,
}
