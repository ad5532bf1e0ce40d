"""The runs of several notebooks' plans: which they are, training those missing, packing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fedlib import files
from fedlib.errors import Error
from fedlib.plans import COMMON, Request, notebooks, planned, requests, select, task_key
from fedlib.reproduction import draw
from fedlib.reproduction.answers import RunGroup, answer
from fedlib.reproduction.reproduce import check_parameters, named
from fedlib.results import published
from fedlib.results.files import open_runs
from fedlib.results.store import Store
from fedlib.tasks import Task, load_task
from fedlib.tasks.presets import require_preset


def plans(
    names: Sequence[str],
    preset: str,
    seed: int,
    numbers: Mapping[str, Any],
    parts: Sequence[str] = (),
) -> dict[str, list[Request]]:
    """The requests of notebooks' plans by notebook.

    Args:
        names: see :func:`fedlib.reproduction.reproduce.named`; none: all that have a plan.
        numbers: notebooks' own parameters, which all of them must have.
        parts: only requests of these parts, and notebooks that have some; none: all.

    Raises:
        Error: an unknown name, preset, parameter or part.
    """
    require_preset(preset)
    chosen = named(names, planned(), "notebook with a plan")
    if taken := [key for key in COMMON if key in numbers]:
        raise Error(f"--parameter {taken[0]} is no number of a plan; use --{taken[0]}")
    for name in chosen if numbers else ():  # of which each must have all
        check_parameters([notebooks()[name]], numbers)
    asked = {name: requests(name, preset, seed, **numbers) for name in chosen}
    wanted = select([request for runs in asked.values() for request in runs], *parts)
    kept = {request.part for request in wanted}
    asked = {name: [r for r in runs if r.part in kept] for name, runs in asked.items()}
    return {name: runs for name, runs in asked.items() if runs}


def train(
    store: Store,
    groups: Sequence[RunGroup],
    preset: str,
    data_root: Path | None = None,
    quiet: bool = False,
    **execution: Any,
) -> list[str]:
    """Train what is missing, group after group; one that fails does not stop the others.

    Args:
        quiet: no progress bar; otherwise there is one on a terminal.
        execution: ``device``, ``backend``; see :func:`fedlib.run`.

    Returns:
        what failed, a line each.
    """
    there = store.paths()
    missing = [group for group in groups if group.missing(there)]
    if missing:
        files.require_writable(store.root)
    for group in groups:
        if not group.missing(there):
            store.drop_checkpoint(group.digests)
    load, failed = _loader(data_root), []
    for group in tqdm(missing, unit="program", disable=quiet or None, dynamic_ncols=True):
        try:
            answer(store, group.requests, preset, load, **execution)
        except Exception as problem:
            first = group.requests[0]
            line = " ".join(str(problem).split()) or type(problem).__name__
            failed.append(f"{first.algorithm} on {first.task}: {line}")
    return failed


def _loader(data_root: Path | None) -> Callable[..., Task]:
    """:func:`fedlib.load_task` with memory for tasks that differ in their seeds at most.

    Groups of such tasks follow each other.
    """
    last: dict[str, dict[int, Task]] = {}

    def load(name: str, seed: int, **options: Any) -> Task:
        kind = task_key(name, options)
        if kind not in last:
            last.clear()
        tasks = last.setdefault(kind, {})
        if seed not in tasks:
            tasks[seed] = load_task(name, seed=seed, data_root=data_root, **options)
        return tasks[seed]

    return load


def publish(
    store: Store,
    results: Path,
    notebook: str,
    name: str,
    groups: Sequence[RunGroup],
    preset: str,
    partial: bool = False,
) -> dict[str, Any]:
    """Pack the stored runs of a notebook's plan.

    Args:
        results: the folder of published runs, for instance ``data/results``.
        name: of the file.
        groups: the runs of the plan.
        preset: of the plan.
        partial: do so although runs of the plan are missing.

    Returns:
        notebook, path, runs, missing and bytes of the file.

    Raises:
        Error: runs are missing, or there are none, or the folder is not writable.
    """
    files.require_writable(results, "--to")
    there = store.paths()
    missing = sum(group.missing(there) for group in groups)
    if missing and not partial:
        raise Error(
            f"{missing} runs of {notebook} are not stored; run: fedlib sweep {notebook} --preset "
            f"{preset}, with the same --seed, --part and -p (or publish what is there: --partial)"
        )
    digests = [digest for group in groups for digest in group.digests if digest in there]
    clients_of = {
        task
        for entry in draw.entries()
        for task, maker in entry.notebooks.items()
        if entry.clients and maker == notebook
    }
    histories = [open_runs(there[key])[key].history(params=False) for key in dict.fromkeys(digests)]
    path = published.publish(results, name, histories, clients_of)
    return {
        "notebook": notebook,
        "path": str(path),
        "runs": len(histories),
        "missing": missing,
        "bytes": path.stat().st_size,
    }
