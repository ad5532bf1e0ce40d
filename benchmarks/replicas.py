"""What it costs to repeat a run with other seeds: all in one program, and one after the other.

    python -m benchmarks.replicas --seeds 3

A line a task of the quick preset: seconds of a round of every seed, one seed after the other and
joined, taking turns in this run, and their ratio. Tasks whose seeds the engine does not join are
left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

import pandas as pd
import torch

import fedlib
from fedlib.engine import configure, programs
from fedlib.engine.program import Program
from fedlib.tasks import TASKS


def measure(names: Sequence[str], seeds: int = 3, repeats: int = 15) -> pd.DataFrame:
    """Seconds per round of every seed, without evaluation.

    Returns:
        a row a task: task, parameters (of its model), apart, joined, apart / joined.
    """
    rows = []
    for name in names:
        tasks = [fedlib.load_task(name, seed=seed) for seed in range(seeds)]
        runs = [
            configure(task, "fedavg", seed=seed, rounds=10**6, eval_every=10**6)
            for seed, task in enumerate(tasks)
        ]
        if len(programs(runs)) > 1:
            continue
        joined = Program(runs, torch.device("cpu"))
        alone = [Program([run], torch.device("cpu")).stepper() for run in runs]
        ways = {"apart": alone, "joined": [joined.stepper()]}
        seconds = _turns(ways, repeats)
        row = {"task": name, "parameters": joined.model.size, **seconds}
        rows.append({**row, "apart / joined": seconds["apart"] / seconds["joined"]})
    columns = ["task", "parameters", "apart", "joined", "apart / joined"]
    return pd.DataFrame(rows, columns=columns)


def _turns(ways: dict[str, list[Callable[[], None]]], repeats: int) -> dict[str, float]:
    """The median seconds of each way, after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, steps in ways.items():
            before = time.perf_counter()
            for step in steps:
                step()
            taken[name].append(time.perf_counter() - before)
    return {name: median(times[1:]) for name, times in taken.items()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", nargs="*", help="default: all of the papers")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    names = given.tasks or [name for name in TASKS if name != "quadratic"]
    print(measure(names, given.seeds, given.repeats).to_string(index=False))


if __name__ == "__main__":
    main()
