"""The catalogue of figures: each is drawn from its plan's runs in the store, and never trains."""

import dataclasses
import json
import shutil
import sys
from itertools import product

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib.figures import style
from fedlib.plans import Request
from fedlib.reproduction import draw
from fedlib.results import Store
from fedlib.results.files import write_runs
from fedlib.tasks import defaults, scale
from tests.figures.conftest import lines
from tests.refusals import refused

save_module = sys.modules["fedlib.figures.save"]  # the package exports a function of that name
ALGORITHMS = ("fedavg", "fedadam")
FIGURE = "adafedadam/figure_2"  # its data are not blurred by a stand-in's note


@pytest.fixture(scope="module")
def made(tmp_path_factory, synthetic):
    """A store with synthetic runs of two seeds; copied for each test."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    requests = [{"algorithm": a, "seed": s} for a in ALGORITHMS for s in (0, 1)]
    return store, store.runs(synthetic, requests, rounds=4)


@pytest.fixture
def store(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made[0].root, tmp_path / "runs")
    return Store(tmp_path / "runs")


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    """Every notebook asks for the runs of :func:`made`, on its figures' tasks; rounds by preset."""
    rounds = dict.fromkeys(("quick", "laptop", "paper"), 4)

    def plan(notebook, preset):
        pairs = {pair for entry in draw.entries() for pair in entry.notebooks.items()}
        requests = []
        for task in sorted(task for task, maker in pairs if maker == notebook):
            options = {"seed": 0} | ({"clients": 10} if task == "synthetic" else {})
            how = {"options": options, "rounds": rounds[preset]}
            for name, seed in product(ALGORITHMS, (0, 1)):
                requests.append(Request(task, name, "curves", seed=seed, **how))
        return requests

    monkeypatch.setattr(draw.plans, "requests", plan)
    monkeypatch.setattr(draw.plans, "has", lambda notebook: True)
    return rounds


@pytest.fixture
def histories(made):
    return made[1]


@pytest.fixture
def quick_pictures(monkeypatch):
    """For tests that do not look at the pictures."""

    def stub(figure, text):
        save_module.mark(figure, text)
        return {"png": b"png", "pdf": b"pdf"}

    monkeypatch.setattr(save_module, "render", stub)


def as_task(history, name, preset="quick", **changes):
    """The same numbers under another task's name, as its preset would have it."""
    task = {**history.config.task, "name": name, "preset": scale(name, preset), **changes}
    usual = defaults(name, task["preset"])
    task["options"] = {key: value for key, value in usual.items() if value is not None}
    cohort = task["options"].get("clients", history.config.clients_per_round)
    config = dataclasses.replace(history.config, task=task, clients_per_round=cohort)
    return dataclasses.replace(history, config=config)


def put(store, history):
    """Store a history made by :func:`as_task`."""
    task = fedlib.load_task("synthetic", clients=10)
    return write_runs(store.root, [(task, history)], False)[0]


def test_draw_saves_everything_and_the_same_bytes_again(store, histories, tmp_path, no_training):
    drawn = draw.draw(FIGURE, histories, store=store)
    folder = tmp_path / "figures" / "adafedadam"
    assert drawn.path == folder / "figure_2.png"
    kinds = ("csv", "json", "pdf", "png")
    assert sorted(p.name for p in folder.iterdir()) == [f"figure_2.{kind}" for kind in kinds]
    image = matplotlib.image.imread(drawn.path)
    assert 600 < image.shape[1] <= 1500 and drawn.path.stat().st_size < 150_000
    assert len(np.unique(image[..., :3].sum(-1))) > 12  # not blank
    pdf = (folder / "figure_2.pdf").read_bytes()
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf  # TrueType, embedded
    csv = pd.read_csv(folder / "figure_2.csv")
    left, _, right = drawn.figure.axes
    panels = {"average": (left, ["round", "mean"]), "clients": (right, ["value", "density"])}
    for name, (panel, (ax, columns)) in product(ALGORITHMS, panels.items()):
        rows = csv[(csv["panel"] == panel) & (csv["algorithm"] == name)]
        line = lines(ax)[style.look(name).label]
        np.testing.assert_allclose(rows[columns].astype(float), line.get_xydata(), 1e-15)
    record = json.loads((folder / "figure_2.json").read_text())
    assert record["runs"] == [h.config.digest for h in histories]
    assert record["data"] == "real" and record["presets"] == ["quick"] and record["seeds"] == [0, 1]
    no_training()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}
    draw.redraw([FIGURE], store=store)
    assert before == {path: path.read_bytes() for path in before}


def test_every_preset_has_its_folder_and_none_the_published_one(
    quick_pictures, store, histories, tmp_path, monkeypatch
):
    monkeypatch.delenv("FEDLIB_FIGURES")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "figures"
    figure, made = "fedopt/figure_1", {}
    for preset in ("quick", "laptop"):
        made[preset] = [as_task(history, "cifar100", preset) for history in histories]
        for history in made[preset]:
            put(store, history)
    ways = [
        ("laptop", lambda: draw.redraw([figure], store)[0]),  # the largest that there is
        ("quick", lambda: draw.redraw([figure], store, preset="quick")[0]),
        ("laptop", lambda: draw.redraw([figure], store, preset="laptop")[0]),
        ("quick", lambda: draw.draw(figure, made["quick"], store=store).path),
        ("laptop", lambda: draw.draw(figure, made["laptop"], preset="laptop", store=store).path),
    ]
    for preset, way in ways:
        path = way()
        assert path == folder / preset / "fedopt" / "figure_1.png"
        assert json.loads(path.with_suffix(".json").read_text())["presets"] == [preset]
    assert {path.name for path in folder.iterdir()} == {"quick", "laptop"}


def test_a_task_is_shown_alone_and_saved_beside_the_others(
    quick_pictures, store, histories, tmp_path
):
    fake = {"stand_in": True}
    one = [put(store, as_task(h, "cifar100", **fake)) for h in histories]
    first = draw.draw("fedopt/figure_1", one, store=store)
    assert [ax.get_title("left").split(":")[0] for ax in first.figure.axes] == ["CIFAR-100"]
    two = [put(store, as_task(h, "cifar10", **fake)) for h in histories[:2]]
    second = draw.draw("fedopt/figure_1", two, store=store)
    assert [ax.get_title("left").split(":")[0] for ax in second.figure.axes] == ["CIFAR-10"]
    assert set(second.data["task"]) == {"cifar10"}
    saved = pd.read_csv(tmp_path / "figures/fedopt/figure_1.csv")  # what is stored beside it
    assert list(saved["task"].unique()) == ["cifar10", "cifar100"]
    said = " ".join(text.get_text() for text in second.figure.axes[0].texts)
    assert "stand-in data" in said and "[" not in said  # no printed numbers beside small problems
    # Of the tasks that are drawn now no other run is.
    draw.draw("fedopt/figure_1", one[:1], store=store)
    record = json.loads((tmp_path / "figures/fedopt/figure_1.json").read_text())
    assert record["runs"] == [h.config.digest for h in (*two, one[0])]
    assert draw.redraw(["fedopt/figure_1"], store=store)[0].is_file()


def test_missing_runs_name_the_notebook(quick_pictures, store, histories):
    with pytest.raises(fedlib.Error, match="fedlib reproduce 10_cifar10") as caught:
        draw.redraw(["fedopt/figure_1"], store=store)
    makers = draw.entry("fedopt/figure_1").notebooks.values()
    assert all(maker in str(caught.value) for maker in makers)
    path = draw.draw(FIGURE, histories, store=store).path
    path.unlink()
    refused(r"\d+ of \d+ figures not drawn", draw.redraw, ["fedopt/figure_1", FIGURE], store=store)
    assert path.is_file()  # all that can be drawn is, before it complains
    for lost in store.root.glob("synthetic/*.parquet"):
        lost.unlink()
    refused(r"no runs at preset quick.* 23_fair_synthetic", draw.redraw, [FIGURE], store=store)
    refused("unknown figure 'fedopt/figure1'", draw.redraw, ["fedopt/figure1"], store=store)


def test_redraw_from_published_runs_and_of_a_method_all_runs_or_none(
    quick_pictures, store, histories, tmp_path, synthetic
):
    store.root.rename(tmp_path / "results")
    elsewhere = Store(tmp_path / "runs", published=[tmp_path / "results"])
    (path,) = draw.redraw([FIGURE], store=elsewhere)
    assert not elsewhere.root.exists()

    def shown():
        draw.redraw([FIGURE], store=elsewhere)
        return json.loads(path.with_suffix(".json").read_text())["runs"]

    assert sorted(shown()) == sorted(h.config.digest for h in histories)
    # Without one of its seeds FedAdam is not shown.
    shutil.rmtree(tmp_path / "results")
    for history in histories[:3]:  # both of FedAvg, the first of FedAdam
        write_runs(tmp_path / "results", [(synthetic, history)], False)
    assert histories[2].config.algorithm == "fedadam"
    assert sorted(shown()) == sorted(h.config.digest for h in histories[:2])


def test_a_figure_shows_the_papers_tasks_as_soon_as_one_was_run(
    quick_pictures, store, histories, tmp_path, plans
):
    """Never beside small problems; of laptop and paper the one with more of the figure's tasks."""
    figure, table = "fedopt/figure_1", "fedopt/table_1"
    plans |= {"paper": 5}
    tasks = list(draw.entry(figure).notebooks)

    def keep(preset, name):
        made = set()
        for history in histories:
            longer = dataclasses.replace(history.config, rounds=plans[preset])
            copy = as_task(dataclasses.replace(history, config=longer), name, preset)
            made.add(put(store, copy).config.digest)
        return made

    def record(id):
        return json.loads((tmp_path / "figures" / f"{id}.json").read_text())

    def shown(preset=None, id=figure):
        draw.redraw([id], store=store, preset=preset)
        return set(record(id)["runs"])

    def missing():
        return record(figure)["missing"]

    small = keep("quick", tasks[0]) | keep("quick", tasks[1])
    assert shown() == small and not missing()  # small problems may be fewer
    laptop = keep("laptop", tasks[0])
    assert shown() == laptop and missing() == tasks[1:]
    assert shown("quick") == small
    refused(r"no runs at preset paper.* --preset paper", shown, "paper")
    laptop |= keep("laptop", "shakespeare")
    paper = keep("paper", tasks[0])
    assert shown() == laptop
    assert shown(id=table) == laptop | paper  # a table has a note beside each cell
    paper |= keep("paper", "shakespeare")
    assert shown() == paper and set(missing()) == set(tasks) - {tasks[0], "shakespeare"}
    refused("unknown preset 'papre'", shown, "papre")
