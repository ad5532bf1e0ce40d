"""Printed tables: cells from the transcribed files, and the runs that they ask for."""

import math

import pytest

import fedlib
from fedlib import algorithms, papers
from fedlib.plans import planned
from fedlib.reproduction import tables
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.table import printed_cells


def test_printed_cells_read_the_transcribed_tables():
    read = printed_cells(
        "adafedadam",
        "table5_convergence_fairness",
        {"setup": "Femnist"},
        metrics={"avg": "avg"},
        tuned={"fedprox": {"mu": (0.1, 1.0)}},
    )
    rows = {cell.row: cell for cell in read}
    first = rows["FedAvg"]
    assert (first.printed, first.spread, first.algorithm) == (77.77, 0.64, "fedavg")
    assert first.unclear.startswith("unclear: raw") and not rows["FedAdam"].unclear
    assert {cell.metric for cell in read} == {"avg"}
    assert rows["FedProx"].tuned == {"mu": (0.1, 1.0)} and not first.tuned


def test_printed_rows_that_are_no_algorithms():
    def client(label):
        kind, _, decay = label.lower().partition("_")
        if kind not in ("sgd", "sgdm"):
            return None
        return "fedavg", {"client_optimizer": kind, **({"client_schedule": decay} if decay else {})}

    where = {"dataset": "MNIST", "alpha": 1}
    read = printed_cells(
        "delta_sgd", "table1", where, metrics="avg", row="optimizer", method=client, column="1"
    )
    assert [cell.row for cell in read] == ["SGD", "SGD_decay", "SGDM", "SGDM_decay"]
    assert read[1].overrides == {"client_optimizer": "sgd", "client_schedule": "decay"}
    assert read[2].unclear.startswith("diff_from_identity") and math.isnan(read[2].spread)
    with pytest.raises(fedlib.Error, match="has no row with"):
        printed_cells("fedopt", "table1_validation", {"task": "x"}, metrics="accuracy")


def test_every_table_is_sound():
    seen = set()
    for table in tables.TABLES:
        assert table.cells and table.paper in papers.papers()
        assert table.notebook in planned() or not table.notebook[0].isdigit()
        for cell in table.cells:
            assert cell.metric in METRICS and cell.algorithm in algorithms.METHODS
            key = (table.paper, table.name, table.task, cell.column, cell.row, cell.metric)
            assert key not in seen, f"two cells {key}"
            seen.add(key)
            legible = not math.isnan(cell.printed)
            assert legible or cell.unclear, f"{key} has no number and does not say why"
    assert tables.find("fedopt", "Table 1", "cifar10")[0].label == "CIFAR-10"
    assert tables.notebooks("fedopt", "Table 1")["cifar10"] == "10_cifar10"
    with pytest.raises(fedlib.Error, match="unknown printed table 'fedopt Table 99'"):
        tables.find("fedopt", "Table 99")
    with pytest.raises(fedlib.Error, match="unknown task of fedopt's Table 1"):
        tables.find("fedopt", "Table 1", "mnist")
