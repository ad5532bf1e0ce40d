"""AdaFedAdam's printed tables and the notebooks' plans: the paper's conditions, all its numbers."""

import pytest

import fedlib
from fedlib import papers, plans
from fedlib.engine import configure
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import solver_of
from fedlib.reproduction.adafedadam.tables import SIX

MUS = (0.001, 0.005, 0.01, 0.1, 1.0)
ROUNDS = {"Femnist": 500, "Cifar10": 200, "Sent140": 1000, "Synthetic": 1000}
TASKS = dict(zip(ROUNDS, tables.ADAFEDADAM, strict=True))


def paper(notebook, **numbers):
    """The runs of a plan, but for those on other splits or shares of the clients' examples."""
    requests = plans.requests(notebook, "paper", **numbers)
    return [request for request in requests if request.part not in ("splits", "stated")]


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
