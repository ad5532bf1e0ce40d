"""Each task of the papers at its quick preset: it loads offline, repeats, and trains everywhere."""

import math

import pytest
import torch

import fedlib
from fedlib import plans, tasks
from fedlib.process import threads
from fedlib.tasks import defaults

# Of these the seed chooses clients or deals texts.
TEXTS = ("fair_sent140", "ag_news", "dbpedia")
# All clients of these small problems are taken: the seed decides what is random in a run only.
ALL_CLIENTS = ("emnist_cr", "emnist_ae", "shakespeare", "stackoverflow_nwp", "stackoverflow_lr")
RESNET = {"network": "paper", "clients": 2, "test_examples": 30, "width": 1 / 32}
CNN = {"network": "paper", "clients": 5, "test_examples": 40, "width": 0.3}
NEWS = {"clients": 5, "sizes": 9, "length": 6, "test_examples": 20}
# Small enough that two rounds on each backend take about a second.
SMALL = {
    "quadratic": {},
    "cifar10": {"clients": 6, "test_clients": 1, "width": 1 / 32, "examples_per_client": 16},
    "cifar100": {"clients": 6, "test_clients": 1, "width": 1 / 32, "examples_per_client": 30},
    "emnist_cr": {"clients": 6, "network": "paper", "width": 1 / 16},
    "emnist_ae": {"clients": 6, "network": "paper", "width": 1 / 25},
    "emnist_logistic": {"clients": 6},
    "emnist_mlp": {"clients": 4, "width": 0.1},
    "shakespeare": {"clients": 6, "rows": 3, "length": 6, "network": "lstm", "width": 0.02},
    "stackoverflow_nwp": {
        **{"network": "lstm", "width": 0.02, "clients": 6, "cap": 7, "words": 40},
        "validation": 20,
    },
    "stackoverflow_lr": {"clients": 6, "cap": 9, "words": 50, "tags": 12, "validation": 20},
    "fair_femnist": {"clients": 6, "width": 0.1},
    "fair_cifar10": {
        **{"clients": 3, "beta": 5.0, "examples": 120, "width": 1 / 64},
        **{"network": "vgg11", "data": "cifar10", "init": "fednova"},
    },
    "fair_sent140": {"clients": 4, "examples": 8, "width": 0.03},
    "synthetic": {"clients": 7},
    "mnist": {**CNN, "sizes": "30-70"},
    "fashion_mnist": {**CNN, "sizes": 20},
    "cifar10_resnet18": {**RESNET, "data": "cifar10", "sizes": "5-20", "norm": "batch"},
    "cifar100_resnet18": {**RESNET, "data": "cifar100", "sizes": 9, "norm": "group"},
    "cifar100_resnet50": {**RESNET, "data": "cifar100", "sizes": 6, "norm": "batch"},
    "ag_news": {**NEWS, "network": "distilbert", "layers": 1, "width": 0.02},
    "dbpedia": NEWS,
}
METRICS = {"emnist_ae": "mse_x1000", "stackoverflow_lr": "recall_at_5", "quadratic": "loss"}


@pytest.mark.parametrize("name", fedlib.list_tasks())
def test_quick_tasks_load_offline_repeat_and_follow_the_seed(name):
    a, b, other = (fedlib.load_task(name, seed=seed) for seed in (0, 0, 1))
    held = [task.train.index for task in (a, b, other)]
    assert torch.equal(held[0], held[1]) and a.train.ids == b.train.ids
    assert a.fingerprint == b.fingerprint and a.options == b.options
    assert torch.equal(a.train.x, b.train.x) and torch.equal(a.train.y, b.train.y)
    assert a.stand_in == ("data" in defaults(name))  # else they are made, or a package brings them
    assert a.source and a.source.startswith("offline") == a.stand_in
    if name in TEXTS:
        assert a.fingerprint != other.fingerprint and "docstrings" in a.source
        assert a.train.sizes.sum() < 4000 and len(a.train) <= 40 and a.rounds <= 40
    elif name in ALL_CLIENTS:
        assert torch.equal(held[0], held[2])
    elif name != "quadratic":
        assert not torch.equal(held[0], held[2])
    assert (a.train.sizes > 0).all() and (a.test.sizes > 0).all()


@pytest.mark.parametrize("name", fedlib.list_tasks())
def test_two_rounds_agree_on_all_backends(name, prepared):
    prepared("cifar10", "cifar100")
    task = fedlib.load_task(name, **SMALL.get(name, {}))
    common = {"dtype": "float64", "eval_every": 2}
    common["clients_per_round"] = min(3, len(task.train))
    # Smaller batches than the paper's, so that clients of few examples take several steps.
    common["overrides"] = {"batch_size": 4 if name in TEXTS else 8}
    if name == "quadratic":
        common["overrides"] = {"local_steps": 2}
    with threads(2, others=False):
        rows, *others = (
            fedlib.run(task, "fedavg", rounds=2, backend=backend, **common)
            for backend in ("vectorized", "plain", "parallel")
        )
    start = fedlib.run(task, "fedavg", rounds=0, **common)
    assert rows.diverged is None and all(map(math.isfinite, rows.frame["value"]))
    assert METRICS.get(name, "accuracy") in set(rows.frame["metric"])
    shapes = {key: p.shape for key, p in task.model().named_parameters()}
    assert max(float((rows.params[key] - start.params[key]).abs().max()) for key in shapes) > 1e-6
    for other in others:
        for key, value in rows.params.items():
            assert value.shape == other.params[key].shape == shapes.get(key, value.shape)
            # Batch normalisation of the few examples of a last batch amplifies rounding.
            near = 1e-9 if "resnet" in name else 1e-10
            assert float((value - other.params[key]).abs().max()) < near, key
        assert float((rows.frame["value"] - other.frame["value"]).abs().max()) < 1e-8


# As few data as these tasks can have; what a laptop cuts, networks and words, stays.
FEW = {
    **{"clients": 5, "examples": 200, "sizes": 20, "rows": 2, "cap": 10, "validation": 50},
    **{"examples_per_client": 20, "test_clients": 3, "test_examples": 60},
}


TRAINED = set()  # several notebooks have the same tasks


@pytest.mark.parametrize("notebook", plans.planned())
def test_a_laptop_trains_every_task_of_a_notebook(notebook, prepared):
    prepared()
    firsts = {}
    for request in plans.requests(notebook, "laptop"):
        firsts.setdefault(request.task, request)
    for name, request in firsts.items():
        known = tasks.defaults(name, tasks.scale(name, "laptop"))
        few = {key: value for key, value in FEW.items() if key in known}
        options = {**request.task_options("laptop"), **few}
        if (name, repr(options)) in TRAINED:
            continue
        TRAINED.add((name, repr(options)))
        task = fedlib.load_task(name, **options)
        assert task.preset == tasks.scale(name, "laptop")
        settings = request.settings(1) | {"rounds": 1, "eval_every": 1, "clients_per_round": 2}
        history = fedlib.run(task, settings.pop("algorithm"), **settings)
        assert len(history.series("loss", "train")) == 1 or history.diverged
