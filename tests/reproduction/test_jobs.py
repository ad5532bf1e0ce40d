"""Several notebooks at once: those that train most come first, what reads their runs comes last."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from jupyter_client.manager import AsyncKernelManager

import fedlib
from fedlib.reproduction import reproduce

pytestmark = pytest.mark.notebook

PARAMETERS = 'preset = ""  # as usual'
WRITE = """
import os, pathlib, time
time.sleep({seconds})
assert os.environ["OMP_NUM_THREADS"] == "1" and os.environ["FEDLIB_PRESET"] == preset == "quick"
# Of the caller's working directory, not of the notebook's.
assert pathlib.Path(os.environ["FEDLIB_DATA"]) == pathlib.Path.cwd().parent / "mine"
pathlib.Path("{name}.txt").touch()
"""
WAIT = """
import os, pathlib, time
pathlib.Path(f"{os.getpid()}.pid").write_text(str(os.getpid()))
time.sleep(600)
"""
READ = """
import pathlib
assert sorted(path.name for path in pathlib.Path().glob("*.txt")) == ["10_slow.txt", "20_fast.txt"]
"""


@pytest.fixture
def checkout(write_notebook):
    def write(name, code):
        plan = PLAN.format(MAKERS[name]) if name in MAKERS else None
        return write_notebook(name, plan, PARAMETERS, code)

    return write


LEAVE = "import fedlib, json; fedlib.left = json.left = 1"
# The rounds of a run that each plan asks for, and of one that all ask for.
MAKERS = {"10_slow": 3, "20_fast": 5, "30_wrong": 13}
PLAN = """
from fedlib.plans import grid

def plan(n):
    runs = [grid("quadratic", "fedavg", {{}}, n, rounds=rounds) for rounds in ({}, 9)]
    return {{"runs": sum(runs, [])}}
"""
# What each notebook does, and how its error begins.
SERIES = {
    "10_slow": (WRITE.format(seconds=1.5, name="10_slow"), None),
    "20_fast": (WRITE.format(seconds=0, name="20_fast"), None),
    "30_wrong": ("raise ValueError('no\\nsuch thing')", "ValueError: no"),
    "40_leaves": (LEAVE, None),
    "50_dies": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its kernel died"),
    "60_fresh": (f"import fedlib, json; assert not hasattr(fedlib, 'left')\n{LEAVE}", None),
    "90_reader": (READ, None),
}
# Kernels find imported already what takes long, where they are forked.
WARM = "import sys; assert {'torch', 'fedlib.notebook'} <= set(sys.modules)"
if reproduce.CAN_FORK:
    SERIES["80_warm"] = (WARM, None)


def test_notebooks_at_once_are_fresh_and_readers_wait_for_makers(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLIB_DATA", "mine")
    for name, (code, _) in SERIES.items():
        checkout(name, code)
    done = list(reproduce.reproduce(output=tmp_path / "executed", jobs=3))
    others = sorted(SERIES.keys() - MAKERS.keys() - {"90_reader"})
    # By rounds: 13, 3 + 9, and 5, as a run that all ask for counts for the first of them.
    trained = ["30_wrong", "10_slow", "20_fast"]
    assert [one.name for one in done] == [*trained, *others, "90_reader"]
    for one in done:
        expected = SERIES[one.name][1]
        assert one.error == expected if expected is None else one.error.startswith(expected), one
        assert one.seconds > 0 and (one.output.is_file() or one.name == "50_dies")
    assert done[1].seconds > 1.5


class Robbed(AsyncKernelManager):
    """Jupyter's own, but that another program has taken a port of its first kernels."""

    taken, robberies = 0, 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if Robbed.robberies:
            Robbed.robberies -= 1
            self.cache_ports = False  # of ports that Jupyter chooses
            self.shell_port = Robbed.taken


def test_a_kernel_whose_port_is_taken_is_started_again(checkout, tmp_path, monkeypatch):
    path = checkout("10_any", "")
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(Robbed, "taken", other.getsockname()[1])
        monkeypatch.setattr(Robbed, "robberies", 2)
        target = tmp_path / "executed.ipynb"
        done = reproduce._execute(path, target, {"preset": "quick"}, Robbed, threading.Event())
    assert Robbed.robberies == 0 and done.error is None


def wait(condition):
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("after two minutes it is not so")


def test_whoever_stops_waiting_stops_what_runs(checkout, tmp_path):
    checkout("10_fast", "")
    checkout("20_slow", WAIT)
    checkout("30_slow", WAIT)
    series = reproduce.reproduce(output=tmp_path / "executed", jobs=2)
    assert next(series).name == "10_fast"
    folder = tmp_path / "notebooks"
    wait(lambda: list(folder.glob("*.pid")))
    started = time.monotonic()
    series.close()
    assert time.monotonic() - started < 30  # they would wait for ten minutes
    ended = [int(path.read_text()) for path in folder.glob("*.pid")]
    assert ended
    # A kernel looks for its parent once a second.
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ended))


SERIES_OF_ONE = "from fedlib.reproduction import reproduce; [*reproduce.reproduce(jobs=2)]"


def test_kernels_of_a_killed_command_end(checkout, tmp_path):
    checkout("20_slow", WAIT)
    variables = {**os.environ, "PYTHONPATH": str(Path(fedlib.__file__).parents[1])}
    words = [sys.executable, "-c", SERIES_OF_ONE]
    command = subprocess.Popen(words, cwd=tmp_path, env=variables)
    folder = tmp_path / "notebooks"
    wait(lambda: list(folder.glob("*.pid")))
    command.kill()
    command.wait()
    (number,) = (path.stem for path in folder.glob("*.pid"))
    wait(lambda: not Path(f"/proc/{number}").exists())
