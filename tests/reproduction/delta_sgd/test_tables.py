"""Delta-SGD's printed tables and plans: the paper's settings, and which runs belong to a cell."""

import dataclasses

import pytest

import fedlib
from fedlib import papers, plans
from fedlib.models import Softmax
from fedlib.reproduction import tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.delta_sgd.tables import CLIENTS
from fedlib.results import Store
from fedlib.tasks import settings

IMAGES, TEXT = "26_autotuned_images", "27_autotuned_text"
OPTIONS = {"clients": 100, "alpha": 0.1, "sizes": 500, "width": 1.0, "test_examples": 10_000}


class Net(Softmax):
    """Softmax regression that MOON takes: its features are the inputs."""

    def features(self, x):
        return x

    def head(self, features):
        return self(features)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Makes a run that passes for one of CIFAR-10 with a ResNet-18."""
    base = fedlib.load_task("synthetic", clients=3)
    store = Store(tmp_path_factory.mktemp("runs"), published=())

    def make(algorithm="fedavg", label="delta_sgd", overrides=None, **options):
        task = dataclasses.replace(
            base,
            name="cifar10_resnet18",
            version="1",
            preset="paper",
            model=lambda: Net(60, 10),
            hyperparameters=settings.delta_sgd(),
            client_hyperparameters=settings.delta_sgd_clients(),
            options={**OPTIONS, **options},
            batch_size=64,
        )
        overrides = {**CLIENTS[label], **(overrides or {})}
        return store.run(task, algorithm, rounds=1, overrides=overrides, clients_per_round=2)

    return make


def rows_of(history, table):
    """Rows and columns of a printed table that take the run."""
    frame = cells([history], tables.find("delta_sgd", table, "cifar10_resnet18"))
    return frame[frame["seeds"] > 0]


def test_a_run_belongs_to_its_optimizer_and_alpha_alone(run):
    hit = rows_of(run(label="sgdm_decay", alpha=0.01), "Table 1")
    assert hit[["row", "column"]].to_numpy().tolist() == [["SGDM_decay", "alpha 0.01"]]
    assert rows_of(run(overrides={"delta": 1.0}), "Table 1").empty, "Figure 4's, not Table 1's"
    assert rows_of(run(label="sgd", overrides={"client_lr": 0.5}), "Table 1").empty
    assert rows_of(run(overrides={"local_epochs": 3}), "Table 1").empty


@pytest.mark.parametrize(
    ("algorithm", "alpha", "its"),
    [("fedprox", 0.01, ("2b", "6")), ("fedadam", 0.1, ("4",)), ("moon", 0.1, ("5",))],
)
def test_servers_and_losses_tell_the_tables_apart(run, algorithm, alpha, its):
    history = run(algorithm, "adam", alpha=alpha)
    for table in ("1", "2b", "4", "5", "6"):
        rows = rows_of(history, f"Table {table}")["row"].tolist()
        assert rows == (["Adam"] if table in its else []), f"Table {table}"


def test_clients_of_different_sizes_are_table_3s(run):
    even, paper, small = run(), run(sizes="100-500"), run(sizes="8-40")
    assert len(rows_of(even, "Table 1")) == 1 and rows_of(even, "Table 3").empty
    for history in (paper, small):
        assert rows_of(history, "Table 1").empty and len(rows_of(history, "Table 3")) == 1
    note = "sizes 8-40 instead of 100-500"
    assert note in rows_of(small, "Table 3")["note"].item()
    assert "sizes" not in rows_of(paper, "Table 3")["note"].item()


def plan(notebook, *parts, preset="paper", **numbers):
    return plans.select(plans.requests(notebook, preset, **numbers), *parts)


def test_the_grids_are_the_printed_ones_on_the_one_tuned_task():
    rates = {}
    for request in plan(IMAGES, "tuning"):
        assert (request.task, request.options["alpha"]) == ("cifar10_resnet18", 0.1)
        optimizer = request.overrides["client_optimizer"]
        rates.setdefault(optimizer, []).append(request.overrides["client_lr"])
    stated = papers.settings("delta_sgd")["tuning"]
    assert rates == {name: stated[f"{name}_lr_grid"] for name in ("sgd", "sgdm", "adam", "adagrad")}
    for optimizer, values in settings.delta_sgd_clients().items():
        assert values.get("client_lr") in rates.get(optimizer, [None])
