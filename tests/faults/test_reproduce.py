"""kill -9 of ``fedlib reproduce``, which has processes of its own, then again: all is equal."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fedlib.results.files import open_runs
from tests.faults.campaign import case, cases

ROOT = Path(__file__).resolve().parents[2]
# A whole notebook takes longer; this one trains, and draws what it trained.
PLAN = """
from fedlib.plans import grid

def plan(n):
    return {"curves": [grid("synthetic", name, {}, n)[0] for name in ("fedavg", "adafedadam")]}
"""
RUN = """
from fedlib import notebook
from fedlib.engine import checkpoint

checkpoint.SECONDS = 0.0
session = notebook.start("99_tiny", plan, preset=preset, rounds=2)
session.figure("adafedadam/figure_2", session.experiment())
"""


def command(data, seconds=None):
    """The exit status of the command in this folder, killed after some seconds."""
    places = {"FEDLIB_DATA": f"{data}/", "FEDLIB_FIGURES": f"{data}/figures"}
    words = ["reproduce", "99_tiny", "--output=executed", "--jobs=2"]
    given = {**os.environ, **places, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = {"env": given, "stdout": subprocess.DEVNULL, "timeout": seconds}
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run([sys.executable, "-m", "fedlib", *words], **run).returncode
    return -signal.SIGKILL


def tree(folder):
    """Every folder and file, hidden ones too, with the numbers in it."""

    def runs(path):
        histories = [run.history() for run in open_runs(path).values()]
        return str([(each.frame.to_csv(), each.params) for each in histories])

    read = {".parquet": runs, ".csv": Path.read_text}
    every = ((path, read.get(path.suffix)) for path in folder.rglob("*"))
    return {str(path.relative_to(folder)): each(path) if each else None for path, each in every}


def processes(data):
    """The processes that were started for a folder."""
    find = f"grep -lsa 'FEDLIB_DATA={data}/' /proc/[0-9]*/environ"
    return subprocess.run(find, shell=True, capture_output=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_killed_at_any_time_it_ends_whole_and_the_next_one_goes_on(write_notebook, tmp_path):
    write_notebook("99_tiny", PLAN, 'preset = ""', RUN)
    begun = time.monotonic()
    assert command(tmp_path / "whole") == 0
    seconds = time.monotonic() - begun
    for number in cases(range(10), 1):
        with case(number):
            data = tmp_path / f"data_{number}"
            status = command(data, random.Random(number).uniform(0.3, 1) * seconds)
            assert status in (0, -signal.SIGKILL)
            assert command(data) == 0
            until = time.monotonic() + 60
            while processes(data) and time.monotonic() < until:
                time.sleep(0.2)
            assert not processes(data), "processes of the killed command go on"
            assert tree(data) == tree(tmp_path / "whole")
