"""kill -9 of ``fedlib reproduce``, which has processes of its own, then again: all is equal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from fedlib.results.files import open_runs
from tests.faults.campaign import Count, cases

ROOT = Path(__file__).resolve().parents[2]


# A whole notebook takes longer; this one trains, and draws what it trained.
NOTEBOOK = """
from fedlib import notebook
from fedlib.engine import checkpoint
from fedlib.plans import grid

checkpoint.SECONDS = 0.0


def plan(n):
    return {"curves": [grid("synthetic", name, {}, n)[0] for name in ("fedavg", "adafedadam")]}


session = notebook.start("99_tiny", plan, preset=preset, rounds=2)
session.figure("adafedadam/figure_2", session.experiment())
"""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def reproduce(folder: Path, seconds: float | None = None) -> tuple[int, float, dict[str, bytes]]:
    """Status, seconds and files of ``fedlib reproduce`` in a checkout with one notebook."""
    if not (folder / "notebooks").is_dir():
        (folder / "notebooks").mkdir(parents=True)
        (folder / "pyproject.toml").touch()
        (folder / "fedlib").symlink_to(ROOT / "fedlib")
        cells = [nbformat.v4.new_code_cell(source) for source in ('preset = ""', NOTEBOOK)]
        cells[0].metadata["tags"] = ["parameters"]
        book = nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)
        nbformat.write(book, folder / "notebooks" / "99_tiny.ipynb")
    places = {"FEDLIB_DATA": f"{folder}/data/", "FEDLIB_FIGURES": f"{folder}/data/figures"}
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedlib", "reproduce", "99_tiny", "--output=executed", "--jobs=2"],
        env={**os.environ, **places, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait(), time.monotonic() - start, tree(folder / "data")


def tree(folder: Path) -> dict[str, bytes]:
    """Every folder and file, hidden ones too, with what may not differ of its content."""
    files = {}
    for path in folder.rglob("*"):
        content = b"" if path.is_dir() else path.read_bytes()
        if path.suffix == ".parquet":
            histories = [run.history() for run in open_runs(path).values()]
            content = str([(each.frame.to_csv(), each.params) for each in histories]).encode()
        if path.suffix == ".json":
            fields = json.loads(content)
            varies = ("created", "seconds", "seconds_per_round")
            content = str({k: v for k, v in fields.items() if k not in varies}).encode()
        files[str(path.relative_to(folder))] = content
    return files


def processes(folder: Path) -> list[int]:
    """The processes that were started for a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"FEDLIB_DATA={folder}/data/".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_reproduce_killed_at_any_time_ends_whole_and_goes_on(tmp_path: Path, count: Count) -> None:
    status, seconds, wanted = reproduce(tmp_path / "whole")
    assert status == 0
    for number in cases(range(10), 1):
        with count.case(number):
            folder = tmp_path / str(number)
            status, _, _ = reproduce(folder, random.Random(number).uniform(0.3, 1) * seconds)
            assert status in (0, -signal.SIGKILL)
            status, _, left = reproduce(folder)
            assert status == 0
            until = time.monotonic() + 60
            while processes(folder) and time.monotonic() < until:
                time.sleep(0.2)
            assert not processes(folder), "processes of the killed command go on"
            assert left == wanted
