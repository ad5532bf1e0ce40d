"""Cells of the papers' tables from hand-made runs, against numbers computed by hand."""

import dataclasses

import pandas as pd
import pytest
import torch

import fedlib
from fedlib import papers
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction.compare import COLUMNS, compare, summary
from fedlib.results import Store
from fedlib.results.files import write_run


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "runs")


@pytest.fixture(scope="module")
def synthetic():
    return fedlib.load_task("synthetic", preset="paper")


@pytest.fixture(scope="module")
def cifar():
    """The paper's CIFAR-10 in name and settings; no data is needed for hand-made numbers."""
    small = fedlib.load_task("synthetic", clients=3)
    options = {"data": "cifar10", "clients": 500, "examples_per_client": 100, "test_clients": 100}
    return dataclasses.replace(
        small,
        name="cifar10",
        preset="paper",
        label="CIFAR-10",
        options={**options, "alpha": 0.1, "width": 1.0, "groups": 2},
        hyperparameters={"fedavg": {"client_lr": 0.03}, "fedadam": {"client_lr": 0.03}},
        rounds=4000,
        clients_per_round=3,
        batch_size=20,
    )


def hand_made(store, task, algorithm, values, clients=((1.0, 1),), diverged=None, **settings):
    """Store a run whose accuracy per round is ``values``; clients are (accuracy, examples)."""
    config, _ = configure(task, algorithm, **settings)
    if task.name == "cifar10":  # ten of 500 clients a round
        config = dataclasses.replace(config, clients_per_round=10)
    rounds = range(config.rounds - len(values) + 1, config.rounds + 1)
    frame = pd.DataFrame(
        [(r, "test", "accuracy", v) for r, v in zip(rounds, values, strict=True)]
        + [(r, "test", "accuracy_unweighted", v / 2) for r, v in zip(rounds, values, strict=True)],
        columns=["round", "split", "metric", "value"],
    )
    table = pd.DataFrame(
        [(str(i), "test", "accuracy", v, n) for i, (v, n) in enumerate(clients)],
        columns=["client", "split", "metric", "value", "examples"],
    )
    meta = {"diverged": diverged, "versions": {}, "seconds": 1.0}
    history = History(frame, table, {"w": torch.zeros(1)}, config, meta)
    return write_run(store.root, task, history, False, True)


ITEMS = {"cifar10": "Table 1", "emnist_cr": "Table 1", "synthetic": "Table 5"}
PAPERS = {"cifar10": "fedopt", "emnist_cr": "fedopt", "synthetic": "adafedadam"}


def cell(frame, task, algorithm, metric):
    found = frame[
        (frame["paper"] == PAPERS[task])
        & (frame["item"] == ITEMS[task])
        & (frame["task"] == task)
        & (frame["algorithm"] == algorithm)
        & (frame["metric"] == metric)
    ]
    assert len(found) == 1
    return found.iloc[0]


def test_without_runs_every_cell_names_its_notebook(store):
    frame = compare(store)
    assert tuple(frame.columns) == COLUMNS
    counts = frame.groupby(["paper", "item", "task"]).size().to_dict()
    assert counts["fedopt", "Table 1", "cifar10"] >= 5
    assert counts["fedopt", "Table 1", "emnist_cr"] >= 5
    assert counts["adafedadam", "Table 5", "synthetic"] == 3 * len(TABLE_5)
    assert frame["ours"].isna().all() and (frame["seeds"] == 0).all()
    assert "fedlib reproduce 10_cifar10" in cell(frame, "cifar10", "fedavg", "accuracy")["note"]
    note = cell(frame, "synthetic", "fedavg", "std")["note"]
    assert "notebooks/23_fair_synthetic.ipynb" in note
    totals = summary(frame)
    assert (totals["run"] == 0).all() and (totals["within"] == 0).all()
    assert totals.groupby(["paper", "item", "task"])["cells"].sum().to_dict() == counts


TABLE_5 = {"fedavg", "fedadam", "qfedavg", "fednova", "fedprox", "adafedadam"}


def test_printed_numbers_are_the_papers(store):
    frame = compare(store)
    for label, name in (("FedAdam", "fedadam"), ("FedAvgM", "fedavgm")):
        for task, row in (("cifar10", "CIFAR-10"), ("emnist_cr", "EMNIST CR")):
            printed = papers.printed("fedopt", "table1_validation", task=row, algorithm=label)
            assert cell(frame, task, name, "accuracy")["printed"] == printed
    assert cell(frame, "synthetic", "fedprox", "worst30")["printed"] == 28.62


def test_fedopt_averages_the_last_100_rounds_over_seeds(store, cifar):
    hand_made(store, cifar, "fedadam", [0.0] * 50 + [0.7] * 50 + [0.8] * 50, seed=0)
    hand_made(store, cifar, "fedadam", [0.9] * 50 + [0.7] * 100, seed=1)
    found = cell(compare(store), "cifar10", "fedadam", "accuracy")
    assert found["ours"] == pytest.approx(72.5)
    assert found["ours_std"] == pytest.approx(5 / 2**0.5)
    assert found["ours_unweighted"] == pytest.approx(36.25)
    assert found["seeds"] == 2 and len(found["runs"]) == 2
    assert found["difference"] == pytest.approx(72.5 - 77.4)
    assert (found["preset"], found["rounds"], found["printed_rounds"]) == ("paper", 4000, 4000)
    assert found["data"] == "real" and found["note"] == ""


def test_adafedadam_metrics(store, synthetic):
    clients = [(0.2, 10), (0.9, 10), (0.4, 40), (1.0, 40), (0.5, 0)]
    hand_made(store, synthetic, "fedavg", [0.5, 0.9], clients)
    frame = compare(store)
    average = cell(frame, "synthetic", "fedavg", "avg")
    assert average["ours"] == pytest.approx(90.0) and average["comparable"]
    assert average["difference"] == pytest.approx(-0.08)
    # Weighted mean (2 + 9 + 16 + 40) / 100 = 0.67.
    variance = (10 * 0.47**2 + 10 * 0.23**2 + 40 * 0.27**2 + 40 * 0.33**2) / 100
    spread = cell(frame, "synthetic", "fedavg", "std")
    assert spread["ours"] == pytest.approx(100 * variance**0.5)
    plain = (0.425**2 + 0.275**2 + 0.225**2 + 0.375**2) / 4
    assert spread["ours_unweighted"] == pytest.approx(100 * plain**0.5)
    assert not spread["comparable"] and "not comparable" in spread["note"]
    # The worst 30 of 100 examples: 10 at 0.2 and 20 of the 40 at 0.4; of 4 clients the worst one.
    worst = cell(frame, "synthetic", "fedavg", "worst30")
    assert worst["ours"] == pytest.approx(100 * (10 * 0.2 + 20 * 0.4) / 30)
    assert worst["ours_unweighted"] == pytest.approx(20.0)


def test_the_papers_settings_win_over_reduced_ones_and_real_data_over_stand_ins(store, cifar):
    def ours():
        return cell(compare(store), "cifar10", "fedavg", "accuracy")

    reduced = {**cifar.options, "width": 0.125}
    fake = dataclasses.replace(cifar, preset="quick", options=reduced, stand_in=True)
    hand_made(store, fake, "fedavg", [0.1] * 9, rounds=200)
    found = ours()
    assert found["ours"] == pytest.approx(10.0) and found["data"] == "stand-in"
    assert "quick preset" in found["note"] and "200 of 4000 rounds" in found["note"]
    assert "width 0.125 instead of 1.0" in found["note"]
    hand_made(store, dataclasses.replace(fake, stand_in=False), "fedavg", [0.2] * 9, rounds=100)
    assert ours()["ours"] == pytest.approx(20.0) and ours()["data"] == "real"
    hand_made(store, cifar, "fedavg", [0.3] * 9, rounds=50)
    assert ours()["ours"] == pytest.approx(30.0)
    assert ours()["note"] == "50 of 4000 rounds"
    hand_made(store, cifar, "fedavg", [0.4] * 200)
    assert ours()["ours"] == pytest.approx(40.0) and ours()["note"] == ""


def test_runs_with_other_hyperparameters_do_not_count(store, cifar):
    hand_made(store, cifar, "fedavg", [0.9] * 150, overrides={"client_lr": 0.5})
    assert cell(compare(store), "cifar10", "fedavg", "accuracy")["seeds"] == 0
    hand_made(store, cifar, "fedavg", [0.6] * 150)
    assert cell(compare(store), "cifar10", "fedavg", "accuracy")["ours"] == pytest.approx(60.0)


def test_a_diverged_run_has_no_number_but_says_so(store, cifar):
    hand_made(store, cifar, "fedavg", [0.6] * 150, diverged=77)
    found = cell(compare(store), "cifar10", "fedavg", "accuracy")
    assert pd.isna(found["ours"]) and found["seeds"] == 1
    assert "diverged in round 77" in found["note"]


def test_a_damaged_run_is_left_out(store, cifar, caplog):
    kept = hand_made(store, cifar, "fedavg", [0.6] * 150, seed=0)
    lost = hand_made(store, cifar, "fedavg", [0.9] * 150, seed=1)
    (store.path(lost.config) / "history.csv").write_text("round\n")
    found = cell(compare(store), "cifar10", "fedavg", "accuracy")
    assert found["ours"] == pytest.approx(60.0) and found["runs"] == (kept.config.digest,)
    assert "history.csv" in caplog.text


def table_1(store):
    totals = summary(compare(store)).query("paper == 'fedopt' and item == 'Table 1'")
    return totals.set_index("task").loc["cifar10"]


def test_summary(store, cifar):
    hand_made(store, cifar, "fedavg", [0.74] * 150)  # printed 72.8
    hand_made(store, cifar, "fedadam", [0.70] * 150)  # printed 77.4
    row = table_1(store)
    assert (row["run"], row["comparable"], row["within"]) == (2, 2, 1) and row["cells"] >= 5
    assert (row["paper_best"], row["our_best"], row["same_best"]) == ("FedAdam", "FedAvg", False)
    hand_made(store, cifar, "fedadam", [0.76] * 150, seed=5)
    row = table_1(store)
    assert row["our_best"] == "FedAvg"  # the mean over seeds counts: 73
