"""Mime's Table 2: the printed cells, and which runs belong to them."""

import pytest

import fedlib
from fedlib import papers
from fedlib.reproduction import matching
from fedlib.reproduction import tables as items
from fedlib.reproduction.compare import cells
from fedlib.reproduction.experiments import mime
from fedlib.results import Store


@pytest.fixture(scope="module")
def logistic(tmp_path_factory):
    """Runs of a few rows, two learning rates each, and one that is no row."""
    task = fedlib.load_task("emnist_logistic", clients=8)
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    rows = [("FedAvg", "Momentum"), ("MimeLite", "SGD"), ("Mime", "Adam")]
    asked = {(*row, rate): mime.method(*row) for row in rows for rate in (1e-3, 0.03)}
    asked["Mime", "not in halves", 0.03] = ("mime", {"base": "adam"})
    requests = [
        {"algorithm": name, "overrides": {**more, "client_lr": rate}}
        for (*_, rate), (name, more) in asked.items()
    ]
    return dict(zip(asked, store.runs(task, requests, rounds=2, clients_per_round=4), strict=True))


def test_every_printed_number_is_a_cell_of_its_column():
    table = papers.table("mime", "table2_accuracy")
    shown = items.find("mime", "Table 2")
    assert [item.label for item in shown] == list(table["dataset"].unique())
    found = [(item.label, cell.row, cell.printed) for item in shown for cell in item.cells]
    printed = table[["dataset", "printed_name", "accuracy"]].itertuples(index=False, name=None)
    assert sorted(found) == sorted(printed) and len(found) == 48
    for item in shown:
        assert item.rounds == 1000 and item.local_epochs == 1
        budget = 100 if item.task == "stackoverflow_nwp" else 40
        assert item.clients_per_round == budget / 2
        clients = {cell.row: cell.clients_per_round for cell in item.cells}
        assert clients["FedAvgAdam"] == budget / 2 and clients["MimeAdam"] == budget // 5
        assert all(cell.tuned == ("client_lr",) for cell in item.cells)


def test_a_row_takes_its_own_runs_and_of_them_the_best_rate(logistic):
    (item,) = items.find("mime", "Table 2", "emnist_logistic")
    frame = cells(logistic.values(), [item]).set_index("row")
    labels = {"FedAvgMom": ("FedAvg", "Momentum"), "MimeLiteSGD": ("MimeLite", "SGD")}
    labels["MimeAdam"] = ("Mime", "Adam")
    assert set(frame.index[frame["seeds"] > 0]) == set(labels)
    for label, row in labels.items():
        runs = [run for key, run in logistic.items() if key[:2] == row]
        best = min(runs, key=lambda run: run.series("loss", "train").iloc[-1])
        assert frame.loc[label, "runs"] == (best.config.digest,)
        assert frame.loc[label, "ours"] == pytest.approx(100 * best.series().iloc[-1])
        assert "clients per round 4 instead of" in frame.loc[label, "note"]


def test_a_run_whose_cohort_is_not_in_halves_is_no_row(logistic):
    (item,) = items.find("mime", "Table 2", "emnist_logistic")
    runs = [logistic["Mime", "not in halves", 0.03]]
    assert not any(matching.choose(item, cell, matching.index(runs)) for cell in item.cells)
