"""Which runs belong to a printed cell: the method, what the table varies, and what it tunes."""

import dataclasses
import hashlib
import sys
from functools import partial

import pytest

import fedlib
from fedlib import algorithms
from fedlib.datasets.catalogue import RECIPES
from fedlib.plans import Request
from fedlib.reproduction.compare import cells
from fedlib.reproduction.matching import Index

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


@pytest.fixture
def ours(printed):
    """The comparison of one cell with some runs, as a row."""
    return lambda cell, *runs: cells(runs, printed({"rounds": 10, **cell})).iloc[0]


@pytest.fixture
def takes(printed):
    """Whether a run belongs to a cell."""
    return lambda run, **cell: bool(Index([run]).nearest(printed(cell).iloc[0]))


NAMED = [(name, {}) for name in algorithms.METHODS]
NAMED += [("fedadam", {"client_optimizer": name}) for name in algorithms.CLIENT_OPTIMIZERS]
NAMED += [
    ("fedavg", {"client_optimizer": "sgdm", "client_schedule": "step_decay"}),
    ("fedavg", {"client_optimizer": "adam", "client_lr": 0.5}),
    ("scaffold", {"client_optimizer": "sgd"}),
    ("fedprox", {"mu": 0.5}),
]


@pytest.mark.parametrize(("algorithm", "overrides"), NAMED)
def test_a_run_as_it_is_configured_belongs(made, takes, algorithm, overrides):
    """For every method and every client optimizer."""
    cell = {"algorithm": algorithm, "overrides": overrides}
    assert takes(made(algorithm, overrides=overrides), **cell)
    key = "client_lr" if algorithm != "fedadam" else "server_lr"
    assert not takes(made(algorithm, overrides={**overrides, key: 0.0123}), **cell)


def test_runs_of_another_client_optimizer_do_not_count(made, takes):
    adam = {"overrides": {"client_optimizer": "adam"}}
    run = made(**adam)
    assert not takes(made(), **adam) and not takes(run)
    assert takes(run, **adam) and takes(made())
    # Stored by an older version: read, but the task's own values are not known.
    del run.meta["client_hyperparameters"]
    assert not takes(run, **adam)
    assert not takes(dataclasses.replace(made(), meta={"diverged": None}))
    strange = made()
    strange.meta["hyperparameters"]["gone"] = 1.0
    assert not takes(strange)


def test_every_option_that_is_not_the_printed_cells_is_told(hand_made, task, ours, monkeypatch):
    """Whatever the option: of the cell, a default of the paper preset, or one that came later."""

    def note(has, **given):
        run = hand_made(dataclasses.replace(task, options=has), rounds=10)
        said = ours({"given": {"clients": 3, **given}}, run)["note"]
        return said.removeprefix("quick preset").strip("; ")

    usual = {"clients": 3, "data_seed": 931231, "init": "torch", "train_share": 0.6}
    assert note(usual) == ""
    assert note({**usual, "data_seed": 5}) == "data seed 5 instead of 931231"
    assert note({**usual, "odd": True}) == "odd True"
    assert note(usual, draws="authors") == "order of batches not authors"
    assert note({**usual, "examples": 80}, examples=0) == "examples 80 instead of all"
    assert "clients 3 instead of 100" in note(usual, clients=100)
    run = hand_made(dataclasses.replace(task, options=usual), rounds=10)
    exact = dataclasses.replace(run.config, task={**run.config.task, "stand_in": True})
    run = dataclasses.replace(run, config=dataclasses.replace(exact, dtype="float64"))
    said = "stand-in data; dtype float64 instead of float32"
    assert said in ours({"given": {"clients": 3}}, run)["note"]
    # An option that has no effect on this run.
    monkeypatch.setitem(sys.modules["fedlib.tasks.synthetic"].paper, "start", "torch")
    assert note(usual) == ""
    assert note({**usual, "start": "keras"}) == "start keras instead of torch"


def test_missing_seeds_splits_and_tuning_are_told(made, ours):
    def split(seed, split):
        run = made(seed=seed)
        run.config.task["seed"] = split
        return run

    def note(*runs, **cell):
        return ours(cell, *runs)["note"]

    apart = "a split of its own for each seed"
    one, two, again = split(0, 0), split(1, 1), split(1, 0)
    assert "1 of 2 seeds" in note(one, seeds=2) and "of 2 seeds" not in note(one, two, seeds=2)
    assert apart in note(one, two, seeds=2) and apart not in note(one, two)
    assert apart not in note(one, again, seeds=2)
    assert "10 rounds instead of 5" in note(one, rounds=5)
    # Of runs on one split and others the former count.
    assert ours({"seeds": 2}, one, again, split(2, 2))["seeds"] == 2
    # Other data are another setting, but a stand-in's may be made anew for each seed.
    for run, data in zip((one, two), "ab", strict=True):
        run.config.task["data"] = data
    assert ours({}, one, two)["seeds"] == 1
    for run in (one, two):
        run.config.task["stand_in"] = True
    assert ours({}, one, two)["seeds"] == 2
    rates = [made(overrides={"client_lr": rate}) for rate in (0.1, 1.0)]
    assert "client_lr not tuned, 0.1 alone" in note(rates[0], tuned=("client_lr",))
    assert "not tuned" not in note(*rates, tuned=("client_lr",))


def test_settings_are_compared_on_one_split(made, hand_made, task, ours):
    """The best one alone may have runs on others, whose losses are other numbers."""
    rate = {"overrides": {"client_lr": 0.1}}
    good, elsewhere = hand_made(task, rounds=5, **rate), hand_made(task, rounds=5, loss=9.0, **rate)
    elsewhere.config.task["seed"] = 1
    bad = hand_made(task, rounds=5, loss=2.0, accuracies=(0.9,), overrides={"client_lr": 1.0})
    second = hand_made(task, rounds=5, seed=1, **rate)
    number = ours({"tuned": ("client_lr",)}, good, second, elsewhere, bad)
    assert (number["seeds"], number["ours"]) == (2, pytest.approx(50))


@pytest.mark.parametrize(
    "mine",
    [{"stand_in": False}, {"data": RECIPES["cifar100_png"].card}, {"options": {"data": "mine"}}],
    ids=lambda mine: next(iter(mine)),
)
def test_a_plans_runs_of_a_task_are_on_one_data_set(made, task, mine):
    """As where one's own copy is prepared, and some published runs are repeated on it."""
    names = ("fedavg", "fedadam", "fedprox")

    def on(created, stand_in=True, options=(), **data):
        told = {"stand_in": stand_in, "options": {**task.options, "data": "a", **dict(options)}}
        for run in map(made, names):
            config = dataclasses.replace(run.config, task={**run.config.task, **told, **data})
            yield dataclasses.replace(run, config=config, meta={**run.meta, "created": created})

    def digests(runs):
        return [run.config.digest for run in runs]

    requests = [Request("synthetic", name, options=task.options, rounds=10) for name in names]
    old, new = [*on("2025")], [*on("2026", **mine)]
    assert digests(Index([*old, *new[:2]]).plan(requests, "quick")) == digests(old)
    assert digests(Index([*old, *new]).plan(requests, "quick")) == digests(new)


SEEDS_APART = {"init": 0, "sampling": 1, "batches": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"clients_per_round": 2},
        {"dtype": "float64"},
        {"seeds": SEEDS_APART},
        {"task": {"version": "mine"}},
    ],
)
def test_what_somebody_tried_takes_no_published_runs_place(made, task, ours, change):
    """Another cohort or precision than the plan's, seeds apart, or a copy of the task with a model
    of one's own, whose run is no number of the paper's either."""
    request = Request("synthetic", "fedavg", options=task.options, rounds=10)
    run = made()
    run.meta["settings"]["clients_per_round"] = 10  # the task's own, of which there are three
    parts = {**change, "task": {**run.config.task, **change.get("task", {})}}
    config = dataclasses.replace(run.config, **parts)
    other = dataclasses.replace(run, config=config, meta={**run.meta, "created": "9999"})
    assert Index([run, other]).asked(request, "quick") == [run]
    asked = dataclasses.replace(request, clients_per_round=2)
    assert Index([run, other]).asked(asked, "quick") == [other] * ("clients_per_round" in change)
    assert ours({}, other)["seeds"] == ("task" not in change)


def test_real_data_come_first_then_the_rounds_asked_for_fewer_options_and_the_newest(made, task):
    def run(created, every=1, stand_in=False, **options):
        plain = made(eval_every=every)
        said = {"stand_in": stand_in, "options": {**task.options, **options}}
        config = dataclasses.replace(plain.config, task={**plain.config.task, **said})
        return dataclasses.replace(plain, config=config, meta={**plain.meta, "created": created})

    in_order = [run("4"), run("5", odd=1), run("7", 5), run("6", 3), run("8", stand_in=True)]
    request = Request("synthetic", "fedavg", options=task.options, rounds=10)
    found = Index(in_order[::-1]).asked(request, "quick")
    assert [run.meta["created"] for run in found] == ["4", "5", "7", "6", "8"]
    # An option is stored as a list, whichever way it was given.
    pair = dataclasses.replace(request, options={**task.options, "odd": (1, 2)})
    (found,) = Index([run("9", odd=[1, 2]), *in_order]).asked(pair, "quick")
    assert found.meta["created"] == "9"


def test_of_runs_that_are_as_near_to_print_the_one_evaluated_most_counts(made, ours):
    to_the_end = made(accuracies=[0.7], eval_last=3)
    each = made(accuracies=[0.4])
    seldom = made(accuracies=[0.9], eval_every=5)
    assert ours({}, seldom, each)["ours"] == pytest.approx(40.0)
    assert ours({}, each, to_the_end)["ours"] == pytest.approx(70.0)


def test_of_a_plan_all_runs_count_or_whole_methods_or_whole_tasks(made, task):
    asked = [("curves", "fedavg", 0.1), ("curves", "fedavg", 0.2), ("curves", "fedadam", 0.1)]
    asked += [("curves", "fedadam", 0.2), ("grid", "fedavg", 0.4)]
    given = {"options": task.options, "rounds": 10}
    requests = [Request("synthetic", n, part, {"client_lr": r}, **given) for part, n, r in asked]
    runs = [made(name, overrides={"client_lr": rate}) for _, name, rate in asked]

    def found(runs, **how):
        return [run.config.digest for run in Index(runs).plan(requests, "quick", **how)]

    some, digests = [*runs[:3], runs[4]], [run.config.digest for run in runs]
    assert found(runs) == digests == found(runs, single=False, whole=True)
    assert found(some) == found(some, whole=True) == [*digests[:3], digests[4]]
    assert found(some, single=False) == [*digests[:2], digests[4]]
    assert found(runs[:4], whole=True) == [] != found(runs[:4])


def test_tuned_hyperparameters_are_chosen_by_the_training_loss(made, ours):
    cell = {"tuned": ("client_lr",)}
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


def test_a_cell_says_by_which_score_it_is_tuned(made, ours):
    """By accuracy on the clients that are not reported, though another rate has less loss."""
    hashes = [hashlib.sha256(str(client).encode()).hexdigest() for client in range(4)]
    order = sorted(range(4), key=hashes.__getitem__)

    def rate(value, chosen_on, reported, loss):
        clients = [(chosen_on if order.index(c) % 2 == 0 else reported, 10) for c in range(4)]
        return made(overrides={"client_lr": value}, clients=clients, loss=loss)

    runs = [rate(0.1, 0.9, 0.5, loss=2.0), rate(1.0, 0.3, 0.8, loss=1.0)]
    cell = {"tuned": ("client_lr",), "metric": "reported"}
    held_out = {**cell, "chosen_by": "held_out"}
    assert ours(cell, *runs)["ours"] == pytest.approx(80.0)  # FedOpt's rule
    assert ours(held_out, *runs)["ours"] == pytest.approx(50.0)
    runs[0].meta["diverged"] = 7
    assert ours(held_out, *runs)["ours"] == pytest.approx(80.0)
    thinned = [dataclasses.replace(run, clients=run.clients[:0]) for run in runs[1:]]
    assert "values per client not kept" in ours(cell, *thinned)["note"]
