"""Published bundles: the numbers are the runs' own, and nothing damaged is ever read."""

import json
import shutil

import pandas as pd
import pytest

import fedlib
from fedlib.reproduction.compare import compare
from fedlib.results import Store, bundles


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
def place(made, tmp_path):
    """A store without runs, beside a folder of published ones with a bundle."""
    bundles.write_bundle(tmp_path / "results", "own", [*made, made[0]], {"synthetic"})
    return Store(tmp_path / "runs", published=[tmp_path / "results"])


def same(a, b, clients=True):
    pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True)
    if clients:
        pd.testing.assert_frame_equal(a.clients, b.clients, check_exact=True)
    assert a.config == b.config and a.config.digest == b.config.digest


def test_a_packed_run_equals_the_stored_one(made, place):
    for history in made:
        read = place.load(history.config.digest)
        same(history, read, clients=history.config.task["name"] == "synthetic")
        assert read.params == {} and read.diverged is None
        kept = {k: v for k, v in history.meta.items() if k not in ("files", "parameters")}
        assert read.meta == kept
    assert isinstance(place.load(made[0].config.digest).config.local_epochs, tuple)


def test_clients_are_kept_only_where_asked(made, place):
    quadratic = place.load(made[-1].config.digest)
    assert quadratic.clients.empty and list(quadratic.clients) == list(made[-1].clients)


def test_the_store_lists_packed_runs_as_published(made, place):
    digests = {history.config.digest for history in made}
    assert {run.config.digest for run in place.stored(published=True)} == digests
    assert {r.config.task["name"] for r in place.stored("quadratic", published=True)} == {
        "quadratic"
    }
    assert place.stored() == [] and not place.has(made[0].config.digest)
    assert len(place.table()) == 0
    frame = compare(place)
    found = frame[(frame["task"] == "synthetic") & (frame["seeds"] > 0)]
    assert (found["preset"] == "quick").all()


def test_odd_numbers_and_names_survive(made, tmp_path):
    history = made[0]
    odd = [0.1 + 0.2, 5e-324, float("inf"), float("nan"), -0.0]
    frame = pd.DataFrame({"round": range(5), "split": "test", "metric": "loss", "value": odd})
    names = ["NA", "007", "a,b", 'q"', ""]
    clients = pd.DataFrame(
        {"client": names, "split": "test", "metric": "loss", "value": odd, "examples": range(5)}
    )
    strange = fedlib.History(frame, clients, {}, history.config, history.meta)
    bundles.write_bundle(tmp_path, "odd", [made[1], strange], {"synthetic"})
    read = bundles.open_bundle(tmp_path / "bundles" / "odd")[history.config.digest].history()
    same(strange, read)


def test_the_same_runs_give_the_same_bytes(made, tmp_path):
    one = bundles.write_bundle(tmp_path / "a", "own", made, {"synthetic"})
    two = bundles.write_bundle(tmp_path / "b", "own", made, {"synthetic"})
    for file in ("runs.jsonl", "history.csv", "clients.csv"):
        assert (one / file).read_bytes() == (two / file).read_bytes()


@pytest.mark.parametrize("file", ["runs.jsonl", "history.csv", "clients.csv"])
@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
def test_damage_is_noticed(made, place, tmp_path, caplog, file, how):
    path = tmp_path / "results" / "bundles" / "own" / file
    data = path.read_bytes()
    path.unlink()
    if how != "missing":
        path.write_bytes(data[:-7] if how == "cut" else data.replace(b"0.", b"1.", 1))
    with pytest.raises(fedlib.Error) as caught:
        place.load(made[0].config.digest)
    assert "\n" not in str(caught.value)
    if file == "runs.jsonl" or how == "missing":  # the whole bundle is left out
        assert "no run" in str(caught.value) and place.stored(published=True) == []
    if (file, how) != ("runs.jsonl", "missing"):  # without it there is no bundle
        assert "damaged bundle" in caplog.text + str(caught.value)


def test_another_format_is_refused(place, tmp_path, caplog):
    path = tmp_path / "results" / "bundles" / "own" / "runs.jsonl"
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(json.dumps({**json.loads(first), "bundle": 9}) + "\n" + rest, encoding="utf-8")
    assert place.stored(published=True) == [] and "format 9" in caplog.text


def test_a_bundle_is_replaced_whole(made, place, tmp_path):
    folder = tmp_path / "results" / "bundles"
    bundles.write_bundle(tmp_path / "results", "own", made[:1])
    assert [run.config.digest for run in place.stored(published=True)] == [made[0].config.digest]
    assert [path.name for path in folder.iterdir()] == ["own"]
    assert place.load(made[0].config.digest).clients.empty


def test_a_crash_while_writing_keeps_the_old_one(made, place, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(type(tmp_path), "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        bundles.write_bundle(tmp_path / "results", "own", made[:1])
    assert len(place.stored(published=True)) == len(made)
    assert [path.name for path in (tmp_path / "results" / "bundles").iterdir()] == ["own"]


def test_what_cannot_be_published(made, tmp_path):
    with pytest.raises(fedlib.Error, match="no runs to publish"):
        bundles.write_bundle(tmp_path, "own", [])
    fresh = fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1)
    with pytest.raises(fedlib.Error, match="does not come from a store"):
        bundles.write_bundle(tmp_path, "own", [fresh])
    assert not list(tmp_path.rglob("*.csv"))


def test_a_stored_run_comes_before_a_packed_one(made, place, tmp_path):
    origin = Store(tmp_path / "runs")
    task = fedlib.load_task("quadratic")
    origin.run(task, "fedavg", rounds=1)
    assert place.load(made[-1].config.digest).params  # a bundle has none
    shutil.rmtree(tmp_path / "runs")
    assert place.load(made[-1].config.digest).params == {}
