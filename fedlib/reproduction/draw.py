"""The figures and tables of this version: how each is drawn, and from which runs it was drawn last.

:func:`draw` remembers the digests of the runs; :func:`redraw` draws again from the stored runs of
one preset, so that no figure sets small problems beside the papers' tasks. Nothing here can train.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedlib import files, paths
from fedlib.engine.history import History
from fedlib.errors import Error, Failure, unknown
from fedlib.figures.save import save
from fedlib.reproduction.adafedadam import figures as adafedadam
from fedlib.reproduction.compare import how_to_make
from fedlib.reproduction.delta_sgd import figures as delta_sgd
from fedlib.reproduction.entry import Drawing, Drawn, Entry
from fedlib.reproduction.fedopt import figures as fedopt
from fedlib.reproduction.memory import Memory, alone, preferred, remember, remembered
from fedlib.reproduction.mime import figures as mime
from fedlib.results.store import Store
from fedlib.tasks import PRESETS
from fedlib.tasks.presets import require_preset

__all__ = ["ENTRIES", "Drawing", "Drawn", "Entry", "draw", "entries", "entry", "redraw"]

log = logging.getLogger("fedlib")

ENTRIES: dict[str, Entry] = {
    entry.id: entry for module in (fedopt, adafedadam, mime, delta_sgd) for entry in module.ENTRIES
}


def entries() -> list[Entry]:
    """All figures and tables of this version."""
    return list(ENTRIES.values())


def entry(id: str) -> Entry:
    """One figure or table by its id.

    Raises:
        Error: unknown id.
    """
    if id not in ENTRIES:
        raise unknown("figure", id, ENTRIES)
    return ENTRIES[id]


def draw(
    id: str,
    histories: Sequence[History] = (),
    *,
    preset: str | None = None,
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Drawn:
    """Draw a figure, save it, and remember the runs it was drawn from.

    Runs of other tasks that the figure was drawn from before at the same preset are drawn too;
    those of the same tasks are replaced.

    Args:
        id: see :func:`entries`.
        histories: runs of the figure's tasks, from ``store``; none for a figure without runs.
        preset: that they belong to; default the smallest that their tasks were loaded with.
        store: default the standard one.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.

    Raises:
        Error: unknown id or preset, no runs, or runs of tasks that the figure does not show.
    """
    chosen = entry(id)
    store = Store() if store is None else store
    if chosen.make is not None:
        if histories:
            raise Error(f"figure {id} is drawn without runs; it takes none")
        return _draw(chosen, (), store, root)
    _drawable(chosen)
    if not histories:
        raise Error(f"figure {id}: no runs; {how_to_make(next(iter(chosen.notebooks.values())))}")
    for history in histories:
        name = history.config.task["name"]
        if name not in chosen.notebooks:
            raise unknown(f"task of figure {id}", name, chosen.notebooks)
    preset = _scale(histories) if preset is None else preset
    require_preset(preset)
    with alone(store, id):
        others = _others(chosen, histories, remembered(store, chosen, preset), store)
        drawn = _draw(chosen, [*histories, *others], store, root, preset)
        remember(store, id, [*histories, *others], preset)
    return drawn


def _scale(histories: Sequence[History]) -> str:
    """The smallest preset of the runs' tasks; a user's task of another preset counts as quick."""
    places = {preset: place for place, preset in enumerate(PRESETS)}
    return PRESETS[min(places.get(history.config.task["preset"], 0) for history in histories)]


def _others(
    chosen: Entry, histories: Sequence[History], memory: Memory, store: Store
) -> list[History]:
    """The runs of other tasks that the figure was drawn from last."""
    new = {history.config.task["name"] for history in histories}
    others: list[History] = []
    for task in memory.runs:
        if task in new or task not in chosen.notebooks:
            continue
        try:
            others += memory.histories(task, partial(store.load, params=False))
        except Error as problem:
            log.warning("figure %s: %s left out: %s", chosen.id, task, problem)
    return others


def redraw(
    ids: Sequence[str] | None = None,
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
    preset: str | None = None,
) -> list[Path]:
    """Draw figures again from stored or published runs; never trains.

    Args:
        ids: see :func:`entries`; default all but those that a notebook draws itself.
        store: default the standard one.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.
        preset: of the runs; default for each figure the one that has runs of most of its tasks
            on the papers' data, see :func:`fedlib.reproduction.memory.preferred`.

    Returns:
        the files as :func:`fedlib.figures.save` returns them.

    Raises:
        Error: unknown id or preset, or runs that are missing: the message names the notebooks that
            make them. All other figures are drawn before it is raised.
    """
    store = Store() if store is None else store
    drawable = [entry for entry in entries() if entry.draw or entry.make]
    if preset is not None:
        require_preset(preset)
    wanted = drawable if ids is None else [entry(id) for id in ids]
    files.require_writable(paths.figures_root(root))
    made: list[Path] = []
    problems: list[Error] = []
    load = cache(partial(store.load, params=False))  # figures share many runs
    for chosen in wanted:
        try:
            scale, runs = ("", []) if chosen.make else _runs(chosen, store, load, preset)
            made.append(_draw(chosen, runs, store, root, scale).path)
        except Error as problem:
            problems.append(problem)
    if problems:
        more = f"{len(problems)} of {len(wanted)} figures not drawn: " if len(wanted) > 1 else ""
        failed = any(isinstance(problem, Failure) for problem in problems)
        raise (Failure if failed else Error)(more + " | ".join(map(str, problems)))
    return made


def _draw(
    chosen: Entry, histories: Sequence[History], store: Store, root: Any, preset: str = ""
) -> Drawn:
    missing: list[str] = []
    if chosen.make is not None:
        figure, data = chosen.make(store.root.parent)
    else:
        # The order of the entry's tasks, then as given: the same whichever notebook ran last.
        order = list(chosen.notebooks)
        histories = sorted(histories, key=lambda history: order.index(history.config.task["name"]))
        figure, data = _drawable(chosen)(histories)
        if preset != PRESETS[0]:  # small problems need not stand for all tasks
            there = {history.config.task["name"] for history in histories}
            missing = [task for task in order if task not in there]
    about: dict[str, Any] = {"caption": chosen.caption, "histories": histories, "missing": missing}
    return Drawn(figure, data, save(figure, chosen.id, data, root=root, **about))


def _drawable(chosen: Entry) -> Callable[[Sequence[History]], Drawing]:
    if chosen.draw is None:
        way = how_to_make(chosen.notebook)
        raise Error(f"figure {chosen.id} is drawn by its notebook itself; {way}")
    return chosen.draw


def _runs(
    chosen: Entry, store: Store, load: Callable[[str], History], preset: str | None
) -> tuple[str, list[History]]:
    """The preset and the runs that a figure is drawn from."""
    _drawable(chosen)
    histories = []
    if preset is None:
        preset, memory = preferred(store, chosen)
    else:
        memory = remembered(store, chosen, preset)
    for task, notebook in chosen.notebooks.items():
        try:
            histories += memory.histories(task, load)
        except Error as problem:
            kind = Failure if isinstance(problem, Failure) else Error
            way = how_to_make(notebook, preset)
            raise kind(f"figure {chosen.id}: {problem}; {way}") from None
    if not histories:
        makers = dict.fromkeys(chosen.notebooks.values())
        ways = " and ".join(how_to_make(maker, preset) for maker in makers)
        raise Error(f"figure {chosen.id} has not been drawn yet at preset {preset}: {ways}")
    return preset, histories
