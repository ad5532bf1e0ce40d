"""Training missing runs of notebooks' plans, here or in shards, and packing them for git.

The store is the queue: a shard that was killed is started again and continues from the stored runs
and its checkpoint.
"""

import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fedlib import files, paths
from fedlib.engine.checkpoint import PAUSED, Paused
from fedlib.engine.device import GPU_SHARE
from fedlib.engine.history import History
from fedlib.engine.program import a_minute_is_over
from fedlib.errors import Error
from fedlib.plans import task_key
from fedlib.reproduction import draw
from fedlib.reproduction.answers import RunGroup, answer
from fedlib.results import published
from fedlib.results.files import open_run
from fedlib.results.store import Store
from fedlib.tasks import Task, load_task

log = logging.getLogger("fedlib.progress")


def train(
    store: Store,
    groups: Sequence[RunGroup],
    preset: str,
    data_root: Path | None = None,
    quiet: bool = False,
    **execution: Any,
) -> tuple[list[str], str]:
    """Train missing runs, group after group. A failing group does not stop the others.

    Args:
        quiet: no progress bar. Otherwise there is one on a terminal.
        execution: ``device``, ``backend``, ``deadline``. See :func:`fedlib.engine.run.execute`.

    Returns:
        The failures, one line each, and the current position, if its time is over.
    """
    stored = store.paths()
    missing = [group for group in groups if group.missing(stored)]
    if missing:
        files.require_writable(store.root)
    for group in groups:
        if not group.missing(stored):
            store.drop_checkpoint(group.digests)
    load, failed = _loader(data_root), list[str]()
    bar = tqdm(missing, unit="program", disable=quiet or None, dynamic_ncols=True)
    for done, group in enumerate(bar):
        if a_minute_is_over():
            log.info("%d of %d programs are done", done, len(missing))
        try:
            answer(store, group.requests, preset, load, **execution)
        except Paused as pause:
            return failed, str(pause)
        except Exception as problem:
            first = group.requests[0]
            line = " ".join(str(problem).split()) or type(problem).__name__
            failed.append(f"{first.algorithm} on {first.task}: {line}")
    return failed, ""


def _loader(data_root: Path | None) -> Callable[..., Task]:
    """:func:`fedlib.load_task`, which remembers tasks that differ at most in their seeds.

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


def require_stored(plan: Mapping[str, Sequence[RunGroup]], store: Store, preset: str) -> None:
    """Require all runs of notebooks' plans under a preset."""
    stored = store.paths()
    for notebook, groups in plan.items():
        if missing := sum(group.missing(stored) for group in groups):
            raise Error(
                f"{missing} runs of {notebook} are not stored. Run: fedlib sweep {notebook} "
                f"--preset {preset}, with the same --seed, --part and -p (or publish the stored "
                "ones: --partial)"
            )


def publish(
    store: Store,
    results: Path,
    notebook: str,
    name: str,
    groups: Sequence[RunGroup],
) -> dict[str, Any]:
    """Pack the stored runs of a notebook's plan.

    Args:
        results: the folder of published runs, for instance ``data/results``.
        name: name of the file.
        groups: the runs of the plan.

    Returns:
        notebook, path, runs, missing and bytes of the file.

    Raises:
        Error: none is stored, one is not of a commit, or the folder is not writable.
    """
    files.require_writable(results, "--to")
    stored = store.paths()
    digests = [digest for group in groups for digest in group.digests if digest in stored]
    clients_of = {
        task
        for entry in draw.entries()
        for task, maker in entry.notebooks.items()
        if entry.clients and maker == notebook
    }
    histories = [open_run(stored[key], key).history(params=False) for key in dict.fromkeys(digests)]
    _require_commit(notebook, histories)
    path = published.publish(results, name, histories, clients_of)
    return {
        "notebook": notebook,
        "path": str(path),
        "runs": len(histories),
        "missing": sum(group.missing(stored) for group in groups),
        "bytes": path.stat().st_size,
    }


def _require_commit(notebook: str, histories: Sequence[History]) -> None:
    """Require runs with reproducible code: of a commit without changes."""
    git = [history.meta.get("git") for history in histories]
    if without := sum(not known or known["dirty"] for known in git):
        raise Error(
            f"{without} of {len(git)} runs of {notebook} are of no commit, or of a checkout with "
            "changes: commit these, remove the runs from the store, and train them again"
        )


# -------------------------------------------------------------------------------------- in shards

# Slurm sends this signal to a job two minutes before its time is over. Its work is saved (SIGTERM),
# and it waits in the queue again. It is also saved if the job is cancelled or preempted.
SCRIPT = """
# As many threads as the job has cores, bound to them or not.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$SLURM_CPUS_ON_NODE}"
trap 'kill "$!"; wait "$!"; exit' TERM
trap 'kill "$!"; wait "$!"; scontrol requeue "$SLURM_JOB_ID"; exit' USR1
"""


def local(words: Sequence[str], shards: Sequence[Sequence[RunGroup]], gpus: int, store: Store,
          quiet: bool) -> tuple[list[str], str]:  # fmt: skip
    """Compute every shard in its own process, with one bar of all programs on a terminal.

    Args:
        words: the sweep's command line after ``fedlib``, without a shard.
        gpus: number of this machine's GPUs, which the shards share. 0: they share the cores.

    Returns:
        The shards that failed, one line each (except for killed ones they have reported why), and
        the number of shards without time left.
    """
    count, whole, processes = len(shards), sum(map(len, shards)), []
    own = {GPU_SHARE: str(min(1.0, gpus / count))}
    if not gpus:
        own = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // count))}
    bar = tqdm(total=whole, unit="program", disable=quiet or None, dynamic_ncols=True)
    try:
        for place in range(count):
            command = [sys.executable, "-m", "fedlib", *words, f"--shard={place + 1}/{count}"]
            command += [f"--device=cuda:{place % gpus}"] if gpus else []
            environment = {**os.environ, **own}
            processes.append(
                subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL, env=environment)
            )
        while any(process.poll() is None for process in processes):
            time.sleep(0.5)
            due = a_minute_is_over()
            stored = store.paths() if due or not quiet else {}
            done = sum(not group.missing(stored) for groups in shards for group in groups)
            bar.update(done - bar.n)
            if due:
                log.info("%d of %d programs are stored", done, whole)
    finally:
        while any(process.poll() is None for process in processes):
            for process in processes:
                process.terminate()  # it leaves a checkpoint, but one signal may get lost
            with suppress(subprocess.TimeoutExpired):
                processes[-1].wait(10)
        statuses = [process.wait() for process in processes]
        bar.close()
    ended = [(place, status) for place, status in enumerate(statuses, 1) if status]
    lines = [f"shard {n}/{count}, exit status {status}" for n, status in ended if status != PAUSED]
    paused = statuses.count(PAUSED)
    return lines, f"{paused} of {count} shards have no time left" if paused else ""


def script(words: Sequence[str], jobs: int, store: Path) -> str:
    """The script of a Slurm array in which every job computes a shard of a sweep, for ``sbatch``,
    whose own options come before those in it.

    Args:
        words: the sweep's command line after ``fedlib``, without a shard.
        store: the run store's folder. The jobs' logs are in its ``.slurm``, which is made.
    """
    logs = (store / ".slurm").resolve()
    logs.mkdir(parents=True, exist_ok=True)
    given = {"job-name": "fedlib-sweep", "array": f"1-{jobs}", "chdir": str(paths.project_root())}
    given |= {"output": str(logs).replace("%", "%%") + "/%A_%a.log", "open-mode": "append"}
    lines = [f"#SBATCH --{key}={shlex.quote(value)}" for key, value in given.items()]
    lines += ["#SBATCH --requeue", "#SBATCH --signal=B:USR1@120"]
    command = shlex.join([sys.executable, "-m", "fedlib", *words])
    run = f'{command} --shard "$SLURM_ARRAY_TASK_ID/{jobs}" &\nwait "$!"\n'
    return "\n".join(["#!/bin/bash", *lines]) + SCRIPT + run
