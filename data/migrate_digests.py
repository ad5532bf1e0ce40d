"""Rewrite the configurations of stored and published runs so that they say every option of a task.

usage: python migrate_digests.py FOLDER...

FOLDER: of published runs (``data/results``) or a store (``data/runs``). An option that came after
runs had been stored was not part of a configuration at the value that it had before; from this
version on it is. So digests change, and with them the names of files. Each file is written aside
and renamed; then the one with the old name is removed. What is converted already stays as it is,
so the script may be run again. Damaged files are named and left, and the exit status is then 1.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from fedlib import files, tasks
from fedlib.engine.config import RunConfig
from fedlib.errors import Error
from fedlib.results.files import file_path, open_runs, pack, params_path

# What runs had that do not say it, by the module of their task.
OPTIONS: dict[str, dict[str, Any]] = {
    "auto_tuned": {"network": "paper"},
    "cifar": {"network": "resnet18", "l2": 0.0},
    "emnist": {"network": "paper", "cap": 0},
    "fair_cifar10": {"init": "fednova", "lr_factor": 1.0, "partition": "silos", "network": "vgg11"},
    "fair_femnist": {"init": "keras", "pool": 1},
    "news": {"network": "distilbert"},
    "shakespeare": {"network": "lstm"},
    "stackoverflow_nwp": {"network": "lstm"},
    "synthetic": {"init": "keras"},
}


def whole(config: RunConfig) -> RunConfig:
    """The configuration that says everything."""
    task = config.task
    if task["name"] in tasks.TASKS and "version" not in task:
        declared = tasks.preset_values(task["name"], task["preset"])
        before = OPTIONS.get(tasks.TASKS[task["name"]][0], {})
        unsaid = {key: value for key, value in before.items() if key in declared}
        if task["options"].get("network") == "mlp":
            unsaid.pop("init", None)  # it has no effect on the small network
        task = {**task, "options": {**unsaid, **task["options"]}}
    return dataclasses.replace(config, task=task)


def convert(path: Path, root: Path | None) -> tuple[int, int]:
    """Convert a file of runs, of a store under ``root``; how many of its runs changed, and all."""
    runs = open_runs(path)
    new = {digest: whole(run.config) for digest, run in runs.items()}
    changed = sum(config != runs[digest].config for digest, config in new.items())
    if not changed:
        return 0, len(runs)
    histories = [
        dataclasses.replace(run.history(params=False), config=new[digest])
        for digest, run in runs.items()
    ]
    target = path if root is None else file_path(root, list(new.values()))
    for digest, run in runs.items():
        old, moved = (params_path(path.parent, each) for each in (run.config, new[digest]))
        if old.is_file() and old != moved:
            files.write(moved, old.read_bytes())
    files.write(target, pack(histories, smallest=root is None))
    if target != path:
        path.unlink()
    for digest, run in runs.items():
        old = params_path(path.parent, run.config)
        if new[digest].digest != digest and old.is_file():
            old.unlink()
    return changed, len(runs)


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    bad = False
    for place in map(Path, sys.argv[1:]):
        flat = sorted(place.glob("*.parquet"))
        kept = [path for path in sorted(place.glob("*/*.parquet")) if path.parent.name[0] != "."]
        for path in [*flat, *kept]:
            try:
                changed, every = convert(path, None if path.parent == place else place)
            except Error as problem:
                print(problem, file=sys.stderr)
                bad = True
            else:
                print(f"{path}: {changed} of {every} runs changed")
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
