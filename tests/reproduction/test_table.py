"""Printed tables: cells from the transcribed files, and the runs that they ask for."""

import math

import pytest

import fedlib
from fedlib import algorithms, papers
from fedlib.reproduction import tables
from fedlib.reproduction.experiments import planned
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.request import Place
from fedlib.reproduction.table import Cell, Table, printed_cells


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


def test_a_table_asks_for_a_run_per_row_and_column_and_tuned_value():
    def cell(row, algorithm, metric, alpha, **more):
        options = {"alpha": alpha, "sizes": lambda sizes: sizes != "even"}
        return Cell(row, algorithm, metric, 1.0, column=f"{alpha:g}", options=options, **more)

    table = Table(
        *("own", "Table 9", "synthetic", "Synthetic"),
        cells=(
            *(cell("A", "fedavg", metric, alpha) for metric in ("avg", "std") for alpha in (1, 2)),
            cell("B", "fedprox", "avg", 1, overrides={"L": 2.0}, tuned={"mu": (0.1, 1.0)}),
        ),
        notebook="90_own",
        rounds=10,
        clients_per_round=None,
        batch_size=10,
    )
    common = dict(options={"width": 0.5}, rounds=3)
    requests = table.requests(lambda one: one.row.lower(), **common)
    assert [(r.part, r.algorithm, dict(r.overrides), r.options["alpha"]) for r in requests] == [
        ("a", "fedavg", {}, 1),
        ("a", "fedavg", {}, 2),
        ("b", "fedprox", {"L": 2.0, "mu": 0.1}, 1),
        ("b", "fedprox", {"L": 2.0, "mu": 1.0}, 1),
    ]
    assert all(set(r.options) == {"alpha", "width"} and r.rounds == 3 for r in requests)
    assert requests[1].place == Place("own", "Table 9", "A", "2")
    assert requests[1].plan == {
        **{"part": "a", "paper": "own", "table": "Table 9", "row": "A", "column": "2"}
    }

    def fields(one):
        return {"tuned": {"mu": [0.5]}, "rounds": 7} if one.tuned else {}

    again = table.requests("table", fields, **common)
    assert [r.rounds for r in again] == [3, 3, 7] and again[2].overrides["mu"] == 0.5
