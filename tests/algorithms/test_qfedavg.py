"""q-FedAvg against a NumPy recomputation written from its pseudo-code."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedlib
from fedlib.models import Softmax
from tests.algorithms.quadratics import cohort, descend, end, positive_problem

ROUNDS = 30
M, D = 6, 4
STEPS = [1, 2, 3, 5, 0, 7]


def numpy_qfedavg(given, size, seed, **h):
    A, b, offset, x = given["A"], given["b"], given["offset"], given["x0"]
    q, lr = h.get("q", 1.0), h["client_lr"]
    L = h.get("L") or 1 / lr
    for t in range(ROUNDS):
        deltas, hs = np.zeros(D), 0.0
        for k in cohort(seed, t, size):
            F = max(0.5 * x @ A[k] @ x - b[k] @ x + offset[k], 0) + 1e-10
            nabla = L * (x - descend(A[k], b[k], x, STEPS[k], lr, h.get("momentum", 0.0)))
            deltas += F**q * nabla
            hs += q * F ** (q - 1) * nabla @ nabla + L * F**q
        x = x - deltas / hs
    return x


CASES = [
    {},
    {"q": 0},
    {"q": 2, "L": 1.0},
    {"q": 0.5, "L": 7.0},
    {"q": 1.0, "L": 1.0, "client_optimizer": "sgdm", "momentum": 0.8},
]


@pytest.mark.parametrize("size", [M, 3])
@pytest.mark.parametrize("settings", CASES)
def test_equals_numpy(settings, size):
    given = positive_problem(size)
    given["offset"] -= 3  # some losses are below 1, and some below 0
    settings = {"client_lr": 0.05, **settings}
    task, how = fedlib.quadratic_task(**given), {"seed": 3, "size": size}
    x = end(task, "qfedavg", ROUNDS, **how, **settings, local_steps=STEPS)
    expected = numpy_qfedavg(given, size, 3, **settings)
    assert np.abs(x - expected).max() < 1e-8
    assert np.abs(expected - given["x0"]).max() > 0.01


@pytest.mark.parametrize("q", [1.0, 10.0])
def test_it_stands_still_where_no_client_has_a_loss(q):
    task = fedlib.quadratic_task([[[1.0]], [[3.0]]], [[0.0], [0.0]])
    history = fedlib.run(task, "qfedavg", rounds=3, overrides={"q": q})
    assert history.diverged is None and history.params["x"].item() == 0


def halved_clients():
    """Three clients that train on the first half of their examples, and hold all of them."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 4, generator=draw), torch.randint(3, (30,), generator=draw)
    held = np.split(np.arange(30), [6, 16])
    train, local = (
        fedlib.ClientData(x, y, part) for part in ([p[: len(p) // 2] for p in held], held)
    )
    return fedlib.Task(
        "halved",
        partial(Softmax, 4, 3),
        train,
        train,
        evaluated={"local": local},
        batch_size=None,
        clients_per_round=3,
    )


@pytest.mark.parametrize("backend", ["vectorized", "plain"])
@pytest.mark.parametrize("data", ["train", "local"])
def test_losses_are_measured_on_the_named_data(data, backend):
    task, ends = halved_clients(), []
    method = fedlib.QFedAvg(q=2, L=1.0, measured_on=data, client=fedlib.SGD(lr=0.5))
    fedlib.run(task, method, rounds=3, dtype="float64", backend=backend, callback=ends.append)
    start, *_, end = [{k: p.double() for k, p in h.params.items()} for h in ends]
    x, y = task.train.x.double(), task.train.y
    holders = {"train": task.train, "local": task.evaluated["local"]}[data]

    def loss(params, index):
        return F.cross_entropy(task.trained(params)(x[[*index]]), y[[*index]])

    def gradient(params, index):
        model = task.trained(params)
        F.cross_entropy(model(x[[*index]]), y[[*index]]).backward()
        return {name: p.grad for name, p in model.named_parameters()}

    params = start
    for _ in range(2):
        deltas, total = [], 0.0
        for trained, whole in zip(task.train.parts, holders.parts, strict=True):
            measured = loss(params, whole).item() + 1e-10
            delta = {name: 0.5 * g for name, g in gradient(params, trained).items()}
            square = sum(d.square().sum().item() for d in delta.values())
            deltas.append({name: measured**2 * d for name, d in delta.items()})
            total += 2 * measured * square + measured**2
        params = {n: p - sum(d[n] for d in deltas) / total for n, p in params.items()}
    for name, value in params.items():
        assert (value - end[name]).abs().max() < 1e-10


def test_data_that_no_client_holds_are_refused():
    task = halved_clients()
    with pytest.raises(fedlib.Error, match=r"measured_on='all' .*'train', 'local'"):
        fedlib.run(task, "qfedavg", rounds=1, measured_on="all")
