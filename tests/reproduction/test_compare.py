"""Cells of the papers' tables from hand-made runs, against numbers computed by hand."""

import dataclasses
import math
from functools import cache, partial

import pandas as pd
import pytest

import fedlib
from fedlib import algorithms, papers, plans, tasks
from fedlib.figures import learning_curves
from fedlib.reproduction import evidence, tables
from fedlib.reproduction.compare import cells, compare
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.matching import printed_settings
from fedlib.reproduction.metrics import METRICS
from fedlib.results import Store

TABLE_1 = tables.find("fedopt", "Table 1", "cifar10")
TABLE_5 = tables.find("adafedadam", "Table 5", "synthetic")


@pytest.fixture(scope="module")
def synthetic():
    return fedlib.load_task("synthetic", preset="paper")


@pytest.fixture(scope="module")
def cifar():
    """The paper's CIFAR-10 in name and settings; no data is needed for hand-made numbers."""
    options = {"data": "cifar10", "clients": 500, "examples_per_client": 100, "test_clients": 100}
    return dataclasses.replace(
        fedlib.load_task("synthetic", clients=3),
        name="cifar10",
        preset="paper",
        options={**options, "alpha": 0.1, "width": 1.0, "groups": 2},
        hyperparameters={"fedavg": {"client_lr": 0.03}, "fedadam": {"client_lr": 0.03}},
        rounds=4000,
        clients_per_round=3,
        batch_size=20,
    )


@pytest.fixture
def run(hand_made, cifar):
    """A run of the paper's CIFAR-10: ten of 500 clients a round."""
    return partial(hand_made, cifar, cohort=10)


def cell(frame, algorithm, metric="accuracy"):
    (row,) = frame[(frame["algorithm"] == algorithm) & (frame["metric"] == metric)].to_dict(
        "records"
    )
    return row


def fedavg(*runs):
    return cell(cells(runs, TABLE_1), "fedavg")


def test_without_runs_every_cell_names_its_notebook(tmp_path):
    frame = compare(Store(tmp_path / "runs", published=[]))
    counts = papers.cells().groupby(["paper", "item", "task"]).size().to_dict()
    assert frame.groupby(["paper", "item", "task"]).size().to_dict() == counts
    assert frame["ours"].isna().all() and (frame["seeds"] == 0).all()
    note = cell(frame[(frame["item"] == "Table 1") & (frame["task"] == "cifar10")], "fedavg")[
        "note"
    ]
    assert "fedlib reproduce 10_cifar10" in note and "notebooks/10_cifar10.ipynb" in note
    assert (frame["outcome"] == "").all()
    assert cell(cells([], TABLE_1), "fedadam")["printed"] == 77.4


def test_every_cell_is_of_what_fedlib_has():
    @cache
    def asked(notebook):
        return {request.task for request in plans.requests(notebook, "paper")}

    for cell in papers.cells().to_dict("records"):
        assert cell["algorithm"] in algorithms.METHODS and cell["metric"] in METRICS
        known = {*tasks.defaults(cell["task"]), "centralized", "sizes_drawn"}
        assert {*cell["options"], *cell["given"]} <= known, cell["task"]
        settings = printed_settings(cell)
        assert settings["rounds"] > 0 and settings["batch_size"] > 0
        tables.find(cell["paper"], cell["item"], cell["task"])
        notebook = tables.notebook(cell["paper"], cell["item"], cell["task"])
        assert cell["task"] in asked(notebook)


def test_fedopt_averages_the_last_100_rounds_over_seeds(run):
    runs = [
        run("fedadam", [0.0] * 50 + [0.7] * 50 + [0.8] * 50, seed=0),
        run("fedadam", [0.9] * 50 + [0.7] * 100, seed=1),
    ]
    row = cell(cells([*runs, runs[0]], TABLE_1), "fedadam")  # a run given twice counts once
    assert row["ours"] == pytest.approx(72.5)
    assert row["ours_std"] == pytest.approx(5 / 2**0.5)
    assert row["ours_unweighted"] == pytest.approx(36.25)
    assert row["seeds"] == 2 and len(row["runs"]) == 2
    assert row["difference"] == pytest.approx(72.5 - 77.4)
    assert (row["preset"], row["rounds"], row["printed_rounds"]) == ("paper", 4000, 4000)
    assert row["data"] == "real" and row["note"] == ""


def test_tables_claims_pages_and_notebooks_have_one_window(run):
    """The last 100 rounds, or as many as have six evaluations: 150, if every 25th was evaluated."""
    levels = [0.1] * 250 + [0.9] * 149 + [0.3]
    thin = run("fedavg", levels, rounds=1000, eval_every=25)
    mean = (149 * 0.9 + 0.3) / 150
    row = fedavg(thin)
    assert row["window"] == 150 and row["ours"] == pytest.approx(100 * mean)
    assert evidence.mean_final([thin]) == pytest.approx(mean)
    thin.frame = thin.frame.replace({"metric": {"mse_x1000": "loss"}})
    (collected,) = outcomes.collect([thin])["performance"]
    assert collected == pytest.approx(100 * mean)
    frame = evidence.numbers([thin]).query("metric == 'accuracy' and late")
    assert frame["value"].mean() == pytest.approx(mean) and len(frame) == 150
    line = learning_curves([thin], window=METRICS["accuracy"].over)[1]["line"]
    assert line.iloc[-1] == pytest.approx(100 * mean)


@pytest.mark.parametrize("splits", [("test",), ("test", "local")])
def test_adafedadam_metrics(hand_made, synthetic, splits):
    clients = [(0.2, 10), (0.9, 10), (0.4, 40), (1.0, 40), (0.5, 0)]
    run = hand_made(synthetic, "fedavg", [0.5, 0.9], clients=clients, splits=splits)
    if "local" in splits:  # what was measured on the test examples says nothing then
        for frame in (run.frame, run.clients):
            frame.loc[(frame["split"] == "test") & (frame["metric"] == "accuracy"), "value"] = 0.0
    judged = evidence.numbers([run]).query("metric == 'accuracy'")["value"]
    assert judged.iloc[-1] == 0.9  # claims look where tables do
    frame = cells([run], TABLE_5)
    average = cell(frame, "fedavg", "avg")
    assert average["ours"] == pytest.approx(90.0)
    assert average["difference"] == pytest.approx(-0.08)
    # Weighted mean (2 + 9 + 16 + 40) / 100 = 0.67.
    variance = (10 * 0.47**2 + 10 * 0.23**2 + 40 * 0.27**2 + 40 * 0.33**2) / 100
    spread = cell(frame, "fedavg", "std")
    assert spread["ours"] == pytest.approx(100 * variance**0.5)
    plain = (0.425**2 + 0.275**2 + 0.225**2 + 0.375**2) / 4
    assert spread["ours_unweighted"] == pytest.approx(100 * plain**0.5)
    for number in (average, spread):
        assert ("test examples, not all" in number["note"]) is ("local" not in splits)
        said = "a reading: 0.6 of a client's data trained on, all of them measured (paper: 0.8"
        assert (said in number["note"]) is ("local" in splits)
    # The worst 30 % of 4 clients, rounded up, are two: 10 examples at 0.2 and 40 at 0.4.
    worst = cell(frame, "fedavg", "worst30")
    assert worst["ours"] == pytest.approx(100 * (10 * 0.2 + 40 * 0.4) / 50)
    assert worst["ours_unweighted"] == pytest.approx(30.0)
    weighted, unweighted = METRICS["mse_x1000"](run)  # the test data of its task has no clients
    assert weighted == 1.0 and math.isnan(unweighted)
    lost = dataclasses.replace(run, meta={**run.meta, "diverged": 1})
    numbers = [number for name in ("std", "worst30") for number in METRICS[name](lost)]
    assert all(map(math.isnan, numbers))


def test_the_papers_settings_win_over_reduced_ones_and_real_data_over_stand_ins(
    hand_made, cifar, run
):
    small = dataclasses.replace(cifar, preset="quick", options={**cifar.options, "width": 0.125})
    fake = dataclasses.replace(small, stand_in=True)
    runs = [hand_made(fake, "fedavg", [0.1] * 9, rounds=200, cohort=10)]
    row = fedavg(*runs)
    assert row["ours"] == pytest.approx(10.0) and row["data"] == "stand-in"
    note = "quick preset; stand-in data; 200 of 4000 rounds; width 0.125 instead of 1.0"
    assert row["note"] == note
    for better, ours, note in (
        (hand_made(small, "fedavg", [0.2] * 9, rounds=100, cohort=10), 20.0, "quick preset; 100"),
        (run("fedavg", [0.3] * 9, rounds=50), 30.0, "50 of 4000 rounds"),
        # Longer, but with another cohort than the paper's: the shorter one stays.
        (run("fedavg", [0.9] * 9, rounds=60, cohort=5), 30.0, "50 of 4000 rounds"),
        (run("fedavg", [0.4] * 200), 40.0, ""),
    ):
        runs.append(better)
        row = fedavg(*runs)
        assert row["ours"] == pytest.approx(ours) and row["data"] == "real"
        assert row["note"].startswith(note) and bool(row["note"]) == bool(note)
        assert (row["outcome"] == "") is bool(note)
    assert fedavg(run(overrides={"client_lr": 0.5}))["seeds"] == 0  # not the paper's


def test_a_number_counts_and_does_not_agree_where_one_of_its_seeds_diverged(
    hand_made, synthetic, printed
):
    runs = [hand_made(synthetic, rounds=1, seed=seed) for seed in range(3)]
    runs[1] = hand_made(synthetic, rounds=1, seed=1, diverged=1)
    row = cells(runs, printed({"metric": "avg", "printed": 50.0})).iloc[0]
    assert row["seeds"] == 3 and math.isnan(row["ours"]) and math.isnan(row["ours_std"])
    assert row["note"] == "seed 1 diverged in round 1" and row["outcome"] == "differs"


@pytest.mark.parametrize(("last", "note"), [(0.75, "by seed 10.0, 10.0, 75.0"), (0.2, "")])
def test_a_mean_of_seeds_far_apart_names_each(hand_made, synthetic, printed, last, note):
    """Deviations of 37.5 and 5.8 points, against half of the means, 15.8 and 6.7."""
    ends = (0.1, last, 0.1)
    runs = [
        hand_made(synthetic, accuracies=[end] * 9, rounds=9, seed=n) for n, end in enumerate(ends)
    ]
    row = cells(runs, printed({"metric": "avg", "printed": 50.0, "rounds": 9, "seeds": 3})).iloc[0]
    assert row["note"] == note


def test_illegible_numbers_are_marked_and_not_compared(hand_made, synthetic, printed):
    lost = {"row": "a", "printed": math.nan, "unclear": "missing: column lost"}
    odd = {"row": "b", "printed": 49.0, "unclear": "conflict_resolved: two readings"}
    run = hand_made(synthetic, accuracies=[0.5] * 9, rounds=9)
    frame = cells([run], printed(lost, odd).assign(rounds=9)).set_index("row")
    assert frame.loc["a", "ours"] == 50.0
    assert math.isnan(frame.loc["a", "difference"])
    assert frame.loc["b", "unclear"].startswith("conflict")
    assert list(frame["outcome"]) == ["", "agrees"]


@pytest.mark.parametrize(
    ("metric", "printed_", "spread", "values", "outcome"),
    [
        # Ours: 90 and 91.4, mean 90.7 and deviation 0.99; 2 sqrt(0.98 + b^2) is above the 1.5.
        ("avg", 92.1, 0.1, (90, 91.4), "agrees"),
        ("avg", 92.3, 0.1, (90, 91.4), "differs"),  # not within the tolerance
        ("avg", 91.4, 0.1, (91, 91.1), "differs"),  # near, but beyond both spreads
        ("avg", 91.2, 0.1, (91, 91.1), "agrees"),
        # Chance: 2 sqrt(0.1^2 / 2 + (4 / sqrt(2))^2 / 2) = 4.0, more than the tolerance.
        ("avg", 90.0, 0.1, (88, 92), "cannot be told"),
        ("avg", 93.9, 0.1, (88, 92), "cannot be told"),
        ("avg", 94.1, 0.1, (88, 92), "differs"),
        ("avg", 51.4, math.nan, (50, 50), "agrees"),
        ("avg", 51.6, math.nan, (50, 50), "differs"),
        # What is no percentage agrees within as many percent of it.
        ("mse_x1000", 2.029, math.nan, (200, 200), "agrees"),
        ("mse_x1000", 2.032, math.nan, (200, 200), "differs"),
        ("mse_x1000", 1.0, math.nan, (200, 200), "differs"),
    ],
)
def test_a_number_agrees_within_the_tolerance_and_both_spreads_where_chance_allows(
    hand_made, synthetic, printed, metric, printed_, spread, values, outcome
):
    runs = [
        hand_made(synthetic, accuracies=[value / 100], loss=value / 100, rounds=1, seed=seed)
        for seed, value in enumerate(values)
    ]
    cell = {"metric": metric, "printed": printed_, "printed_spread": spread, "seeds": 2}
    assert cells(runs, printed(cell))["outcome"].item() == outcome
    noted = cells(runs, printed({**cell, "rounds": 2}))  # runs with such a note are not compared
    assert noted["note"].item() and noted["outcome"].item() == ""
    alone = cells(runs[:1], printed({**cell, "seeds": 1, "printed_spread": math.nan}))
    assert alone["outcome"].item() == "cannot be told"  # one evaluation: chance is unknown


@pytest.mark.parametrize(
    ("jump", "printed_", "outcome"),
    [
        # The last 100 rounds: half at 90 + x, half at 90 - x, deviation x sqrt(100 / 99); of one
        # run chance is 2 sqrt(2) times that: 1.42 at 0.5, 1.71 at 0.6. The last has 90 - x.
        (0.5, 90.9, "agrees"),
        (0.5, 87.9, "differs"),
        (0.6, 90.8, "cannot be told"),
        (0.6, 91.0, "cannot be told"),
        (0.6, 91.2, "differs"),
    ],
)
def test_a_last_round_is_compared_as_far_as_rounds_differ(
    hand_made, synthetic, printed, jump, printed_, outcome
):
    jumping = [0.9 + jump / 100, 0.9 - jump / 100] * 50
    run = hand_made(synthetic, accuracies=[0.1] * 300 + jumping, rounds=400)
    row = cells([run], printed({"metric": "avg", "printed": printed_, "rounds": 400})).iloc[0]
    chance = 2 * math.sqrt(2) * jump * math.sqrt(100 / 99)
    assert row["chance"] == pytest.approx(chance) and row["window"] == 1
    assert row["outcome"] == outcome
    # Of three runs 2 sqrt(1 + 1 / 3), and their seeds' deviation where it is the larger.
    more = [
        hand_made(synthetic, accuracies=[a + shift for a in jumping], rounds=400, seed=seed)
        for seed, shift in enumerate((0.0, 0.0, 0.03))
    ]
    of_three = cells(more, printed({"metric": "avg", "rounds": 400})).iloc[0]
    assert of_three["chance"] == pytest.approx(2 * math.sqrt(4 / 3) * math.sqrt(3))
    # A mean over the last rounds jumps by the root of their number less.
    mean = cells([run], printed({"metric": "accuracy", "rounds": 400})).iloc[0]
    assert mean["chance"] == pytest.approx(chance / 10) and mean["window"] == 100


def test_ours_is_the_mean_over_splits_and_may_be_off_by_what_they_change(
    hand_made, synthetic, printed
):
    def runs(task, *values):
        made = enumerate(values)
        return [hand_made(task, accuracies=[v], rounds=1, seed=seed) for seed, v in made]

    cell = printed({"metric": "avg", "printed": 91.4, "printed_spread": 0.1, "seeds": 2})
    here = runs(synthetic, 0.91, 0.911)
    elsewhere = fedlib.load_task("synthetic", preset="paper", seed=1)
    same, _, other = runs(elsewhere, 0.915, 0.8, 0.8)
    (far,) = runs(elsewhere, 0.94)
    frames = [cells([*here, *more], cell) for more in ([], [same], [other], [far])]
    frame = pd.concat(frames)
    # Only a run of one of their seeds tells what the split alone does: sqrt(0.5) times 0.5 points.
    assert list(frame["splits"]) == [1, 2, 1, 2]
    assert list(frame["splits_std"]) == pytest.approx([0, 0.5**1.5, 0, 3 * 0.5**0.5])
    assert list(frame["ours"]) == pytest.approx([91.05, (91.05 + 91.5) / 2, 91.05, 92.525])
    alone = (0.1**2 / 2 + 0.1**2 / 2 / 2) ** 0.5
    chance = [2 * math.hypot(alone, 1.5**0.5 * u) for u in frame["splits_std"]]
    assert list(frame["chance"]) == pytest.approx(chance)
    assert list(frame["outcome"]) == ["differs", "agrees", "differs", "cannot be told"]
    # Within chance (0.88), not both spreads (0.75); within the spreads (1.22), not chance (1.12).
    for number, own in ((92.075, 0.1), (92.445, 0.5)):
        near = cells([*here, same], cell.assign(printed=number, printed_spread=own))
        assert near["outcome"].item() == "agrees"


def test_numbers_of_the_same_runs_are_compared_once(hand_made, synthetic, printed):
    """Also where the paper prints other digits for them; a number that is lost is no first one."""
    same = {"item": "Table 5", "metric": "avg"}
    again, other = {**same, "item": "Table 9"}, {**same, "item": "Table 9", "printed": 50.5}
    half = {"metric": "avg", "options": {"clients": 100}}
    run = hand_made(synthetic, accuracies=[0.5] * 9, rounds=9)
    frame = cells([run], printed(same, again, other, half).assign(rounds=9))
    assert list(frame["repeats"]) == ["", "Table 5", "Table 5", ""]
    assert list(frame["outcome"]) == ["agrees", "", "", "agrees"]
    assert list(frame["unclear"] != "") == [False, False, True, False]
    assert "Table 5: 50" in frame["unclear"].iloc[2]
    lost = {"printed": math.nan}
    assert (cells([], printed({**same, **lost}, {**again, **lost}))["repeats"] == "").all()
    assert (cells([], printed({**same, **lost}, again))["repeats"] == "").all()
