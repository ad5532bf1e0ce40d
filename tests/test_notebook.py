"""The set-up call of the notebooks."""

from base64 import b64encode

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import notebook
from fedlib.plans import grid
from fedlib.results import reading
from tests.refusals import refused


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDLIB_PROGRESS", "0")
    monkeypatch.delenv("FEDLIB_PRESET", raising=False)


def test_a_stand_in_is_said_loudly_and_once(capsys):
    session = notebook.start()
    for name, given, loud in (
        ("emnist_cr", {}, True),
        ("emnist_cr", {"clients": 9}, False),
        ("mnist", {}, False),
        ("quadratic", {}, False),
    ):
        task, out = session.task(name, **given), capsys.readouterr().out
        assert ("STAND-IN DATA: emnist_cr" in out) == loud
        assert ("stand-in data" in out) == task.stand_in and f"{len(task.train)} training" in out


def test_controls_start_at_the_drawings_default_and_draw_anew_when_they_move():
    plt.close("all")  # pyplot goes on with a figure that another test has left
    drawn = []

    def line(slope=1.0, kind="solid", width=None):
        drawn.append((slope, kind))
        plt.plot([0, 1], [0, slope], linestyle=kind)
        return "not to be shown"

    shown = notebook.explore(line, slope=[0.5, 1.0, 2.0], kind=["dotted", "solid"])
    slope, kind, image = shown.children
    assert drawn == [(1.0, "solid")] == [(slope.value, kind.value)]
    assert [label for label, _ in slope.options] == ["0.5", "1", "2"]
    first = bytes(image.value)
    assert first.startswith(b"\x89PNG")
    slope.value = 2.0
    assert drawn[1:] == [(2.0, "solid")] and bytes(image.value) != first
    slope.value = 1.0
    assert bytes(image.value) == first
    assert shown._repr_mimebundle_()["image/png"] == b64encode(first).decode()
    assert not plt.get_fignums()  # else the inline backend would show it a second time
    size = notebook.explore(lambda size: plt.figure(), size=[1.0, 2.0, 4.0]).children[0]
    assert size.value == 2.0


# A notebook's plan: curves of two tasks, and a grid.
quick = dict(rounds=3)
MUS = {"mu": [0.1, 1.0]}


def plan(n):
    few = {"options": {"clients": 6}}
    curves = grid("synthetic", "fedavg", {}, n, **few) + grid("synthetic", "fedadam", {}, n, **few)
    curves += grid("quadratic", "fedavg", {"local_steps": [1]}, n, rounds=1)
    return {"curves": curves, "mu": grid("synthetic", "fedprox", MUS, n, eval_every=0, **few)}


def test_an_experiment_trains_its_plan_once(capsys, no_training):
    session = notebook.start("10_own", plan, seed=2, rounds=2)
    curves = session.experiment("curves")
    assert [h.config.algorithm for h in curves] == ["fedavg", "fedadam", "fedavg"]
    assert [h.config.task["name"] for h in curves] == ["synthetic", "synthetic", "quadratic"]
    assert {h.config.seeds["init"] for h in curves} == {2}
    assert [r.part for r in session.requests()] == ["curves"] * 3 + ["mu"] * 2
    assert [r.overrides["mu"] for r in session.requests("mu")] == [0.1, 1.0]
    cells = session.experiment("mu")
    assert [reading.hyperparameter(h, "mu") for h in cells] == [0.1, 1.0]
    task = session.task("synthetic", clients=6)
    assert task is session.task("synthetic", clients=6) is not session.task("synthetic", clients=5)
    said = capsys.readouterr()
    assert said.out.count("Task('synthetic'") == 2  # each task is told once
    assert not said.err  # FEDLIB_PROGRESS=0
    both = [{"algorithm": "fedavg"}, {"algorithm": "fedadam"}]
    no_training()
    same = session.runs(task, both, rounds=2)
    assert [run.config for run in same] == [run.config for run in curves[:2]]
    again = notebook.start("10_own", plan, seed=2, rounds=2).experiment()
    assert [h.config.digest for h in again] == [h.config.digest for h in [*curves, *cells]]
    refused("unknown part of the plan 'curve'", session.experiment, "curve")
    refused("99_none has no plan", notebook.start("99_none").experiment)


def test_a_plan_is_shown_before_it_runs(no_training):
    no_training()
    session = notebook.start("10_own", plan, seed=2, rounds=2)
    table = session.plan()
    assert ">5 runs;" in table.caption and table.data["runs"].tolist() == [1, 1, 1, 2]
    task = session.task("synthetic", clients=6)
    rate = f"{task.hyperparameters['fedadam']['server_lr']:g}"
    settings = table.data.set_index(["part", "algorithm"])["settings"]
    assert settings["curves", "fedadam"].endswith(f"server_lr {rate}")
    assert settings["mu", "fedprox"].endswith("mu 0.1, 1")
    assert session.plan("mu").data["runs"].sum() == 2


def test_code_is_the_librarys_own():
    shown = notebook.code(fedlib.server.Adam.step, fedlib.server.Adam.second_moment)
    text, names = shown._repr_markdown_(), {}
    exec("from __future__ import annotations\n" + text.strip("`").removeprefix("python"), names)
    adam = fedlib.server.Adam(beta2=0.5)
    assert names["second_moment"](adam, 4.0, 2.0) == 3.0


def test_an_exercise_is_judged_without_its_answer_in_sight(capsys):
    session = notebook.start("10_own")
    right = notebook.fingerprint("10_own", 1, (0.9, 0.5))
    session.exercise(1, None, right, "think")
    session.exercise(1, np.array([0.9001, 0.5]), right, "think")
    assert capsys.readouterr().out.endswith("exercise 1: open\nexercise 1: right\n")
    for wrong in ((0.5, 0.9), (0.91, 0.5), 0.9, "0.9 and 0.5"):
        with pytest.raises(AssertionError, match="exercise 1: think"):
            session.exercise(1, wrong, right, "think")
    names = notebook.fingerprint("10_own", 2, {"fedavg", "mime"})
    session.exercise(2, {"Mime", "FedAvg"}, names, "two")
    others = [("10_own", 3), ("11_own", 1)]
    assert right not in [notebook.fingerprint(*other, (0.9, 0.5)) for other in others]
    whole = notebook.fingerprint("10_own", 4, 2055560, 12)
    session.exercise(4, 2055560, whole, "", digits=12)
    with pytest.raises(AssertionError):
        session.exercise(4, 2055561, whole, "", digits=12)


def test_no_notebook_draws_over_published_figures(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDLIB_FIGURES")
    session = notebook.start("10_own")
    data = pd.DataFrame({"a": [1.0]})
    path = session.save(None, "theory/one", data, "One.")
    assert path == tmp_path / "figures" / "quick" / "theory" / "one.html" and path.is_file()


@pytest.mark.parametrize(
    ("preset", "given", "kept"), [("quick", None, 3), ("quick", 0, 0), ("paper", None, None)]
)
def test_numbers_are_the_presets_unless_given(preset, given, kept):
    session = notebook.start("10_own", plan, preset=preset, rounds=given, width=None)
    assert session.numbers == {"rounds": kept, "width": None}
    assert session.given("rounds", "width") == ({} if kept is None else {"rounds": kept})
    rounds = 200 if kept is None else kept
    assert session.defaults(rounds=200, width=1.0).numbers == {"rounds": rounds, "width": 1.0}
    for wrong in (lambda: session.given("round"), lambda: session.defaults(round=200)):
        refused("did you mean 'rounds'", wrong)


def test_settings_are_the_declared_ones_until_a_parameter_is_given():
    assert notebook.start("10_own", plan, rounds=None).declared
    assert not notebook.start("10_own", plan, rounds=4).declared
    assert not notebook.start("10_own", plan, rounds=None, seed=1).declared
    assert not notebook.start("10_own", plan, rounds=None, width=0.5).declared
