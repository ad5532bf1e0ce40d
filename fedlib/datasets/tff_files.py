"""TensorFlow Federated's HDF5 files: ``/examples/<client id>/<feature>``, the examples first.

Clients come in the order of their sorted ids, which is the order that TFF samples from, and a
client's examples in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from fedlib.errors import Error, first_line

# A feature is a string of bytes (None), or numbers of a kind ("f" or "i") and a shape.
Feature = tuple[str, tuple[int, ...]] | None
_PIECE = 4096


def clients(path: Path) -> list[str]:
    """The clients' ids, sorted as strings (by code point)."""
    with _examples(path) as examples:
        return sorted(examples)


def pieces(
    path: Path, features: Mapping[str, Feature]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(client, number of examples, values by feature), client by client.

    A client with many examples comes in several pieces, one without examples in one empty piece.
    Values are a list of bytes, or an array ``[n, *shape]``.
    """
    with _examples(path) as examples:
        for client in sorted(examples):
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
