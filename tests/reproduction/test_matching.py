"""Which runs belong to a printed cell: the method, what the table varies, and what it tunes."""

import dataclasses
import hashlib
import sys
from functools import partial

import pytest

import fedlib
from fedlib import algorithms
from fedlib.reproduction.compare import cells
from fedlib.reproduction.matching import INEXACT, belongs
from fedlib.reproduction.table import Cell, Table
from fedlib.results.selection import held_out_score

CLIENTS = {"sgd": {"client_lr": 0.3}, "adam": {"client_lr": 0.002}, "delta_sgd": {"delta": 0.7}}


@pytest.fixture(scope="module")
def task():
    small = dataclasses.replace(fedlib.load_task("synthetic", clients=3), batch_size=10)
    own = {"fedavg": {"client_lr": 0.125, "server_lr": 0.5}, "fedadam": {"client_lr": 0.25}}
    return dataclasses.replace(
        small,
        hyperparameters={**small.hyperparameters, **own},
        client_hyperparameters=CLIENTS,
        options={**small.options, "alpha": 0.1},
    )


@pytest.fixture
def made(hand_made, task):
    return partial(hand_made, task, rounds=10)


def cell_of(algorithm="fedavg", overrides=(), **settings):
    return Cell("row", algorithm, "accuracy", 50.0, dict(overrides), **settings)


def ours(cell, *runs, **settings):
    """The comparison of a table with this cell only."""
    common = {"notebook": "x", "rounds": 10, "clients_per_round": None, "batch_size": 10}
    table = Table("own", "Table 9", "synthetic", "Synthetic", (cell,), **{**common, **settings})
    return cells(runs, [table]).iloc[0]


NAMED = [(name, {}) for name in algorithms.METHODS]
NAMED += [("fedadam", {"client_optimizer": name}) for name in algorithms.CLIENT_OPTIMIZERS]
NAMED += [
    ("fedavg", {"client_optimizer": "sgdm", "client_schedule": "step_decay"}),
    ("fedavg", {"client_optimizer": "adam", "client_lr": 0.5}),
    ("scaffold", {"client_optimizer": "sgd"}),
    ("fedprox", {"mu": 0.5}),
]


@pytest.mark.parametrize(("algorithm", "overrides"), NAMED)
def test_a_run_as_it_is_configured_belongs(made, algorithm, overrides):
    """For every method and every client optimizer."""
    cell = cell_of(algorithm, overrides)
    assert belongs(cell, made(algorithm, overrides=overrides))
    key = "client_lr" if algorithm != "fedadam" else "server_lr"
    assert not belongs(cell, made(algorithm, overrides={**overrides, key: 0.0123}))


def test_runs_of_another_client_optimizer_do_not_count(made):
    plain, adam = cell_of(), cell_of(overrides={"client_optimizer": "adam"})
    run = made(overrides={"client_optimizer": "adam"})
    assert not belongs(adam, made()) and not belongs(plain, run)
    assert belongs(adam, run) and belongs(plain, made())
    # Stored by an older version: read, but the task's own values are not known.
    del run.meta["client_hyperparameters"]
    assert not belongs(adam, run)
    assert not belongs(plain, dataclasses.replace(made(), meta={"diverged": None}))
    strange = made()
    strange.meta["hyperparameters"]["gone"] = 1.0
    assert not belongs(plain, strange)


def test_what_the_table_varies_must_be_the_cells(hand_made, task, made):
    narrow = made(accuracies=[0.25])
    other = dataclasses.replace(task, options={**task.options, "alpha": 1.0})
    wide = hand_made(other, accuracies=[0.75], rounds=10)
    cell = cell_of(options={"alpha": 0.1})
    assert ours(cell, narrow, wide)["ours"] == 25.0 and ours(cell, wide)["seeds"] == 0
    large = cell_of(options={"alpha": lambda alpha: alpha > 0.5})
    assert ours(large, narrow, wide)["ours"] == 75.0
    # Without it, another concentration is a departure that is told.
    row = ours(cell_of(), wide, options={"alpha": 0.1})
    assert row["seeds"] == 1 and "alpha 1.0 instead of 0.1" in row["note"]


def test_local_epochs_and_batches_must_be_the_cells_or_the_tasks_own(made):
    usual, drawn = cell_of(), cell_of(overrides={"local_epochs": (1, 3)})
    one = made(accuracies=[0.25])
    three = made(accuracies=[0.75], overrides={"local_epochs": (1, 3)})
    assert ours(usual, one, three)["ours"] == 25.0 and ours(drawn, one, three)["ours"] == 75.0
    assert "local epochs" not in ours(drawn, three)["note"]
    steps = made(overrides={"local_steps": 2})
    assert ours(usual, steps)["seeds"] == 0 == ours(usual, three)["seeds"]
    assert "batch size 10 instead of 20" in ours(usual, one, batch_size=20)["note"]


def test_every_option_that_is_not_the_printed_cells_is_told(hand_made, task, made, monkeypatch):
    """Whatever the option: of the table, a default of the paper preset, or one that came later."""

    def note(has, **settings):
        run = hand_made(dataclasses.replace(task, options=has), rounds=10)
        return ours(cell_of(), run, **settings)["note"].removeprefix("quick preset").strip("; ")

    usual = {"clients": 3, "data_seed": 931231, "init": "torch"}
    common = {"options": {"clients": 3}}
    assert note(usual, **common) == ""
    assert note({**usual, "data_seed": 5}, **common) == "data_seed 5 instead of 931231"
    assert note({**usual, "odd": True}, **common) == "odd True"
    assert note(usual, options={"clients": 3, "draws": "authors"}) == "draws not authors"
    assert "clients 3 instead of 100" in note(usual)
    # An option that the task got after this run was stored, and what it was before.
    module = sys.modules["fedlib.tasks.synthetic"]
    monkeypatch.setitem(module.paper, "start", "torch")
    assert note(usual, **common) == ""
    monkeypatch.setattr(module, "HISTORICAL", {"start": "keras"}, raising=False)
    assert note(usual, **common) == "start keras instead of torch"
    assert note({**usual, "start": "torch"}, **common) == ""


def test_the_data_and_the_precision_are_told(made):
    run = made()
    lossy = {**run.config.task, "data": next(iter(INEXACT)), "stand_in": True}
    config = dataclasses.replace(run.config, task=lossy, dtype="float64")
    note = ours(cell_of(), dataclasses.replace(run, config=config))["note"]
    assert "stand-in data" in note and INEXACT[lossy["data"]] in note
    assert "dtype float64 instead of float32" in note


def test_missing_seeds_splits_and_tuning_are_told(made):
    def note(*runs, tuned=(), **settings):
        return ours(cell_of(tuned=dict(tuned)), *runs, **settings)["note"]

    one, two = made(seed=0), made(seed=1)
    assert "1 of 2 seeds" in note(one, seeds=2) and "seeds" not in note(one, two, seeds=2)
    again = dataclasses.replace(two, config=dataclasses.replace(two.config, task=one.config.task))
    again.config.task["seed"] = 0
    split = "a split of its own for each seed"
    two = made(seed=1)
    two.config.task["seed"] = 1
    assert split in note(one, two, one_split=True) and split not in note(one, two)
    assert split not in note(one, again, one_split=True)
    # Of runs on one split and others the former count.
    third = made(seed=2)
    third.config.task["seed"] = 2
    assert ours(cell_of(), one, again, third, one_split=True)["seeds"] == 2
    rates = [made(overrides={"client_lr": rate}) for rate in (0.1, 1.0)]
    tuned = {"client_lr": (0.1, 1.0)}
    assert "client_lr not tuned, 0.1 alone" in note(rates[0], tuned=tuned)
    assert "not tuned" not in note(*rates, tuned=tuned)


def test_tuned_hyperparameters_are_chosen_by_the_training_loss(made):
    cell = cell_of(tuned={"client_lr": (0.01, 0.1, 1.0)})
    grid = [
        made(accuracies=[a], loss=loss, overrides={"client_lr": rate}, seed=seed)
        for rate, a, loss in ((0.01, 0.9, 2.0), (0.1, 0.6, 1.0), (1.0, 0.1, 1.5))
        for seed in (0, 1)
    ]
    row = ours(cell, *grid)
    assert (row["ours"], row["seeds"]) == (60.0, 2)
    grid[2].meta["diverged"] = grid[3].meta["diverged"] = 3
    assert ours(cell, *grid)["ours"] == pytest.approx(10.0)
    other = made(loss=0.1, overrides={"client_lr": 0.1, "server_lr": 0.1})
    assert ours(cell, *grid, other)["ours"] == pytest.approx(10.0)


def test_a_table_says_by_which_score_its_cells_are_tuned(made):
    """By accuracy on the clients that are not reported, though another rate has less loss."""
    halves = [[], []]
    for client in "0123":
        halves[sorted("0123", key=hashed).index(client) % 2].append(int(client))

    def rate(value, chosen_on, reported, loss):
        clients = [(0.0, 1)] * 4
        for half, accuracy in zip(halves, (chosen_on, reported), strict=True):
            for client in half:
                clients[client] = (accuracy, 10)
        return made(overrides={"client_lr": value}, clients=clients, loss=loss)

    runs = [rate(0.1, 0.9, 0.5, loss=2.0), rate(1.0, 0.3, 0.8, loss=1.0)]
    cell = dataclasses.replace(cell_of(tuned={"client_lr": (0.1, 1.0)}), metric="reported")
    assert ours(cell, *runs)["ours"] == pytest.approx(80.0)  # FedOpt's rule
    assert ours(cell, *runs, score=held_out_score)["ours"] == pytest.approx(50.0)
    runs[0].meta["diverged"] = 7
    assert ours(cell, *runs, score=held_out_score)["ours"] == pytest.approx(80.0)
    thinned = [dataclasses.replace(run, clients=run.clients[:0]) for run in runs[1:]]
    assert "values per client not kept" in ours(cell, *thinned)["note"]


def hashed(client):
    return hashlib.sha256(client.encode()).hexdigest()


def test_the_cells_cohort_is_part_of_the_papers_settings(hand_made, task):
    paper = dataclasses.replace(task, preset="paper", clients_per_round=2)
    run = hand_made(paper, rounds=10)
    own = {"options": {"clients": 3, "alpha": 0.1}}
    assert ours(cell_of(clients_per_round=2), run, **own)["note"] == ""
    assert "clients per round 2 instead of 3" in ours(cell_of(), run)["note"]
