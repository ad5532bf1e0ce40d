"""AdaFedAdam's Tables 1, 2, 3, 6 and 7 as plans: the paper's conditions, and its tables."""

from collections import Counter

from fedlib.reproduction.adafedadam.variant_runs import FIVE, SIX, solver_overrides

import fedlib
from fedlib import papers
from fedlib.engine import configure
from fedlib.reproduction import experiments

MUS = (0.001, 0.005, 0.01, 0.1, 1.0)


def paper(notebook, **numbers):
    return experiments.plan(notebook, "paper", **numbers)


def rows(table, **where):
    """The algorithms of a printed table, by fedlib's names."""
    frame = papers.table("adafedadam", table)
    for key, value in where.items():
        frame = frame[frame[key] == value]
    return {name.lower().replace("-", "") for name in frame["algorithm"]}


def test_table_1_draws_the_epochs_of_every_client_and_round():
    requests = experiments.choose(paper("35_resource_heterogeneity"), "epochs", "mu")
    assert {one.algorithm for one in requests} == rows("table1_resource_heterogeneity") == set(SIX)
    assert all(one.overrides["local_epochs"] == (1, 3) for one in requests)
    assert {(one.task, one.rounds, dict(one.options).get("beta")) for one in requests} == {
        ("fair_cifar10", None, None)  # the task's own: 200 rounds of Dir(0.1)
    }
    assert Counter(one.seed for one in requests) == {0: 10, 1: 10, 2: 10}
    mus = [one.overrides["mu"] for one in requests if one.algorithm == "fedprox" and one.seed == 1]
    assert tuple(mus) == MUS


def test_synthetic_takes_the_same_work_with_and_without_chance():
    requests = experiments.choose(paper("35_resource_heterogeneity"), "synthetic")
    assert Counter(one.overrides["local_epochs"] for one in requests) == {1: 6, (1, 3): 6, 2: 6}
    assert {one.rounds for one in requests} == {200}
    assert {one.algorithm for one in requests} == set(SIX)


def test_tables_2_and_6_vary_the_concentration_only():
    requests = paper("36_noniid_levels")
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
    assert {one.task for one in requests} == {"synthetic"} and {one.rounds for one in requests} == {
        None
    }


def test_each_solver_is_what_the_clients_do():
    task = fedlib.load_task("synthetic", clients=2)
    for name in SIX:
        for solver, (momentum, nesterov) in {
            "SGD": (None, None),
            "SGD+momentum": (0.9, False),
            "SGD+Nesterov": (0.9, True),
        }.items():
            config, _ = configure(task, name, overrides=solver_overrides(name, solver))
            clients = config.method if name == "fednova" else config.method["client"]
            if solver == "SGD":
                assert not clients.get("momentum")
            else:
                assert (clients["momentum"], clients["nesterov"]) == (momentum, nesterov)


def test_runs_that_other_notebooks_need_too_are_the_same():
    """Vanilla SGD is 23's, and Dir(0.1) is 21's, up to what the task fills in itself."""

    def key(one):
        options = {"beta": 0.1, **one.options} if one.task == "fair_cifar10" else one.options
        return one.task, str(sorted(options.items())), str(one.settings(-1))

    for ours, others in (
        ("37_local_solvers", "23_fair_synthetic"),
        ("36_noniid_levels", "21_fair_cifar10"),
    ):
        known = {key(one) for one in paper(others) if one.algorithm in FIVE}
        shared = known & {key(one) for one in paper(ours)}
        assert len(shared) == len(FIVE) * 3, (ours, others)


def test_numbers_make_them_small():
    numbers = {"rounds": 2, "examples": 64, "width": 0.1, "mus": [0.5], "seeds": [4]}
    small = paper("35_resource_heterogeneity", synthetic_rounds=3, **numbers)
    table = experiments.choose(small, "epochs", "mu")
    assert {(one.rounds, one.seed) for one in table} == {(2, 4)} and len(table) == 6
    assert {tuple(one.options.items()) for one in table} == {(("examples", 64), ("width", 0.1))}
    assert {one.rounds for one in experiments.choose(small, "synthetic")} == {3}
    assert len(paper("37_local_solvers", rounds=150, mus=[0.5], seeds=1)) == 18
    assert {one.eval_every for one in paper("37_local_solvers", rounds=250)} == {2}
