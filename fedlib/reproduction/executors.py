"""The shards of a sweep as processes: of this machine, or as jobs of a Slurm array.

The store is the queue: a shard that was killed is started again and goes on from the stored runs
and its checkpoint.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from fedlib import paths
from fedlib.reproduction.answers import RunGroup
from fedlib.results.store import Store

# What Slurm sends a job two minutes before its time is over: what it has begun is saved (SIGTERM),
# and it waits in the queue again. Cancelled or preempted it is saved, too.
SCRIPT = """
# As many threads as the job has cores, bound to them or not.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$SLURM_CPUS_ON_NODE}"
trap 'kill "$!"; wait "$!"; exit' TERM
trap 'kill "$!"; wait "$!"; scontrol requeue "$SLURM_JOB_ID"; exit' USR1
"""


def local(words: Sequence[str], shards: Sequence[Sequence[RunGroup]], gpus: int, store: Store,
          quiet: bool) -> list[str]:  # fmt: skip
    """Compute every shard in a process of its own, with a line of progress each on a terminal.

    Args:
        words: the sweep's command line after ``fedlib``, without a shard.
        gpus: of this machine, for a shard each; 0: the shards share the cores.

    Returns:
        the shards that did not end well, a line each; but for a killed one they have said why.
    """
    count, processes, bars = len(shards), [], []
    threads = {} if gpus else {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // count))}
    try:
        for place, groups in enumerate(shards):
            command = [sys.executable, "-m", "fedlib", *words, f"--shard={place + 1}/{count}"]
            command += [f"--device=cuda:{place}"] if gpus else []
            environment = {**os.environ, **threads}
            processes.append(
                subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL, env=environment)
            )
            named = {"desc": f"shard {place + 1}/{count}", "position": place, "unit": "program"}
            bars.append(tqdm(total=len(groups), disable=quiet or None, dynamic_ncols=True, **named))
        while any(process.poll() is None for process in processes):
            time.sleep(0.5)
            there = {} if quiet else store.paths()
            for bar, groups in zip(bars, shards, strict=True):
                bar.update(sum(not group.missing(there) for group in groups) - bar.n)
    finally:
        while any(process.poll() is None for process in processes):
            for process in processes:
                process.terminate()  # it leaves a checkpoint; one signal may get lost
            with suppress(subprocess.TimeoutExpired):
                processes[-1].wait(10)
        statuses = [process.wait() for process in processes]
        for bar in bars:
            bar.close()
    ended = enumerate(statuses, 1)
    return [f"shard {place}/{count}, exit status {status}" for place, status in ended if status]


def script(words: Sequence[str], jobs: int, store: Path) -> str:
    """The script of a Slurm array in which every job computes a shard of a sweep, for ``sbatch``,
    whose own options come before those in it.

    Args:
        words: the sweep's command line after ``fedlib``, without a shard.
        store: the run store's folder; the jobs' logs lie in its ``.slurm``, which is made.
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
