"""What tasks, tables and plans say of the papers' settings, beside what the papers print."""

import dataclasses

import pytest

import fedlib
from fedlib import papers, plans, tasks
from fedlib.engine import configure
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import solver_of
from fedlib.reproduction.adafedadam.tables import SIX
from fedlib.reproduction.fedopt.tables import OPTIMIZERS, TASKS
from fedlib.reproduction.matching import printed_settings
from fedlib.tasks import settings

STATED = papers.settings("fedopt")
RATES = papers.table("fedopt", "table8_learning_rates")
POSTS = ("stackoverflow_nwp", "stackoverflow_lr")


def half_decades(first, last):
    return [10 ** (first + half / 2) for half in range(round(2 * (last - first)) + 1)]


def printed_pairs(task):
    """A task's grid as the settings state its ends; the plans read its values from a table."""
    stated = STATED["grid_log10"][TASKS[task]]
    return [
        pytest.approx((c, s))
        for c in half_decades(*stated["client"])
        for s in half_decades(*stated["server"])
    ]


def pairs(requests):
    return [(one.overrides["client_lr"], one.overrides["server_lr"]) for one in requests]


def best(task, algorithm):
    """Table 8's row of a task and an algorithm."""
    row = RATES[(RATES["task"] == TASKS[task]) & (RATES["algorithm"].str.lower() == algorithm)]
    return 10 ** row["log10_client_lr"].item(), 10 ** row["log10_server_lr"].item()


# --- What the plans ask for


@pytest.mark.parametrize("task", tables.FEDOPT)
def test_the_paper_trains_the_printed_rates_and_tunes_scaffold(task):
    requests = plans.requests(tables.FEDOPT[task], "paper")
    split = {part: plans.select(requests, part) for part in {one.part for one in requests}}
    assert set(split) == {"curves", "scaffold"} | ({"full_test"} if task in POSTS else set())
    asked = OPTIMIZERS
    if task == "emnist_ae":  # with the beta2 of the authors' record, too
        asked = [name for name in OPTIMIZERS for _ in range(1 + (name in ("fedadam", "fedyogi")))]
    assert [one.algorithm for one in split["curves"]] == list(asked)
    assert pairs(split["curves"]) == [pytest.approx(best(task, name)) for name in asked]
    assert pairs(split["scaffold"]) == printed_pairs(task)
    assert {one.algorithm for one in split["scaffold"]} == {"scaffold"}
    for one in split["curves"] + split["scaffold"]:
        assert (one.task, one.rounds, one.eval_every) == (task, tasks.rounds(task, "paper"), 1)
    # Table 10 repeats the curves, tested on all posts.
    for one, again in zip(split["curves"], split.get("full_test", []), strict=task in POSTS):
        changed = {"part": "full_test", "options": {"validation": 0}, "eval_every": 0}
        assert again == dataclasses.replace(one, **changed)


# --- Tables


def test_tables_have_the_papers_settings():
    """Read from the tasks' declarations, as they stand in the paper's text."""
    table = tables.find("fedopt", "Table 1").drop_duplicates("task").set_index("task")
    known = {task: printed_settings({**cell, "task": task}) for task, cell in table.iterrows()}
    rounds = {task: own["rounds"] for task, own in known.items()}
    assert rounds.pop("cifar10") == rounds.pop("cifar100") == 4000
    assert rounds.pop("emnist_ae") == 3000 and set(rounds.values()) == {1500}
    cohorts = {task: own["clients_per_round"] for task, own in known.items()}
    assert cohorts.pop("stackoverflow_nwp") == 50 and set(cohorts.values()) == {10}
    for task, own in known.items():
        batch = papers.printed("fedopt", "table7_batch_sizes", task=TASKS[task])
        assert (own["batch_size"], own["local_epochs"]) == (batch, 1)
    for data in ("CIFAR-10", "CIFAR-100"):  # both have these
        for quantity, wanted in (("train_clients", 500), ("test_clients", 100)):
            where = {"dataset": data, "quantity": quantity}
            assert papers.printed("fedopt", "table2_datasets", **where) == wanted
            option = quantity.removeprefix("train_")
            assert tasks.defaults(data.lower().replace("-", ""))[option] == wanted


def test_the_test_posts_do_not_change_what_is_trained_on():
    sample, every = (
        fedlib.load_task("stackoverflow_lr", clients=6, words=50, cap=10, validation=count)
        for count in (20, 0)
    )
    assert sample.train.x.equal(every.train.x) and sample.train.y.equal(every.train.y)
    assert len(sample.test.x) < len(every.test.x)


@pytest.mark.parametrize("algorithm", SIX)
def test_each_solver_is_what_the_clients_do(algorithm):
    task = fedlib.load_task("synthetic", clients=2)
    cells = tables.find("adafedadam", "Table 7").query("algorithm == @algorithm")
    overrides = dict(zip(cells["column"], cells["overrides"], strict=True))
    for solver, (momentum, nesterov) in {
        "SGD": (None, None),
        "SGD+momentum": (0.9, False),
        "SGD+Nesterov": (0.9, True),
    }.items():
        config = configure(task, algorithm, overrides=overrides[solver]).config
        assert solver_of(config) == solver
        clients = config.method if algorithm == "fednova" else config.method["client"]
        if solver == "SGD":
            assert not clients.get("momentum")
        else:
            assert (clients["momentum"], clients["nesterov"]) == (momentum, nesterov)
            anew = algorithm == "fednova"
            assert clients.get("momentum_state", "round") == ("round" if anew else "client")


def test_the_grids_are_the_printed_ones_on_the_one_tuned_task():
    rates = {}
    for request in plans.select(plans.requests("26_autotuned_images", "paper"), "tuning"):
        assert (request.task, request.options["alpha"]) == ("cifar10_resnet18", 0.1)
        optimizer = request.overrides["client_optimizer"]
        rates.setdefault(optimizer, []).append(request.overrides["client_lr"])
    stated = papers.settings("delta_sgd")["tuning"]
    assert rates == {name: stated[f"{name}_lr_grid"] for name in ("sgd", "sgdm", "adam", "adagrad")}
    for optimizer, values in settings.delta_sgd_clients().items():
        assert values.get("client_lr") in rates.get(optimizer, [None])
