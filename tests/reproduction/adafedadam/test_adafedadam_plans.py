"""The plans of AdaFedAdam's main experiment against the paper's settings."""

import pytest

from fedlib import papers
from fedlib.reproduction import experiments

SETUPS = {
    "20_fair_femnist": ("fair_femnist", "Femnist", 500),
    "21_fair_cifar10": ("fair_cifar10", "Cifar10", 200),
    "22_fair_sent140": ("fair_sent140", "Sent140", 1000),
    "23_fair_synthetic": ("synthetic", "Synthetic", 1000),
}


@pytest.mark.parametrize("notebook", SETUPS)
def test_a_setup_asks_for_table_5_in_full(notebook):
    task, label, rounds = SETUPS[notebook]
    requests = experiments.plan(notebook, "paper", seed=4)
    assert {request.task for request in requests} == {task}
    assert sorted({request.seed for request in requests}) == [4, 5, 6]
    assert {request.rounds for request in requests} == {None}  # the task's own
    # A hundred points on every curve.
    assert {rounds // request.eval_every for request in requests} == {100}
    assert all(not request.options and request.clients_per_round is None for request in requests)
    table = papers.table("adafedadam", "table5_convergence_fairness")
    printed = {one.lower().replace("-", "") for one in table[table["setup"] == label]["algorithm"]}
    curves = [request for request in requests if request.part == "curves" and request.seed == 4]
    assert {request.algorithm for request in curves} == printed - {"fedprox"}
    assert all(not request.overrides for request in curves)
    grid = [request.overrides["mu"] for request in requests if request.part == "mu"]
    assert grid == 3 * [0.001, 0.005, 0.01, 0.1, 1.0]
    assert len(requests) == 3 * (5 + 5)


def test_the_numbers_make_a_setup_small():
    numbers = {"rounds": 7, "width": 0.5, "clients": 3, "mus": [0.1], "seeds": 1}
    requests = experiments.plan("20_fair_femnist", "paper", **numbers)
    assert len(requests) == 6
    for request in requests:
        assert request.options == {"clients": 3, "width": 0.5}
        assert (request.rounds, request.eval_every) == (7, 1)
    quick = experiments.plan("21_fair_cifar10")
    assert {request.options["examples"] for request in quick} == {800} and len(quick) == 6


def test_figure_3_varies_alpha_and_q_as_the_text_says():
    requests = experiments.plan("34_fairness_tradeoff", "paper", seeds=1)
    alphas = [one.overrides["alpha"] for one in requests if one.part == "alpha"]
    assert {1.0, 4.0} <= set(alphas) and max(alphas) > 4
    assert [one.overrides["q"] for one in requests if one.part == "q"] == [1.0, 2.0, 4.0]
    baselines = [one.algorithm for one in requests if one.part == "baselines"]
    assert sorted(baselines) == ["fedadam", "fedavg", "fednova", "fedprox"]
    assert len(experiments.plan("34_fairness_tradeoff", "paper")) == 3 * len(requests)


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_figure_3_shares_its_runs_with_the_synthetic_setup(preset):
    """alpha = 1 and q = 1 are the task's own: the runs have the same configuration."""
    setup = experiments.plan("23_fair_synthetic", preset)
    front = experiments.plan("34_fairness_tradeoff", preset)
    shared = {(one.algorithm, one.rounds, one.eval_every, one.seed) for one in setup}
    assert {(one.algorithm, one.rounds, one.eval_every, one.seed) for one in front} <= shared
