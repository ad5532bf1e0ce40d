"""FedOpt's printed tables, and what its notebooks' plans ask for beside what the paper prints."""

import dataclasses

import pandas as pd
import pytest
import torch

import fedlib
from fedlib import papers, plans, tasks
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction import tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.fedopt.tables import OPTIMIZERS, TASKS
from fedlib.reproduction.matching import belongs, printed_settings
from fedlib.results import Store
from fedlib.tasks import settings

DECAY = "exp_decay_thirds"

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
    assert [one.algorithm for one in split["curves"]] == list(OPTIMIZERS)
    assert pairs(split["curves"]) == [pytest.approx(best(task, name)) for name in OPTIMIZERS]
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


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """Stored runs of FedAvg: on a sample of the test posts, and on all of them."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    small = dict(clients=6, words=50, cap=10)
    return [
        store.run(
            fedlib.load_task("stackoverflow_lr", **small, validation=count), "fedavg", rounds=4
        )
        for count in (20, 0)
    ]


def compared(runs, item):
    frame = cells(runs, tables.find("fedopt", item, "stackoverflow_lr"))
    return frame.set_index("algorithm").loc["fedavg"]


def test_the_test_posts_do_not_change_what_is_trained(tested):
    sample, every = tested
    for key, value in sample.params.items():
        torch.testing.assert_close(every.params[key], value, rtol=0, atol=0)
    assert sample.final("recall_at_5") != every.final("recall_at_5")


def test_table_10_takes_the_last_model_on_all_posts(tested):
    sample, every = tested
    row = compared(tested, "Table 10")
    assert row["runs"] == (every.config.digest,)
    assert row["ours"] == pytest.approx(100 * every.series("recall_at_5").iloc[-1])
    assert row["printed"] == 40.6
    assert "clients 6 instead of 342477" in row["note"] and "validation" not in row["note"]
    # A run on a sample of the posts is not the table's.
    assert compared([sample], "Table 10")["seeds"] == 0


def test_runs_of_table_11_find_their_cells():
    plain, values = fedlib.load_task("quadratic"), settings.fedopt("EMNIST CR")
    task = dataclasses.replace(plain, name="emnist_cr", hyperparameters=values, batch_size=20)

    def places(algorithm, **overrides):
        config = configure(task, algorithm, rounds=1, overrides=overrides).config
        meta = {"hyperparameters": values.get(algorithm, {})}
        run = History(pd.DataFrame(), pd.DataFrame(), {}, config, meta)
        return [
            (cell["row"], cell["column"])
            for cell in tables.find("fedopt", "Table 11").to_dict("records")
            if cell["algorithm"] == algorithm and belongs(cell, run)
        ]

    assert places("centralized", base="momentum", client_lr=0.3) == [("SGDM", "centralized")]
    assert places("centralized", base="yogi", client_lr=0.01) == [("Yogi", "centralized")]
    assert places("fedadam") == [("FedAdam", "constant")]
    # ExpDecay's rates are tuned and not printed: any belong.
    rates = {"client_lr": 0.5, "server_lr": 0.125, "tau": 0.1}
    assert places("fedadam", client_schedule=DECAY, **rates) == [("FedAdam", "ExpDecay")]
    assert places("fedavg", client_schedule=DECAY) == [("FedAvg", "ExpDecay")]
    assert places("fedadam", client_lr=0.5) == []  # a constant rate that is not Table 8's
