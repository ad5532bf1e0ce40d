"""Data sets: prepared real ones, the user's own, and offline stand-ins of the same shape."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedlib.arguments import checked
from fedlib.datasets import posts, standins, store, text_standins
from fedlib.datasets.catalogue import CATALOGUE, edition_for, edition_of
from fedlib.datasets.dataset import SPLITS, Dataset, TextDataset
from fedlib.datasets.importing import import_file
from fedlib.datasets.posts import Posts
from fedlib.datasets.preparing import prepare
from fedlib.datasets.store import Root, verify
from fedlib.errors import Error, unknown

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Posts",
    "TextDataset",
    "how_to_get",
    "import_file",
    "info",
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
_LOADERS = {"arrays": "load", "text": "load_text", "posts": "load_posts"}  # by kind


@checked
def names(data_root: Root = None) -> list[str]:
    """All known names, sorted: those of the catalogue and the user's imported data sets."""
    return sorted(set(CATALOGUE) | set(store.prepared_names(data_root)))


@checked
def info(name: str, data_root: Root = None) -> dict[str, Any]:
    """The card of a data set: its content, source and licence, and its counts if it is prepared.

    Returns:
        A JSON-able dict. ``"prepared"`` says whether there is a copy. If so, the copy's card
        replaces the catalogue's, ``"bytes"`` is its size on disk, and if its card is unusable,
        ``"error"`` says why.

    Raises:
        Error: the name is neither in the catalogue nor prepared.
    """
    _require_known(name, data_root)
    card = CATALOGUE[name].card() if name in CATALOGUE else {"name": name}
    folder = store.prepared_folder(name, data_root)
    if not folder.exists():
        return {**card, "prepared": False}
    try:
        card |= store.read_card(name, data_root) or {}
        if known := edition_of(card["fingerprint"]):  # older cards do not have it
            card["edition"] = known
    except Error as error:
        card["error"] = str(error)  # and "prepared", so that nobody takes the stand-in for it
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return {**card, "prepared": True, "bytes": size}


@checked
def prepared(data_root: Root = None) -> list[dict[str, Any]]:
    """:func:`info` of all prepared data sets, by name."""
    return [info(name, data_root) for name in store.prepared_names(data_root)]


@checked
def load(name: str, data_root: Root = None) -> Dataset:
    """A data set of arrays: the prepared copy, else the offline stand-in (which is logged once).

    Raises:
        Error: the name is unknown, holds text, or has neither a prepared copy nor a stand-in, or
            the prepared copy is damaged.
    """
    card, arrays = _open(name, data_root, "arrays")
    if card is None:
        return standins.make(name)
    names = arrays.pop("client_names", None)
    clients = None if names is None else _names(names)
    polarity = card.get("polarity")
    return Dataset(name, **arrays, clients=clients, polarity=polarity, **_about(card))


@checked
def load_text(name: str, data_root: Root = None) -> TextDataset:
    """A data set of texts: the prepared copy, else the offline stand-in (which is logged once).

    Raises:
        Error: the name is unknown, holds arrays, or has neither a prepared copy nor a stand-in, or
            the prepared copy is damaged.
    """
    card, arrays = _open(name, data_root, "text")
    if card is None:
        return text_standins.make(name)
    clients = _names(arrays.pop("client_names"))
    return TextDataset(name, arrays, clients, **_about(card))


@checked
def load_posts(name: str, data_root: Root = None) -> dict[str, Posts]:
    """A prepared data set of posts as memory maps, ``"train"`` and ``"test"``.

    Raises:
        Error: the name is unknown or does not hold posts, or the copy is missing or damaged.
    """
    _, arrays = _open(name, data_root, "posts")
    return {split: posts.from_arrays(arrays, split) for split in SPLITS}


def _open(name: str, data_root: Root, kind: str) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The prepared copy's card and arrays. There is no card if the stand-in replaces it."""
    _require_known(name, data_root)
    card = store.read_card(name, data_root)
    holds = CATALOGUE[name].kind if card is None else card["kind"]
    if holds != kind:
        raise Error(f"{name!r} holds {holds}, not {kind}: use {_LOADERS[holds]}")
    if card is not None:
        return card, store.open_arrays(card, data_root)
    what = CATALOGUE[name].stand_in
    if not what:
        raise Error(how_to_get(name))
    if name not in _announced and not CATALOGUE[name].built_in:
        _announced.add(name)
        _log.warning("no prepared copy of %r: using the offline stand-in (%s)", name, what)
    return None, {}


def _about(card: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both kinds of data sets that come from a card."""
    classes = card.get("classes")
    about = {key: card[key] for key in ("source", "fingerprint")}
    return {"classes": None if classes is None else tuple(classes), **about}


def _names(stored: np.ndarray) -> tuple[str, ...]:
    """Names stored as JSON in uint8."""
    return tuple(json.loads(stored.tobytes()))


def _require_known(name: str, data_root: Root) -> None:
    if name not in names(data_root):
        raise unknown("data set", name, names(data_root))


def how_to_get(name: str, preset: str = "") -> str:
    """How to get a known data set that is not prepared, in one line.

    Args:
        preset: ``"laptop"`` or ``"paper"``, the preset of the runs that need it.
    """
    known, ways = CATALOGUE[name], []
    if item := edition_for(preset, [name]):
        size = f"about {item.size / 1e6:,.0f} MB to download"
        ways.append(f"get it with 'fedlib data prepare {item.name}' ({size})")
    if preset:
        ways.append(f"all data of {preset} runs with 'fedlib data prepare --preset {preset}'")
    if known.kind != "posts":
        suffix = "npz" if known.kind == "arrays" else "jsonl"
        ways.append(f"import a copy with 'fedlib data import {name} FILE.{suffix}'")
    return f"data set {name!r} ({known.title}) is not prepared: {', or '.join(ways)}"
