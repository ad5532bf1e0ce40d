"""Mime's plans: the paper's settings in full, and cohorts that cost the same."""

import math
from collections import Counter

import pytest

from fedlib import algorithms, papers
from fedlib.reproduction import experiments
from fedlib.reproduction.experiments import mime

BASES = {"SGD": 0, "Momentum": 1, "Adam": 2, "Adagrad": 1}
TABLE = {
    "24_mime_emnist": {"logistic": "emnist_logistic", "cnn": "emnist_cr"},
    "25_mime_text": {"shakespeare": "shakespeare", "stackoverflow": "stackoverflow_nwp"},
}


def plan(name, preset="paper", part=None, **numbers):
    requests = experiments.plan(name, preset, **numbers)
    return [one for one in requests if part in (None, one.part)]


@pytest.mark.parametrize("budget", [40, 100])
@pytest.mark.parametrize("base", BASES)
def test_a_cohort_spends_the_budget_and_leaves_less_than_a_client(base, budget):
    """Down: the model, the state, and Mime's mean gradient; up, in halves: one vector."""
    cost = {"FedAvg": 2, "MimeLite": 2 + BASES[base], "Mime": 3 + BASES[base]}
    for name, each in cost.items():
        assert mime.cohort(name, base, budget) == budget // each


@pytest.mark.parametrize(
    ("notebook", "part"), [(n, p) for n, parts in TABLE.items() for p in parts]
)
def test_table_2_asks_for_each_printed_row_at_every_rate(notebook, part):
    task = TABLE[notebook][part]
    requests = plan(notebook, part=part)
    assert {one.task for one in requests} == {task} and len(requests) == 12 * len(mime.RATES)
    budget = 100 if task == "stackoverflow_nwp" else 40
    assert mime.budget(task) == budget
    assert {one.rounds for one in requests} == {1000}
    assert not any(one.options for one in requests), "the paper's own scale"
    rates = Counter(one.overrides["client_lr"] for one in requests)
    assert rates == dict.fromkeys(mime.RATES, 12)
    names = Counter(one.algorithm for one in requests)
    servers = ("fedavg", "fedavgm", "fedadam", "fedadagrad")
    assert names == {**dict.fromkeys(servers, 8), "mime": 32, "mimelite": 32}
    for one in requests:
        method = algorithms.build(one.algorithm, **one.overrides)
        assert one.clients_per_round == algorithms.clients_for_budget(method, budget)
        assert method.halves == (one.algorithm not in servers and method.state_vectors > 0) or (
            one.algorithm == "mime"
        )


def test_servers_are_the_bases_at_rate_1():
    """The paper's momentum is (1 - beta) g + beta m; FedAvgM's is g + beta m."""
    name, overrides = mime.method("FedAvg", "Momentum")
    assert name == "fedavgm"
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
    figure = papers.settings("mime")["figure1"]
    requests = plan("38_mime_ablation", part="curves")
    assert figure["clients_per_round"] == 20 and figure["rounds"] == 1000
    # None is the task's own, which reads them from the same settings.
    assert {(one.rounds, one.clients_per_round, one.eval_every) for one in requests} == {
        (None, None, 10)
    }
    lines = Counter((one.algorithm, one.overrides.get("base", "")) for one in requests)
    eight, betas = len(mime.RATES), len(mime.BETAS)
    assert lines == {
        ("mime", ""): eight * betas,
        ("mime", "sgd"): eight,
        ("mimelite", ""): eight * betas,
        ("loc_mime", ""): eight * betas,
        ("fedavgm", ""): eight * betas,
        ("fedavg", ""): eight,
        ("scaffold", ""): eight,
        ("fedprox", ""): eight * 3,
    }
    assert {one.overrides.get("mu") for one in requests} == {None, 0.1, 0.5, 1.0}
    for one in requests:
        split = one.algorithm in ("mime", "mimelite", "loc_mime")
        assert one.overrides.get("split", False) == split, "clients send equally much"
        if one.algorithm == "fedavgm":
            assert one.overrides["server_lr"] == pytest.approx(1 - one.overrides["momentum"])


def test_figure_5_is_fedavg_and_fedprox_at_the_same_rates():
    requests = plan("38_mime_ablation", part="prox")
    rates = {}
    for one in requests:
        rates.setdefault(one.overrides.get("mu", 0.0), set()).add(one.overrides["client_lr"])
    assert set(rates) == {0.0, 0.1, 0.5, 1.0}
    assert all(found == set(mime.RATES) for found in rates.values())


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_the_first_panel_of_24_is_part_of_38(preset):
    """Under quick, too: what one notebook trained the other finds in the store."""
    few = [one.settings(-1) | dict(one.options) for one in plan("24_mime_emnist", preset, "curves")]
    all_of_them = [one.settings(-1) | dict(one.options) for one in plan("38_mime_ablation", preset)]
    assert few and all(one in all_of_them for one in few)


def test_numbers_make_a_plan_small():
    small = {"rounds": 3, "budget": 20, "rates": 1, "width": 0.5, "words": 100}
    requests = plan("25_mime_text", **small)
    assert len(requests) == 24 and {one.rounds for one in requests} == {3}
    assert max(one.clients_per_round for one in requests) == 10
    assert [dict(one.options) for one in requests[::12]] == [
        {"width": 0.5},
        {"width": 0.5, "words": 100},
    ]
    cnn = plan("24_mime_emnist", part="cnn", cnn_rounds=2, cnn_budget=20, cnn_rates=1, width=0.5)
    assert len(cnn) == 12 and {one.rounds for one in cnn} == {2}
    logistic = plan("24_mime_emnist", part="logistic", width=0.5, rates=2)
    assert len(logistic) == 24 and not any(one.options for one in logistic), "it has no layers"
