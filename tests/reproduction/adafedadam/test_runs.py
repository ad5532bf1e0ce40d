"""AdaFedAdam's printed tables and the notebooks' plans: the paper's conditions, all its numbers."""

import pytest

import fedlib
from fedlib.engine import configure
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import solver_of
from fedlib.reproduction.adafedadam.tables import SIX


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
