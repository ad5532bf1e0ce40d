"""What is made of each data set of TensorFlow Federated.

Its files are HDF5: ``/examples/<client id>/<feature>``, the examples first. Clients come in the
order of their sorted ids, which is the order that TFF samples from, and a client's examples in the
order of the file.

Every writer is given the unpacked files by TFF's names, the folder where the ``.npy`` files go and
whether to show a progress bar; it returns the part of the card that the files determine.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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

_PIECE = 4096
_ENDS = {"train": "_train.h5", "heldout": "_held_out.h5", "test": "_test.h5"}


def _splits(files: Mapping[str, Path]) -> dict[str, Path]:
    """The HDF5 file of each split there is."""
    return {
        split: path
        for split, end in _ENDS.items()
        for name, path in files.items()
        if name.endswith(end)
    }


def read_clients(path: Path) -> list[str]:
    """The clients' ids, sorted as strings (by code point)."""
    with h5py.File(path, "r") as file:
        return sorted(file["examples"])


def read_pieces(
    path: Path, features: Sequence[str], progress: bool = False
) -> Iterator[tuple[Any, ...]]:
    """(client, values of each feature), client by client: numbers as they are stored, or bytes.

    A client with many examples comes in several pieces, one without examples in one empty piece.
    The progress bar counts clients.
    """
    with h5py.File(path, "r") as file:
        examples = file["examples"]
        bar: dict[str, Any] = {"desc": path.name, "leave": False, "disable": not progress}
        for client in tqdm(sorted(examples), unit="client", **bar):
            columns = [examples[client][key] for key in features]
            for start in range(0, max(len(columns[0]), 1), _PIECE):
                yield client, *(column[start : start + _PIECE] for column in columns)


# ---------------------------------------------------------------------------------------- arrays


def write_emnist(files: Mapping[str, Path], folder: Path, progress: bool = False) -> dict[str, Any]:
    """Federated EMNIST: writers are matched between the splits by their ids.

    Pixels, ``k / 255`` in the files, are stored as k. Their polarity is kept: paper is 1 there.
    """
    splits = _splits(files)
    clients = sorted({client for path in splits.values() for client in read_clients(path)})
    codes = {client: code for code, client in enumerate(clients)}
    columns = {"x": ("pixels", 256), "y": ("label", 62)}
    both = dict.fromkeys(splits, codes)
    return _write_arrays("emnist", splits, folder, columns, both, clients, progress)


def write_fed_cifar100(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Federated CIFAR-100: 500 training and 100 other test clients, 100 images each.

    Both splits call their clients ``0``, ``1``, ...; they are different clients, so a test client's
    name here is ``test/`` and its id, and no code occurs in both splits.
    """
    splits = _splits(files)
    codes: dict[str, dict[str, int]] = {}
    clients: list[str] = []
    for split, path in splits.items():
        ids = read_clients(path)
        codes[split] = {client: len(clients) + place for place, client in enumerate(ids)}
        clients += [f"test/{client}" if split == "test" else client for client in ids]
    columns = {"x": ("image", 256), "y": ("label", 100), "coarse": ("coarse_label", 20)}
    return _write_arrays("fed_cifar100", splits, folder, columns, codes, clients, progress)


def _write_arrays(
    name: str,
    splits: Mapping[str, Path],
    folder: Path,
    columns: Mapping[str, tuple[str, int]],
    codes: Mapping[str, Mapping[str, int]],
    clients: Sequence[str],
    progress: bool,
) -> dict[str, Any]:
    """Stream all splits into ``<split>_<column>.npy`` and ``<split>_client.npy``.

    Args:
        columns: the feature of each, and a number that its values are below. ``x`` are the images.
        codes: of the clients, by split.
    """
    known = CATALOGUE[name]
    for split, path in splits.items():
        kinds: dict[str, npy.Kind] = dict.fromkeys((*columns, "client"), (np.int64, ()))
        kinds["x"] = np.uint8, known.shape or ()
        with npy.growing(folder, {f"{split}_{key}": kind for key, kind in kinds.items()}) as out:
            features = [feature for feature, _ in columns.values()]
            for client, *values in read_pieces(path, features, progress):
                for (key, (_, limit)), value in zip(columns.items(), values, strict=True):
                    out[f"{split}_{key}"].append(_below(limit, value))
                out[f"{split}_client"].append(np.full(len(values[0]), codes[split][client]))
    npy.save_json(folder, "client_names", clients)
    return npy.card(
        {each.stem: np.load(each, mmap_mode="r") for each in folder.glob("*.npy")}, known
    )


def _below(limit: int, values: np.ndarray) -> np.ndarray:
    """Whole numbers k from 0 to ``limit - 1``; of pixels ``k / 255`` but for float32's rounding."""
    if values.dtype.kind == "f":
        levels = np.rint(values * 255)
        if not (np.abs(values * 255 - levels) < 0.01).all():
            raise Error("a pixel is not a multiple of 1/255")
        values = levels
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < limit:
        raise Error(f"a value is not in 0..{limit - 1}: {values.min()} to {values.max()}")
    return values


# ----------------------------------------------------------------------------------------- texts


def write_shakespeare(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Shakespeare by role, as texts: one per snippet, train and test roles matched by their ids."""
    splits = _splits(files)

    def texts() -> Iterator[npy.Text]:
        for split in SPLITS:
            for client, snippets in read_pieces(splits[split], ["snippets"], progress):
                for text in snippets:
                    yield split, client, text, None

    clients = sorted({client for path in splits.values() for client in read_clients(path)})
    return npy.write(folder, *npy.text_arrays("shakespeare", texts(), clients), None)


def write_stackoverflow(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Stack Overflow as :class:`fedlib.datasets.posts.Posts`, splits train, heldout and test.

    The vocabularies are the 10,000 first words and the 500 most frequent tags of TFF's own counts
    (FedOpt section 4 and its public code). Memory is bounded by the largest client's ids: texts
    are read and encoded some thousands at a time.
    """
    with open(files["stackoverflow.word_count"], encoding="utf-8") as lines:
        words = [line.split()[0] for line in itertools.islice(lines, WORDS)]
    counted = json.loads(files["stackoverflow.tag_count"].read_text(encoding="utf-8"))
    tags = [tag for tag, _ in Counter(counted).most_common(TAGS)]  # of equal ones the file's order
    counts: dict[str, int] = {}
    for split, path in _splits(files).items():
        pieces = read_pieces(path, ["tokens", "title", "tags"], progress)
        counts[split], counts[f"{split}_clients"] = posts.write(folder, split, pieces, words, tags)
    npy.save_json(folder, "vocabulary", {"words": words, "tags": tags})
    return {"kind": "posts", "counts": counts, "classes": None}


# What is given are the unpacked files by TFF's names (see each function).
WRITERS: dict[str, Callable[..., dict[str, Any]]] = {
    "emnist": write_emnist,
    "fed_cifar100": write_fed_cifar100,
    "shakespeare": write_shakespeare,
    "stackoverflow": write_stackoverflow,
}
