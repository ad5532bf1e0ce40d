"""Mime's Table 2 and plans: the paper's settings in full, and cohorts that cost the same."""

import pytest

import fedlib
from fedlib.reproduction import matching, tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.mime.tables import method
from fedlib.results import Store
from fedlib.results.selection import on_half

# The rates that are tried where the paper's grids would be: half-decades.
TABLE_2 = tables.find("mime", "Table 2", "emnist_logistic")


@pytest.fixture(scope="module")
def logistic(tmp_path_factory):
    """Runs of a few rows, two learning rates each, and one that is no row."""
    task = fedlib.load_task("emnist_logistic", clients=8)
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    rows = [("FedAvg", "Momentum"), ("MimeLite", "SGD"), ("Mime", "Adam")]
    asked = {(*row, rate): method(*row) for row in rows for rate in (1e-3, 0.03)}
    asked["Mime", "not in halves", 0.03] = ("mime", {"base": "adam"})
    requests = [
        {"algorithm": name, "overrides": {**more, "client_lr": rate}}
        for (*_, rate), (name, more) in asked.items()
    ]
    return dict(zip(asked, store.runs(task, requests, rounds=2, clients_per_round=4), strict=True))


@pytest.mark.parametrize(("task", "batch"), [("stackoverflow_nwp", 16), ("shakespeare", 4)])
def test_cohorts_follow_from_what_a_round_may_send(task, batch):
    cells = tables.find("mime", "Table 2", task).set_index("row")
    known = {row: matching.printed_settings(cell) for row, cell in cells.iterrows()}
    budget = 100 if task == "stackoverflow_nwp" else 40
    cohorts = {row: own["clients_per_round"] for row, own in known.items()}
    assert cohorts["FedAvgSGD"] == cohorts["FedAvgAdam"] == budget / 2
    assert cohorts["MimeAdam"] == budget // 5
    for own in known.values():
        assert (own["rounds"], own["local_epochs"], own["batch_size"]) == (1000, 1, batch)


def test_a_row_takes_its_own_runs_and_of_them_the_best_rate(logistic):
    frame = cells(logistic.values(), TABLE_2).set_index("row")
    labels = {
        "FedAvgMom": ("FedAvg", "Momentum"),
        "MimeLiteSGD": ("MimeLite", "SGD"),
        "MimeAdam": ("Mime", "Adam"),
    }
    assert set(frame.index[frame["seeds"] > 0]) == set(labels)
    for label, row in labels.items():
        runs = [run for key, run in logistic.items() if key[:2] == row]
        best = max(runs, key=lambda run: on_half(run, choosing=True)[0])
        assert frame.loc[label, "runs"] == (best.config.digest,)
        assert frame.loc[label, "ours"] == pytest.approx(100 * on_half(best)[0])
        assert "clients per round 4 instead of" in frame.loc[label, "note"]
    other = matching.Index([logistic["Mime", "not in halves", 0.03]])
    assert not any(matching.nearest(cell, other) for cell in TABLE_2.to_dict("records"))
