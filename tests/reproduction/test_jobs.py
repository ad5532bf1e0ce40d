"""Several notebooks at once: results come in order, and what reads the others comes last."""

import socket
import threading
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager

from fedlib.reproduction import kernels, reproduce

pytestmark = pytest.mark.notebook

PARAMETERS = 'preset = ""  # as usual'
WRITE = """
import os, pathlib, time
time.sleep({seconds})
assert os.environ["OMP_NUM_THREADS"] == "1" and os.environ["FEDLIB_PRESET"] == preset == "quick"
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
def checkout(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "fedlib").mkdir()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path)

    def add(name, code):
        cells = [nbformat.v4.new_code_cell(PARAMETERS), nbformat.v4.new_code_cell(code)]
        cells[0].metadata["tags"] = ["parameters"]
        book = nbformat.v4.new_notebook(cells=cells)
        kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
        book.metadata["kernelspec"] = kernel
        nbformat.write(book, tmp_path / "notebooks" / f"{name}.ipynb")

    return add


def test_notebooks_at_once_come_in_order_and_readers_last(checkout, tmp_path):
    checkout("10_slow", WRITE.format(seconds=1.5, name="10_slow"))
    checkout("20_fast", WRITE.format(seconds=0, name="20_fast"))
    checkout("30_wrong", "raise ValueError('no\\nsuch thing')")
    checkout("90_reader", READ)
    done = list(reproduce.reproduce(output=tmp_path / "executed", jobs=3))
    assert [one.name for one in done] == ["10_slow", "20_fast", "30_wrong", "90_reader"]
    assert [one.error for one in done] == [None, None, "ValueError: no", None]
    assert all(one.output.is_file() and one.seconds > 0 for one in done)
    assert done[0].seconds > 1.5


def test_kernels_are_fresh_and_a_dead_one_stops_only_its_notebook(checkout, tmp_path):
    leave = "import fedlib, json; fedlib.left = json.left = 1"
    checkout("10_first", leave)
    checkout("20_dies", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    checkout("30_next", "import fedlib, json; assert not hasattr(fedlib, 'left')\n" + leave)
    done = list(reproduce.reproduce(output=tmp_path / "executed", jobs=2))
    assert [one.error is None for one in done] == [True, False, True]
    assert done[1].error.startswith("its kernel died")


class Robbed(AsyncKernelManager):
    """Jupyter's own, but that another program has taken a port of its first kernels."""

    taken, robberies = 0, 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if Robbed.robberies:
            Robbed.robberies -= 1
            self.cache_ports = False  # of ports that Jupyter chooses
            self.shell_port = Robbed.taken


@pytest.mark.parametrize(("robberies", "error"), [(2, None), (3, "its kernel died")])
def test_a_kernel_whose_port_is_taken_is_started_again(
    checkout, tmp_path, monkeypatch, robberies, error
):
    checkout("10_any", "")
    path = tmp_path / "notebooks" / "10_any.ipynb"
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(Robbed, "taken", other.getsockname()[1])
        monkeypatch.setattr(Robbed, "robberies", robberies)
        target = tmp_path / "executed.ipynb"
        done = reproduce._execute(
            path, target, {"preset": "quick"}, False, Robbed, threading.Event()
        )
    assert Robbed.robberies == 0
    assert (done.error is None) if error is None else done.error.startswith(error)


def test_whoever_stops_waiting_stops_what_runs(checkout, tmp_path):
    checkout("10_fast", "")
    checkout("20_slow", WAIT)
    checkout("30_slow", WAIT)
    series = reproduce.reproduce(output=tmp_path / "executed", jobs=2)
    assert next(series).name == "10_fast"
    folder = tmp_path / "notebooks"
    for _ in range(300):
        if list(folder.glob("*.pid")):
            break
        time.sleep(0.1)
    started = time.monotonic()
    series.close()
    assert time.monotonic() - started < 30  # they would wait for ten minutes
    ended = [int(path.read_text()) for path in folder.glob("*.pid")]
    assert ended
    for _ in range(100):  # a kernel looks for its parent once a second
        if not any(Path(f"/proc/{pid}").exists() for pid in ended):
            break
        time.sleep(0.1)
    else:
        raise AssertionError(f"kernels {ended} still run")


@pytest.mark.skipif(not kernels.CAN_FORK, reason="kernels are forked on Linux only")
def test_kernels_find_what_takes_long_imported_already(checkout, tmp_path):
    checkout("10_warm", "import sys; assert {'torch', 'fedlib.notebook'} <= set(sys.modules)")
    (done,) = reproduce.reproduce(output=tmp_path / "executed", jobs=2)
    assert done.error is None


BAR = """
import time
from tqdm.auto import tqdm
for _ in tqdm(range(20), unit="step"):
    time.sleep(0.12)
"""


def test_of_a_progress_bar_the_executed_copy_has_start_and_end(checkout, tmp_path):
    checkout("10_bar", BAR)
    (done,) = reproduce.reproduce(output=tmp_path / "executed", jobs=2)
    assert done.error is None
    outputs = nbformat.read(done.output, 4).cells[-1].outputs
    drawn = "".join(output.get("text", "") for output in outputs)
    assert 1 <= drawn.count("step/s") <= 2
