"""Mime's Table 2: the printed cells, and which runs belong to them."""

import pytest

import fedlib
from fedlib import papers
from fedlib.experiments import mime
from fedlib.results import items, matching
from fedlib.results.compare import cells


@pytest.fixture(scope="module")
def logistic():
    """Runs of a few rows, two learning rates each, and two that are no rows."""
    task = fedlib.load_task("emnist_logistic", clients=8)
    rows = [("FedAvg", "Momentum"), ("MimeLite", "SGD"), ("Mime", "Adam")]
    made = {}
    for name, base in rows:
        algorithm, overrides = mime.method(name, base)
        for rate in (1e-3, 0.03):
            made[name, base, rate] = fedlib.run(
                task,
                algorithm,
                rounds=2,
                clients_per_round=4,
                overrides={**overrides, "client_lr": rate},
            )
    unsplit = {"base": "adam", "client_lr": 0.03}
    made["unsplit"] = fedlib.run(task, "mime", rounds=2, clients_per_round=4, overrides=unsplit)
    return made


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
    runs = [logistic["unsplit"]]
    assert not any(matching.choose(item, cell, matching.index(runs)) for cell in item.cells)
