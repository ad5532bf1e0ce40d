"""MOON against literal copies of networks, trained with plain autograd."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedlib
from fedlib.models import MLP
from tests.algorithms.quadratics import cohort
from tests.engine.reference import assert_rows_agree
from tests.refusals import refused

CLIENTS, STEPS, ROUNDS, SEED = 4, 3, 4, 2
RATE = {"client_lr": 0.3}


def task():
    """Four clients of unequal size; the whole client is a batch, so no order counts."""
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.normal(size=(30, 5)))
    y = torch.from_numpy(draw.integers(3, size=30))
    parts = np.split(np.arange(30), [3, 12, 20])
    data = fedlib.ClientData(x, y, parts)
    how = {"batch_size": None, "hyperparameters": dict.fromkeys(("moon", "fedavg"), RATE)}
    return fedlib.Task("t", lambda: MLP(5, (6,), 3), data, data, **how)


def literal(start, solver, mu, temperature):
    """MOON by the letter of its pseudo-code, three of the four clients a round.

    Clients take steps of SGD, or of a Polyak step size.
    """
    data, previous = task().train, {}
    examples = [slice(a, a + n) for a, n in zip(data.starts, data.sizes, strict=True)]
    net, similarity = MLP(5, (6,), 3).double(), nn.CosineSimilarity(dim=-1)
    net.load_state_dict(start)
    for t in range(ROUNDS):
        members = cohort(SEED, t, 3, CLIENTS)
        for i in members:
            local, old = copy.deepcopy(net), previous.get(i)
            x, y = data.x[examples[i]], data.y[examples[i]]
            for _ in range(STEPS):
                z = local.features(x)
                value = F.cross_entropy(local.head(z), y)
                if old is not None:
                    with torch.no_grad():
                        z_t, z_old = net.features(x), old.features(x)
                    logits = torch.stack([similarity(z, z_t), similarity(z, z_old)], 1)
                    first = torch.zeros(len(x), dtype=torch.long)
                    value = value + mu * F.cross_entropy(logits / temperature, first)
                local.zero_grad()
                value.backward()
                square = sum(float(p.grad.square().sum()) for p in local.parameters())
                eta = 0.3 if solver == "sgd" else float(value.detach()) / (0.5 * square + 1e-8)
                torch.optim.SGD(local.parameters(), eta).step()
            previous[i] = local
        states, sizes = [previous[i].state_dict() for i in members], data.sizes[members]
        weighted = [(n / sizes.sum(), state) for n, state in zip(sizes, states, strict=True)]
        net.load_state_dict({name: sum(p * state[name] for p, state in weighted) for name in start})
    return net.state_dict()


COMMON = {"rounds": ROUNDS, "seed": SEED, "dtype": "float64", "clients_per_round": 3}


def run(algorithm="moon", **change):
    common = {**COMMON, **{key: change.pop(key) for key in list(change) if key in COMMON}}
    return fedlib.run(task(), algorithm, **common, overrides={"local_steps": STEPS, **change})


@pytest.mark.parametrize("solver", ["sgd", "sps"])
@pytest.mark.parametrize(("mu", "temperature"), [(1.0, 0.5), (5.0, 0.2)])
def test_equals_literal_networks(solver, mu, temperature):
    if solver == "sps":
        mu /= 10  # its steps have no bound, and large ones amplify rounding
    start = run(rounds=0).params
    expected = literal(start, solver, mu, temperature)
    settings = {"mu": mu, "temperature": temperature, "client_optimizer": solver}
    history = run(**settings)
    torch.testing.assert_close(history.params, dict(expected), rtol=0, atol=1e-8)
    without = run(client_optimizer=solver, mu=0)
    assert not torch.allclose(without.params["output.weight"], expected["output.weight"], atol=1e-5)


def test_rows_agree_on_a_model_with_dropout():
    task = fedlib.load_task("mnist", network="paper", clients=3, width=0.2, test_examples=20)
    overrides = {"mu": 2.0, "batch_size": 30, "client_lr": 0.05}
    assert_rows_agree(task, "moon", rounds=2, clients_per_round=None, overrides=overrides)


def test_features_of_all_steps_of_a_sequence_are_compared_together():
    task = fedlib.load_task("shakespeare", clients=4, length=6)
    assert_rows_agree(task, "moon", rounds=2, clients_per_round=None)


def test_features_that_are_all_zero_do_no_harm():
    """ReLU features of an example may all be zero, where the cosine has no gradient."""

    def dead():
        model = MLP(5, (6,), 3)
        nn.init.constant_(model.hidden[0].bias, -100)
        return model

    history = fedlib.run(replace(task(), model=dead), "moon", rounds=3, clients_per_round=4)
    assert history.diverged is None
    assert all(torch.isfinite(value).all() for value in history.params.values())


def test_a_model_without_features_is_refused(synthetic):
    refused("Softmax has no features", fedlib.run, synthetic, "moon", rounds=1)
