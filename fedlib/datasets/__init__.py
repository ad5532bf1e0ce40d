"""Data sets: prepared real ones, the user's own, and offline stand-ins of the same shape."""

from __future__ import annotations

import json
import logging
from typing import Any

from fedlib.datasets import standins, store
from fedlib.datasets.catalogue import ENTRIES
from fedlib.datasets.dataset import Dataset, TextDataset
from fedlib.datasets.importing import import_file
from fedlib.datasets.store import Root, prepared, verify
from fedlib.datasets.synthetic import leaf_synthetic
from fedlib.errors import Error, unknown

__all__ = [
    "Dataset",
    "TextDataset",
    "import_file",
    "info",
    "leaf_synthetic",
    "load",
    "load_text",
    "names",
    "prepared",
    "verify",
]

_log = logging.getLogger("fedlib.datasets")
_announced: set[str] = set()


def names(data_root: Root = None) -> list[str]:
    """All known names, sorted: the catalogue's, and those the user has imported."""
    return sorted(set(ENTRIES) | set(store.prepared_names(data_root)))


def info(name: str, data_root: Root = None) -> dict[str, Any]:
    """The card of a data set: what it is, source and licence, and if it is prepared its counts.

    Returns:
        A JSON-able dict; ``"prepared"`` says whether a copy is there, and a prepared copy's own
        statements replace the catalogue's. If that copy's card is unusable, ``"error"`` says why.

    Raises:
        Error: the name is neither in the catalogue nor prepared.
    """
    _require_known(name, data_root)
    entry = ENTRIES[name].card() if name in ENTRIES else {}
    try:
        card = store.read_card(name, data_root)
    except Error as error:
        # Still "prepared", so that nobody takes the stand-in for it; loading will fail.
        return {**entry, "name": name, "prepared": True, "error": str(error)}
    return {**entry, **(card or {}), "prepared": card is not None}


def load(name: str, data_root: Root = None) -> Dataset:
    """A data set of arrays: the prepared copy, else the offline stand-in (which is logged once).

    Raises:
        Error: the name is unknown, holds text, or has neither a prepared copy nor a stand-in, or
            the prepared copy is incomplete.
    """
    _require_known(name, data_root)
    card = store.read_card(name, data_root)
    if card is None:
        if not standins.exists(name):
            raise _not_prepared(name)
        if name not in _announced:
            _announced.add(name)
            _log.warning(
                "no prepared copy of %r: using the offline stand-in (%s)",
                name,
                ENTRIES[name].stand_in,
            )
        return standins.make(name)
    if card["kind"] != "arrays":
        raise Error(f"{name!r} holds texts, not arrays: use load_text")
    arrays = store.open_arrays(card, data_root)
    missing = [key for key in ("train_x", "train_y", "test_x", "test_y") if key not in arrays]
    if missing:
        raise Error(f"the card of {name!r} lists no {missing[0]}: import it again with overwrite")
    return Dataset(
        name=name,
        train_x=arrays["train_x"],
        train_y=arrays["train_y"],
        test_x=arrays["test_x"],
        test_y=arrays["test_y"],
        train_client=arrays.get("train_client"),
        test_client=arrays.get("test_client"),
        train_coarse=arrays.get("train_coarse"),
        test_coarse=arrays.get("test_coarse"),
        classes=None if card.get("classes") is None else tuple(card["classes"]),
        stand_in=False,
        source=card["source"],
        fingerprint=card["fingerprint"],
        polarity=card.get("polarity"),
    )


def load_text(name: str, data_root: Root = None) -> TextDataset:
    """A prepared data set of texts.

    Raises:
        Error: the name is unknown or holds arrays, or the copy is missing or incomplete.
    """
    _require_known(name, data_root)
    card = store.read_card(name, data_root)
    if (card or ENTRIES[name].card())["kind"] != "text":
        raise Error(f"{name!r} holds arrays, not texts: use load")
    if card is None:
        raise _not_prepared(name)
    arrays = store.open_arrays(card, data_root)
    clients = json.loads(arrays.pop("client_names").tobytes())
    return TextDataset(
        name=name,
        arrays=arrays,
        clients=tuple(clients),
        classes=None if card.get("classes") is None else tuple(card["classes"]),
        stand_in=False,
        source=card["source"],
        fingerprint=card["fingerprint"],
    )


def _require_known(name: str, data_root: Root) -> None:
    if name not in names(data_root):
        raise unknown("data set", name, names(data_root))


def _not_prepared(name: str) -> Error:
    suffix = "npz" if ENTRIES[name].kind == "arrays" else "jsonl"
    return Error(
        f"data set {name!r} is not prepared and has no offline stand-in: "
        f"import a copy with 'fedlib data import {name} FILE.{suffix}'"
    )
