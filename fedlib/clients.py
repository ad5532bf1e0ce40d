"""Data of a population of clients, and the assignment of examples to clients."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedlib.arguments import Numbers, called, check_fields, checked, shown
from fedlib.errors import Error, first_line
from fedlib.items import read_items

# Changes that NumPy makes in place are noticed in tensors of up to this many bytes. In larger ones
# a sample of this many numbers, evenly spaced, is compared.
SMALL, SAMPLE = 2**19, 2**12
# Aggregation weights that float32 can represent, also in sums.
WEIGHTS = 1e-30, 1e30


class NamedParts(list[np.ndarray]):
    """The clients' parts, with their names in the same order."""

    def __init__(self, parts: Iterable[np.ndarray], names: Sequence[Any]) -> None:
        super().__init__(parts)
        self.names = list(names)


@dataclass(frozen=True, eq=False)
class ClientData:
    """The examples of a population of clients. An example may belong to several clients.

    The assignment never changes: ``dataclasses.replace`` gives new data, and the arrays and the
    index here are read-only. To index a tensor that is trained, take ``index.clone()``: torch saves
    no tensor of this kind for a backward pass.

    Args:
        x: inputs ``[N, ...]`` of any dtype, which the task's transform turns into model inputs. A
            tensor, or numbers from NumPy, pandas or scikit-learn. Neither these nor the targets are
            copied unless necessary.
        y: targets ``[N, ...]``.
        parts: for each client the indices of its examples, in its own order, or a dict of these by
            the client's name, such as ``frame.groupby("user").indices``.
        ids: different names of the clients (text or numbers, also a column of pandas), in the order
            of the parts. Default: the names in ``parts``, or ``"0"``, ``"1"``, ...
        weights: aggregation weight of each client, 0 or 1e-30 to 1e30 and not all 0. Default: its
            number of examples. Reported metrics are averaged over examples in either case.

    Raises:
        Error: parts that are not indices of examples, or numbers that do not match. The message
            names the client.

    Example:
        >>> data = ClientData(torch.eye(3), torch.arange(3), [[0, 2], [1]], ids=["ann", "bob"])
        >>> len(data), data.sizes.tolist(), data.client_weights().tolist()
        (2, [2, 1], [2.0, 1.0])
    """

    x: Tensor
    y: Tensor
    parts: Sequence[Any] | Mapping[Any, Any] = field(repr=False)
    ids: ArrayLike = field(default=(), repr=False)
    weights: Numbers | None = field(default=None, repr=False)
    sizes: np.ndarray = field(init=False, repr=False)
    index: Tensor = field(init=False, repr=False)
    starts: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts, ids = self.parts, self.ids
        owners: Sequence[Any] = getattr(parts, "names", ())
        if isinstance(parts, Mapping):
            owners = [*parts]
            require_owners("client data: parts", pd.Series(owners, dtype=object).to_numpy())
            ids = ids if np.size(ids) else [str(owner) for owner in owners]
        if isinstance(parts, (Mapping, ValuesView, Iterator)):
            parts = [*(parts.values() if isinstance(parts, Mapping) else parts)]
        _require_places(self.x, parts)
        self._set(x=_tensor("x", self.x), y=_tensor("y", self.y), parts=parts, ids=ids)
        check_fields(self)
        count = len(self.x)
        if count != len(self.y):
            raise Error(f"client data: {count} inputs but {len(self.y)} targets: give one each")
        read = checked_parts("client data: ", parts, count)
        sizes = np.array([len(part) for part in read], dtype=np.int64)
        self._set(
            sizes=sizes,
            index=torch.from_numpy(np.concatenate([sizes[:0], *read])),
            starts=np.concatenate([[0], np.cumsum(sizes)])[:-1],
            ids=_names(ids, len(sizes), [str(owner) for owner in owners]),
            # A copy, as torch's tensors of several axes warn when NumPy asks them for one.
            weights=None if self.weights is None else np.asarray(self.weights, np.float64).copy(),
        )
        self._require_weights()
        self._hold()

    def _require_weights(self) -> None:
        """Refuse weights whose sums over clients overflow, or are 0."""
        if self.weights is None:
            return
        if self.weights.shape != self.sizes.shape:
            raise _unlike("weights", self.weights.shape, len(self))
        for client, weight in enumerate(self.weights):
            if not (weight == 0 or WEIGHTS[0] <= weight <= WEIGHTS[1]):
                what = f"client data: client {client} has weight {weight}"
                raise Error(f"{what} (allowed: 0, or {WEIGHTS[0]:g} to {WEIGHTS[1]:g})")
        if len(self) and not self.weights.sum() > 0:
            raise Error("client data: all weights are 0. At least one must be positive")

    def _hold(self) -> None:
        """Make the arrays and the index read-only. The parts are views of the index."""
        index = self.index.numpy()
        with torch.inference_mode():  # outside it torch refuses in-place changes of such a tensor
            self._set(index=torch.from_numpy(index))
        for array in (index, self.sizes, self.starts, self.weights):
            if array is not None:
                array.flags.writeable = False
        self._set(parts=np.split(index, self.starts[1:]) if len(self) else ())

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._hold()

    def digest(self) -> str:
        """64 hex digits of the SHA-256 of the current contents."""
        sha = hashlib.sha256()
        arrays = map(torch.tensor, (self.starts, self.sizes, self.client_weights()))
        for tensor in (self.x, self.y, *arrays, self.index):
            sha.update(f"{tuple(tensor.shape)} {tensor.dtype};".encode())
            sha.update(as_bytes(tensor))
        return hashlib.sha256(repr((sha.hexdigest(), self.ids)).encode()).hexdigest()

    def contents(self) -> list[Any]:
        """Values that change if something here was changed by torch, or by NumPy (for large data,
        if more than a few numbers were).
        """
        changes = [tensor._version for tensor in (self.x, self.y)]
        changes += [zlib.crc32(array.data) for array in (self.starts, self.sizes)]
        for tensor in (self.x, self.y, self.index):
            step = 1 if tensor.nbytes <= SMALL else -(-tensor.numel() // SAMPLE)
            changes.append(zlib.crc32(as_bytes(tensor.reshape(-1)[::step])))
        return [id(self), changes, repr(self.ids)]

    @classmethod
    @checked
    def from_datasets(
        cls, datasets: Any, *, inputs: str = "", targets: str = "", client: str = ""
    ) -> ClientData:
        """Clients' data from data sets with items ``(input, target)`` or dicts.

        They are read once, so random transforms give one draw. Put these in ``Task.transform``.

        Args:
            datasets: a ``torch.utils.data`` Dataset or Subset for each client, in a list or by the
                clients' names. With ``client``, one data set of dicts, for instance from Hugging
                Face.
            inputs, targets: fields of dicts. Default: the usual names, such as ``image`` and
                ``label``.
            client: the field with the client of an item.

        Raises:
            Error: items of another kind or of different shapes, or a DataLoader, which gives
                batches.

        Example:
            >>> from torch.utils.data import TensorDataset
            >>> whole = TensorDataset(torch.eye(3), torch.arange(3))
            >>> ClientData.from_datasets({"ann": whole, "bob": whole}).sizes.tolist()
            [3, 3]
        """
        if not (client or isinstance(datasets, Iterable)):
            raise Error(f"client data: datasets is {shown(datasets)}. Give a list of data sets")
        given = [datasets] if client else datasets
        named = given if isinstance(given, Mapping) else dict(enumerate(given))
        x, y, owners = read_items(named, inputs, targets, client)
        if client:
            require_owners(f"client data: field {client!r}", np.array(owners, dtype=object))
            owners = [str(owner) for owner in owners]
        parts = pd.Series(range(len(x))).groupby(owners).indices
        return cls(x, y, parts if client else {n: parts.get(i, []) for i, n in enumerate(named)})

    def __len__(self) -> int:
        return len(self.sizes)

    def codes(self) -> np.ndarray:
        """The client of each entry of ``index``, int64."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def client_weights(self) -> np.ndarray:
        """float64 ``[clients]``: the aggregation weight of each client."""
        return np.array(self.sizes if self.weights is None else self.weights, np.float64)


def _require_places(x: Any, parts: Any) -> None:
    """Refuse labels of rows as parts if they are not the rows' positions.

    Raises:
        Error: such labels, for instance ``frame.groupby("user").groups``.
    """
    index = getattr(x, "index", None)
    labels = isinstance(parts, list) and any(isinstance(part, pd.Index) for part in parts)
    if labels and isinstance(index, pd.Index) and not index.equals(pd.RangeIndex(len(index))):
        what = "client data: parts are labels of rows, which here are not their positions"
        raise Error(f"{what}. Give frame.groupby(...).indices, or reset_index(drop=True)")


def _names(ids: Any, count: int, owners: list[str]) -> list[str]:
    """The clients' names, all different.

    Args:
        owners: the names in the parts, in their order.
    """
    given = require_owners("client data: ids", ids)
    if not given.size:
        return [str(client) for client in range(count)]
    if given.shape != (count,):
        raise _unlike("ids", given.shape, count)
    names = [str(name) for name in given.tolist()]
    for place, (name, owner) in enumerate(zip(names, owners, strict=False)):
        if name != owner and name in owners:
            raise Error(
                f"client data: ids calls client {place} {name!r}, who is {owner!r}. Give the "
                "ids in the order of the parts (for by_user: np.unique's)"
            )
    name, most = Counter(names).most_common(1)[0]
    if most > 1:
        raise Error(f"client data: two clients have the id {name!r}. Give each its own")
    return names


def _unlike(name: str, shape: tuple[int, ...], count: int) -> Error:
    return Error(f"client data: {name} of shape {shape} for {count} clients. Give one each")


def require_owners(what: str, values: Any) -> np.ndarray:
    """Owners as an array. Refused if one is missing (None, NaN or pandas.NA), or two would have the
    same name.

    Args:
        what: description of the owners, for the error.
    """
    owners = np.asarray(values)
    if owners.dtype.kind in "US" and owners is not values:
        owners = np.asarray(values, dtype=object)  # NumPy makes words of the numbers beside words
    missing = np.flatnonzero(pd.isna(owners))
    if len(missing):
        raise Error(f"{what}: number {missing[0]} is missing. Name it, or leave its examples out")
    if owners.dtype == object and owners.ndim == 1:
        first: dict[str, Any] = {}
        for owner in pd.unique(owners):
            if str(owner) in first:
                what += f": {shown(first[str(owner)])} and {shown(owner)} would have one name"
                raise Error(f"{what}. Make all of them text")
            first[str(owner)] = owner
    return owners


def _tensor(name: str, values: Any) -> Any:
    """Inputs or targets as a dense tensor without a graph, with signed integers.

    Everything that NumPy reads as numbers becomes a tensor. Other objects are left unchanged.

    Raises:
        Error: arrays or tables without numbers, or tensors of another kind.
    """
    if not isinstance(values, Tensor):
        if not hasattr(values, "__array__"):
            return values
        if np.ma.is_masked(values):
            raise Error(f"client data: {name} has masked values. Fill them, or leave them out")
        array = np.asarray(values)
        if array.dtype.kind not in "biufc":
            what = f"client data: {name} is a {type(values).__name__} of {array.dtype}"
            raise Error(f"{what}. Give numbers (pandas.get_dummies(dtype=float), pandas.factorize)")
        array = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
        values = called(f"client data: torch.as_tensor({name})", torch.as_tensor, array)
    kinds = {
        "sparse": values.layout != torch.strided,
        "nested": values.is_nested,
        "quantized": values.is_quantized,
        "without values (device 'meta')": values.is_meta,
    }
    for kind, given in kinds.items():
        if given:
            raise Error(f"client data: {name} is {kind}. Give a dense tensor")
    if not values.dim():
        raise Error(f"client data: {name} is one number. Its first axis must be the examples")
    with torch.inference_mode(False):
        if values.dtype in (torch.uint16, torch.uint32, torch.uint64):
            values = values.long()  # torch supports few operations on these types
        if values.is_floating_point() and values.dtype.itemsize < 2:
            values = values.float()
        return values.clone() if values.is_inference() else values.detach()


def as_bytes(tensor: Tensor) -> memoryview:
    """A tensor's values, one after the other."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def indices(what: str, part: Any) -> np.ndarray:
    """A client's part as int64 ``[N]``.

    Args:
        what: description of the part, for the error.

    Raises:
        Error: a mask, fractions, or more than one dimension.
    """
    try:
        given = np.asarray(part)
    except (ValueError, TypeError, RuntimeError) as error:
        raise Error(f"{what} is no list of indices: {first_line(error)}") from None
    if given.ndim == 1 and (given.dtype.kind in "iu" or not given.size):
        return given.astype(np.int64, copy=False)
    if given.dtype == bool:
        raise Error(f"{what} is a mask: give indices, np.flatnonzero(mask)")
    raise Error(f"{what} is {given.dtype} of shape {given.shape}: give a list of indices")


def checked_parts(what: str, parts: Iterable[Any], count: int) -> list[np.ndarray]:
    """Clients' parts of ``count`` examples, each checked by :func:`indices`.

    Args:
        what: description of the data, for the error.

    Raises:
        Error: a part is not a list of indices, or an index is out of range. The message names the
            client.
    """
    read = [indices(f"{what}the part of client {i}", part) for i, part in enumerate(parts)]
    for client, part in enumerate(read):
        if len(part) and not 0 <= part.min() <= part.max() < count:
            outside = part[(part < 0) | (part >= count)][0]
            has = f"{what}client {client} has example {outside}, outside 0..{count - 1}"
            raise Error(f"{has}: check the partition")
    return read
