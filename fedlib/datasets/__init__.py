"""Data sets: prepared real ones, the user's own, and offline stand-ins of the same shape."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fedlib.arguments import checked
from fedlib.datasets import posts, standins, store, text_standins
from fedlib.datasets.catalogue import CATALOGUE, SOURCES
from fedlib.datasets.dataset import REQUIRED, Dataset, TextDataset
from fedlib.datasets.importing import import_file
from fedlib.datasets.posts import Posts
from fedlib.datasets.preparing import prepare
from fedlib.datasets.store import Root, prepared, verify
from fedlib.datasets.synthetic import leaf_synthetic
from fedlib.errors import Error, unknown

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Posts",
    "TextDataset",
    "how_to_get",
    "import_file",
    "info",
    "leaf_synthetic",
    "load",
    "load_posts",
    "load_text",
    "names",
    "prepare",
    "prepared",
    "verify",
]

_log = logging.getLogger("fedlib.datasets")
_announced: set[str] = set()
_WORDS = {"arrays": "arrays", "text": "texts", "posts": "posts"}


@checked
def names(data_root: Root = None) -> list[str]:
    """All known names, sorted: the catalogue's, and those the user has imported."""
    return sorted(set(CATALOGUE) | set(store.prepared_names(data_root)))


@checked
def info(name: str, data_root: Root = None) -> dict[str, Any]:
    """The card of a data set: what it is, source and licence, and if it is prepared its counts.

    Returns:
        A JSON-able dict; ``"prepared"`` says whether a copy is there, and a prepared copy's own
        statements replace the catalogue's. If that copy's card is unusable, ``"error"`` says why.

    Raises:
        Error: the name is neither in the catalogue nor prepared.
    """
    _require_known(name, data_root)
    entry = CATALOGUE[name].card() if name in CATALOGUE else {}
    try:
        card = store.read_card(name, data_root)
    except Error as error:
        # Still "prepared", so that nobody takes the stand-in for it; loading will fail.
        return {**entry, "name": name, "prepared": True, "error": str(error)}
    return {**entry, **(card or {}), "prepared": card is not None}


@checked
def load(name: str, data_root: Root = None) -> Dataset:
    """A data set of arrays: the prepared copy, else the offline stand-in (which is logged once).

    Raises:
        Error: the name is unknown, holds text, or has neither a prepared copy nor a stand-in, or
            the prepared copy is incomplete.
    """
    card, arrays = _open(name, data_root, "arrays", standins.NAMES)
    if card is None:
        return standins.make(name)
    missing = [key for key in REQUIRED if key not in arrays]
    if missing:
        again = store.how_to_rebuild(name)
        raise Error(f"the card of {name!r} lists no {missing[0]}; {again}")
    return Dataset.of(
        name,
        arrays,
        polarity=card.get("polarity"),
        clients=_names(arrays["client_names"]) if "client_names" in arrays else None,
        **_about(card),
    )


@checked
def load_text(name: str, data_root: Root = None) -> TextDataset:
    """A data set of texts: the prepared copy, else the offline stand-in (which is logged once).

    Raises:
        Error: the name is unknown, holds arrays, or has neither a prepared copy nor a stand-in, or
            the prepared copy is incomplete.
    """
    card, arrays = _open(name, data_root, "text", text_standins.NAMES)
    if card is None:
        return text_standins.make(name)
    clients = _names(arrays.pop("client_names"))
    return TextDataset(name, arrays, clients, **_about(card))


@checked
def load_posts(name: str, data_root: Root = None) -> dict[str, Posts]:
    """A prepared data set of posts as memory maps, by split: train, test and what else there is.

    Raises:
        Error: the name is unknown or does not hold posts, or the copy is missing or incomplete.
    """
    card, arrays = _open(name, data_root, "posts")
    splits = [split for split in card["counts"] if f"{split}_sentences" in arrays] if card else []
    return {split: posts.from_arrays(arrays, split) for split in splits}


def _open(
    name: str, data_root: Root, kind: str, stand_ins: Collection[str] = ()
) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """The prepared copy's card and arrays; no card if one of the stand-ins takes its place."""
    _require_known(name, data_root)
    card = store.read_card(name, data_root)
    if card is None and name in stand_ins:
        if name not in _announced and not CATALOGUE[name].built_in:
            _announced.add(name)
            what = CATALOGUE[name].stand_in
            _log.warning("no prepared copy of %r: using the offline stand-in (%s)", name, what)
        return None, {}
    holds = CATALOGUE[name].kind if card is None else card["kind"]
    if holds != kind:
        loaders = {"arrays": "load", "text": "load_text", "posts": "load_posts"}
        use, what = loaders.get(holds, "a newer fedlib"), _WORDS.get(holds, holds)
        raise Error(f"{name!r} holds {what}, not {_WORDS[kind]}: use {use}")
    if card is None:
        raise Error(how_to_get(name))
    return card, store.open_arrays(card, data_root)


def _about(card: Mapping[str, Any]) -> dict[str, Any]:
    """What both kinds of data sets take from a card."""
    classes = card.get("classes")
    about = {key: card[key] for key in ("source", "fingerprint")}
    return {"classes": None if classes is None else tuple(classes), **about}


def _names(stored: np.ndarray) -> tuple[str, ...]:
    """Names stored as JSON in uint8."""
    return tuple(json.loads(stored.tobytes()))


def _require_known(name: str, data_root: Root) -> None:
    if name not in names(data_root):
        raise unknown("data set", name, names(data_root))


def how_to_get(name: str) -> str:
    """What to do about a known data set that is not prepared, in a line."""
    known, ways = CATALOGUE[name], []
    if name in SOURCES:
        size = sum(file.size for file in SOURCES[name].files) / 1e6
        ways.append(f"get it with 'fedlib data prepare {name}' (about {size:,.0f} MB to download)")
    if known.kind != "posts":
        suffix = "npz" if known.kind == "arrays" else "jsonl"
        ways.append(f"import a copy with 'fedlib data import {name} FILE.{suffix}'")
    return f"data set {name!r} ({known.title}) is not prepared: {', or '.join(ways)}"
