"""Shared settings of the tests: no test may see the user's data, store or figures."""

import json
import shutil
import signal
import sys

import nbformat
import pytest
import torch

import fedlib
from fedlib import cli, engine
from fedlib.engine.program import Program
from fedlib.errors import Error
from fedlib.results import Store
from tests import copies


def _of_one_line(error, *words):
    ValueError.__init__(error, *words)
    assert str(error) and "\n" not in str(error), f"an error of several lines: {error}"
    assert "allowed: <class '" not in str(error), f"an error in Python's words: {error}"


Error.__init__ = _of_one_line  # all that any test raises


def pytest_collection_modifyitems(items):
    """Files with slow tests first, those with whole notebooks before them: no chain starts last."""
    marks = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    items.sort(key=lambda item: -len({"notebook", "slow"} & marks[item.path]))


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Data, stored runs and figures of each test in its own folder; no published runs."""
    monkeypatch.setattr(
        "fedlib.results.store.published_folders", lambda root: [root.parent / "results"]
    )
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDLIB_FIGURES", str(tmp_path / "figures"))
    yield tmp_path


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("copies")
    copies.prepare(root)
    return root / "prepared"


@pytest.fixture
def prepared(own_folders, _prepared):
    """``prepared("cifar10")``: the test's data folder has this small copy from then on; see
    :mod:`tests.copies`. Without names: all of them."""

    def link(*names):
        folder = own_folders / "data" / "prepared"
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or [path.name for path in _prepared.iterdir()]:
            (folder / name).symlink_to(_prepared / name)

    return link


@pytest.fixture(scope="session")
def synthetic():
    return fedlib.load_task("synthetic", clients=10)


@pytest.fixture(scope="session")
def quadratic():
    return fedlib.load_task("quadratic")


@pytest.fixture
def store():
    """The store in the test's data folder."""
    return Store()


class Command:
    """The command line in this process: exit status, standard output and standard error of
    ``command("run", "synthetic", "fedavg")``. No mistake is answered by more than a line.
    """

    def __init__(self, capsys, monkeypatch):
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words):
        self.monkeypatch.setattr(sys, "argv", ["fedlib", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        status, (out, err) = stop.value.code or 0, self.capsys.readouterr()
        assert "Traceback" not in out + err
        assert status != 2 or (err.count("\n") == 1 and err.startswith("fedlib: ")), err
        return status, out, err

    def says(self, *words):
        """What is printed where all is well."""
        status, out, err = self(*words)
        assert status == 0, err
        return out

    def refused(self, message, *words):
        """A mistake whose line has this message."""
        status, _, err = self(*words)
        assert status == 2 and message in err, err

    def json(self, *words):
        """What is printed for programs."""
        out = self.says(*words, "--json")
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


@pytest.fixture
def no_training(monkeypatch):
    """From its call on nothing can be trained."""

    def refuse(*_, **__):
        raise AssertionError("trained")

    return lambda: monkeypatch.setattr(engine, "execute", refuse)


@pytest.fixture
def trained(monkeypatch):
    """The digests of the runs that were trained, program by program."""
    seen, run = [], Program.run

    def watch(program, *given):
        seen.append([config.digest for config in program.configs])
        return run(program, *given)

    monkeypatch.setattr(Program, "run", watch)
    return seen


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window, by selenium; skips where either is missing."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("no chromium with chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,1600"):
        options.add_argument(argument)
    window = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield window
    window.quit()


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """A shell lets its background jobs, and so their children, ignore interrupts: not these."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The tests' problems are small; two threads only wait for each other."""
    torch.set_num_threads(1)


PARAMETERS = """
preset = ""
seed = 0
rounds = None
"""
# Two curves and a grid of two, on a few clients. The curves differ in their cohorts, so that they
# never train together.
SMALL_PLAN = """
from fedlib.plans import grid

quick = dict(rounds=100)


def plan(n):
    few = {"clients": 4}
    one = grid("synthetic", "fedavg", {}, n, options=few, clients_per_round=2)
    other = grid("synthetic", "fedadam", {}, n, options=few, clients_per_round=3)
    mus = grid("synthetic", "fedprox", {"mu": [0.1, 1.0]}, n, options=few, eval_every=0)
    return {"curves": one + other, "mu": mus}
"""


@pytest.fixture
def write_notebook(tmp_path, monkeypatch):
    """Write a notebook that has a plan into a checkout of the test's own, its working directory."""
    monkeypatch.chdir(tmp_path)
    for folder in ("fedlib", "notebooks"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "pyproject.toml").touch()

    def write(name, plan=SMALL_PLAN, parameters=PARAMETERS, code=None):
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {"name": "python3", "language": "python"}
        book.metadata["kernelspec"]["display_name"] = "Python 3"
        for tags, source in ((["parameters"], parameters), (["plan"], plan), ([], code)):
            if source is not None:
                book.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tags}))
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        nbformat.write(book, path)
        return path

    return write


@pytest.fixture
def small_plans(write_notebook):
    """Two small notebooks with a plan, and two without, in place of fedlib's."""
    for name in ("10_other", "23_fair_synthetic"):
        write_notebook(name)
    for name in ("02_server_adaptivity", "06_partitions"):
        write_notebook(name, plan=None)
