"""The batches of a round: who sees which examples when, and what a transform makes of them."""

import tracemalloc
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from benchmarks.rounds import stepper
from fedlib.clients import ClientData
from fedlib.engine import batches as feed
from fedlib.engine import configure
from fedlib.engine.batches import client_keys, local_steps, make_batching
from fedlib.engine.program import Program
from fedlib.randomness import dropout, masks
from fedlib.task import Fixed

SIZES = [7, 0, 3, 10, 1]


def data():
    total = sum(SIZES)
    shuffled = np.random.default_rng(0).permutation(total)
    parts = np.split(shuffled, np.cumsum(SIZES)[:-1])
    return ClientData(torch.arange(total), torch.arange(total), parts)


def plan(clients, **changes):
    own = {"batch_size": 3, "local_epochs": 2, "steps": None, "seed": 0, "round": 4, **changes}
    epochs, steps, chosen = own.pop("local_epochs"), own.pop("steps"), np.array(clients)
    taken = local_steps(data().sizes[chosen], own["batch_size"], epochs, steps, chosen)
    keys = client_keys(own.pop("seed"), own.pop("round"), chosen)
    return make_batching(data(), chosen, taken, keys, **own)


def batches(p, client):
    """The batches of a client in the order of its steps."""
    row = p.clients.tolist().index(client)
    found = []
    for step, active in enumerate(p.active):
        if row < active:
            entry = p.offsets[step] + row
            found.append(p.index[entry, : int(p.counts[entry])].tolist())
    return found


def members(client):
    d = data()
    return sorted(d.index[d.starts[client] : d.starts[client] + d.sizes[client]].tolist())


def test_every_pass_visits_each_example_once_in_batches():
    p = plan([0, 1, 2, 3, 4])
    for client, size in enumerate(SIZES):
        own = batches(p, client)
        per_pass = -(-size // 3)
        assert len(own) == 2 * per_pass
        for number in range(2):
            one_pass = own[number * per_pass : (number + 1) * per_pass]
            assert sorted(chain(*one_pass)) == members(client)
            assert all(len(batch) == 3 for batch in one_pass[:-1])
    assert int(p.counts.sum()) == 2 * sum(SIZES)


def test_passes_and_rounds_are_shuffled_differently():
    own = batches(plan([3]), 3)
    assert list(chain(*own[:4])) != list(chain(*own[4:]))
    assert own[:4] == batches(plan([3], local_epochs=1), 3)
    assert own != batches(plan([3], round=5), 3)
    assert own != batches(plan([3], seed=1), 3)


def test_orders_are_uniform():
    """All 6 orders of client 2's three examples come about equally often."""
    seen = Counter(tuple(batches(plan([2], local_epochs=1, round=r), 2)[0]) for r in range(600))
    assert len(seen) == 6
    assert max(abs(count - 100) for count in seen.values()) < 5 * np.sqrt(100)


def test_a_clients_batches_do_not_depend_on_the_cohort():
    everyone = plan([0, 1, 2, 3, 4])
    for client in range(5):
        alone = plan([client])
        assert batches(everyone, client) == batches(alone, client)
        row = everyone.clients.tolist().index(client)
        for step, active in enumerate(everyone.active):
            if row < active:
                assert everyone.keys[everyone.offsets[step] + row] == alone.keys[step]


def test_each_local_step_has_masks_of_its_own():
    """So do those of other clients and of other rounds, and an augmentation of each example."""
    p, later = plan([0, 1, 2, 3, 4]), plan([0, 1, 2, 3, 4], round=5)
    keys = torch.cat([p.keys, later.keys])
    assert len(keys) == 2 * sum(p.active) == len(keys.unique())
    with masks(keys):
        kept = dropout(torch.ones(len(keys), 64), 0.5) > 0
    assert len(kept.unique(dim=0)) == len(keys)
    seen, here = [], torch.device("cpu")
    images = feed.Feed(pictures(lambda x, k: seen.append(k) or flat(x, k)), {}, torch.float32, here)
    images.inputs(torch.zeros(len(keys), 3, dtype=torch.int64), keys)
    assert len(seen[-1].unique()) == 3 * len(keys)


def test_local_steps_cycle_through_the_data():
    p = plan([0, 3], steps=[5, 1, 1, 2, 1])
    own = batches(p, 0)
    assert [len(batch) for batch in own] == [3, 3, 1, 3, 3]
    assert sorted(chain(*own[:3])) == members(0)
    assert len(batches(p, 3)) == 2
    p = plan([0, 1, 3], steps=4)
    assert [len(batches(p, client)) for client in (0, 1, 3)] == [4, 0, 4]


@pytest.mark.parametrize("algorithm", ["scaffold", "mime", "delta"])
def test_a_round_makes_no_array_as_long_as_the_population(algorithm):
    """What a round costs before its first step depends on who takes part, not on who might."""
    population, here = 200_000, torch.device("cpu")
    x = torch.randn(population, 3, generator=torch.Generator().manual_seed(0))
    train = fedlib.ClientData(x, (x[:, 0] > 0).long(), np.arange(population)[:, None])
    test = fedlib.ClientData(x[:9], (x[:9, 0] > 0).long(), [np.arange(9)])
    task = fedlib.Task("many", lambda: torch.nn.Linear(3, 2), train, test, clients_per_round=10)
    method = {"delta": fedlib.FedOpt(client=fedlib.DeltaSGD())}.get(algorithm, algorithm)
    step = stepper(Program([configure(task, method, rounds=9)], here))
    step()  # what is made once
    step()  # before this round backends are compared in miniature
    tracemalloc.start()
    step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < population  # bytes: an array of bools would be as large


def pictures(transform):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (60, 4, 4), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, 3, (60,), generator=generator)
    data = fedlib.ClientData(x, y, np.array_split(np.arange(50), 5))
    how = {"transform": transform, "batch_size": 4, "clients_per_round": 3}
    return fedlib.Task("pictures", lambda: nn.Linear(16, 3), data, data, **how)


def flat(x, keys):
    return (x.float() / 255).flatten(-2)


@pytest.mark.parametrize("kind", ["module", "positional"])
def test_a_transform_with_keys_gets_them_in_training_whatever_it_is(kind):
    seen = set()

    def noticed(x, keys, /):
        seen.add(keys is not None)
        return flat(x, keys)

    class Module(nn.Module):
        def forward(self, x, keys):
            return noticed(x, keys)

    fedlib.run(pictures(Module() if kind == "module" else noticed), "fedavg", rounds=1)
    assert seen == {True, False}  # in training and in evaluation


@pytest.mark.parametrize(("kept_bytes", "each_round"), [(0, True), (2**20, False)])
def test_a_fixed_transform_of_small_data_is_applied_before_the_first_round_and_never_with_keys(
    kept_bytes, each_round, monkeypatch
):
    monkeypatch.setattr(feed, "KEPT_BYTES", kept_bytes)
    calls = []

    def counted(x, keys):
        calls.append(keys)
        return flat(x, keys)

    counts = []
    for rounds in (2, 5):  # backends are compared in miniature before both
        calls.clear()
        fixed = fedlib.run(pictures(Fixed(counted)), "fedavg", rounds=rounds, eval_every=100)
        assert all(keys is None for keys in calls)
        counts.append(len(calls))
    assert (counts[1] > counts[0]) == each_round
    plain = fedlib.run(pictures(flat), "fedavg", rounds=5).params
    assert all(torch.equal(values, fixed.params[name]) for name, values in plain.items())
