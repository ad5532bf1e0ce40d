"""What is made of each data set of TensorFlow Federated.

Its files are HDF5: ``/examples/<client id>/<feature>``, the examples first. Clients come in the
order of their sorted ids, which is the order that TFF samples from, and a client's examples in the
order of the file.

Every writer is given the unpacked files by TFF's names, the folder where the ``.npy`` files go and
whether to show a progress bar; it returns the part of the card that the files determine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets import npy
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS
from fedlib.datasets.posts import TAGS, WORDS, PostsWriter
from fedlib.errors import Error, first_line

# A feature is a string of bytes (None), or numbers of a kind ("f" or "i") and a shape.
Feature = tuple[str, tuple[int, ...]] | None
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


def _all_clients(splits: Mapping[str, Path]) -> list[str]:
    """The ids of all splits, each once, sorted."""
    return sorted({client for path in splits.values() for client in read_clients(path)})


# ----------------------------------------------------------------------------------------- files


def read_clients(path: Path) -> list[str]:
    """The clients' ids, sorted as strings (by code point)."""
    with _examples(path) as examples:
        return sorted(examples)


def read_pieces(
    path: Path, features: Mapping[str, Feature], progress: bool = False
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(client, number of examples, values by feature), client by client.

    A client with many examples comes in several pieces, one without examples in one empty piece.
    Values are a list of bytes, or an array ``[n, *shape]``. The progress bar counts clients.
    """
    with _examples(path) as examples:
        for client in tqdm(
            sorted(examples), desc=path.name, unit="client", leave=False, disable=not progress
        ):
            group, where = examples[client], f"{path.name}, client {client!r}"
            datasets = {key: _dataset(group, key, features[key], where) for key in features}
            lengths = {key: len(dataset) for key, dataset in datasets.items()}
            if len(set(lengths.values())) > 1:
                raise Error(f"{where}: features of unequal lengths {lengths}")
            size = next(iter(lengths.values()))
            for start in range(0, max(size, 1), _PIECE):
                stop = min(start + _PIECE, size)
                values = {key: dataset[start:stop] for key, dataset in datasets.items()}
                texts = {key: values[key].tolist() for key in features if features[key] is None}
                yield client, stop - start, values | texts


@contextmanager
def _examples(path: Path) -> Iterator[h5py.Group]:
    try:
        with h5py.File(path, "r") as file:
            examples = file.get("examples")
            if not isinstance(examples, h5py.Group):
                raise Error(f"{path.name} has no group 'examples': it is not TFF's file")
            yield examples
    except (OSError, RuntimeError, KeyError) as error:
        raise Error(f"{path.name} is not a whole HDF5 file: {first_line(error)}") from None


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


# ---------------------------------------------------------------------------------------- arrays


class _InexactError(Exception):
    """Some pixels are not k / 255 in float32."""


def write_emnist(
    name: str, files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Federated EMNIST: writers are matched between the splits by their ids.

    Pixels are stored as uint8 if ``k / 255`` in float32 gives back every one of them bit for bit
    (on the CPU; CUDA multiplies by the reciprocal), and as float32 otherwise. Their polarity is
    kept: paper is 1 in TFF's files.

    Args:
        name: ``emnist``, 62 labels, or ``emnist_digits``, 10.
        files, folder, progress: as for every writer.
    """
    splits = _splits(files)
    clients = _all_clients(splits)
    codes = {split: {client: code for code, client in enumerate(clients)} for split in splits}

    def write(dtype: type, convert: _Convert) -> dict[str, Any]:
        columns: dict[str, _Column] = {
            "x": ("pixels", "f", (28, 28), dtype, convert),
            "y": ("label", "i", (), np.int64, _below(CATALOGUE[name].class_count or 0)),
        }
        return _write_arrays(name, splits, folder, columns, codes, clients, progress)

    try:
        return write(np.uint8, _exact_bytes)
    except _InexactError:
        return write(np.float32, _finite)


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
    columns: dict[str, _Column] = {
        "x": ("image", "i", (32, 32, 3), np.uint8, _below(256)),
        "y": ("label", "i", (), np.int64, _below(100)),
        "coarse": ("coarse_label", "i", (), np.int64, _below(20)),
    }
    return _write_arrays("fed_cifar100", splits, folder, columns, codes, clients, progress)


_Convert = Callable[[np.ndarray, str], np.ndarray]
# Feature, its kind and shape; then the dtype to store, and how to check the values.
_Column = tuple[str, str, tuple[int, ...], type, _Convert]


def _write_arrays(
    name: str,
    splits: Mapping[str, Path],
    folder: Path,
    columns: Mapping[str, _Column],
    codes: Mapping[str, Mapping[str, int]],
    clients: Sequence[str],
    progress: bool,
) -> dict[str, Any]:
    """Stream all splits into ``<split>_<column>.npy`` and ``<split>_client.npy``."""
    features: dict[str, Feature] = {
        feature: (kind, shape) for feature, kind, shape, _, _ in columns.values()
    }
    for split, path in splits.items():
        wanted = {
            f"{split}_{key}": (dtype, shape) for key, (_, _, shape, dtype, _) in columns.items()
        }
        with npy.growing(folder, {**wanted, f"{split}_client": (np.int64, ())}) as out:
            for client, size, values in read_pieces(path, features, progress):
                for key, (feature, _, _, dtype, convert) in columns.items():
                    where = f"{name}, {split} client {client!r}: {feature}"
                    out[f"{split}_{key}"].append(convert(values[feature], where).astype(dtype))
                out[f"{split}_client"].append(np.full(size, codes[split][client]))
            _require_examples(name, split, out[f"{split}_y"].length)
    npy.save_json(folder, "client_names", clients)
    return npy.arrays_card(folder, CATALOGUE[name])


def _exact_bytes(pixels: np.ndarray, where: str) -> np.ndarray:
    pixels = pixels.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        levels = np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)
    again = levels.astype(np.float32) / np.float32(255)
    # As bits, so that a negative zero or a NaN does not pass.
    if not np.array_equal(again.view(np.uint32), pixels.view(np.uint32)):
        raise _InexactError
    return levels


def _finite(pixels: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(pixels).all():
        raise Error(f"{where} has values that are not finite")
    return pixels


def _below(limit: int) -> _Convert:
    """A check that integers go from 0 to ``limit - 1``."""

    def check(values: np.ndarray, where: str) -> np.ndarray:
        if values.size and not (0 <= int(values.min()) and int(values.max()) < limit):
            span = f"{int(values.min())} to {int(values.max())}"
            raise Error(f"{where} is {span}; allowed: 0 to {limit - 1}")
        return values

    return check


def _require_examples(name: str, split: str, count: int) -> None:
    if count == 0:
        raise Error(f"{name}: the {split} split has no examples")


# ----------------------------------------------------------------------------------------- texts


def write_shakespeare(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Shakespeare by role, as texts: one per snippet, train and test roles matched by their ids."""
    splits = _splits(files)

    def texts() -> Iterator[npy.Text]:
        for split in SPLITS:
            for client, _, values in read_pieces(splits[split], {"snippets": None}, progress):
                for text in values["snippets"]:
                    _require_utf8(text, f"shakespeare, {split} client {client!r}")
                    yield split, client, text, None

    return npy.write_texts(folder, "shakespeare", texts(), clients=_all_clients(splits))


def _require_utf8(text: bytes, where: str) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise Error(f"{where}: a text is not UTF-8: {text[:40]!r}") from None


# --------------------------------------------------------------------------------- Stack Overflow


def write_stackoverflow(
    files: Mapping[str, Path], folder: Path, progress: bool = False
) -> dict[str, Any]:
    """Stack Overflow as :class:`fedlib.datasets.posts.Posts`, splits train, heldout and test.

    The vocabularies are the 10,000 first words and the 500 most frequent tags of TFF's own counts
    (FedOpt section 4 and its public code). Memory is bounded by the largest client's ids: texts
    are read and encoded some thousands at a time.
    """
    words = read_word_counts(files["stackoverflow.word_count"], WORDS)
    tags = read_tag_counts(files["stackoverflow.tag_count"], TAGS)
    features: dict[str, Feature] = {"tokens": None, "title": None, "tags": None}
    counts: dict[str, int] = {}
    for split, path in _splits(files).items():
        with PostsWriter(folder, split, words, tags) as writer:
            for client, _, values in read_pieces(path, features, progress):
                writer.add(client, values["tokens"], values["title"], values["tags"])
            _require_examples("stackoverflow", split, len(writer))
        counts |= {split: len(writer), f"{split}_clients": writer.clients}
    npy.save_json(folder, "vocabulary", {"words": words, "tags": tags})
    return {"kind": "posts", "counts": counts, "classes": None}


def read_word_counts(path: Path, size: int) -> list[str]:
    """The ``size`` first words of lines ``word count`` in rank order; the file is long."""
    words: dict[str, None] = {}
    with _readable(path), open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            parts = line.split()
            if len(parts) != 2 or not parts[1].isdecimal():
                raise Error(f"{path.name}, line {number}: is not 'word count': {line[:60]!r}")
            words[parts[0]] = None
            if len(words) == size:
                return list(words)
    raise Error(f"{path.name} has {len(words)} words; needed: at least {size}")


def read_tag_counts(path: Path, size: int) -> list[str]:
    """The ``size`` most frequent tags of a JSON object ``{tag: count}``; the first of equal ones
    in the file comes first."""
    with _readable(path):
        counts = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(counts, dict) or not all(type(n) is int for n in counts.values()):
        raise Error(f"{path.name} is not a JSON object of tags and counts")
    if len(counts) < size:
        raise Error(f"{path.name} has {len(counts)} tags; needed: at least {size}")
    return [tag for tag, _ in Counter(counts).most_common(size)]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path.name} cannot be read: {first_line(error)}") from None


# What is given are the unpacked files by TFF's names (see each function).
WRITERS: dict[str, Callable[..., dict[str, Any]]] = {
    "emnist": partial(write_emnist, "emnist"),
    "emnist_digits": partial(write_emnist, "emnist_digits"),
    "fed_cifar100": write_fed_cifar100,
    "shakespeare": write_shakespeare,
    "stackoverflow": write_stackoverflow,
}
