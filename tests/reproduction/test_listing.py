"""What a plan asks for, in tables: counted and grouped as by hand."""

from types import SimpleNamespace

import pytest

from fedlib import plans
from fedlib.plans import grid, repeated
from fedlib.reproduction import listing

RATES = {"client_lr": [0.01, 0.1, 1.0, 10.0], "server_lr": [0.1, 1.0]}
N = SimpleNamespace(seed=0)


def rates(request):
    return {"client_lr": {"fedavg": 0.5}.get(request.algorithm, 0.25)}


def test_a_grid_is_one_row_and_so_are_methods_that_try_the_same():
    runs = grid("synthetic", "fedavg", RATES, N) + grid("synthetic", "fedavgm", RATES, N)
    runs += grid("synthetic", "fedadam", RATES, N, fixed={"tau": 0.1})
    table = listing.run_table(repeated(runs, 3), "quick", rates)
    assert table["algorithm"].tolist() == ["fedavg, fedavgm", "fedadam"]
    assert table["settings"].tolist() == [
        "client_lr 0.01 … 10 (4); server_lr 0.1, 1",
        "tau 0.1; client_lr 0.01 … 10 (4); server_lr 0.1, 1",
    ]
    assert table["runs"].tolist() == [48, 24]
    assert set(table["seeds"]) == {"0, 1, 2"} and set(table["rounds"]) == {"120"}


@pytest.mark.parametrize("name", plans.planned())
def test_every_plan_is_listed_whole_and_shortly(name):
    requests = plans.requests(name)
    table = listing.run_table(requests, "quick", rates)
    assert table["runs"].sum() == len(requests) and len(table) <= 14
    assert set(table["part"]) == {request.part for request in requests}
    tasks = listing.task_table(requests, "quick", ["clients"])
    assert tasks["task"].tolist() == list(dict.fromkeys(request.task for request in requests))
    assert (tasks != "").all(axis=None)
