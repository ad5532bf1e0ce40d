"""Other frameworks are timed where they are installed, and do the work that the plain loop does."""

import copy
import functools
import importlib

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from benchmarks import rounds as bench

CPU = torch.device("cpu")


# Client learning rates at which two rounds move every parameter by far more than rounding does.
RATES = {"W1": 0.03, "W2": 0.1, "W3": 0.03, "W4": 3.0, "W5": 3.0, "P": 0.1}


def start(name, file, monkeypatch):
    """The workload, its task with three clients, and a small network without random numbers.

    The plain loop takes the examples in their order from now on.
    """
    for module in (bench, importlib.import_module("benchmarks." + file)):
        monkeypatch.setattr(module, "RATE", RATES[name])
    load = bench.WORKLOADS[name]
    width = 1.0 if name == "W1" else 0.1
    task = bench._task(load, lambda: load.model(width), 3, 3)
    torch.manual_seed(0)
    network = load.plain(width)
    for part in network.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if isinstance(part, torch.nn.LSTM):
            # Haiku's LSTM has one bias a layer.
            part.bias_hh_l0.requires_grad_(False)
            part.bias_hh_l1.requires_grad_(False)
    if name == "W5":
        # At torch's small first weights the gradients of eight sigmoids in a row vanish.
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(4)
    monkeypatch.setattr(
        bench, "DataLoader", lambda data, batch_size, shuffle: DataLoader(data, batch_size)
    )
    return load, task, network


@pytest.mark.parametrize("framework", bench.FRAMEWORKS)
@pytest.mark.parametrize("name", RATES)
def test_two_rounds_of_a_framework_are_two_of_the_plain_loop(name, framework, monkeypatch):
    pytest.importorskip(framework)
    load, task, network = start(name, f"with_{framework}", monkeypatch)
    plain, theirs, clients = copy.deepcopy(network), copy.deepcopy(network), bench._clients(task)
    if framework == "fedjax":
        fedjax, jax = map(importlib.import_module, ("fedjax", "jax"))
        in_order = functools.partial(fedjax.ShuffleRepeatBatchHParams, skip_shuffle=True)
        monkeypatch.setattr(fedjax, "ShuffleRepeatBatchHParams", in_order)
    loop = bench._plain(load, plain, task, CPU)
    step = bench._framework(framework)(load, theirs, clients, CPU)
    for _ in range(2):
        loop()
        found = step()
    if framework == "pfl":
        return assert_same(*([*each.parameters()] for each in (network, plain, theirs)))
    haiku = importlib.import_module("benchmarks.with_fedjax")
    examples = {"x": haiku._array(clients[0][0]), "y": haiku._array(clients[0][1])}
    before, expected = (
        haiku.model_of(load, each, examples).init(jax.random.PRNGKey(0))
        for each in (network, plain)
    )
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(expected)
    assert_same(*(jax.tree_util.tree_leaves(tree) for tree in (before, expected, found)))


def assert_same(before, expected, found):
    """Equal but for rounding (10 steps of a ResNet make it grow), little of what each has moved."""
    moved = []
    for three in zip(before, expected, found, strict=True):
        old, want, have = (np.array(each.tolist()) for each in three)
        moved.append(abs(want - old).max())
        # The mean of three equal numbers, those of a frozen bias, is rounded too.
        assert abs(want - have).max() <= min(1e-5, max(3e-8, 0.01 * moved[-1]))
    assert max(moved) > 1e-3
