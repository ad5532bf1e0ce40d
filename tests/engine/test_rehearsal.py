"""The CUDA path without a GPU: no mixed devices, no waiting in a round, no transfer in a step.

Every task with one of three methods in turn, and every method on one of three tasks in turn, whose
networks are a dense, a convolutional and a text one: what a task sends does not depend on the
method, and the other way round. Networks are the papers' where that is possible, of a small width.
"""

import functools
import itertools

import numpy as np
import pytest
import torch

import fedlib
from fedlib.algorithms import CLIENT_OPTIMIZERS
from fedlib.engine import batches as feed
from fedlib.engine.config import configure
from tests.engine.rehearsal import DEVICE, Seen, rehearse, watched
from tests.tasks.test_every_task import SMALL

METHODS = {"fedavg": {}, "scaffold": {}, "delta_sgd": {"client_optimizer": "delta_sgd"}}
RESNET = {**SMALL["cifar10"], "data": "cifar10", "network": "resnet18"}
OPTIONS = {**SMALL, "cifar10": RESNET}
DENSE = "fair_femnist"
NETWORKS = (DENSE, "mnist", "dbpedia")


@pytest.fixture(autouse=True)
def cifar(prepared):
    """Small copies, which the ResNets take."""
    prepared("cifar10", "cifar100")


@functools.cache
def load(name):
    return fedlib.load_task(name, **OPTIONS.get(name, {}))


def configured(name, method, **overrides):
    algorithm = "fedavg" if method == "delta_sgd" else method
    task, overrides = load(name), {**METHODS.get(method, {}), **overrides}
    overrides = {"local_steps": 2, **overrides}
    if name != "quadratic":
        overrides = {"batch_size": 4, **overrides}
    cohort = min(2, len(task.train))
    return configure(task, algorithm, rounds=2, clients_per_round=cohort, overrides=overrides)


def check(rounds):
    """A step sends nothing, as a CUDA graph could not record that; all that is sent is pinned."""
    for seen in rounds:
        assert seen.steps and not any(seen.steps) and seen.uploads
        assert all("engine/batches.py" in place for place in seen.uploads)


@pytest.mark.parametrize(
    ("name", "method"), list(zip(fedlib.list_tasks(), itertools.cycle(METHODS)))
)
def test_every_task_goes_through(name, method):
    check(rehearse([configured(name, method)]))


@pytest.mark.parametrize(
    ("algorithm", "name"), list(zip(fedlib.list_algorithms(), itertools.cycle(NETWORKS)))
)
def test_every_method_goes_through(algorithm, name):
    check(rehearse([configured(name, algorithm)], rounds=2))  # the first makes what is remembered


@pytest.mark.parametrize("optimizer", CLIENT_OPTIMIZERS)
def test_every_client_optimizer_goes_through(optimizer):
    check(rehearse([configured(DENSE, "fedavg", client_optimizer=optimizer)]))


def test_a_grid_is_sent_as_one_run_is_and_chunks_one_by_one():
    grid = [configured(DENSE, "fedadam", client_lr=rate) for rate in (0.01, 0.1, 1.0)]
    alone, together, apart = (rehearse(grid[:1]), rehearse(grid), rehearse(grid, chunk_clients=1))
    check([*alone, *together, *apart])
    counts = [len(seen.uploads) for (seen,) in (alone, together, apart)]
    assert counts[0] == counts[1] < counts[2] <= 2 * counts[0]


def test_batches_that_are_gathered_one_by_one_are_not_sent_again(monkeypatch):
    def uploads(name):
        return len(rehearse([configured(name, "fedavg")])[0].uploads)

    images, words = uploads("cifar10"), uploads("stackoverflow_lr")
    monkeypatch.setattr(feed, "GATHER_BYTES", 0)
    assert uploads("cifar10") == images
    # The words of posts are read on the host, for one step after the other here.
    assert uploads("stackoverflow_lr") > words


def on_device(*shape):
    return torch.zeros(shape, device=DEVICE)


MISTAKES = [
    lambda: on_device(1).item(),
    lambda: on_device(2)[on_device(2) > 0],
    lambda: on_device(2).index_put_((on_device(2) > 0,), on_device(1)),
    lambda: on_device(2, 3) @ torch.zeros(3, 2),
    lambda: torch.cat([on_device(2), torch.zeros(2)]),
    lambda: torch.zeros(3)[on_device(2).long()],
]


def test_mistakes_and_uploads_are_seen():
    for mistake in MISTAKES:
        with pytest.raises(RuntimeError, match=r"sync|device|meta"), watched(Seen()):
            mistake()
    seen, x, place = Seen(), on_device(4, 3), torch.tensor([0, 1])
    with watched(seen):
        torch.zeros(2).to(DEVICE)
        on_device(2).copy_(torch.zeros(2))
        torch.tensor([1.0, 2.0], device=DEVICE)
        x[place], x[[0, 1]], x[np.array([0, 1])]
        x[place] = x[:2]
        torch.as_tensor([1.0, 2.0], device=DEVICE)
    assert len(seen.uploads) == 8
    seen = Seen()
    with watched(seen):
        (x.view(3, 4).t()[1:] * torch.tensor(2.0)).sum()
        torch.zeros(3).sum()
    assert not seen.uploads
