"""Kept runs at the papers' settings: the longest comparison on real data that a store has."""

import dataclasses

import pytest

import fedlib
from fedlib.reproduction.kept import longest
from fedlib.results import Store
from fedlib.results.files import write_runs

THREE = ("fedavg", "fedavgm", "fedadam")


@pytest.fixture(scope="module")
def task():
    small = fedlib.load_task("synthetic", clients=6)
    own = {name: {"client_lr": 0.05, "server_lr": 1.0} for name in (*THREE, "scaffold")}
    return dataclasses.replace(small, hyperparameters=own, clients_per_round=3, version="1")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs", published=[tmp_path / "results"])


def train(store, task, names, rounds, **settings):
    return store.runs(task, [{"algorithm": name} for name in names], rounds=rounds, **settings)


def comparison(store, **settings):
    runs = longest(store, "synthetic", **settings)
    return [(run.config.algorithm, run.config.rounds) for run in runs]


def test_more_rounds_win_and_runs_of_other_rounds_stay_out(store, task):
    assert comparison(store) == []
    train(store, task, (*THREE, "scaffold"), 2)
    train(store, task, THREE, 3)
    train(store, task, THREE[:2], 4)  # two methods are no comparison
    assert comparison(store) == [("fedavg", 3), ("fedavgm", 3), ("fedadam", 3)]
    assert comparison(store, least=2) == [("fedavg", 4), ("fedavgm", 4)]
    assert [name for name, _ in comparison(store, least=4)][-1] == "scaffold"


def test_what_is_no_comparison(store, task):
    train(store, task, THREE, 3, eval_every=3)  # no curve
    train(store, dataclasses.replace(task, stand_in=True), THREE, 3)
    train(store, task, THREE, 3, overrides={"client_lr": 0.01})  # not the paper's
    train(store, task, THREE[:2], 3)
    train(store, task, THREE[2:], 3, clients_per_round=2)
    assert comparison(store) == []


def test_seeds_belong_together_and_published_runs_count(store, task, tmp_path):
    for history in train(store, task, THREE, 2) + train(store, task, THREE, 2, seed=1):
        write_runs(tmp_path / "results", [(task, history)], False)
    elsewhere = Store(tmp_path / "empty", published=[tmp_path / "results"])
    assert comparison(elsewhere) == [(name, 2) for name in THREE for _ in range(2)]
    assert all(not run.params for run in longest(elsewhere, "synthetic"))


def test_of_scaffolds_settings_the_best_trained_one_is_taken(store, task):
    train(store, task, THREE, 3)
    for rate in (1e-6, 0.02):
        train(store, task, ("scaffold",), 3, overrides={"client_lr": rate})
    runs = {run.config.algorithm: run for run in longest(store, "synthetic")}
    assert list(runs) == [*THREE, "scaffold"]
    assert runs["scaffold"].config.method["client_lr"] == 0.02
    assert "scaffold" not in dict(comparison(store, tuned=()))
