"""Loaded data sets: read-only arrays with two splits, and their source."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedlib.errors import Error

SPLITS = ("train", "test")
REQUIRED = ("train_x", "train_y", "test_x", "test_y")
OPTIONAL = ("train_client", "test_client", "train_coarse", "test_coarse")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples as arrays, possibly memory-mapped. All are read-only.

    Attributes:
        name: the name given to ``load``.
        train_x, test_x: uint8 or float32, ``[N, H, W, C]``, ``[N, H, W]`` or ``[N, F]``.
        train_y, test_y: int64 labels ``[N]``.
        train_client, test_client: int64 codes ``[N]`` of the person behind each example, or None.
        train_coarse, test_coarse: int64 coarse labels ``[N]``, or None.
        classes: names of the labels, or None.
        stand_in: True if this is an offline stand-in, not the data of that name.
        source: the data's source, in one line.
        fingerprint: SHA-256 (hex) of the contents.
        polarity: for handwriting ``"ink_bright"`` or ``"ink_dark"`` (paper is the highest value).
            None for everything else.
        clients: names of the persons, by their codes, or None.
    """

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    train_client: np.ndarray | None = None
    test_client: np.ndarray | None = None
    train_coarse: np.ndarray | None = None
    test_coarse: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    stand_in: bool = False
    source: str = ""
    fingerprint: str = ""
    polarity: str | None = None
    clients: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class TextDataset:
    """Texts of named clients, kept as UTF-8 bytes with offsets and decoded one at a time.

    Attributes:
        name, stand_in, source, fingerprint: as in :class:`Dataset`.
        arrays: the stored arrays, for each split ``S`` (``train``, ``test``): ``S_text`` (uint8)
            with ``S_offsets`` (int64 ``[N + 1]``), ``S_client`` (int64 ``[N]``, positions in
            ``clients``), and ``S_label`` (int64 ``[N]``) or ``S_tags`` (uint8, JSON) with
            ``S_tags_offsets``.
        clients: the clients' names.
        classes: names of the labels, or None.
    """

    name: str
    arrays: Mapping[str, np.ndarray]
    clients: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    stand_in: bool = False
    source: str = ""
    fingerprint: str = ""

    def size(self, split: str) -> int:
        """The number of texts in ``"train"`` or ``"test"``."""
        return len(self._array(split, "client"))

    def text(self, split: str, i: int) -> str:
        """The ``i``-th text of a split."""
        return self._bytes(split, "text", "offsets", i).decode("utf-8")

    def client(self, split: str) -> np.ndarray:
        """int64 ``[N]``: for each text the position of its author in ``clients``."""
        return self._array(split, "client")

    def labels(self, split: str) -> np.ndarray:
        """int64 ``[N]``. Error if these texts have no labels."""
        return self._array(split, "label")

    def tags(self, split: str, i: int) -> list[str]:
        """The tags of the ``i``-th text. Error if these texts have no tags."""
        tags: list[str] = json.loads(self._bytes(split, "tags", "tags_offsets", i))
        return tags

    def _array(self, split: str, field: str) -> np.ndarray:
        if f"{split}_{field}" not in self.arrays:
            raise Error(f"the {split} texts of {self.name!r} have no {field}")
        return self.arrays[f"{split}_{field}"]

    def _bytes(self, split: str, field: str, offsets_field: str, i: int) -> bytes:
        data, offsets = self._array(split, field), self._array(split, offsets_field)
        if not 0 <= i < len(offsets) - 1:
            raise Error(f"{self.name!r} has {len(offsets) - 1} {split} texts, and no text {i}")
        return data[offsets[i] : offsets[i + 1]].tobytes()


def measured_polarity(images: np.ndarray) -> str:
    """Whether the border of the first thousand images, which is paper, is bright or dark."""
    first = np.asarray(images[:1000], dtype=np.float32)
    border = np.concatenate([first[:, 0], first[:, -1], first[:, :, 0], first[:, :, -1]], axis=1)
    return "ink_dark" if float(np.median(border)) > float(first.max()) / 2 else "ink_bright"


def describe(array: np.ndarray) -> dict[str, Any]:
    """dtype, shape and the SHA-256 of the C-ordered values of ``array``."""
    sha256 = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": sha256}


def fingerprint(records: Mapping[str, Any], classes: Sequence[str] | None) -> str:
    """SHA-256 (hex) of a data set's array records and class names."""
    names = None if classes is None else list(classes)
    text = json.dumps({"arrays": records, "classes": names}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
