"""Arrays written to ``.npy`` files row by row, when their final length is not known yet."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedlib.datasets.dataset import record
from fedlib.errors import Error


class GrowingArray:
    """One ``.npy`` file that grows along its first axis; in memory is only what is appended.

    The file lies aside (``.<key>.part``) until :meth:`close` has put the length into its header.

    Args:
        folder: where ``<key>.npy`` will be.
        key: the array's name.
        dtype: of the values; what is appended is cast to it, which must lose nothing.
        row: shape of one row; default a plain number.
    """

    def __init__(
        self, folder: Path, key: str, dtype: np.dtype | type, row: Sequence[int] = ()
    ) -> None:
        self.dtype, self.row, self.length = np.dtype(dtype), tuple(row), 0
        self.path, self._aside = folder / f"{key}.npy", folder / f".{key}.part"
        self._digest = hashlib.sha256()
        self._file = open(self._aside, "wb")
        self._file.write(self._header())

    def append(self, rows: ArrayLike) -> None:
        """Add ``rows`` of shape ``[n, *row]`` at the end."""
        values = np.asarray(rows)
        if values.shape[1:] != self.row:
            raise Error(f"{self.path.name}: rows are {values.shape[1:]}; needed: {self.row}")
        data = np.ascontiguousarray(values.astype(self.dtype, casting="same_kind", copy=False))
        # An empty array has no bytes that could be viewed in this way.
        if data.size:
            flat = data.reshape(-1).view(np.uint8).data
            self._file.write(flat)
            self._digest.update(flat)
        self.length += len(values)

    def close(self) -> dict[str, Any]:
        """Finish the file and put it in place; returns its record for the card."""
        self._file.seek(0)
        self._file.write(self._header())
        self._file.close()
        os.replace(self._aside, self.path)
        return record(self.dtype, (self.length, *self.row), self._digest.hexdigest())

    def discard(self) -> None:
        """Remove the unfinished file."""
        self._file.close()
        self._aside.unlink(missing_ok=True)

    def _header(self) -> bytes:
        # NumPy pads headers so that the first axis can grow: the size of the header is fixed.
        shape = (self.length, *self.row)
        out = io.BytesIO()
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        return out.getvalue()
