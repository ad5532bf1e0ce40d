"""The ``.npy`` files of a data set.

All files are written in the separate folder that :func:`fedlib.datasets.store.writing` gives. If
writing fails, that folder is deleted with the unfinished files.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedlib.datasets.catalogue import Description
from fedlib.datasets.dataset import SPLITS, measured_polarity
from fedlib.errors import Error

# Split, client, UTF-8 text, and its label or its tags, if any.
Text = tuple[str, str, bytes, int | Sequence[str] | None]


def save(folder: Path, key: str, values: np.ndarray) -> None:
    """Write ``<key>.npy``, by rows."""
    np.save(folder / f"{key}.npy", np.ascontiguousarray(values))


def save_json(folder: Path, key: str, content: Any) -> None:
    """Write JSON as an array of uint8."""
    save(folder, key, np.frombuffer(json.dumps(content).encode("ascii"), dtype=np.uint8))


class GrowingArray:
    """One ``.npy`` file that grows along its first axis. Only appended rows are in memory.

    Args:
        path: path of the file.
        like: an array with rows of the same type and shape.
    """

    def __init__(self, path: Path, like: np.ndarray) -> None:
        self._dtype, self._row, self._length = like.dtype, like.shape[1:], 0
        self._file = open(path, "wb")
        self._write_header()

    def append(self, rows: np.ndarray) -> None:
        """Add ``rows [n, ...]`` at the end."""
        self._file.write(np.ascontiguousarray(rows).data)
        self._length += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        # NumPy pads headers so that the first axis can grow, so the header's size is fixed.
        shape = (self._length, *self._row)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


def write(
    folder: Path,
    arrays: Mapping[str, np.ndarray],
    clients: Sequence[str] | None,
    known: Description,
) -> dict[str, Any]:
    """Write the arrays of both splits, and the clients' names.

    Args:
        known: the data set's description, with its classes and whether polarity is to be measured.

    Returns:
        The part of a card that follows from the arrays.
    """
    for key, values in arrays.items():
        save(folder, key, values)
    if clients is not None:
        save_json(folder, "client_names", clients)
    texts = "train_text" in arrays
    counts = {split: len(arrays[f"{split}_{'client' if texts else 'x'}"]) for split in SPLITS}
    for split in SPLITS:
        if f"{split}_client" in arrays:
            counts[f"{split}_clients"] = len(np.unique(arrays[f"{split}_client"]))
    return {
        "kind": "text" if texts else "arrays",
        "counts": counts,
        "classes": list(known.classes) if known.classes else None,
        "polarity": measured_polarity(arrays["train_x"]) if known.polarity else None,
    }


def text_arrays(
    source: str, texts: Iterable[Text], clients: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of a :class:`~fedlib.datasets.TextDataset`, and the clients' names by their codes.

    Args:
        source: source of the texts, for messages.
        texts: in any order of splits and clients. Within a split they keep this order. All of them
            have a label, all have tags, or none has either.
        clients: clients with fixed codes. Other clients get the next codes as they come.

    Raises:
        Error: a split has no texts, or only empty ones.
    """
    codes = {client: code for code, client in enumerate(clients)}
    columns: dict[str, dict[str, Any]] = {
        split: {
            **{"client": array("q"), "text": bytearray(), "offsets": array("q", [0])},
            **{"label": array("q"), "tags": bytearray(), "tags_offsets": array("q", [0])},
        }
        for split in SPLITS
    }
    for split, client, text, goal in texts:
        column = columns[split]
        column["client"].append(codes.setdefault(client, len(codes)))
        column["text"] += text
        column["offsets"].append(len(column["text"]))
        if isinstance(goal, int):
            column["label"].append(goal)
        elif goal is not None:
            column["tags"] += json.dumps(goal).encode("ascii")
            column["tags_offsets"].append(len(column["tags"]))
    arrays = {}
    for split, column in columns.items():
        if not column["text"]:
            what = "only empty texts" if column["client"] else "no texts"
            raise Error(f"{source}: the {split} split has {what}")
        for key, values in column.items():
            if key in ("client", "text", "offsets") or column[key.removesuffix("_offsets")]:
                dtype = np.uint8 if isinstance(values, bytearray) else np.int64
                arrays[f"{split}_{key}"] = np.frombuffer(values, dtype=dtype)
    return arrays, list(codes)
