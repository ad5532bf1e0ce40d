"""Delta-SGD's printed tables: their cells, and which runs belong to them."""

import dataclasses
import math

import pytest

import fedlib
from fedlib import papers
from fedlib.models import Softmax
from fedlib.reproduction import tables as items
from fedlib.reproduction.compare import cells
from fedlib.reproduction.delta_sgd.runs import CLIENTS
from fedlib.results import Store
from fedlib.tasks import settings

COUNTS = {
    **{"Table 1": 120, "Table 2a": 16, "Table 2b": 16, "Table 3": 16},
    **{"Table 4": 32, "Table 5": 8, "Table 6": 40},
}
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
            preset="paper",
            model=lambda: Net(60, 10),
            hyperparameters=settings.delta_sgd(),
            client_hyperparameters=settings.delta_sgd_clients(),
            options={**OPTIONS, **options},
            batch_size=64,
        )
        own = {**CLIENTS[label], **(overrides or {})}
        return store.run(task, algorithm, rounds=1, overrides=own, clients_per_round=2)

    return make


def found(history, table):
    """Rows and columns of a table that take the run."""
    frame = cells([history], items.find("delta_sgd", table, "cifar10_resnet18"))
    return frame[frame["seeds"] > 0]


@pytest.mark.parametrize("table", COUNTS)
def test_every_printed_cell_is_there(table):
    every = [cell for item in items.find("delta_sgd", table) for cell in item.cells]
    assert len(every) == COUNTS[table]
    assert len({(c.row, c.column, c.printed, tuple(c.overrides)) for c in every}) > 7
    lost = [cell for cell in every if math.isnan(cell.printed)]
    assert len(lost) == (1 if table in ("Table 1", "Table 3", "Table 4", "Table 5") else 0)
    assert all(cell.unclear for cell in lost)


def test_numbers_and_damage_are_the_transcriptions():
    (mnist,) = items.find("delta_sgd", "Table 1", "mnist")
    by = {(cell.row, cell.column): cell for cell in mnist.cells}
    assert by["SGDM", "alpha 0.01"].printed == 77.9
    assert by["SGDM", "alpha 0.01"].unclear.startswith("diff_from_identity")
    assert by["SGD", "alpha 1"].unclear == ""
    assert (mnist.rounds, mnist.clients_per_round, mnist.batch_size) == (500, 10, 64)
    (text,) = items.find("delta_sgd", "Table 2a", "dbpedia")
    assert (text.rounds, text.clients_per_round, text.batch_size) == (100, 5, 16)
    damaged = papers.table("delta_sgd", "table1").query("status != 'read'")
    cells_of = [c for item in items.find("delta_sgd", "Table 1") for c in item.cells]
    assert sum(bool(c.unclear) for c in cells_of) == len(damaged)


def test_a_run_belongs_to_its_optimizer_and_alpha_alone(run):
    hit = found(run(label="sgdm_decay", alpha=0.01), "Table 1")
    assert hit[["row", "column"]].to_numpy().tolist() == [["SGDM_decay", "alpha 0.01"]]
    assert found(run(overrides={"delta": 1.0}), "Table 1").empty, "Figure 4's, not Table 1's"
    assert found(run(label="sgd", overrides={"client_lr": 0.5}), "Table 1").empty
    assert found(run(overrides={"local_epochs": 3}), "Table 1").empty


def test_servers_and_losses_tell_the_tables_apart(run):
    tables = {"fedprox": ("Table 2b", "Table 6"), "fedadam": ("Table 4",), "moon": ("Table 5",)}
    for algorithm, own in tables.items():
        alpha = 0.01 if algorithm == "fedprox" else 0.1
        history = run(algorithm, "adam", alpha=alpha)
        for table in ("Table 1", "Table 2b", "Table 4", "Table 5", "Table 6"):
            rows = found(history, table)["row"].tolist()
            assert rows == (["Adam"] if table in own else []), f"{algorithm} in {table}"


def test_clients_of_different_sizes_are_table_3s(run):
    even, paper, small = run(), run(sizes="100-500"), run(sizes="8-40")
    assert len(found(even, "Table 1")) == 1 and found(even, "Table 3").empty
    for history in (paper, small):
        assert found(history, "Table 1").empty and len(found(history, "Table 3")) == 1
    note = "sizes 8-40 instead of 100-500"
    assert note in found(small, "Table 3")["note"].item()
    assert "sizes" not in found(paper, "Table 3")["note"].item()
