"""Published archives: the numbers are the runs' own, and nothing damaged is ever read."""

import json
import logging
import os
import random
import zipfile

import pandas as pd
import pytest

import fedlib
from fedlib.results import Store
from fedlib.results.archives import open_archive, thin, write_archive
from fedlib.results.compare import compare
from fedlib.results.selection import training_score


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    task = fedlib.load_task("synthetic", clients=6)
    requests = [{"algorithm": a, "seed": s} for a in ("fedavg", "fedadam") for s in (0, 1)]
    runs = store.runs(task, requests, rounds=3, overrides={"local_epochs": (1, 3)})
    short = store.run(task, "fedavg", rounds=1)
    other = store.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    return [*runs, short, other]


@pytest.fixture
def results(made, tmp_path):
    """A folder of published runs with an archive."""
    write_archive(tmp_path / "results", "own", [*made, made[0]], {"synthetic"})
    return tmp_path / "results"


@pytest.fixture
def place(results, tmp_path):
    """A store without runs beside it."""
    return Store(tmp_path / "runs", published=[results])


def same(a, b, clients=True):
    pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True)
    pd.testing.assert_frame_equal(
        a.clients if clients else a.clients[:0], b.clients, check_exact=True, check_dtype=clients
    )
    assert a.config == b.config and a.config.digest == b.config.digest


def digests(runs):
    return {run.config.digest for run in runs}


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_published_run_equals_the_stored_one(made, place, results, unpacked):
    if unpacked:
        with zipfile.ZipFile(results / "own.zip") as archive:
            archive.extractall(results)
        (results / "own.zip").unlink()
    for history in made:
        read = place.load(history.config.digest)
        same(history, read, clients=history.config.task["name"] == "synthetic")
        assert read.params == {} and read.diverged is None
        kept = {k: v for k, v in history.meta.items() if k not in ("files", "parameters")}
        assert kept.items() <= read.meta.items() and read.meta["thinned"]
    assert isinstance(place.load(made[0].config.digest).config.local_epochs, tuple)


def test_the_store_lists_archived_runs_as_published(made, place):
    assert digests(place.stored(published=True)) == digests(made)
    assert digests(place.stored("quadratic", published=True)) == digests(made[-1:])
    assert place.stored() == [] and not place.has(made[0].config.digest)
    frame = compare(place)
    found = frame[(frame["task"] == "synthetic") & (frame["seeds"] > 0)]
    assert len(found) and (found["preset"] == "quick").all()


@pytest.mark.parametrize("rounds, eval_every", [(230, 50), (230, 7), (40, 10), (3, 3)])
def test_thinning_leaves_out_nothing_that_is_read(rounds, eval_every):
    task = fedlib.load_task("quadratic")
    full = fedlib.run(task, "fedavg", rounds=rounds, eval_every=eval_every)
    thinned = thin(full, clients=False)
    assert thinned.meta["thinned"] and "thinned" not in full.meta
    assert thinned.clients.empty and not thinned.params and len(full.clients) and full.params
    for metric in full.frame.query("split == 'test'")["metric"].unique():
        pd.testing.assert_series_equal(thinned.series(metric), full.series(metric))
    for paper_rounds in (None, 100, 1500, 4000):
        assert training_score(thinned, paper_rounds) == training_score(full, paper_rounds)
    first, last = (full.frame["round"] == 1), (full.frame["round"] > rounds - 100)
    kept = first | last | (full.frame["round"] % eval_every == 0)
    pd.testing.assert_frame_equal(thinned.frame, full.frame[kept].reset_index(drop=True))
    pd.testing.assert_frame_equal(thin(thinned).frame, thinned.frame)


def test_odd_numbers_and_names_survive(made, tmp_path):
    history = made[0]
    odd = [0.1 + 0.2, 5e-324, float("inf"), float("nan"), -0.0]
    frame = pd.DataFrame({"round": range(5), "split": "test", "metric": "loss", "value": odd})
    names = ["NA", "007", "a,b", 'q"', ""]
    clients = pd.DataFrame(
        {"client": names, "split": "test", "metric": "loss", "value": odd, "examples": range(5)}
    )
    strange = fedlib.History(frame, clients, {}, history.config, history.meta)
    path = write_archive(tmp_path, "odd", [made[1], strange], {"synthetic"})
    same(strange, open_archive(path)[history.config.digest].history())


def test_the_same_runs_give_the_same_bytes(made, results, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 2e9)  # another day
    again = write_archive(tmp_path / "again", "own", made[::-1], {"synthetic"})
    assert again.read_bytes() == (results / "own.zip").read_bytes()


def test_whatever_byte_changes_the_numbers_never_do(made, results, tmp_path, caplog):
    good = (results / "own.zip").read_bytes()
    known = {history.config.digest: history.frame for history in made}
    draw, noticed = random.Random(0), 0
    for number in range(150):
        bad = bytearray(good)
        if number % 3:
            bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
        else:
            del bad[draw.randrange(len(bad)) :]
        path = tmp_path / f"{number}.zip"
        path.write_bytes(bad)
        caplog.clear()
        problems = []
        try:
            runs = dict(open_archive(path))
        except fedlib.Error as problem:
            runs, problems = {}, [str(problem)]
        for digest, run in runs.items():
            try:
                assert run.history(params=False).frame.equals(known[digest])
            except fedlib.Error as problem:
                problems.append(str(problem))
        problems += caplog.messages
        assert len(runs) == len(known) or problems
        for line in problems:
            assert line.startswith("damaged") and str(path) in line and "\n" not in line
            assert f"delete {path} and publish it again" in line or "delete it and" in line
        noticed += bool(problems)
    assert noticed > 100


def test_a_damaged_archive_is_left_out(made, place, results, caplog):
    write_archive(results, "sound", made[:1])
    (results / "own.zip").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert digests(place.stored(published=True)) == digests(made[:1])
    assert f"damaged archive {results / 'own.zip'}" in caplog.text
    with pytest.raises(fedlib.Error, match="no run"):
        place.load(made[1].config.digest)


def test_a_damaged_run_in_an_archive_is_left_out(made, place, results, caplog):
    path, broken = results / "own.zip", made[0].config.digest
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            if name.endswith(f"{broken}/config.json"):
                data = json.dumps({**json.loads(data), "format": 9}).encode()
            archive.writestr(name, data)
    with caplog.at_level(logging.WARNING, logger="fedlib"):
        assert digests(place.stored(published=True)) == digests(made) - {broken}
        assert digests(place.stored(published=True)) == digests(made) - {broken}
    (message,) = caplog.messages  # an archive is read once
    assert "format 9" in message and str(path) in message and broken in message


def test_an_archive_is_replaced_whole_and_read_again(made, place, results):
    assert len(place.stored(published=True)) == len(made)
    write_archive(results, "own", made[:1])
    assert digests(place.stored(published=True)) == digests(made[:1])
    assert place.load(made[0].config.digest).clients.empty
    assert [path.name for path in results.iterdir()] == ["own.zip"]


def test_a_crash_while_writing_keeps_the_old_one(made, place, results, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_archive(results, "own", made[:1])
    assert len(place.stored(published=True)) == len(made)
    assert [path.name for path in results.iterdir()] == ["own.zip"]


def test_what_cannot_be_published(tmp_path):
    with pytest.raises(fedlib.Error, match="no runs to publish"):
        write_archive(tmp_path, "own", [])
    fresh = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    with pytest.raises(fedlib.Error, match="does not come from a store"):
        write_archive(tmp_path, "own", [fresh])
    assert not list(tmp_path.rglob("*.zip"))


def test_a_stored_run_comes_before_a_published_one(made, place):
    place.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    assert place.load(made[-1].config.digest).params  # a published one has none
    assert not place.load(made[0].config.digest).params
