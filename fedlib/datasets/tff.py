"""What is made of each data set of TensorFlow Federated; its files are read by ``tff_files``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fedlib.datasets.catalogue import ENTRIES
from fedlib.datasets.growing import GrowingArray
from fedlib.datasets.importing import measured_polarity
from fedlib.datasets.posts import TAGS, WORDS, PostsWriter, vocabulary
from fedlib.datasets.tff_files import (
    Feature,
    HDF5Reader,
    Reader,
    SQLiteReader,
    first_line,
)
from fedlib.errors import Error

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
        raise Error(f"{path.name} cannot be read: {first_line(error)}") from None


# What is given are the unpacked files, by any key or by TFF's file names (see each function).
WRITERS: dict[str, Callable[[Mapping[str, Path], Path, bool], dict[str, Any]]] = {
    "emnist": write_emnist,
    "fed_cifar100": write_fed_cifar100,
    "shakespeare": write_shakespeare,
    "stackoverflow": write_stackoverflow,
}
