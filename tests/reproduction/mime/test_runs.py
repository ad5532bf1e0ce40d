"""Mime's Table 2 and plans: the paper's settings in full, and cohorts that cost the same."""

import math
from collections import Counter

import numpy as np
import pytest

import fedlib
from fedlib import algorithms, papers
from fedlib.reproduction import experiments, matching, tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.mime import runs as mime
from fedlib.results import Store
from fedlib.results.selection import on_half

VECTORS = {"SGD": 0, "Momentum": 1, "Adam": 2, "Adagrad": 1}
TABLE = [
    ("24_mime_emnist", "logistic", "emnist_logistic"),
    ("24_mime_emnist", "cnn", "emnist_cr"),
    ("25_mime_text", "shakespeare", "shakespeare"),
    ("25_mime_text", "stackoverflow", "stackoverflow_nwp"),
]


def plan(name, preset="paper", part=None, **numbers):
    requests = experiments.plan(name, preset, **numbers)
    return [request for request in requests if part in (None, request.part)]


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
    printed = papers.table("mime", "table2_accuracy")
    shown = tables.find("mime", "Table 2")
    assert [table.label for table in shown] == list(printed["dataset"].unique())
    found = [(table.label, cell.row, cell.printed) for table in shown for cell in table.cells]
    expected = printed[["dataset", "printed_name", "accuracy"]].itertuples(index=False, name=None)
    assert sorted(found) == sorted(expected) and len(found) == 48
    for table in shown:
        budget = 100 if table.task == "stackoverflow_nwp" else 40
        assert (table.rounds, table.local_epochs) == (1000, 1)
        assert table.clients_per_round == budget / 2
        clients = {cell.row: cell.clients_per_round for cell in table.cells}
        assert clients["FedAvgAdam"] == budget / 2 and clients["MimeAdam"] == budget // 5
        assert all(cell.tuned == {"client_lr": mime.RATES} for cell in table.cells)
    scale = {table.task: (table.batch_size, table.options) for table in shown}
    assert scale["emnist_logistic"] == (20, {"data": "emnist", "clients": 3400})
    users = {
        "data": "stackoverflow",
        "clients": 342_477,
        "words": 10_000,
        "width": 1.0,
        "cap": 1000,
    }
    assert scale["stackoverflow_nwp"] == (16, users) and scale["shakespeare"][0] == 4


def test_a_row_takes_its_own_runs_and_of_them_the_best_rate(logistic):
    frame = cells(logistic.values(), [mime.LOGISTIC]).set_index("row")
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
    other = matching.index([logistic["Mime", "not in halves", 0.03]])
    assert not any(matching.best_runs(mime.LOGISTIC, cell, other) for cell in mime.LOGISTIC.cells)


@pytest.mark.parametrize("budget", [40, 100])
@pytest.mark.parametrize("base", VECTORS)
def test_a_cohort_spends_the_budget_and_leaves_less_than_a_client(base, budget):
    """Down: the model, the state, and Mime's mean gradient; up, in halves: one vector."""
    cost = {"FedAvg": 2, "MimeLite": 2 + VECTORS[base], "Mime": 3 + VECTORS[base]}
    for name, each in cost.items():
        assert mime.cohort(*mime.method(name, base), budget) == budget // each


@pytest.mark.parametrize(("notebook", "part", "task"), TABLE)
def test_table_2_asks_for_each_printed_row_at_every_rate(notebook, part, task):
    requests = plan(notebook, part=part)
    assert {request.task for request in requests} == {task}
    assert len(requests) == 12 * len(mime.RATES)
    budget = 100 if task == "stackoverflow_nwp" else 40
    assert {request.rounds for request in requests} == {1000}
    assert not any(request.options for request in requests), "the paper's own scale"
    rates = Counter(request.overrides["client_lr"] for request in requests)
    assert rates == dict.fromkeys(mime.RATES, 12)
    names = Counter(request.algorithm for request in requests)
    servers = ("fedavg", "fedavgm", "fedadam", "fedadagrad")
    assert names == {**dict.fromkeys(servers, 8), "mime": 32, "mimelite": 32}
    for request in requests:
        method = algorithms.build(request.algorithm, **request.overrides)
        assert request.clients_per_round == algorithms.clients_for_budget(method, budget)
        lite = request.algorithm == "mimelite" and method.state_vectors > 0
        assert method.halves == (lite or request.algorithm == "mime")


def test_servers_are_the_bases_at_rate_1():
    """The paper's momentum is (1 - beta) g + beta m; FedAvgM's is g + beta m."""
    name, overrides = mime.method("FedAvg", "Momentum")
    assert name == "fedavgm" and "client_lr" not in overrides
    assert overrides["server_lr"] == pytest.approx(1 - overrides["momentum"])
    for base in ("SGD", "Adam", "Adagrad"):
        assert mime.method("FedAvg", base)[1]["server_lr"] == 1
    for name in ("MimeLite", "Mime"):
        assert mime.method(name, "Adagrad")[1]["v0"] == mime.method("FedAvg", "Adagrad")[1]["v0"]


def test_rates_are_half_decades_and_the_nearest_come_first():
    logs = [2 * math.log10(rate) for rate in mime.RATES]
    assert logs == pytest.approx(range(-6, 2))
    assert mime.rates(0.1, None) == list(mime.RATES)
    assert mime.rates(0.1, 1) == pytest.approx([0.1])
    assert mime.rates(0.1, 2) == pytest.approx([10**-1.5, 0.1])
    assert mime.rates(0.1, 3) == pytest.approx([10**-1.5, 0.1, 10**-0.5])


def test_figure_1_has_the_printed_settings():
    requests = plan("38_mime_ablation", part="curves")
    # None is the task's own, which reads them from the paper's settings.
    scale = {(one.rounds, one.clients_per_round, one.eval_every) for one in requests}
    assert scale == {(None, None, 10)}
    lines = Counter((one.algorithm, one.overrides.get("base", "")) for one in requests)
    eight = len(mime.RATES)
    tuned = dict.fromkeys(("mime", "mimelite", "loc_mime", "fedavgm"), eight * len(mime.BETAS))
    plain = {"fedavg": eight, "scaffold": eight, "fedprox": eight * 3}
    assert lines == {("mime", "sgd"): eight, **{(k, ""): n for k, n in (tuned | plain).items()}}
    assert {one.overrides.get("mu") for one in requests} == {None, 0.1, 0.5, 1.0}
    for one in requests:
        split = one.algorithm in ("mime", "mimelite", "loc_mime")
        assert one.overrides.get("split", False) == split, "clients send equally much"
        if one.algorithm == "fedavgm":
            assert one.overrides["server_lr"] == pytest.approx(1 - one.overrides["momentum"])


def test_figure_5_is_fedavg_and_fedprox_at_the_same_rates():
    rates = {}
    for request in plan("38_mime_ablation", part="prox"):
        mu = request.overrides.get("mu", 0.0)
        rates.setdefault(mu, set()).add(request.overrides["client_lr"])
    assert rates == {mu: set(mime.RATES) for mu in (0.0, 0.1, 0.5, 1.0)}


def test_a_small_problem_tries_the_neighbours_of_each_lines_own_rate():
    requests = plan("38_mime_ablation", "quick", part="curves")
    assert {request.seed for request in requests} == {0, 1, 2}
    tried = {}
    for request in requests:
        line = request.algorithm + ("_sgd" if request.overrides.get("base") == "sgd" else "")
        tried.setdefault(line, set()).add(request.overrides["client_lr"])
    assert set(tried) == set(mime.LINES)
    for rates in tried.values():
        assert len(rates) >= 3 and set(np.diff(np.log2(sorted(rates)))) == {1.0}


def test_numbers_make_a_plan_small():
    small = {"rounds": 3, "budget": 20, "rates": 1, "width": 0.5, "words": 100}
    requests = plan("25_mime_text", **small)
    assert len(requests) == 24 and {request.rounds for request in requests} == {3}
    assert max(request.clients_per_round for request in requests) == 10
    options = [dict(request.options) for request in requests[::12]]
    assert options == [{"width": 0.5}, {"width": 0.5, "words": 100}]
    cnn = plan("24_mime_emnist", part="cnn", rounds=2, budget=20, rates=1, width=0.5)
    assert len(cnn) == 12 and {request.rounds for request in cnn} == {2}
    logistic = plan("24_mime_emnist", part="logistic", width=0.5, rates=2)
    assert len(logistic) == 24 and not any(one.options for one in logistic), "it has no layers"
