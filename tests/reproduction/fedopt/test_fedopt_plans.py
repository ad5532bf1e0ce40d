"""The runs of FedOpt's Figures 1 and 4: five methods with printed values, and SCAFFOLD's grid."""

import math

import pytest

import fedlib
from fedlib import papers
from fedlib.reproduction import experiments
from fedlib.reproduction.fedopt.runs import OPTIMIZERS, around, rates
from fedlib.tasks import settings

IMAGES = {
    "10_cifar10": ("cifar10", "CIFAR-10", 8 * 9),
    "11_cifar100": ("cifar100", "CIFAR-100", 8 * 9),
    "12_emnist_cr": ("emnist_cr", "EMNIST CR", 8 * 9),
    "13_emnist_ae": ("emnist_ae", "EMNIST AE", 8 * 7),
}


def plan(notebook, preset="paper", **numbers):
    requests = experiments.plan(notebook, preset, seed=3, **numbers)
    curves = [one for one in requests if one.part == "curves"]
    scaffold = [one for one in requests if one.part == "scaffold"]
    assert curves + scaffold == requests
    return curves, scaffold


@pytest.mark.parametrize("notebook", IMAGES)
def test_the_papers_plan_leaves_everything_to_the_task_and_tunes_scaffold(notebook):
    task, label, cells = IMAGES[notebook]
    curves, scaffold = plan(notebook)
    assert [one.algorithm for one in curves] == list(OPTIMIZERS)
    assert len(scaffold) == cells and {one.algorithm for one in scaffold} == {"scaffold"}
    for one in curves + scaffold:
        assert (one.task, one.rounds, one.seed, one.eval_every) == (task, None, 3, 1)
        assert not one.options and one.clients_per_round is None
    assert not any(one.overrides for one in curves)
    pairs = {(one.overrides["client_lr"], one.overrides["server_lr"]) for one in scaffold}
    own = settings.fedopt(label)["fedavg"]
    assert len(pairs) == cells and (own["client_lr"], own["server_lr"]) in pairs
    first, last = papers.settings("fedopt")["grid_log10"][label]["client"]
    found = sorted({math.log10(client) for client, _ in pairs})
    assert found == pytest.approx([first + 0.5 * step for step in range(8)])
    assert found[-1] == pytest.approx(last)


@pytest.mark.parametrize("notebook", IMAGES)
def test_near_fedavg_scaffold_has_its_very_rates(notebook):
    _, label, _ = IMAGES[notebook]
    (one,) = plan(notebook, scaffold_grid=0)[1]
    assert dict(one.overrides) == settings.fedopt(label)["fedavg"]
    assert len(plan(notebook, scaffold_grid=1)[1]) == 9
    with pytest.raises(fedlib.Error, match="scaffold_grid is -1"):
        plan(notebook, scaffold_grid=-1)


def test_a_grid_ends_where_the_papers_ends():
    # FedAvg's rate on EMNIST AE is two steps from the end.
    assert around("EMNIST AE", "client_lr", 3)[-1] == pytest.approx(100)
    assert len(around("EMNIST AE", "client_lr", 3)) == 3 + 1 + 2
    assert rates("EMNIST AE", "server_lr") == [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0]


def test_numbers_reach_every_request():
    numbers = {"rounds": 4, "width": 0.5, "eval_every": 2, "test_clients": 3, "scaffold_grid": 0}
    curves, scaffold = plan("11_cifar100", **numbers, examples_per_client=40)
    options = {"width": 0.5, "examples_per_client": 40, "test_clients": 3}
    for one in curves + scaffold:
        assert (one.rounds, one.eval_every, dict(one.options)) == (4, 2, options)
    assert plan("12_emnist_cr", clients=7)[0][0].options == {"clients": 7}
