"""Mime's Table 2 and plans: the paper's settings in full, and cohorts that cost the same."""

from collections import Counter

import pytest

import fedlib
from fedlib import algorithms, plans
from fedlib.reproduction import matching, tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.mime.tables import cohort, method
from fedlib.results import Store
from fedlib.results.selection import on_half

# The rates that are tried where the paper's grids would be: half-decades.
RATES = [10 ** (half / 2) for half in range(-6, 2)]
TABLE_2 = tables.find("mime", "Table 2", "emnist_logistic")
VECTORS = {"SGD": 0, "Momentum": 1, "Adam": 2, "Adagrad": 1}
TABLE = [
    ("24_mime_emnist", "logistic", "emnist_logistic"),
    ("24_mime_emnist", "cnn", "emnist_cr"),
    ("25_mime_text", "shakespeare", "shakespeare"),
    ("25_mime_text", "stackoverflow", "stackoverflow_nwp"),
]


def paper(name, *parts, **numbers):
    return plans.select(plans.requests(name, "paper", **numbers), *parts)


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


@pytest.mark.parametrize("budget", [40, 100])
@pytest.mark.parametrize("base", VECTORS)
def test_a_cohort_spends_the_budget_and_leaves_less_than_a_client(base, budget):
    """Down: the model, the state, and Mime's mean gradient; up, in halves: one vector."""
    cost = {"FedAvg": 2, "MimeLite": 2 + VECTORS[base], "Mime": 3 + VECTORS[base]}
    for name, each in cost.items():
        assert cohort(*method(name, base), budget) == budget // each


@pytest.mark.parametrize(("notebook", "part", "task"), TABLE)
def test_table_2_asks_for_each_printed_row_at_every_rate(notebook, part, task):
    requests = paper(notebook, part)
    assert {request.task for request in requests} == {task}
    budget = 100 if task == "stackoverflow_nwp" else 40
    assert {request.rounds for request in requests} == {1000}
    assert not any(request.options for request in requests), "the paper's own scale"
    rates = Counter(request.overrides["client_lr"] for request in requests)
    assert rates == dict.fromkeys(RATES, 12)
    names = Counter(request.algorithm for request in requests)
    servers = ("fedavg", "fedavgm", "fedadam", "fedadagrad")
    assert names == {**dict.fromkeys(servers, 8), "mime": 32, "mimelite": 32}
    for request in requests:
        built = algorithms.build(request.algorithm, **request.overrides)
        assert request.clients_per_round == algorithms.clients_for_budget(built, budget)
        lite = request.algorithm == "mimelite" and built.state_vectors > 0
        assert built.halves == (lite or request.algorithm == "mime")
