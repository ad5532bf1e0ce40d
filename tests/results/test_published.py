"""Published runs: the numbers are the runs' own, and nothing damaged is ever read."""

import dataclasses
import random
import subprocess
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

import fedlib
from fedlib.results import Store
from fedlib.results.files import open_runs, run_files
from fedlib.results.published import publish, rounded, thin
from fedlib.results.reading import hyperparameter
from fedlib.results.selection import training_score
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data" / "results"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    task = fedlib.load_task("synthetic", clients=6)
    requests = [{"algorithm": a, "seed": s} for a in ("fedavg", "fedadam") for s in (0, 1)]
    rule = {"rounds": 5, "eval_every": 3, "eval_last": 2}
    runs = store.runs(task, requests, **rule, overrides={"local_epochs": (1, 3)})
    short = store.run(task, "fedavg", rounds=1)
    other = store.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    return [*runs, short, other]


@pytest.fixture
def results(made, tmp_path):
    """A folder of published runs with a file."""
    publish(tmp_path / "results", "own", [*made, made[0]], {"synthetic"})
    return tmp_path / "results"


@pytest.fixture
def place(results, tmp_path):
    """A store without runs beside it."""
    return Store(tmp_path / "runs", published=[results])


def digests(runs):
    return {run.config.digest for run in runs}


def test_a_published_run_equals_the_stored_one(made, place):
    for history in made:
        read = place.load(history.config.digest)
        kept = history.clients if history.config.task["name"] == "synthetic" else []
        assert list(read.clients) == list(history.clients) and len(read.clients) == len(kept)
        for published, stored in ((read.frame, history.frame), (read.clients, kept)):
            if len(stored):
                pd.testing.assert_frame_equal(published, stored, rtol=5e-7, atol=0)
        assert read.config == history.config and read.params == {} and read.diverged is None
        kept = {k: v for k, v in history.meta.items() if k not in ("params_sha256", "parameters")}
        assert kept.items() <= read.meta.items() and read.meta["thinned"]
    assert isinstance(place.load(made[0].config.digest).config.local_epochs, tuple)
    rows = pd.read_parquet(place.published[0] / "own.parquet")
    assert {*rows.loc[rows["client"].notna(), "round"]} == {1, 5}  # of the last evaluations


@pytest.mark.parametrize("name", ["before", "thereafter"])  # before and after "own", by name
def test_of_a_run_that_is_published_twice_the_newer_counts(made, place, results, name):
    later = dataclasses.replace(made[0], meta={**made[0].meta, "created": "2999-01-01"})
    publish(results, name, [later], {"synthetic"})
    digest = made[0].config.digest
    listed = [run for run in place.stored(published=True) if run.config.digest == digest]
    assert [run.meta["created"] for run in listed] == ["2999-01-01"]
    assert place.load(digest).meta["created"] == "2999-01-01"


def test_the_store_lists_published_runs(made, place):
    assert digests(place.stored(published=True)) == digests(made)
    assert place.stored() == [] and made[-1].config.digest not in place.paths()
    assert not place.load(made[-1].config.digest).params
    place.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    assert place.load(made[-1].config.digest).params  # the store's own comes first


def test_a_published_runs_configuration_still_has_the_digest_that_names_it():
    digests = {}
    for run in Store(FOLDER, published=[]).stored():
        digests[run.config.digest] = dataclasses.replace(run.config).digest  # computed anew
    assert len(digests) > 5000
    assert [old for old, new in digests.items() if old != new] == []


CASES = [(230, 50, 1), (230, 7, 1), (230, 50, 120), (40, 10, 1), (3, 3, 1)]


@pytest.mark.parametrize("rounds, eval_every, eval_last", CASES)
def test_thinning_leaves_out_nothing_that_is_read(rounds, eval_every, eval_last, quadratic):
    how = {"eval_every": eval_every, "eval_last": eval_last}
    full = fedlib.run(quadratic, "fedavg", rounds=rounds, **how)
    thinned = thin(full, clients=False)
    assert thinned.meta["thinned"] and "thinned" not in full.meta
    assert thinned.clients.empty and not thinned.params and len(full.clients) and full.params
    for metric in full.frame.query("split == 'test'")["metric"].unique():
        pd.testing.assert_series_equal(thinned.series(metric), full.series(metric))
    assert training_score(thinned) == training_score(full)
    last = full.frame["round"] > rounds - max(100, eval_last)
    first = full.frame["round"] == 1
    kept = first | last | (full.frame["round"] % eval_every == 0)
    pd.testing.assert_frame_equal(thinned.frame, full.frame[kept].reset_index(drop=True))
    pd.testing.assert_frame_equal(thin(thinned).frame, thinned.frame)
    whole = dataclasses.replace(full, frame=full.frame.assign(value=123456789.0))
    assert rounded(whole).frame.equals(whole.frame)  # as numbers of floats are


def test_the_same_runs_give_the_same_bytes(made, results, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 2e9)  # another day
    again = publish(tmp_path / "again", "own", made[::-1], {"synthetic"})
    assert again.read_bytes() == (results / "own.parquet").read_bytes()


@pytest.mark.parametrize("how", ["changed", "cut"])
def test_no_changed_byte_is_read(results, tmp_path, how):
    """Of a run or several, published or not: the file's hash vouches for every bit of it."""
    good, path = (results / "own.parquet").read_bytes(), tmp_path / "own.parquet"
    path.write_bytes(good)
    assert open_runs(path)
    draw = random.Random(0)
    for place in draw.sample(range(len(good)), 60):
        bad = bytearray(good)
        if how == "cut":
            del bad[place:]
        else:
            bad[place] ^= 1 << draw.randrange(8)
        path.write_bytes(bad)
        refused(f"^damaged runs {path}: .*. Delete it, then run or", open_runs, path)


def test_what_is_damaged_or_of_another_version_is_named_and_left_out(
    made, place, results, caplog, monkeypatch
):
    monkeypatch.setattr("fedlib.results.files.FORMAT", b"9")
    publish(results, "later", made[:1])
    monkeypatch.undo()
    (results / "odd.parquet").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    for _ in range(2):
        assert digests(place.stored(published=True)) == digests(made)
    assert len(set(caplog.messages)) == 2 and "format 9" in caplog.text
    for name in ("later", "odd"):
        assert f"{results / name}.parquet: " in caplog.text
    copied = results / "copied.parquet"
    copied.write_bytes((results / "own.parquet").read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr("fedlib.results.files.NUMBERS", 0)
        refused("made by another fedlib .numbers", open_runs, copied)
    copied.unlink()
    (results / "own.parquet").unlink()
    refused("no run", place.load, made[1].config.digest)
    assert place.frame().empty


def test_a_row_a_run(made, place):
    """What ``Store.frame`` says is what the runs say."""
    frame = place.frame().set_index("digest")
    assert len(frame) == len(made) and frame.columns.is_unique
    for history in made:
        row, config = frame.loc[history.config.digest], history.config
        read = place.load(config.digest)
        for metric in ("loss", "accuracy") if config.task["name"] == "synthetic" else ("loss",):
            assert row[f"final.{metric}"] == read.final(metric)
            assert row[f"last.{metric}"] == read.series(metric).iloc[-1]
        assert row["final.train_loss"] == read.final("loss", "train")
        assert (row["task"], row["algorithm"]) == (config.task["name"], config.algorithm)
        assert row["seed"] == config.seeds["init"] and row["local_epochs"] == config.local_epochs
        assert row["client_lr"] == hyperparameter(history, "client_lr")
        assert all(row[f"option.{key}"] == value for key, value in config.task["options"].items())


def test_a_file_is_replaced_whole_and_read_again_but_no_run_of_it_is_lost(made, place, results):
    assert len(place.stored(published=True)) == len(made)
    refused("5 runs of .*own.parquet are not among these 1", publish, results, "own", made[:1])
    assert not place.load(made[0].config.digest).clients.empty
    publish(results, "own", made)
    assert digests(place.stored(published=True)) == digests(made)
    assert place.load(made[0].config.digest).clients.empty
    assert [path.name for path in results.iterdir()] == ["own.parquet"]


def test_what_cannot_be_published(tmp_path):
    refused("no runs to publish", publish, tmp_path, "own", [])
    fresh = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    refused("does not come from a store", publish, tmp_path, "own", [fresh])
    assert not list(tmp_path.rglob("*.parquet"))


def git(*words):
    try:
        return subprocess.check_output(["git", "-C", str(ROOT), *words], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no checkout by git here, so no history")


def test_published_runs_are_of_commits_of_this_history():
    if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
        pytest.skip("no checkout of its own here, so no history")
    if git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("a shallow clone has not all of the history: git fetch --unshallow")
    history, problems, runs = set(git("rev-list", "HEAD").splitlines()), Counter(), 0
    for path in run_files(FOLDER):
        for run in open_runs(path).values():
            known, runs = run.meta.get("git"), runs + 1
            if not known or known["dirty"] or known["commit"] not in history:
                problems[path.stem] += 1
    assert runs > 1000 and not problems
