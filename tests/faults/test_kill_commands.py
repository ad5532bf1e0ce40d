"""kill -9 at random moments, then the same command again: as if nothing had happened.

Half of the moments are before a random operation on files, where something can be half-done; the
other half are random times. Checkpoints are written after every round.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest

from fedlib.results.files import open_runs
from tests.faults.campaign import cases
from tests.faults.forked import Ended, fedlib

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "run": ["run", "synthetic", "scaffold", "--rounds=5", "--option=clients=5"],
    "sweep": ["sweep", "23_fair_synthetic", "-p", "rounds=2"],
    "import": ["data", "import", "own", "own.npz", "--overwrite"],
    "reproduce": ["reproduce", "99_tiny", "--output", "executed", "--jobs=2"],
}
KILLS = {"run": 40, "sweep": 20, "import": 30, "reproduce": 10}
FEW = {"run": 2, "sweep": 1, "import": 2, "reproduce": 1}
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
# Written anew by every command: when, how long it took.
VARIES = ("created", "seconds", "seconds_per_round")

pytestmark = [
    pytest.mark.category("kill -9, then again"),
    pytest.mark.skipif(sys.platform != "linux", reason="commands are forked"),
]


@dataclass(frozen=True)
class Undisturbed:
    """What a command does when nobody kills it.

    Attributes:
        files: see :func:`tree`.
        moments: how often it touches files.
    """

    files: dict[str, bytes]
    moments: int
    seconds: float


def tree(folder: Path) -> dict[str, bytes]:
    """Every folder and file, hidden ones too, with what may not differ of its content."""
    files = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        content = b"" if path.is_dir() else path.read_bytes()
        if path.suffix == ".parquet":
            runs = {digest: run.history() for digest, run in open_runs(path).items()}
            shown = {
                digest: (history.frame.to_csv(), history.clients.to_csv(), str(history.params))
                for digest, history in runs.items()
            }
            content = json.dumps(shown).encode()
        if path.suffix == ".json":
            fields = json.loads(content)
            content = json.dumps({k: v for k, v in fields.items() if k not in VARIES}).encode()
        files[name] = content
    return files


def execute(command: str, folder: Path, *, moment: int = 0, seconds: float | None = None) -> Ended:
    """One of the commands on ``folder/data``, killed at a moment or after a time."""
    data = folder / "data"
    words = [str(folder / word) if word == "own.npz" else word for word in COMMANDS[command]]
    names = {"FEDLIB_DATA": "", "FEDLIB_FIGURES": "figures"}
    environment = {key: str(data / name) for key, name in names.items()}
    if command != "reproduce":
        return fedlib(words, environment, data, moment=moment, seconds=seconds)
    # It has processes of its own, which must end with it.
    process = subprocess.Popen(
        [sys.executable, "-m", "fedlib", *words],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return Ended(process.wait(), "", -1)
    return Ended(process.returncode, output.decode(), -1)


def prepare(command: str, folder: Path, older: bool = False) -> None:
    """What a command needs; ``older``: another file was imported before."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    if command == "import":
        for seed in (2, 1) if older else (1,):
            draw = np.random.default_rng(seed)
            x, y = draw.integers(0, 256, (50, 8, 8), np.uint8), np.arange(50) % 5
            np.savez(folder / "own.npz", train_x=x, train_y=y, test_x=x[:9], test_y=y[:9])
            if seed == 2:
                assert execute(command, folder).status == 0
    if command == "reproduce":  # a checkout with one notebook
        (folder / "pyproject.toml").touch()
        (folder / "fedlib").symlink_to(ROOT / "fedlib")
        cells = [nbformat.v4.new_code_cell(source) for source in ('preset = ""', NOTEBOOK)]
        cells[0].metadata["tags"] = ["parameters"]
        (folder / "notebooks").mkdir()
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)
        nbformat.write(notebook, folder / "notebooks" / "99_tiny.ipynb")


@cache
def undisturbed(command: str, folder: Path) -> Undisturbed:
    """Once a command; in a warm process, as those that are killed."""
    prepare(command, folder / command)
    if command != "reproduce":
        fedlib(["list", "tasks"], {}, folder / command / "data")
    start = time.monotonic()
    ended = execute(command, folder / command)
    assert ended.status == 0, ended.output
    seconds = time.monotonic() - start
    return Undisturbed(tree(folder / command / "data"), ended.moments, seconds)


@pytest.fixture(scope="session")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


def processes(folder: Path) -> list[int]:
    """The processes that were started for a folder."""
    with_it = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"FEDLIB_DATA={folder}/data/".encode() in path.read_bytes():
                with_it.append(int(path.parent.name))
        except OSError:
            continue
    return with_it


CASES = [
    (command, number)
    for command in COMMANDS
    for number in cases(range(KILLS[command]), FEW[command])
]


@pytest.mark.parametrize(("command", "number"), CASES)
def test_a_killed_command_given_again_leaves_what_an_undisturbed_one_does(
    command: str, number: int, tmp_path: Path, kills: Path
) -> None:
    draw = random.Random(f"{command} {number}")
    known = undisturbed(command, kills)
    prepare(command, tmp_path, older=number % 4 < 2)
    if known.moments > 0 and number % 2:
        first = execute(command, tmp_path, moment=draw.randint(1, known.moments))
        assert first.status == -signal.SIGKILL
    else:
        begin = 0.3 if command == "reproduce" else 0.02  # before that it only imports
        first = execute(command, tmp_path, seconds=draw.uniform(begin, 1) * known.seconds)
        assert first.status in (0, -signal.SIGKILL), first.output
    between = sorted(tree(tmp_path / "data"))
    again = execute(command, tmp_path)
    assert again.status == 0 and "Traceback" not in again.output, again.output
    until = time.monotonic() + 60
    while processes(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert not processes(tmp_path), "processes of the killed command go on"
    left = tree(tmp_path / "data")
    assert set(left) == set(known.files), f"after the kill there were {between}"
    assert left == known.files
