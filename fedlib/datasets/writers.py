"""Readers of official files, and the arrays of each data set.

A writer gets the files by their names, with checked SHA-256, the folder for the ``.npy`` files and
whether to show a progress bar. It returns the part of the card that the files determine.

TensorFlow Federated's files are HDF5: ``/examples/<client id>/<feature>``, with the examples first.
Clients are in the order of their sorted ids, in which TFF samples them, and a client's examples in
the order of the file.
"""

import csv
import gzip
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets import npy, posts
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS
from fedlib.datasets.posts import TAGS, WORDS
from fedlib.errors import Error
from fedlib.randomness import numpy_generator

_SEED = 0  # seed of splits made here, as a prepared data set is one fixed data set
MIN_TWEETS, TRAIN_FRACTION = 30, 0.8  # for Sent140's users
Files = Mapping[str, Path]
Writer = Callable[..., dict[str, Any]]
_PIECE = 4096


def _whole(values: np.ndarray, limit: int, where: str) -> np.ndarray:
    """Integers k from 0 to ``limit - 1``. Pixels are ``k / 255`` up to float32's rounding."""
    if values.dtype.kind == "f":
        levels = np.rint(values * 255)
        if not (np.abs(values * 255 - levels) < 0.01).all():
            raise Error(f"{where}: a pixel is not a multiple of 1/255")
        values = levels
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < limit:
        what = f"{where}: values from {values.min()} to {values.max()}"
        raise Error(f"{what} (allowed: 0 to {limit - 1})")
    return values.astype(np.int64)


# ---------------------------------------------------------------------------------------- images


def write_idx(
    name: str, pattern: str, files: Files, folder: Path, progress: bool
) -> dict[str, Any]:
    """A data set in MNIST's format.

    Args:
        name: name of the data set. EMNIST's images are stored column by column.
        pattern: pattern of the files' names, with the fields ``split`` (``train`` or ``test``) and
            ``kind``.
        files, folder, progress: as for every writer.
    """
    known, arrays = CATALOGUE[name], {}
    for split in SPLITS:
        theirs = "t10k" if split == "test" and not name.startswith("emnist") else split
        images = _idx(files[pattern.format(split=theirs, kind="images-idx3")])
        path = files[pattern.format(split=theirs, kind="labels-idx1")]
        labels = _whole(_idx(path), known.class_count or 0, path.name)
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
    progress: bool,
) -> dict[str, Any]:
    """CIFAR's binary version, in the order of its files.

    A record is its labels (CIFAR-10: one byte, CIFAR-100: coarse, fine), then 1024 red, 1024 green
    and 1024 blue bytes, each row by row. Torchvision reads the pickled version only, without the
    coarse labels.

    Args:
        name: name of the data set.
        parts: files of each split.
        labels: number of labels of each kind, in the order of the bytes.
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
            values = _whole(data[:, place], count, f"{name} {split}, {key}")
            arrays[f"{split}_{key}"] = values
    listed = {key: files[file].read_text(encoding="utf-8").split() for key, file in names.items()}
    return npy.write(folder, arrays, None, CATALOGUE[name]) | listed


# ----------------------------------------------------------------------------------------- texts


def _csv_rows(path: Path, encoding: str, progress: bool) -> Iterator[list[str]]:
    """The rows of a csv file without a header."""
    with open(path, encoding=encoding, newline="") as lines:
        bar: dict[str, Any] = {"desc": path.name, "leave": False, "disable": not progress}
        yield from tqdm(csv.reader(lines), unit="row", **bar)


def write_news(
    name: str, with_title: bool, files: Files, folder: Path, progress: bool
) -> dict[str, Any]:
    """Zhang, Zhao and LeCun's csv files: label from 1, title, text.

    A text is its title, a space and the rest, or the rest alone. There are no authors: one client
    named ``all`` holds everything.
    """
    known = CATALOGUE[name]
    allowed = [str(label) for label in range(1, (known.class_count or 0) + 1)]

    def texts() -> Iterator[npy.Text]:
        for split in SPLITS:
            for label, title, text in _csv_rows(files[f"{split}.csv"], "utf-8", progress):
                whole = f"{title} {text}" if with_title else text
                yield split, "all", whole.strip().encode(), allowed.index(label)

    return npy.write(folder, *npy.text_arrays(name, texts()), known)


def write_sent140(files: Files, folder: Path, progress: bool) -> dict[str, Any]:
    """Sent140's training file by user. The hand-labelled test file has no users and is left out.

    Every user with at least 30 tweets is a client. As in LEAF, a random 80 % of a client's tweets,
    rounded down, trains. The draw is keyed by the user's name. Clients are in the order of their
    names, tweets in the order of the file, which has all negative ones first.

    Args:
        files: ``training.1600000.processed.noemoticon.csv`` (Latin-1: polarity 0 or 4, id, date,
            query, user, text).
        folder, progress: as for every writer.
    """
    path = files["training.1600000.processed.noemoticon.csv"]
    sizes = Counter(row[4] for row in _csv_rows(path, "latin-1", progress))
    users = sorted(user for user, size in sizes.items() if size >= MIN_TWEETS)
    if not users:
        raise Error(f"no user has {MIN_TWEETS} tweets: the most are {max(sizes.values())}")
    by_user: dict[str, list[tuple[int, str]]] = {user: [] for user in users}
    for polarity, _, _, _, user, text in _csv_rows(path, "latin-1", progress):
        if user in by_user:
            by_user[user].append((("0", "4").index(polarity), text))

    def texts() -> Iterator[npy.Text]:
        for user, rows in by_user.items():
            # The small term keeps 0.8 * 35 at 28 under any rounding.
            train = math.floor(TRAIN_FRACTION * len(rows) + 1e-9)
            order = numpy_generator(_SEED, f"sent140 split of {user}").permutation(len(rows))
            for split, places in (("train", order[:train]), ("test", order[train:])):
                for place in sorted(places.tolist()):
                    label, text = rows[place]
                    yield split, user, text.encode(), label

    card = npy.write(folder, *npy.text_arrays("sent140", texts()), CATALOGUE["sent140"])
    return {**card, "options": {"min_tweets": MIN_TWEETS, "train_fraction": TRAIN_FRACTION}}


# ------------------------------------------------------------------------- TensorFlow Federated


def _by_split(files: Files) -> dict[str, Path]:
    """The HDF5 file of each split."""
    return {
        split: path
        for split in SPLITS
        for name, path in files.items()
        if name.endswith(f"_{split}.h5")
    }


def read_clients(path: Path) -> list[str]:
    """The clients' ids, sorted as strings (by code point)."""
    with h5py.File(path, "r") as file:
        return sorted(file["examples"])


def read_pieces(
    path: Path, features: Sequence[str], progress: bool = False
) -> Iterator[tuple[Any, ...]]:
    """(client, values of each feature), client by client: numbers as stored, or bytes.

    A client with many examples has several pieces, a client without examples has one empty piece.
    The progress bar counts clients.
    """
    with h5py.File(path, "r") as file:
        examples = file["examples"]
        bar: dict[str, Any] = {"desc": path.name, "leave": False, "disable": not progress}
        for client in tqdm(sorted(examples), unit="client", **bar):
            columns = [examples[client][key] for key in features]
            for start in range(0, max(len(columns[0]), 1), _PIECE):
                yield client, *(column[start : start + _PIECE] for column in columns)


def write_images(
    name: str,
    columns: Mapping[str, tuple[str, int]],
    prefix: str,
    files: Files,
    folder: Path,
    progress: bool,
) -> dict[str, Any]:
    """Federated EMNIST, with writers matched between the splits by their ids, and CIFAR-100.

    EMNIST's pixels, ``k / 255`` in the files, are stored as k. Their polarity is kept: paper is 1
    there. CIFAR-100 has 500 training and 100 other test clients of 100 images each. Both splits
    name their clients ``0``, ``1``, .... A test client's name here is ``test/`` and its id.

    Args:
        name: name of the data set.
        columns: for each array the feature, and an upper bound that its values are below. ``x`` is
            the images.
        prefix: prefix of a test client's name.
        files, folder, progress: as for every writer.
    """
    splits, prefixes = _by_split(files), {"train": "", "test": prefix}
    ids = [(split, client) for split, path in splits.items() for client in read_clients(path)]
    clients = sorted({prefixes[split] + client for split, client in ids})
    codes = {client: code for code, client in enumerate(clients)}
    arrays: dict[str, np.ndarray] = {}
    for split, path in splits.items():
        pieces: dict[str, list[np.ndarray]] = {key: [] for key in (*columns, "client")}
        features = [feature for feature, _ in columns.values()]
        for client, *values in read_pieces(path, features, progress):
            for (key, (_, limit)), value in zip(columns.items(), values, strict=True):
                whole = _whole(value, limit, f"{name} {split}, {key}")
                pieces[key].append(whole.astype(np.uint8) if key == "x" else whole)
            pieces["client"].append(np.full(len(values[0]), codes[prefixes[split] + client]))
        arrays |= {f"{split}_{key}": np.concatenate(values) for key, values in pieces.items()}
    return npy.write(folder, arrays, clients, CATALOGUE[name])


def write_shakespeare(files: Files, folder: Path, progress: bool) -> dict[str, Any]:
    """Shakespeare by role, as texts: one per snippet, train and test roles matched by their ids."""
    splits = _by_split(files)

    def texts() -> Iterator[npy.Text]:
        for split, path in splits.items():
            for client, snippets in read_pieces(path, ["snippets"], progress):
                for text in snippets:
                    yield split, client, text, None

    clients = sorted({client for path in splits.values() for client in read_clients(path)})
    return npy.write(
        folder, *npy.text_arrays("shakespeare", texts(), clients), CATALOGUE["shakespeare"]
    )


def write_stackoverflow(files: Files, folder: Path, progress: bool) -> dict[str, Any]:
    """Stack Overflow as :class:`fedlib.datasets.posts.Posts`. No task uses its held-out users.

    The vocabularies are the 10,000 first words and the 500 most frequent tags of TFF's own counts
    (FedOpt section 4 and its public code). Texts are read and encoded some thousands at a time, so
    the largest client's ids bound the memory.
    """
    with open(files["stackoverflow.word_count"], encoding="utf-8") as lines:
        words = [line.split()[0] for line in itertools.islice(lines, WORDS)]
    counted = json.loads(files["stackoverflow.tag_count"].read_text(encoding="utf-8"))
    tags = [tag for tag, _ in Counter(counted).most_common(TAGS)]  # ties in the file's order
    counts: dict[str, int] = {}
    for split, path in _by_split(files).items():
        pieces = read_pieces(path, ["tokens", "title", "tags"], progress)
        counts[split], counts[f"{split}_clients"] = posts.write(folder, split, pieces, words, tags)
    npy.save_json(folder, "vocabulary", {"words": words, "tags": tags})
    return {"kind": "posts", "counts": counts, "classes": None}


_MNIST = "{split}-{kind}-ubyte.gz"

# The files by their names (archives unpacked), as in SOURCES.
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
    "emnist": partial(write_images, "emnist", {"x": ("pixels", 256), "y": ("label", 62)}, ""),
    "fed_cifar100": partial(
        write_images,
        "fed_cifar100",
        {"x": ("image", 256), "y": ("label", 100), "coarse": ("coarse_label", 20)},
        "test/",
    ),
    "shakespeare": write_shakespeare,
    "stackoverflow": write_stackoverflow,
}
