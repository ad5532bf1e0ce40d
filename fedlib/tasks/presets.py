"""The common parts of tasks' declarations: presets, sizes that depend on the data, checks.

A task's module declares its presets as dicts, ``paper = {...}``, ``laptop = {...}`` and ``quick =
{...}``: the defaults of its options, and the settings of a run (:data:`RUN`). In a module of
several tasks each preset is a dict of such dicts by task. If two cores can train a task at the
paper's settings, it has no laptop preset, and ``laptop`` is ``paper``. :func:`fedlib.load_task`
looks the preset up by its name, replaces defaults by the options given, and calls the module's
``load``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fedlib import datasets
from fedlib.arguments import WORDS as ALLOWED
from fedlib.arguments import Size, fits
from fedlib.component import NonNegative
from fedlib.datasets.catalogue import edition_for
from fedlib.datasets.store import Root
from fedlib.errors import Error, require, unknown
from fedlib.randomness import numpy_generator

Preset = dict[str, Any]
# Options that are None by default and take a word. The others take a whole number.
WORDS = ("data", "draws")
# Options that are a number or true or false by default, and may be a word or a file.
WORDS_TOO = ("sizes", "glove", "pretrained")
# The types that options take, by the type of their default. All others take a whole number.
KINDS: dict[type, tuple[Any, str]] = {
    bool: (bool, ALLOWED["bool"]),
    float: (NonNegative, ALLOWED["NonNegative"]),
    str: (str, "a word"),
}
PRESETS = ("quick", "laptop", "paper")
# Settings of a run that a preset declares: not options, but fields of the task.
RUN = ("rounds", "clients_per_round", "batch_size", "local_epochs")


class Given(SimpleNamespace):
    """The arguments of a task's ``load``: the task's options, as attributes, and these four."""

    name: str
    preset: str
    seed: int
    data_root: Root


class NotPrepared(Error):
    """A task's data are not prepared.

    Attributes:
        names: the data sets that the task could use, the best one first.
    """

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


def choose_data(given: Given, *prefer: str) -> str:
    """The name of a task's data: the given name, else the first of ``prefer`` that is prepared.

    If none is prepared, the quick preset has the stand-in of the first one.

    Raises:
        NotPrepared: no data. The message says how to get them.
    """
    names = (given.data,) if given.data else prefer
    prepared = datasets.store.prepared_names(given.data_root)
    available = [name for name in names if name in prepared]
    known = datasets.CATALOGUE.get(names[0])
    if available or given.preset == "quick" or known is None or known.built_in:
        return (available or names)[0]
    edition = edition_for(given.preset, names)
    name = edition.data if edition else names[0]
    rest = [other for other in names if other != name]
    others = f" ({' or '.join(rest)} would serve too)" if rest else ""
    where = f"task {given.name}, preset {given.preset}"
    raise NotPrepared(f"{where}: {datasets.how_to_get(name, given.preset)}{others}", names)


@dataclass(frozen=True)
class AtMost:
    """A default number. If there are fewer, all are taken. None always takes all."""

    limit: int | None


ALL = AtMost(None)


def require_preset(preset: str) -> None:
    """Require one of :data:`PRESETS`."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)


def chosen(module: ModuleType, name: str, preset: str, options: Mapping[str, Any]) -> Preset:
    """A task's preset with ``options`` in place of its defaults. None stands for the default.

    Args:
        preset: a preset that the task declares.

    Raises:
        Error: the task has no such option, or the value has the wrong type.
    """
    defaults: Preset = getattr(module, preset)
    defaults = defaults.get(name, defaults)
    known = [key for key in defaults if key not in RUN]
    for option in options:
        if option not in known:
            raise unknown(f"option of task {name}", option, known)
        if options[option] is not None:
            _check(option, options[option], defaults[option])
    return defaults | {key: value for key, value in options.items() if value is not None}


def _check(option: str, value: Any, default: Any) -> None:
    """Require a value of the option's type in the preset. Its module checks the range."""
    if option in WORDS_TOO and isinstance(value, (str, os.PathLike)):
        return
    kind = str if option in WORDS else type(default)
    hint, allowed = KINDS.get(kind, (Size, ALLOWED["Size"]))
    require(fits(value, hint), option, value, allowed)


def small_network(given: Given, usual: str, small: str) -> bool:
    """Whether a task's ``network`` is the one of its small problem. Error if it is neither."""
    require(given.network in (usual, small), "network", given.network, f"{usual!r} or {small!r}")
    return bool(given.network == small)


def sample(
    count: int | AtMost, available: int, what: str, seed: int, purpose: str = "", of: str = ""
) -> np.ndarray:
    """Choose some of ``available`` things: ascending positions, at random without repeats.

    Args:
        count: the number to choose.
        what: the option's name, for the error.
        purpose: keys the draw. Default: ``what``.
        of: the kind of things, for the error.

    Raises:
        Error: the count is less than one or more than ``available``.
    """
    if isinstance(count, AtMost):
        count = available if count.limit is None else min(count.limit, available)
    good = isinstance(count, int) and 1 <= count <= available
    require(good, what, count, f"1..{available}" + (of and f" ({of})"))
    if count == available:
        return np.arange(available)
    draw = numpy_generator(seed, purpose or what)
    return np.sort(draw.choice(available, count, replace=False))
