"""Algorithms and tasks of users: classes, instances, and MODULE:NAME."""

import sys

import numpy as np
import pytest

import fedlib
from fedlib import algorithms
from fedlib.results import Store
from tests.algorithms import quadratics
from tests.refusals import refused

METHODS = """
from dataclasses import dataclass
import fedlib

@dataclass(frozen=True)
class Halved(fedlib.FedOpt):
    share: float = 0.5
    version = "1"

    def server_update(self, server, mean):
        return {**server, "x": server["x"] + self.share * mean["delta"]}

class Slipped(Halved):
    def server_update(self, server, mean):
        return server["y"]

def slow():
    return fedlib.FedOpt(server=fedlib.server.SGD(lr=0.25))

def failing():
    return {}["x"]

@dataclass(frozen=True)
class Ruled(Slipped):
    rule: object = ...
"""
TASKS = """
from dataclasses import replace
import fedlib
import numpy as np

def pull(strength: float = 1.0, seed: int = 0, clients: int = 3, version: str = "", more=0, n=0):
    b = np.random.default_rng(seed).standard_normal((clients, 2))
    task = fedlib.quadratic_task(strength * np.stack([np.eye(2)] * clients), b, name="pull")
    return replace(task, version=version) if version else task

def later(seed):
    return fedlib.load_task("synthetic", clients=3, seed=seed + 1)

def nothing():
    return None

def failing():
    return 1 / 0

def wrong():
    raise fedlib.Error("strength is 3; allowed: 2")
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of the user's, the current one, with two modules that no other test has seen."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "my_methods.py").write_text(METHODS)
    (folder / "my_tasks.py").write_text(TASKS)
    (folder / "my_exit.py").write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[name]


def end(method, **overrides):
    """x after two rounds of one gradient step on two quadratics."""
    task = fedlib.quadratic_task(np.stack([np.eye(2)] * 2), np.ones((2, 2)))
    return quadratics.end(task, method, 2, **{"local_steps": 1, "client_lr": 0.5, **overrides})


def test_a_class_and_an_instance_go_where_a_name_goes(modules):
    sys.path.insert(0, str(modules))
    import my_methods

    Halved = my_methods.Halved
    # A step of 1/2 towards (1, 1), of which the server takes a share: 1 - (1 - share / 2)^2.
    for method, overrides, share in (
        (Halved, {}, 0.5),
        (Halved, {"share": 0.2}, 0.2),
        (Halved(share=0.2), {}, 0.2),
        (Halved(share=0.2), {"share": 0.4}, 0.4),
        ("my_methods:Halved", {"share": 0.2}, 0.2),
        ("my_methods:slow", {}, 0.25),
        (fedlib.FedOpt(server=fedlib.server.SGD(lr=0.25)), {"server_lr": 0.2}, 0.2),
    ):
        assert end(method, **overrides) == pytest.approx(1 - (1 - share / 2) ** 2)


def test_a_grids_axes_replace_the_fields_of_a_method_and_of_its_parts(quadratic):
    """Whatever is no axis stays the instance's, whatever kind its parts are of."""
    given = {"rounds": 2, "overrides": {"local_steps": 1}}
    adam = fedlib.base.Adam(beta1=0.5, eps=0.1)
    for method, axes, same in (
        (fedlib.Scaffold, {"client_lr": [0.1, 0.2]}, ("scaffold", {})),
        (fedlib.FedOpt(client=fedlib.DeltaSGD(delta=0.3)), {"gamma": [1.0, 3.0]},
         ("fedavg", {"client_optimizer": "delta_sgd", "delta": 0.3})),
        (fedlib.FedOpt(server=fedlib.server.Adam(tau=0.1)), {"server_lr": [0.1, 0.3]},
         ("fedadam", {"tau": 0.1, "beta2": 0.99, "client_lr": 0.1})),
        (fedlib.Mime(base=adam), {"beta2": [0.8, 0.9]},
         ("mime", {"base": "adam", "beta1": 0.5, "eps": 0.1})),
    ):  # fmt: skip
        name, overrides = same
        mine = fedlib.grid(quadratic, method, **given, **axes)
        named = {**given, "overrides": {"local_steps": 1, **overrides}}
        assert mine.equals(fedlib.grid(quadratic, name, **named, **axes)), name


def test_what_is_no_field_is_refused(quadratic):
    refused("for Scaffold 'tau'", fedlib.grid, quadratic, fedlib.Scaffold, rounds=1, tau=[0.1])
    refused(r"'dict' gives \{\}, but must be a class deri", fedlib.run, quadratic, dict, rounds=1)


def test_a_module_of_the_current_folder(modules, command):
    words = ["run", "my_tasks:pull", "my_methods:Halved", "--rounds", "2", "--seed", "5"]
    words += ["--option", "strength=2", "--set", "local_steps=1", "--set", "share=0.2"]
    words += ["--option", "version=1", "--option", "more=[1, 2]", "--option", "n=none"]
    assert command.json(*words)["task"] == "my_tasks:pull"
    (config,) = (run.config.as_dict() for run in Store(modules.parent / "data" / "runs").stored())
    assert config["task"]["name"] == "pull" and config["task"]["seed"] == 5
    said = {"strength": 2, "version": "1", "more": [1, 2], "n": None}  # all of it decides
    assert config["task"]["options"] == said
    assert config["task"]["version"] == "1"
    assert config["method"]["share"] == 0.2
    assert fedlib.load_task("my_tasks:pull").name == "pull"
    assert fedlib.load_task("my_tasks:pull", n=np.int64(2), more=print).options == {"n": 2}
    later = fedlib.load_task("my_tasks:later", seed=1)  # else its runs would be those of seed 1
    assert later.described and later.seed == 2
    assert isinstance(algorithms.build("my_methods:slow"), fedlib.FedOpt)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["my_task:pull", "fedavg"], "fails: ModuleNotFoundError: No module named 'my_task'"),
        (["my_tasks:nothing", "fedavg"], "'my_tasks:nothing' gives None, but must return a fedlib"),
        (["my_tasks:failing", "fedavg"], "ZeroDivisionError: division by zero (my_tasks.py, line"),
        (["my_tasks:wrong", "fedavg"], "fedlib: strength is 3; allowed: 2"),
        (["my_tasks:pull", "fedavg", "--preset", "paper"], "has no presets: leave it out"),
        (["my_exit:f", "fedavg"], "fails: SystemExit: 0 (my_exit.py, line 1)"),
        (["quadratic", "my_methods:failing"], "'my_methods:failing' fails: KeyError: 'x' (my_me"),
        (["quadratic", "my_methods:Halved", "--set", "shar=1"], "did you mean 'share'"),
        (["quadratic", "my_methods:Ruled"], "cannot name a run: options and fields must be"),
        (["quadratic", "my_methods:Slipped"], "fedlib: KeyError: 'y' (my_methods.py, line 15)"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else " ".join(v),
)
def test_mistakes_exit_2_with_one_line(modules, command, words, message):
    command.refused(message, "run", *words, "--rounds", "1")
