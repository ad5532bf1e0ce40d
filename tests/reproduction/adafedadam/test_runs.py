"""AdaFedAdam's printed tables and the notebooks' plans: the paper's conditions, all its numbers."""

import dataclasses
from collections import Counter

import pytest

import fedlib
from fedlib import papers, plans
from fedlib.engine import configure
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import solver_of
from fedlib.reproduction.adafedadam.tables import FIVE, SIX

MUS = (0.001, 0.005, 0.01, 0.1, 1.0)
ROUNDS = {"Femnist": 500, "Cifar10": 200, "Sent140": 1000, "Synthetic": 1000}
TASKS = dict(zip(ROUNDS, tables.ADAFEDADAM, strict=True))


def paper(notebook, **numbers):
    """The runs of a plan, but for those on other splits of the clients' examples."""
    requests = plans.requests(notebook, "paper", **numbers)
    return [request for request in requests if request.part != "splits"]


def rows(table, **where):
    """The algorithms of a printed table, by fedlib's names."""
    frame = papers.table("adafedadam", table)
    for key, value in where.items():
        frame = frame[frame[key] == value]
    return set(map(papers.algorithm_name, frame["algorithm"]))


@pytest.mark.parametrize("label", ROUNDS)
def test_a_setup_asks_for_table_5_in_full(label):
    requests = paper(tables.ADAFEDADAM[TASKS[label]], seed=4)
    assert {request.task for request in requests} == {TASKS[label]}
    assert sorted({request.seed for request in requests}) == [4, 5, 6]
    assert {request.rounds for request in requests} == {ROUNDS[label]}
    # A hundred points on every curve.
    assert {ROUNDS[label] // request.eval_every for request in requests} == {100}
    assert all(request.clients_per_round is None for request in requests)
    curves = [request for request in requests if request.part == "curves" and request.seed == 4]
    printed = rows("table5_convergence_fairness", setup=label)
    assert {request.algorithm for request in curves} == printed - {"fedprox"}
    assert not any(request.overrides for request in curves)
    grid = [request.overrides["mu"] for request in requests if request.part == "mu"]
    assert grid == 3 * list(MUS) and len(requests) == 3 * (5 + 5)


def test_a_readers_numbers_take_the_presets_place():
    requests = paper("20_fair_femnist", clients=3, seeds=1, rounds=7, width=0.5, mus=[0.1])
    assert len(requests) == 6 and {request.rounds for request in requests} == {7}
    assert all(one.options == {"seed": 0, "clients": 3, "width": 0.5} for one in requests)
    few = paper("35_resource_heterogeneity", examples=64, seeds=1, mus=[0.1], rounds=7)
    assert {(one.options["examples"], one.rounds) for one in few} == {(64, 7)} and len(few) == 11


@pytest.mark.parametrize(
    "notebook",
    [
        *tables.ADAFEDADAM.values(),
        "34_fairness_tradeoff",
        "35_resource_heterogeneity",
        "36_noniid_levels",
        "37_local_solvers",
    ],
)
def test_all_seeds_have_one_split(notebook):
    requests = paper(notebook, seed=4)
    assert {one.task_options("paper")["seed"] for one in requests} == {4}
    assert {4, 5, 6} == {one.seed for one in requests}


def test_two_more_splits_are_of_runs_that_have_the_first_one():
    requests = plans.requests("23_fair_synthetic", "paper", seed=4)
    splits = plans.select(requests, "splits")
    assert Counter(one.options["seed"] for one in splits) == {5: 3, 6: 3}
    curves = plans.select(requests, "curves")
    for one in splits:
        assert dataclasses.replace(one, part="curves", options={"seed": 4}) in curves


def test_figure_3_varies_alpha_and_q_as_the_text_says():
    requests = paper("34_fairness_tradeoff", seeds=1)
    alphas = [one.overrides["alpha"] for one in requests if one.part == "alpha"]
    assert {1.0, 4.0} <= set(alphas) and max(alphas) > 4
    assert [one.overrides["q"] for one in requests if one.part == "q"] == [1.0, 2.0, 4.0]
    baselines = [one.algorithm for one in requests if one.part == "baselines"]
    assert sorted(baselines) == ["fedadam", "fedavg", "fednova", "fedprox"]
    assert len(paper("34_fairness_tradeoff")) == 3 * len(requests)


def test_table_1_draws_the_epochs_of_every_client_and_round():
    requests = plans.select(paper("35_resource_heterogeneity"), "epochs", "mu")
    assert {one.algorithm for one in requests} == rows("table1_resource_heterogeneity") == set(SIX)
    assert all(one.overrides["local_epochs"] == (1, 3) for one in requests)
    assert {(one.task, one.rounds) for one in requests} == {("fair_cifar10", 200)}
    assert {one.options.get("beta", 0.1) for one in requests} == {0.1}  # the task's own
    assert Counter(one.seed for one in requests) == {0: 10, 1: 10, 2: 10}
    mus = [one.overrides["mu"] for one in requests if one.algorithm == "fedprox" and one.seed == 1]
    assert tuple(mus) == MUS


def test_even_work_is_the_mean_of_the_drawn():
    requests = plans.select(paper("35_resource_heterogeneity"), "even")
    assert Counter(one.algorithm for one in requests) == dict.fromkeys(FIVE, 3)
    assert {one.overrides["local_epochs"] for one in requests} == {2}
    assert {(one.task, one.rounds) for one in requests} == {("fair_cifar10", 200)}


def test_the_iid_level_is_run_beside_table_6():
    """No number is printed for it, and its runs belong to no cell."""
    requests = plans.select(paper("36_noniid_levels"), "iid")
    assert Counter(one.algorithm for one in requests) == dict.fromkeys(FIVE, 3)
    assert {one.options["partition"] for one in requests} == {"iid"}
    iid = fedlib.load_task("fair_cifar10", **requests[0].options)
    assert "beta" not in iid.options and iid.options["partition"] == "iid"
    cells = tables.find("adafedadam", "Table 6")
    config = configure(iid, "fedavg").config
    options = config.task["options"]
    assert options.get("beta") not in set(cells["options"].str["beta"])


def test_tables_2_and_6_vary_the_concentration_only():
    requests = plans.select(paper("36_noniid_levels"), "levels")
    betas = (0.05, 0.1, 0.5, 1.0)
    cells = Counter((one.options["beta"], one.algorithm) for one in requests)
    assert cells == {(beta, name): 3 for beta in betas for name in FIVE}
    assert all(rows("table6_noniid_full", dirichlet_beta=beta) == set(FIVE) for beta in betas)
    assert not any(one.overrides for one in requests)


def test_tables_3_and_7_vary_the_local_solver_only():
    requests = paper("37_local_solvers")
    solvers = Counter(
        (one.algorithm, one.overrides.get("momentum"), one.overrides.get("nesterov"))
        for one in requests
    )
    kinds = [(None, None), (0.9, False), (0.9, True)]
    per_cell = {name: 3 * (len(MUS) if name == "fedprox" else 1) for name in SIX}
    assert solvers == {(name, *kind): per_cell[name] for name in SIX for kind in kinds}
    assert rows("table7_local_momentum_full") == set(SIX)
    assert {(one.task, one.rounds) for one in requests} == {("synthetic", 1000)}


@pytest.mark.parametrize("algorithm", SIX)
def test_each_solver_is_what_the_clients_do(algorithm):
    task = fedlib.load_task("synthetic", clients=2)
    cells = tables.find("adafedadam", "Table 7").query("algorithm == @algorithm")
    overrides = dict(zip(cells["column"], cells["overrides"], strict=True))
    for solver, (momentum, nesterov) in {
        "SGD": (None, None),
        "SGD+momentum": (0.9, False),
        "SGD+Nesterov": (0.9, True),
    }.items():
        config = configure(task, algorithm, overrides=overrides[solver]).config
        assert solver_of(config) == solver
        clients = config.method if algorithm == "fednova" else config.method["client"]
        if solver == "SGD":
            assert not clients.get("momentum")
        else:
            assert (clients["momentum"], clients["nesterov"]) == (momentum, nesterov)
            anew = algorithm == "fednova"
            assert clients.get("momentum_state", "round") == ("round" if anew else "client")


@pytest.mark.parametrize(
    ("ours", "others", "preset"),
    [
        ("34_fairness_tradeoff", "23_fair_synthetic", "quick"),  # alpha = 1, q = 1
        ("34_fairness_tradeoff", "23_fair_synthetic", "paper"),
        ("37_local_solvers", "23_fair_synthetic", "paper"),  # plain SGD
        ("36_noniid_levels", "21_fair_cifar10", "paper"),  # Dir(0.1)
    ],
)
def test_runs_that_other_notebooks_need_too_are_the_same(ours, others, preset):
    """Up to what the task fills in itself."""
    task = fedlib.load_task("synthetic", clients=2)

    def key(one):
        options = {"beta": 0.1, **one.options} if one.task == "fair_cifar10" else one.options
        config = configure(task, one.algorithm, overrides=one.overrides).config
        settings = {**one.settings(-1), "overrides": config.method}
        return one.task, str(sorted(options.items())), str(settings)

    known = plans.select(plans.requests(others, preset), "curves")
    known = {key(one) for one in known if one.algorithm in FIVE}
    assert known <= {key(one) for one in plans.requests(ours, preset)}
    assert len(known) == len(FIVE) * 3
