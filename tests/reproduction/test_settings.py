"""What tasks, tables and plans say of the papers' settings, beside what the papers print."""

import pytest

import fedlib
from fedlib import papers, plans, tasks
from fedlib.reproduction import tables
from fedlib.reproduction.fedopt.tables import OPTIMIZERS, TASKS
from fedlib.reproduction.matching import printed_settings
from fedlib.tasks import settings

STATED = papers.settings("fedopt")
RATES = papers.table("fedopt", "table8_learning_rates")


@pytest.mark.parametrize("task", tables.FEDOPT)
def test_the_paper_trains_the_printed_rates(task):
    """What else the plans ask for is pinned by tests/plans.toml."""
    rates = RATES[RATES["task"] == TASKS[task]]
    rates = rates.set_index(rates["algorithm"].str.lower())
    requests = plans.requests(tables.FEDOPT[task], "paper")
    curves = plans.select(requests, "curves")
    assert set(OPTIMIZERS) == {one.algorithm for one in curves}
    for one in curves:
        for side in ("client", "server"):
            expected = 10.0 ** rates.loc[one.algorithm, f"log10_{side}_lr"]
            assert one.overrides[f"{side}_lr"] == pytest.approx(expected)
    # SCAFFOLD's are not printed: it is tuned over the grid whose ends the settings state.
    for side in ("client", "server"):
        tried = {one.overrides[f"{side}_lr"] for one in plans.select(requests, "scaffold")}
        ends = STATED["grid_log10"][TASKS[task]][side]
        assert [min(tried), max(tried)] == pytest.approx([10.0**power for power in ends])


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
