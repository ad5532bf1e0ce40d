"""The figures and tables of this version, each drawn from the runs in its notebooks' plans.

A notebook draws its own runs with :func:`draw`, and saves them together with the stored runs of the
figure's other tasks. :func:`redraw` draws the stored runs of one preset, so that no figure mixes
small problems with the papers' tasks. Nothing here can train.
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from fedlib import files, paths, plans
from fedlib.engine.history import History
from fedlib.errors import Error, Failure, require_known
from fedlib.figures.save import save
from fedlib.reproduction.adafedadam import figures as adafedadam
from fedlib.reproduction.delta_sgd import figures as delta_sgd
from fedlib.reproduction.entry import Drawn, Entry
from fedlib.reproduction.fedopt import figures as fedopt
from fedlib.reproduction.matching import Index
from fedlib.reproduction.mime import figures as mime
from fedlib.reproduction.tables import how_to_make
from fedlib.results.store import Store
from fedlib.tasks import PRESETS
from fedlib.tasks.presets import require_preset

SMALL = PRESETS[0]  # the preset of small problems instead of the papers' tasks

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
    require_known("figure", id, ENTRIES)
    return ENTRIES[id]


def draw(
    id: str,
    histories: Sequence[History] = (),
    *,
    preset: str = "quick",
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Drawn:
    """Draw the part of a figure that some runs belong to, and save the figure.

    The saved figure also has the stored runs of its other tasks at the same preset.

    Args:
        id: see :func:`entries`.
        histories: runs of the figure's tasks, from ``store``. None for a figure without runs.
        preset: their preset.
        store: default: the standard one.
        root: folder of the figures. Default: see :func:`fedlib.paths.preset_figures`.

    Raises:
        Error: unknown id or preset, no runs, or runs of tasks that the figure does not show.
    """
    chosen = entry(id)
    store = Store() if store is None else store
    require_preset(preset)
    root = paths.preset_figures(preset) if root is None else root
    if not chosen.needs_runs:
        if histories:
            raise Error(f"figure {id} is drawn without runs, but some are given")
        return _draw(chosen, (), root, data_root=store.root.parent)
    if not histories:
        raise Error(f"figure {id}: no runs: {how_to_make(next(iter(chosen.notebooks.values())))}")
    for history in histories:
        require_known(f"task of figure {id}", history.config.task["name"], chosen.notebooks)
    tasks = {history.config.task["name"] for history in histories}
    others = [
        task
        for task, notebook in chosen.notebooks.items()
        if task not in tasks and plans.has(notebook)
    ]
    shown = chosen.choose(histories)
    stored = store.stored(published=True) if others else ()
    beside = _runs(chosen, Index(stored), preset, others)
    whole = _draw(chosen, [*shown, *beside], root, preset)
    return Drawn(*chosen.draw(shown), whole.path) if beside else whole


def _runs(
    chosen: Entry, stored: Index, preset: str, tasks: Collection[str] | None = None
) -> list[History]:
    """The stored runs that a figure shows at a preset: for each task all comparable ones, or none.

    Args:
        tasks: only runs of these tasks.
    """
    asked = [
        request
        for task, notebook in chosen.notebooks.items()
        if tasks is None or task in tasks
        for request in stored.planned(notebook, preset)
        if request.task == task and (not chosen.parts or request.part in chosen.parts)
    ]
    return list(chosen.choose(stored.plan(asked, preset, chosen.cells, whole=True)))


def redraw(
    ids: Sequence[str] | None = None,
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
    preset: str | None = None,
) -> list[Path]:
    """Draw figures again from stored or published runs, without training.

    Args:
        ids: see :func:`entries`. Default: all.
        store: default: the standard one.
        root: folder of the figures. Default: :func:`fedlib.paths.preset_figures`, by their preset.
        preset: preset of the runs. By default each figure takes the one that has runs of most of
            its tasks on the papers' data, see :func:`drawn_from`.

    Returns:
        The files, as :func:`fedlib.figures.save` returns them.

    Raises:
        Error: unknown id or preset, or missing runs: the message names the notebooks that make
            them. All other figures are drawn before it is raised.
    """
    store = Store() if store is None else store
    if preset is not None:
        require_preset(preset)
    to_draw = entries() if ids is None else [entry(id) for id in ids]
    files.require_writable(paths.figures_root(root), "FEDLIB_FIGURES")
    stored = Index(store.stored(published=True))
    drawn: list[Path] = []
    problems: list[Error] = []
    for chosen in to_draw:
        try:
            scale, runs = drawn_from(chosen, stored, preset) if chosen.needs_runs else ("", [])
            place = paths.preset_figures(scale or preset or SMALL) if root is None else root
            drawn.append(_draw(chosen, runs, place, scale, store.root.parent).path)
        except Error as problem:
            problems.append(problem)
    if problems:
        more = f"{len(problems)} of {len(to_draw)} figures not drawn: " if len(to_draw) > 1 else ""
        failed = any(isinstance(problem, Failure) for problem in problems)
        raise (Failure if failed else Error)(more + " | ".join(dict.fromkeys(map(str, problems))))
    return drawn


def drawn_from(
    chosen: Entry, stored: Index, preset: str | None = None
) -> tuple[str, list[History]]:
    """The preset and the runs that a figure is drawn from.

    Runs on the papers' tasks come before those on small problems, even if only few of the figure's
    tasks have them. Laptop or paper is taken, whichever has runs of more tasks (of
    equals, the one with more runs), and quick if neither has any. A table of the papers has the
    runs of laptop and paper: each cell takes those nearest to the paper's settings, see
    :mod:`.matching`.

    Args:
        preset: take only this one.

    Raises:
        Error: there are none.
    """
    presets = [preset] if preset else [name for name in reversed(PRESETS) if name != SMALL]
    runs = {name: _runs(chosen, stored, name) for name in presets}
    if not preset and not any(runs.values()):
        runs[SMALL] = _runs(chosen, stored, SMALL)
    known = [name for name in runs if runs[name]]
    if chosen.table and known:
        return known[0], [run for name in known for run in runs[name]]
    tasks = {name: len({run.config.task["name"] for run in runs[name]}) for name in known}
    best = max(known, key=lambda name: (tasks[name], len(runs[name])), default=preset or SMALL)
    if not runs[best]:
        makers = dict.fromkeys(chosen.notebooks.values())
        ways = " and ".join(how_to_make(maker, best) for maker in makers)
        raise Error(f"figure {chosen.id} has no runs at preset {best}: {ways}")
    return best, runs[best]


def _draw(
    chosen: Entry,
    histories: Sequence[History],
    root: Any,
    preset: str = "",
    data_root: Path = Path(),
) -> Drawn:
    missing: list[str] = []
    if not chosen.needs_runs:
        figure, data = chosen.draw(data_root)
    else:
        # In the order of the entry's tasks, then as given, so that no notebook changes it.
        order = list(chosen.notebooks)
        histories = sorted(histories, key=lambda history: order.index(history.config.task["name"]))
        figure, data = chosen.draw(histories)
        if preset != SMALL:  # they need not represent all tasks
            tasks_run = {history.config.task["name"] for history in histories}
            missing = [task for task in order if task not in tasks_run]
    about: dict[str, Any] = {"caption": chosen.caption, "histories": histories, "missing": missing}
    return Drawn(figure, data, save(figure, chosen.id, data, root=root, **about))
