"""Algorithms and tasks of users: by register, by entry points, and as MODULE:NAME."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import fedlib
from fedlib import algorithms
from fedlib.results import Store

Command = Callable[..., tuple[int, str, str]]

METHODS = """
from dataclasses import dataclass
import fedlib

@dataclass(frozen=True)
class Halved(fedlib.FedOpt):
    share: float = 0.5

    def server_update(self, server, mean):
        return {**server, "x": server["x"] + self.share * mean["delta"]}

def slow():
    return fedlib.FedOpt(server=fedlib.server.SGD(lr=0.25))

def failing():
    return {}["x"]

number = 3
"""
TASKS = """
import fedlib
import numpy as np

def pull(strength: float = 1.0, seed: int = 0, clients: int = 3):
    b = np.random.default_rng(seed).standard_normal((clients, 2))
    return fedlib.quadratic_task(strength * np.stack([np.eye(2)] * clients), b, name="pull")

def large(size: int):
    return pull(clients=size)

def nothing():
    return None

def failing():
    return 1 / 0

def wrong():
    raise fedlib.Error("strength is 3; allowed: 2")
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's, the current one, with two modules that no other test has seen."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "my_methods.py").write_text(METHODS)
    (folder / "my_tasks.py").write_text(TASKS)
    (folder / "my_slip.py").write_text("import not_there_at_all\n")
    (folder / "my_typo.py").write_text("def f(:\n")
    (folder / "my_exit.py").write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[name]


@pytest.fixture
def package(modules: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that declares what the two modules have."""
    declare(modules, "my-package", algorithms={"halved": "my_methods:Halved"})
    declare(
        modules,
        "my-tasks",
        tasks={"pull": "my_tasks:pull", "synthetic": "my_tasks:pull"},
        algorithms={"broken": "my_slip:f", "gone": "my_methods:gone"},
    )
    monkeypatch.syspath_prepend(str(modules))
    return modules


def declare(folder: Path, package: str, **groups: dict[str, str]) -> None:
    about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [
        f"[fedlib.{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in groups.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))


def end(name: str, **overrides: float) -> np.ndarray:
    """x after two rounds of one gradient step on two quadratics."""
    task = fedlib.quadratic_task(np.stack([np.eye(2)] * 2), np.ones((2, 2)))
    keys = {"local_steps": 1, "client_lr": 0.5, **overrides}
    return np.asarray(fedlib.run(task, name, rounds=2, dtype="float64", overrides=keys).params["x"])


# ------------------------------------------------------------------------------ registered


def test_a_registered_algorithm_is_one_of_them(modules: Path) -> None:
    sys.path.insert(0, str(modules))
    import my_methods

    fedlib.register("halved", my_methods.Halved)
    assert fedlib.list_algorithms()[-1] == "halved"
    # A step of 1/2 towards (1, 1), of which the server takes a share: 1 - (1 - share / 2)^2.
    assert end("halved") == pytest.approx(1 - 0.75**2)
    assert end("halved", share=0.2) == pytest.approx(1 - 0.9**2)
    frame = fedlib.grid(
        fedlib.load_task("quadratic"),
        "halved",
        rounds=1,
        overrides={"local_steps": 1},
        share=[0.1, 0.2],
    )
    assert set(frame["share"]) == {0.1, 0.2}
    fedlib.register("halved", my_methods.slow)  # again, as a notebook's cell does
    assert end("halved") == pytest.approx(1 - 0.875**2)
    fedlib.register("halved", my_methods.slow())
    assert end("halved") == pytest.approx(1 - 0.875**2)


def test_what_is_no_algorithm_is_not_registered(modules: Path) -> None:
    sys.path.insert(0, str(modules))
    import my_methods

    for name, value, message in (
        ("fedavg", my_methods.slow, "algorithm 'fedavg' is fedlib's own; choose another name"),
        ("a:b", my_methods.slow, "name of the algorithm is 'a:b'; allowed: a letter"),
        ("mine", dict, "algorithm 'mine' gives {}; it must be a class derived from"),
        ("mine", my_methods.failing, "algorithm 'mine' fails: KeyError: 'x' .my_methods.py, line"),
    ):
        with pytest.raises(fedlib.Error, match=message):
            fedlib.register(name, value)
    assert fedlib.list_algorithms() == list(algorithms.METHODS)


def test_a_registered_task_is_one_of_them(modules: Path) -> None:
    sys.path.insert(0, str(modules))
    import my_tasks

    fedlib.register_task("pull", my_tasks.pull)
    assert fedlib.list_tasks()[-1] == "pull"
    task = fedlib.load_task("pull", seed=3, strength=2.0)
    assert (task.name, task.seed, dict(task.options)) == ("pull", 3, {"strength": 2.0})
    history = fedlib.run(task, "fedavg", rounds=40, overrides={"client_lr": 0.3, "local_steps": 1})
    # The minimum of the mean of x'x - b'x.
    b = np.random.default_rng(3).standard_normal((3, 2))
    assert np.asarray(history.params["x"]) == pytest.approx(b.mean(0) / 2, abs=1e-6)
    with pytest.raises(fedlib.Error, match="task 'synthetic' is fedlib's own"):
        fedlib.register_task("synthetic", my_tasks.pull)


# ---------------------------------------------------------------------------- entry points


def test_entry_points_are_names(package: Path, command: Command) -> None:
    assert fedlib.list_algorithms()[-3:] == ["broken", "gone", "halved"]
    assert fedlib.list_tasks()[-1] == "pull" and fedlib.list_tasks().count("synthetic") == 1
    assert not [name for name in sys.modules if name.startswith("my_")]  # listing imports nothing
    _, out, _ = command("list", "algorithms")
    assert "halved" in out and "my_methods:Halved, of the package my-package" in out
    _, out, _ = command("list", "tasks", "--json")
    listed = json.loads(out)
    assert listed["pull"]["about"] == "my_tasks:pull, of the package my-tasks"
    assert "softmax" in listed["synthetic"]["about"]  # fedlib's own name stays its own
    assert end("halved") == pytest.approx(1 - 0.75**2)
    words = ["grid", "pull", "halved", "share=0.1,0.2", "--rounds", "1", "--set", "local_steps=1"]
    status, out, err = command(*words, "--option", "strength=2")
    assert status == 0 and "0.2" in out, err


def test_broken_entry_points_are_told_when_they_are_asked_for(
    package: Path, command: Command
) -> None:
    for name, message in (
        ("broken", "'broken' of the package my-tasks cannot be loaded from my_slip:f: Module"),
        ("gone", "'gone' of the package my-tasks cannot be loaded from my_methods:gone: Attr"),
    ):
        status, _, err = command("run", "quadratic", name, "--rounds", "1")
        assert status == 2 and message in err and err.count("\n") == 1
    assert command("run", "quadratic", "fedavg", "--rounds", "1", "--set", "local_steps=1")[0] == 0


def test_two_packages_cannot_bring_the_same_name(package: Path) -> None:
    declare(package, "other", algorithms={"halved": "my_methods:slow"})
    with pytest.raises(fedlib.Error, match="'halved' is brought by my-package and other"):
        algorithms.build("halved")


def test_importing_fedlib_reads_no_entry_points(package: Path) -> None:
    code = "import fedlib, sys; fedlib.Error; print('importlib.metadata' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == "False", answer.stderr


# ----------------------------------------------------------------------------- MODULE:NAME


def test_a_module_of_the_current_folder(modules: Path, command: Command) -> None:
    words = ["run", "my_tasks:pull", "my_methods:Halved", "--rounds", "2", "--seed", "5", "--json"]
    words += ["--option", "strength=2", "--set", "local_steps=1", "--set", "share=0.2"]
    status, out, err = command(*words)
    assert status == 0, err
    assert json.loads(out)["task"] == "my_tasks:pull"
    (config,) = (json.loads(path.read_text()) for path in modules.parent.rglob("config.json"))
    assert config["task"]["name"] == "pull" and config["task"]["seed"] == 5
    assert config["task"]["options"] == {"strength": 2}
    assert config["method"]["share"] == 0.2
    assert fedlib.load_task("my_tasks:pull").name == "pull"
    assert isinstance(algorithms.build("my_methods:slow"), fedlib.FedOpt)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["my_task:pull", "fedavg"], "there is no module 'my_task' in this folder or among"),
        (["my_tasks:pul", "fedavg"], "unknown name in my_tasks 'pul': did you mean 'pull'"),
        (["my_tasks:nothing", "fedavg"], "'my_tasks:nothing' gives None; it must return a fedlib"),
        (["my_tasks:failing", "fedavg"], "ZeroDivisionError: division by zero (my_tasks.py, line"),
        (["my_tasks:wrong", "fedavg"], "fedlib: strength is 3; allowed: 2"),
        (["my_tasks:large", "fedavg"], "'my_tasks:large' needs the option size"),
        (["my_tasks:pull", "fedavg", "--option", "strenth=1"], "did you mean 'strength'"),
        (["my_tasks:pull", "fedavg", "--preset", "paper"], "has no presets; leave it out"),
        (["my_methods:number", "fedavg"], "is 3; it must be a function that makes a fedlib.Task"),
        (["my_slip:f", "fedavg"], "importing my_slip fails: ModuleNotFoundError: No module named"),
        (["my_typo:f", "fedavg"], "importing my_typo fails: SyntaxError"),
        (["my_exit:f", "fedavg"], "importing my_exit fails: SystemExit"),
        (["my_tasks:", "fedavg"], "'my_tasks:' is not MODULE:NAME; for instance my_module:my_task"),
        (["quadratic", "my_methods:number"], "gives 3; it must be a class derived from"),
        (["quadratic", "my_methods:failing"], "'my_methods:failing' fails: KeyError: 'x' (my_me"),
        (["quadratic", "my_methods:Halvd"], "did you mean 'Halved'"),
        (["quadratic", "my_methods:Halved", "--set", "shar=1"], "did you mean 'share'"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else " ".join(v),
)
@pytest.mark.parametrize("door", ["run", "grid"])
def test_mistakes_exit_2_with_one_line(
    modules: Path, command: Command, door: str, words: list[str], message: str
) -> None:
    axes = ["client_lr=0.1,0.2"] if door == "grid" else []
    status, _, err = command(door, *words[:2], *axes, *words[2:], "--rounds", "1")
    assert status == 2 and message in err and err.count("\n") == 1 and "Traceback" not in err, err


def test_a_stored_run_does_not_answer_for_an_algorithm_that_was_changed(
    modules: Path, tmp_path: Path
) -> None:
    """The digest of a run, in processes of their own."""
    code = (
        "import sys, fedlib; sys.path.insert(0, '.')\n"
        "from fedlib.engine import configure\n"
        "task = fedlib.load_task('quadratic')\n"
        "print(configure(task, 'my_methods:Halved', rounds=1).config.digest)\n"
        "print(configure(task, 'fedavg', rounds=1).config.digest)"
    )

    def digests() -> list[str]:
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.split()

    before = digests()
    assert digests() == before
    path = modules / "my_methods.py"
    path.write_text(METHODS.replace("+ self.share", "- self.share"))
    after = digests()
    assert after[0] != before[0] and after[1] == before[1]


def test_methods_of_fedlib_carry_no_hash_of_code() -> None:
    task = fedlib.load_task("quadratic")
    for name in algorithms.METHODS:
        overrides = {"local_steps": 1}
        config = fedlib.engine.configure(task, name, rounds=1, overrides=overrides).config
        assert "code" not in config.method


def test_a_notebooks_session_sees_them(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fedlib import notebook

    sys.path.insert(0, str(modules))
    session = notebook.start()
    task = session.task("my_tasks:pull", strength=2.0)
    history = session.run(task, "my_methods:Halved", rounds=1, overrides={"local_steps": 1})
    assert Store().has(history.config.digest)
    assert task is session.task("my_tasks:pull", strength=2.0)
