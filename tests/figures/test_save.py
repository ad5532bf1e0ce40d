"""Saving: the picture, its numbers, where they come from, and the note in its corner."""

import dataclasses
import json
import os
import sys

import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedlib
from fedlib import figures
from fedlib.figures.save import NOTE, corner, note, picture, render

module = sys.modules["fedlib.figures.save"]  # the package exports a function of that name


@pytest.fixture(scope="module")
def histories():
    task = fedlib.load_task("synthetic", clients=10)
    return [fedlib.run(task, "fedavg", rounds=4, seed=seed) for seed in (0, 1)]


def as_task(history, **changes):
    """The same numbers under another task's settings."""
    task = {**history.config.task, **changes}
    return dataclasses.replace(history, config=dataclasses.replace(history.config, task=task))


def saved(figure, root, value=1.0):
    data = pd.DataFrame({"x": [value]})
    return figures.save(figure, "a/b", data, caption="", histories=(), root=root)


def test_a_pdf_is_drawn_again_only_if_it_is_damaged_or_would_show_something_else(
    tmp_path, monkeypatch
):
    kinds = []

    def counted(figure, note="", kind="png"):
        kinds.append(kind)
        return render(figure, note, kind)

    monkeypatch.setattr(module, "render", counted)

    def pdfs(title, value=1.0, **options):
        figure = Figure(figsize=(1, 1))
        figure.suptitle(title)
        kinds.clear()
        with monkeypatch.context() as patch:
            for name, option in options.items():
                patch.setattr(module, name, option)
            path = saved(figure, tmp_path, value)
        return kinds.count("pdf"), path.with_suffix(".pdf")

    first, path = pdfs("one")
    drawn = path.read_bytes()
    assert first == 1 and pdfs("one")[0] == 0 and path.read_bytes() == drawn
    assert pdfs("two")[0] == 1 and path.read_bytes() != drawn
    assert pdfs("two", value=2.0)[0] == 1
    assert pdfs("two", value=2.0, version=lambda name: "another")[0] == 1
    path.write_bytes(drawn[:100])
    assert pdfs("two", value=2.0)[0] == 1 and path.read_bytes()[-6:].strip() == b"%%EOF"
    path.with_suffix(".json").write_text("{")
    assert pdfs("two", value=2.0)[0] == 1
    path.unlink()
    assert pdfs("two", value=2.0)[0] == 1 and path.is_file()


def test_a_saved_figure_is_shown_as_it_was_saved_until_it_changes(tmp_path):
    figure = Figure(figsize=(2, 1))
    assert picture(figure) is None
    path = saved(figure, tmp_path)
    assert picture(figure) == path.read_bytes()
    figure.suptitle("later")
    assert picture(figure) is None


def test_a_crash_while_saving_keeps_the_old_files(tmp_path, monkeypatch):
    path = saved(Figure(figsize=(1, 1)), tmp_path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(fedlib.Error, match="disk full"):
        saved(Figure(figsize=(2, 2)), tmp_path)
    assert path.read_bytes() == before
    assert not [p for p in path.parent.iterdir() if p.name.startswith(".")]


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(fedlib.Error, match="<paper>/<name>"):
        figures.save(Figure(), "../x", pd.DataFrame({"a": [1]}), caption="", histories=[])
    with pytest.raises(fedlib.Error, match="no data"):
        figures.save(Figure(), "a/b", pd.DataFrame(), caption="", histories=[])


def in_corner(figure):
    return [text.get_text() for text in figure.texts if text.get_gid() == NOTE]


def test_the_corner_has_data_scale_and_seeds_in_a_line(histories):
    assert corner(histories[:1]) == "quick preset, 4 rounds, 1 seed"
    fake = as_task(histories[0], stand_in=True, preset="paper")
    assert corner([fake]) == "paper preset, stand-in data, 4 rounds, 1 seed"
    mixed = corner([*histories, fake])
    assert mixed.startswith("quick and paper preset, partly stand-in data, 4 rounds")
    whole = as_task(histories[0], preset="paper")
    whole.meta = {**whole.meta, "settings": {"rounds": 4}}
    assert corner([whole]) == ""


def test_the_corner_names_tasks_that_were_not_run(tmp_path, histories):
    data = pd.DataFrame({"x": [1.0]})
    runs = {"whole": histories, "cut": [as_task(run, preset="laptop") for run in histories]}
    corners = {}
    for name, of in runs.items():
        common = {"caption": "", "histories": of, "missing": ["mnist", "cifar10"]}
        path = figures.save(Figure(figsize=(2, 1)), f"a/{name}", data, root=tmp_path, **common)
        corners[name] = json.loads(path.with_suffix(".json").read_text())["corner"]
    assert corners["whole"].endswith("no runs: mnist, cifar10")
    assert corners["cut"] == "laptop preset, 4 rounds, 2 seeds; no runs: mnist, cifar10"


def test_the_note_tells_stand_ins_and_presets(histories):
    assert note(histories) == "quick preset: 4 rounds, 10 clients"
    fake = [as_task(h, stand_in=True) for h in histories]
    assert note(fake).startswith("stand-in data, quick preset")
    other = [as_task(h, name="another") for h in histories]
    assert note([*fake, *other]).startswith("another: quick preset: 4 rounds, 10 clients; synth")
    many = [as_task(histories[0], name=name) for name in "abcd"]
    assert note(many) == note(histories)  # tasks that are reduced alike share the words
    assert note(many[:3]).count("quick preset") == 3
    mixed = note([as_task(many[0], stand_in=True), *many[1:]])  # one has to say so itself
    assert mixed.startswith("a: stand-in data, quick") and mixed.count("quick") == 4
    paper = [as_task(h, preset="paper") for h in histories]
    for rounds, text in ((100, "4 of 100 rounds"), (4, "")):
        for history in paper:  # what the task itself runs is stored with the run
            history.meta = {**history.meta, "settings": {"rounds": rounds}}
        assert note(paper) == text
    narrow = as_task(paper[0], options={"width": 0.125})
    assert note([narrow]) == "0.125 of the network's width"
    figure = Figure()
    for text in ("one", "another", ""):
        render(figure, text)
        assert in_corner(figure) == ([text] if text else [])
