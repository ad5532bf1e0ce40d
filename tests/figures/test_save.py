"""Saving: the picture, its numbers, where they come from, and what its runs are in words."""

import dataclasses
import json

import pandas as pd
from matplotlib.figure import Figure

from fedlib import figures
from fedlib.datasets.catalogue import RECIPES
from fedlib.figures.save import NOTE, picture, render
from fedlib.figures.scale import note, scale, small
from tests.figures.conftest import as_task
from tests.refusals import refused


def test_a_saved_figure_is_shown_as_it_was_saved_until_it_changes(tmp_path):
    figure = Figure(figsize=(2, 1))
    before = picture(figure)
    about = {"caption": "", "histories": (), "root": tmp_path}
    path = figures.save(figure, "a/b", pd.DataFrame({"x": [1.0]}), **about)
    assert picture(figure) == path.read_bytes() != before
    figure.suptitle("later")
    assert picture(figure) not in (before, path.read_bytes())


def test_what_cannot_be_saved():
    about = {"caption": "", "histories": []}
    refused("<paper>/<name>", figures.save, None, "../x", pd.DataFrame({"a": [1]}), **about)
    refused("no data", figures.save, None, "a/b", pd.DataFrame(), **about)


def test_a_picture_of_ones_own_takes_no_published_ones_place(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDLIB_FIGURES", raising=False)
    monkeypatch.setattr("fedlib.paths.project_root", lambda: tmp_path)
    about = {"caption": "", "histories": ()}
    figures.save(None, "fedopt/figure_1", pd.DataFrame({"x": [1.0]}), **about)
    assert not (tmp_path / "figures/fedopt").exists() and [*tmp_path.rglob("figure_1.csv")]


def test_missing_tasks_are_named_in_the_corner(tmp_path, histories):
    data, figure = pd.DataFrame({"x": [1.0]}), Figure(figsize=(2, 1))
    common = {"caption": "", "histories": histories[:2], "missing": ["mnist", "cifar10"]}
    path = figures.save(figure, "a/b", data, root=tmp_path, **common)
    said = [text.get_text() for text in figure.texts if text.get_gid() == NOTE]
    assert said[0].split("runs:")[1].split() == ["MNIST;", "CIFAR-10"]
    assert json.loads(path.with_suffix(".json").read_text())["missing"] == ["mnist", "cifar10"]
    render(figure, "another")
    assert [text.get_text() for text in figure.texts if text.get_gid() == NOTE] == ["another"]


def test_the_scale_tells_data_clients_rounds_and_seeds(histories):
    """In words for under a title: of the paper's numbers too, where a run has others."""
    fedavg = histories[:2]
    assert scale(fedavg) == "small problem, 10 of 100 clients, 4 rounds, 2 seeds" and small(fedavg)
    fake = [as_task(run, stand_in=True) for run in fedavg]
    assert scale(fake[:1]).startswith("small problem on stand-in data, 10 of 100")
    assert scale([*fedavg, *fake]).startswith("small problem partly on stand-in data")
    paper = [as_task(run, preset="paper") for run in fedavg]
    assert scale(paper) == "10 of 100 clients, 4 of 1,000 rounds, 2 seeds" and not small(paper)
    whole = {"clients": 10, "rounds": 4}
    assert scale(paper, whole) == "10 clients, 4 rounds, 2 seeds"
    more = {"clients": 7, "rounds": 4}
    assert scale(paper, more) == "10 instead of 7 clients, 4 rounds, 2 seeds"
    odd = as_task(paper[0], options={"data": "femnist", "width": 0.125, "examples": 9000})
    assert scale([odd], {"data": "emnist", "examples": 10000, **whole}) == (
        "FEMNIST for EMNIST, 9,000 of 10,000 examples, 0.125 of the width, 4 rounds, 1 seed"
    )
    roles = {"data": RECIPES["shakespeare_plays"].tasks[0], "options": {"data": "shakespeare"}}
    named = [as_task(odd, data=RECIPES["femnist_105"].card), as_task(paper[0], **roles)]
    meant = [{"data": "emnist"}, {"data": "shakespeare"}]
    said = [scale([run], paper).split(", ")[0] for run, paper in zip(named, meant, strict=True)]
    assert said == ["FEMNIST-105 for EMNIST", "Shakespeare (plays)"]
    own = as_task(paper[0], options={"data": "emnist"})
    assert scale([own, odd], {"data": "emnist"}).startswith("EMNIST and FEMNIST for EMNIST, ")
    assert scale([as_task(paper[0], stand_in=True), paper[1]]).startswith("partly stand-in data")
    cut = {"data": "stackexchange", "clients": 1914, "words": 2000}
    assert scale([as_task(paper[0], name="stackoverflow_lr", options=cut)]) == (
        "Stack Exchange for Stack Overflow, 1,914 of 342,477 clients, 2,000 of 10,000 words, "
        "4 of 1,500 rounds, 1 seed"
    )
    other = dataclasses.replace(fedavg[0].config, algorithm="fedadam")
    uneven = [*fedavg, dataclasses.replace(fedavg[0], config=other)]
    assert scale(uneven).endswith("1 to 2 seeds")
    # As another version stored it.
    turned = dict(reversed(fedavg[1].config.method.items()))
    config = dataclasses.replace(fedavg[1].config, method=turned)
    assert "to" not in scale([fedavg[0], dataclasses.replace(fedavg[1], config=config)])
    own = as_task(fedavg[0], name="digits:task")
    assert scale([own]) == "4 rounds, 1 seed" and not small([own])
    assert note([*paper, as_task(paper[0], name="mnist", options={"data": "mnist"})]) == (
        "Synthetic: 10 of 100 clients, 4 of 1,000 rounds, 2 seeds; MNIST, 4 of 500 rounds, 1 seed"
    )
