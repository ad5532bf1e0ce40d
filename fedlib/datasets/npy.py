"""The ``.npy`` files of a data set, written whole or piece by piece, and what a card says of them.

All of this happens in the folder aside that :func:`fedlib.datasets.store.writing` gives: where it
breaks off, that folder goes, and with it the unfinished files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedlib.datasets.catalogue import Description
from fedlib.datasets.dataset import SPLITS, describe, measured_polarity, record
from fedlib.errors import Error

_TEXTS = 4096  # written at once
Kind = tuple[type, tuple[int, ...]]  # dtype and shape of one row
# Split, client, UTF-8 text, and its label or its tags, if any.
Text = tuple[str, str, bytes, int | Sequence[str] | None]


def save(folder: Path, key: str, values: np.ndarray) -> dict[str, Any]:
    """Write ``<key>.npy``, by rows; returns its record for the card."""
    np.save(folder / f"{key}.npy", np.ascontiguousarray(values))
    return describe(values)


def save_json(folder: Path, key: str, content: Any) -> dict[str, Any]:
    """Write JSON as an array of uint8; returns its record for the card."""
    data = json.dumps(content).encode("ascii")
    return save(folder, key, np.frombuffer(data, dtype=np.uint8))


class GrowingArray:
    """One ``.npy`` file that grows along its first axis; in memory is only what is appended.

    Args:
        folder: where ``<key>.npy`` will be.
        key: the array's name.
        dtype: of the values; what is appended is cast to it, which must lose nothing.
        row: shape of one row; default a plain number.
    """

    def __init__(
        self, folder: Path, key: str, dtype: np.dtype | type, row: Sequence[int] = ()
    ) -> None:
        self.key, self.dtype, self.row, self.length = key, np.dtype(dtype), tuple(row), 0
        self._digest = hashlib.sha256()
        self._file = open(folder / f"{key}.npy", "wb")
        self._write_header()

    def append(self, rows: ArrayLike) -> None:
        """Add ``rows`` of shape ``[n, *row]`` at the end."""
        values = np.asarray(rows)
        if values.shape[1:] != self.row:
            raise Error(f"{self.key}: rows are {values.shape[1:]}; needed: {self.row}")
        data = np.ascontiguousarray(values.astype(self.dtype, casting="same_kind", copy=False))
        # An empty array has no bytes that could be viewed in this way.
        if data.size:
            flat = data.reshape(-1).view(np.uint8).data
            self._file.write(flat)
            self._digest.update(flat)
        self.length += len(values)

    def close(self) -> None:
        """Finish the file."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    @property
    def record(self) -> dict[str, Any]:
        """Its record for the card."""
        return record(self.dtype, (self.length, *self.row), self._digest.hexdigest())

    def _write_header(self) -> None:
        # NumPy pads headers so that the first axis can grow: the size of the header is fixed.
        shape = (self.length, *self.row)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


@contextmanager
def growing(folder: Path, kinds: Mapping[str, Kind]) -> Iterator[dict[str, GrowingArray]]:
    """Arrays to append to, by key; they are closed in the end."""
    with ExitStack() as stack:
        yield {
            key: stack.enter_context(closing(GrowingArray(folder, key, *kind)))
            for key, kind in kinds.items()
        }


def arrays_card(
    folder: Path, records: Mapping[str, Any], known: Description | None
) -> dict[str, Any]:
    """The part of a card that follows from arrays that are in the folder.

    Args:
        folder: where they are.
        records: of all of them, by key.
        known: the data set's description, with its classes and whether polarity is to be measured.
    """
    counts = {split: records[f"{split}_x"]["shape"][0] for split in SPLITS}
    for split in SPLITS:
        if f"{split}_client" in records:
            codes = np.load(folder / f"{split}_client.npy", mmap_mode="r")
            counts[f"{split}_clients"] = len(np.unique(codes))
    polarity = None
    if known and known.polarity:
        polarity = measured_polarity(np.load(folder / "train_x.npy", mmap_mode="r"))
    return {
        "kind": "arrays",
        "counts": counts,
        "classes": list(known.classes) if known and known.classes else None,
        "arrays": dict(records),
        "polarity": polarity,
    }


def write_texts(
    folder: Path,
    source: str,
    texts: Iterable[Text],
    target: str | None = None,
    clients: Sequence[str] = (),
    known: Description | None = None,
) -> dict[str, Any]:
    """Stream texts to disk.

    Args:
        folder: where the ``.npy`` files go.
        source: of the texts, for messages.
        texts: in any order of splits and clients; within a split they stay in this order.
        target: what each of them has: ``"label"``, ``"tags"`` or nothing.
        clients: those whose codes are fixed; others get the next ones as they come.
        known: the data set's description, with its classes.

    Returns:
        The part of the card that follows from the texts.

    Raises:
        Error: a split has no texts, or only empty ones.
    """
    codes = {client: code for code, client in enumerate(clients)}
    seen: dict[str, set[int]] = {split: set() for split in SPLITS}
    waiting: dict[str, list[tuple[bytes, int, Any]]] = {split: [] for split in SPLITS}
    kinds: dict[str, type] = {"text": np.uint8, "offsets": np.int64, "client": np.int64}
    kinds |= {"label": np.int64} if target == "label" else {}
    kinds |= {"tags": np.uint8, "tags_offsets": np.int64} if target == "tags" else {}
    wanted = {f"{split}_{key}": (kind, ()) for split in SPLITS for key, kind in kinds.items()}
    with growing(folder, wanted) as out:

        def append_parts(key: str, offsets: str, parts: Sequence[bytes]) -> None:
            ends = out[key].length + np.cumsum([len(part) for part in parts], dtype=np.int64)
            out[key].append(np.frombuffer(b"".join(parts), dtype=np.uint8))
            out[offsets].append(ends)

        def flush(split: str) -> None:
            parts, client, targets = zip(*waiting[split], strict=True)
            waiting[split].clear()
            append_parts(f"{split}_text", f"{split}_offsets", parts)
            out[f"{split}_client"].append(client)
            if target == "label":
                out[f"{split}_label"].append(targets)
            elif target == "tags":
                tags = [json.dumps(names).encode("ascii") for names in targets]
                append_parts(f"{split}_tags", f"{split}_tags_offsets", tags)

        for key in out:
            if key.endswith("offsets"):
                out[key].append([0])
        for split, client, text, goal in texts:
            code = codes.setdefault(client, len(codes))
            seen[split].add(code)
            waiting[split].append((text, code, goal))
            if len(waiting[split]) == _TEXTS:
                flush(split)
        for split in SPLITS:
            if waiting[split]:
                flush(split)
            if not out[f"{split}_text"].length:
                what = "only empty texts" if seen[split] else "no texts"
                raise Error(f"{source}: the {split} split has {what}")
    counts = {split: out[f"{split}_client"].length for split in SPLITS}
    counts |= {f"{split}_clients": len(seen[split]) for split in SPLITS}
    records = {key: array.record for key, array in out.items()}
    records["client_names"] = save_json(folder, "client_names", list(codes))
    return {
        "kind": "text",
        "counts": counts,
        "clients": len(codes),
        "target": target,
        "classes": list(known.classes) if known and known.classes else None,
        "arrays": records,
    }
