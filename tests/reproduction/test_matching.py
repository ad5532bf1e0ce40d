"""Which runs belong to a printed cell: the method, what the table varies, and what it tunes."""

import dataclasses
from functools import partial

import pytest

import fedlib
from fedlib import algorithms
from fedlib.reproduction.compare import cells
from fedlib.reproduction.matching import belongs
from fedlib.reproduction.table import Cell, Table

CLIENTS = {"sgd": {"client_lr": 0.3}, "adam": {"client_lr": 0.002}, "delta_sgd": {"delta": 0.7}}


@pytest.fixture(scope="module")
def task():
    small = fedlib.load_task("synthetic", clients=3)
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


def test_the_cells_cohort_is_part_of_the_papers_settings(hand_made, task):
    paper = dataclasses.replace(task, preset="paper", clients_per_round=2)
    run = hand_made(paper, rounds=10)
    assert ours(cell_of(clients_per_round=2), run)["note"] == ""
    assert "clients per round 2 instead of 3" in ours(cell_of(), run)["note"]
