"""The same numbers on every backend, in every chunking, alone and inside a grid."""

import dataclasses

import pytest
import torch
from torch import nn

import fedlib
from fedlib.engine import configure
from fedlib.engine.run import combinations, execute
from fedlib.models import MLP

TASKS = {
    "quadratic": {},
    "synthetic": {"clients": 12},
    "emnist_cr": {"clients": 6, "network": "paper", "width": 0.1},
    "cifar10": {"clients": 6, "examples_per_client": 25, "test_clients": 2, "width": 0.03},
}


METHODS = [name for name in fedlib.list_algorithms() if name not in ("fedadam", "moon")]


def load(name, **options):
    return fedlib.load_task(name, **{**TASKS[name], **options})


def difference(a, b):
    """The largest difference in parameters and in recorded values; all else is equal."""
    assert a.diverged == b.diverged
    names = ["client", "split", "metric", "examples"]
    assert a.clients[names].equals(b.clients[names])
    params = max(float((a.params[n] - b.params[n]).abs().max()) for n in a.params)
    assert a.frame[["round", "split", "metric"]].equals(b.frame[["round", "split", "metric"]])
    values = float((a.frame["value"] - b.frame["value"]).abs().max())
    clients = float((a.clients["value"] - b.clients["value"]).abs().max())
    return max(params, values, clients)


COMMON = {"rounds": 3, "dtype": "float64", "clients_per_round": 5, "seed": 1}
DIVERGING = 1e308


# Runs that are asked for at once, by algorithm and overrides, and how many train with each of them.
AT_ONCE = {
    "other batches and schedules": [
        (2, "fedadam", {"client_lr": 0.02, "batch_size": 5}),
        (1, "fedadam", {"client_lr": 0.05, "batch_size": 10}),
        (1, "fedadam", {"client_lr": 0.05, "batch_size": 5, "client_schedule": "step_decay"}),
        (2, "fedadam", {"client_lr": 0.07, "batch_size": 5}),
    ],
    "other servers": [
        (6, "fedavg", {}),
        (6, "fedyogi", {"server_lr": 0.1}),
        (6, "fedavgm", {"client_lr": 0.02}),
        (6, "fedadagrad", {}),
        (6, "fedadam", {"tau": 1e-2, "client_lr": DIVERGING}),  # leaves the program
        (6, "fedadam", {"tau": 1e-2, "client_lr": 0.05}),
    ],
}


@pytest.mark.parametrize("asked", AT_ONCE.values(), ids=AT_ONCE)
def test_runs_that_are_asked_for_at_once_are_those_alone(asked):
    task = load("synthetic")
    configured = [configure(task, name, overrides=own, **COMMON) for _, name, own in asked]
    for (count, name, own), history in zip(asked, execute(configured), strict=True):
        assert history.meta["configurations"] == count
        assert (history.diverged is not None) == (own.get("client_lr") == DIVERGING)
        if history.diverged is None:
            alone = fedlib.run(task, name, overrides=own, **COMMON)
            assert difference(history, alone) < 1e-10


def test_seeds_can_be_set_apart():
    task = load("synthetic")
    base = {"init": 1, "sampling": 1, "batches": 1}
    runs = [
        fedlib.run(task, "fedavg", **{**COMMON, "seed": {**base, **change}})
        for change in ({}, {"init": 2}, {"sampling": 2}, {"batches": 2})
    ]
    assert difference(runs[0], fedlib.run(task, "fedavg", **{**COMMON, "seed": 1})) == 0
    for other in runs[1:]:
        assert difference(runs[0], other) > 1e-6
    start = [run.frame[run.frame["round"] == 0]["value"].tolist() for run in runs]
    assert start[0] == start[2] == start[3] != start[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")
@pytest.mark.parametrize(
    ("name", "algorithm"),
    [*((name, "fedadam") for name in TASKS), *(("synthetic", name) for name in METHODS)],
)
def test_cuda_agrees_with_cpu(name, algorithm):
    """Rounds enough for CUDA graphs; the inputs are float32's, whose last bit may differ."""
    task = load(name)
    common = {**COMMON, "rounds": 8}
    a = fedlib.run(task, algorithm, device="cpu", **common)
    b = fedlib.run(task, algorithm, device="cuda", **common)
    assert difference(a, b) < 1e-6


@pytest.mark.parametrize("name", ["synthetic", "cifar10"])
def test_gathering_and_evaluating_in_pieces_changes_nothing(name, monkeypatch):
    task = load(name)
    at_once = fedlib.run(task, "fedadam", **COMMON)
    monkeypatch.setattr("fedlib.engine.batches.GATHER_BYTES", 0)
    monkeypatch.setattr("fedlib.engine.evaluation.CHUNK_NUMBERS", 20_000)
    assert difference(at_once, fedlib.run(task, "fedadam", **COMMON)) < 1e-10


class Tanh(MLP):
    """Another forward than that of the class whose closed form it inherits."""

    def features(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return x


def frozen(*names):
    model = MLP(60, (7,), 10)
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


RESEMBLING = {
    "no closed form": lambda: Tanh(60, (7,), 10),
    "a deep one": lambda: MLP(60, (8, 6, 5), 10, init="torch"),
    "a frozen layer": lambda: frozen("hidden.0.weight", "hidden.0.bias"),
    "a frozen weight": lambda: frozen("hidden.0.weight"),
    "a frozen bias": lambda: frozen("output.bias"),
}


@pytest.mark.parametrize(
    ("name", "l2"), [*((name, 0.0) for name in RESEMBLING), ("a deep one", 0.01)]
)
def test_gradients_in_closed_form_are_those_of_autograd_where_they_hold(name, l2):
    """Configurations share their clients' data; the reference backend differentiates."""
    task = dataclasses.replace(load("synthetic"), model=RESEMBLING[name], l2=l2)
    cells = combinations({"client_lr": [0.01, 0.05, 0.08]})  # larger ones amplify rounding
    runs = [configure(task, "fedavg", overrides=cell, **COMMON) for cell in cells]
    fast, slow = (execute(runs, backend=backend) for backend in ("vectorized", "plain"))
    assert all(difference(*pair) < 1e-10 for pair in zip(fast, slow, strict=True))
    assert fast[0].meta["backend"] == "vectorized"  # as the plain one would agree, too


class Tied(nn.Module):
    """Two layers with one weight, and a frozen one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(60, 60), nn.Linear(60, 60)
        self.second.weight = self.first.weight
        self.out = nn.Linear(60, 10)
        self.out.weight.requires_grad_(False)

    def forward(self, x):
        return self.out(torch.tanh(self.second(torch.tanh(self.first(x)))))


def test_tied_weights_stay_tied_and_frozen_ones_frozen():
    """One client's one full-batch step equals torch.optim.SGD's on the module itself."""
    task = dataclasses.replace(load("synthetic", clients=1), model=Tied)
    settings = {"client_lr": 0.1, "batch_size": None}
    common = {"dtype": "float64", "overrides": settings}
    start = fedlib.run(task, "fedavg", rounds=0, **common).params
    end = fedlib.run(task, "fedavg", rounds=1, **common).params
    model = Tied().double()
    model.load_state_dict(start)
    x, y = task.train.x[task.train.index].double(), task.train.y[task.train.index]
    nn.functional.cross_entropy(model(x), y).backward()
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
    assert set(end) == set(model.state_dict())
    for name, parameter in model.named_parameters():
        assert torch.allclose(end[name], parameter.detach(), atol=1e-12)
    assert torch.equal(start["out.weight"], end["out.weight"])
    assert not torch.equal(start["first.weight"], end["first.weight"])


def test_rounds_in_which_nobody_trains_have_no_training_loss(quadratic):
    history = fedlib.run(quadratic, "fedavg", rounds=3, overrides={"local_steps": [0] * 10})
    assert set(history.frame["split"]) == {"test"} and history.diverged is None
    assert history.series("loss").nunique() == 1
