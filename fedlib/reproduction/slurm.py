"""A sweep as one Slurm job array: its script, handing it over, and what became of its jobs.

A job of the array is one shard of the sweep. Scripts go to ``sbatch`` as they are printed by
``fedlib sweep --dry-run``; jobs' logs and a note of which job has which runs lie in ``.slurm`` in
the store.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedlib import files, paths
from fedlib.errors import Error, Failure, require
from fedlib.reproduction.answers import RunGroup

SECONDS = 120  # a controller that is down lets its clients wait for some ten seconds
# Options that would break what a job stands for here.
OURS = ("array", "chdir", "error", "open-mode", "output", "parsable", "wait", "wrap")
# Slurm's words for jobs that are not over.
RUNNING = ("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED")
WAITING = ("CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD")


@dataclass(frozen=True)
class Job:
    """One job of an array.

    Attributes:
        id: Slurm's, for instance ``"17_1"``.
        shard: for instance ``"1/4"``.
        digests: of its runs.
        log: where its output is.
    """

    id: str
    shard: str
    digests: tuple[str, ...]
    log: Path


def script(words: Sequence[str], jobs: int, store: Path, options: Mapping[str, str]) -> str:
    """The script of a job array in which every job computes a shard of a sweep.

    Args:
        words: the sweep's command line after ``fedlib``, without a shard.
        jobs: how many.
        store: the run store's folder.
        options: of ``sbatch``, such as ``{"partition": "gpu", "exclusive": "true"}``; an option
            that is ``"true"`` is written without a value.

    Raises:
        Error: no job, an option that is none or that is set here.
    """
    require(jobs >= 1, "--jobs", jobs, "a whole number >= 1")
    given = {key.replace("_", "-"): value for key, value in options.items()}
    for key, value in given.items():
        if key in OURS:
            raise Error(f"--slurm {key} is set by fedlib; leave it out")
        allowed = "KEY=VALUE, an option of sbatch by its long name, for instance partition=gpu"
        sound = re.fullmatch("[a-z][a-z0-9-]+", key) and value and value.isprintable()
        require(bool(sound), "--slurm", f"{key}={value}", allowed)
    settings = {
        "job-name": "fedlib-sweep",
        "requeue": "true",  # what a job has done is in the store; it goes on from there
        **given,
        "array": f"1-{jobs}",
        "chdir": str(paths.project_root()),
        "output": str(folder(store).resolve()).replace("%", "%%") + "/%A_%a.log",
        "open-mode": "append",  # a job that is requeued goes on in its log
    }
    lines = [
        f"#SBATCH --{key}" + (f"={shlex.quote(value)}" if value != "true" else "")
        for key, value in settings.items()
    ]
    command = shlex.join([sys.executable, "-m", "fedlib", *words])
    return "\n".join(
        [
            *("#!/bin/bash", *lines),
            "# As many threads as the job has cores, bound to them or not.",
            'export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$SLURM_CPUS_ON_NODE}"',
            # exec: SIGTERM must reach fedlib, which then leaves a checkpoint.
            f'exec {command} --shard "$SLURM_ARRAY_TASK_ID/{jobs}"\n',
        ]
    )


def submit(text: str, jobs: int, groups: Sequence[RunGroup], store: Path) -> str:
    """Hand a script to Slurm.

    Args:
        groups: all of the sweep, in the order that its shards take.

    Returns:
        the array's job id.

    Raises:
        Failure: there is no Slurm here, or it does not answer.
        Error: Slurm does not take the script.
    """
    try:
        folder(store).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Failure(f"cannot make the folder for the jobs' logs: {problem}") from None
    answer = _ask("sbatch", "--parsable", text=text)
    if answer is None:
        raise Failure(
            "no sbatch here that answers: submit where Slurm is, or start the shards yourself "
            "with --shard I/N"
        )
    if answer.returncode:
        lines = [line.split("error: ", 1)[-1] for line in answer.stderr.splitlines()]
        kind = Failure if "contact slurm controller" in answer.stderr else Error
        raise kind(f"Slurm did not take the jobs: {'; '.join(lines) or 'sbatch says nothing'}")
    job = answer.stdout.split(";")[0].strip()
    shards = [_digests(groups[shard::jobs]) for shard in range(jobs)]
    files.write(folder(store) / f"{job}.json", json.dumps(shards).encode())
    return job


def submitted(store: Path) -> list[Job]:
    """The jobs that were ever submitted for runs of a store, the oldest first.

    Raises:
        Error: a note of what was submitted is not what was written.
    """
    jobs = []
    notes = (path for path in folder(store).glob("*.json") if path.stem.isdigit())
    for path in sorted(notes, key=lambda path: (path.stat().st_mtime_ns, int(path.stem))):
        try:
            shards = [tuple(map(str, shard)) for shard in json.loads(path.read_bytes())]
        except (OSError, ValueError, TypeError, RecursionError):
            raise Error(f"{path} is not a note of submitted jobs; delete it") from None
        for number, digests in enumerate(shards, 1):
            job = f"{path.stem}_{number}"
            log = folder(store) / f"{job}.log"
            jobs.append(Job(job, f"{number}/{len(shards)}", digests, log))
    return jobs


def states(jobs: Iterable[Job]) -> dict[str, str] | None:
    """Slurm's word for each job that it still knows, by the job's id; None without an answer.

    ``squeue`` knows what runs and what ended some minutes ago, ``sacct`` (where there is
    accounting) the rest.
    """
    queue = ("--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i %T")
    answer = _ask("squeue", *queue)
    if answer is None or answer.returncode:
        return None
    known = dict(line.split()[:2] for line in answer.stdout.splitlines())
    others = {job.id for job in jobs} - set(known)
    if others:
        arrays = ",".join(sorted({job.split("_")[0] for job in others}))
        columns = ("--noheader", "--allocations", "--parsable2", "--format=JobID,State")
        answer = _ask("sacct", *columns, f"--jobs={arrays}")
        lines = answer.stdout.splitlines() if answer and not answer.returncode else []
        for line in lines:
            job, _, state = line.partition("|")
            if job in others:
                known[job] = state.split()[0]  # "CANCELLED by 1000"
    return known


def latest(jobs: Iterable[Job], answers: Mapping[str, str] | None) -> dict[str, Job]:
    """By run, the job to look at: the last one submitted, or else one that is not over.

    Args:
        jobs: the oldest first.
        answers: see :func:`states`.
    """
    chosen: dict[str, Job] = {}
    for job in jobs:
        over = (answers or {}).get(job.id) not in (*RUNNING, *WAITING)
        for digest in job.digests:
            before = chosen.get(digest)
            if before is None or not over or state(before, 1, answers) in ("failed", "unknown"):
                chosen[digest] = job
    return chosen


def state(job: Job, missing: int, answers: Mapping[str, str] | None) -> str:
    """What became of a job: done, running, waiting, failed or (Slurm gives no answer) unknown.

    Args:
        missing: how many of its runs are not stored.
        answers: see :func:`states`.
    """
    word = (answers or {}).get(job.id, "")
    if word in RUNNING:
        return "running"
    if not missing:
        return "done"
    if answers is None:
        return "unknown"
    return "waiting" if word in WAITING else "failed"


def folder(store: Path) -> Path:
    """Where a store's jobs leave their logs."""
    return store / ".slurm"


def _digests(groups: Sequence[RunGroup]) -> list[str]:
    return [digest for group in groups for digest in group.digests]


def _ask(program: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str] | None:
    """What one of Slurm's programs answers; None if it is not there or does not."""
    try:
        return subprocess.run(
            [program, *words], input=text, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
