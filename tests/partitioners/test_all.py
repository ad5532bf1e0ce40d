"""Every partitioner: the seed alone decides, and bad input is refused in one line."""

import numpy as np
import pytest

from fedlib import partition
from fedlib.partitioners import dirichlet, fixed_classes, iid, label_counts, pachinko, shards, silos
from tests.refusals import refused

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 50))


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: iid(50, 5, seed),
        lambda seed: partition.quantity(100, [50], seed),
        lambda seed: dirichlet(LABELS, 5, 0.5, 50, seed),
        lambda seed: partition.dirichlet_overlapping(LABELS, 5, 0.5, 9, seed),
        lambda seed: pachinko(LABELS // 2, LABELS, 5, 50, 0.1, 10.0, seed),
        lambda seed: silos(LABELS, 4, 1.0, seed),
        lambda seed: shards(LABELS, 5, 2, seed),
        lambda seed: fixed_classes(LABELS, 5, 3, seed),
        lambda seed: [partition.uniform_sizes(9, 0, 10**6, seed)],
        lambda seed: [partition.lognormal_sizes(9, seed, cap=10**9)],
    ],
)
def test_a_partition_depends_on_the_seed_alone(draw):
    np.random.seed(1)
    first = draw(3)
    np.random.seed(2)
    again, other = draw(3), draw(4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert all(part.dtype == np.int64 for part in first)


def test_the_least_that_is_allowed():
    """One client, as many as examples, none at all."""
    assert [part.tolist() for part in iid(1, 1, 0)] == [[0]]
    assert sorted(np.concatenate(iid(4, 4, 0))) == [0, 1, 2, 3]
    assert sorted(silos([0, 1, 1], 1, 1.0, 0)[0]) == [0, 1, 2]
    assert sorted(fixed_classes([0, 1, 1], 1, 2, 0)[0]) == [0, 1, 2]
    assert sorted(map(tuple, silos([0, 0, 0], 3, 100.0, 0))) == [(0,), (1,), (2,)]
    assert [part.tolist() for part in partition.quantity(0, [0], 0)] == [[]]
    assert partition.by_user(np.array([], dtype=np.int64)) == []
    assert partition.uniform_sizes(1, 0, 0, 0).tolist() == [0]
    assert partition.lognormal_sizes(2, 0, cap=0).tolist() == [0, 0]
    assert partition.lognormal_sizes(1, 0, mean=0.0, sigma=-0.0, shift=0).tolist() == [1]


TREE = {"coarse": [0, 0, 1, 1], "fine": [0, 1, 2, 2], "clients": 2, "examples_per_client": 2}
TREE |= {"alpha": 1.0, "beta": 1.0, "seed": 0}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: iid(3, 4, 0), "4 clients ask for 4 examples in all, .* only 3"),
        (lambda: partition.by_user(np.zeros((2, 2))), "2 dimensions"),
        (lambda: dirichlet([0, 1], 2, 1.0, 5, 0), "ask for 10 examples in all, .* only 2"),
        (lambda: dirichlet([0, 1], 2, 1.0, [1], 0), "2 numbers"),
        (lambda: dirichlet([0, 1], 2, 1.0, -1, 0), "is -1"),
        (lambda: dirichlet([0, -1], 1, 1.0, 1, 0), "smallest is -1"),
        (lambda: dirichlet([0, 1], 2, 1e-320, 1, 0), r"alpha is 1e-320 .* 1e-06 to 1e\+06"),
        (lambda: dirichlet([0.5, 1.0], 1, 1.0, 1, 0), "integers"),
        (lambda: partition.uniform_sizes(3, 5, 2, 0), "high is 2, below low, which is 5"),
        (lambda: partition.lognormal_sizes(3, 0, sigma=-1.0), "sigma is -1.0"),
        (lambda: partition.lognormal_sizes(3, 0, mean=float("nan")), "mean is nan"),
        (lambda: partition.quantity(5, [3, 3], 0), "ask for 6 examples in all, .* only 5"),
        (lambda: partition.quantity(5, [], 0), "one number per client"),
        (lambda: partition.quantity(5, [2**62, 2**62], 0), "sizes is .* 0..2147483647"),
        (lambda: partition.local_split([np.arange(3)], 1.5, 0), "test_fraction is 1.5 .allow"),
        (lambda: partition.dirichlet_overlapping(LABELS[:0], 2, 1.0, 5, 0), "labels is empty"),
        (lambda: silos([0, 1], 3, 1.0, 0), "3 clients ask for 3 examples in all, .* only 2"),
        (lambda: silos([[0, 1]], 2, 0.5, 0), "one-dimensional"),
        (lambda: label_counts([0, 1], []), "parts is empty"),
        (lambda: label_counts([0, 1], [np.array([False, True])]), "client 0 is a mask: give ind"),
        (lambda: partition.local_split([[0.5, 1.5]], 0.5, 0), "client 0 is float64 of shape"),
        (lambda: partition.local_split([np.uint64([2**63])], 0.5, 0), "client 0 has example -"),
        (
            lambda: label_counts([0, 1], [[0], np.array([1, -1])]),
            "client 1 has example -1, outside 0..1",
        ),
        (lambda: pachinko(**TREE | {"clients": 3}), "3 clients ask for 6 examples in all, .* 4"),
        (lambda: pachinko(**TREE | {"fine": [0, 1, 2]}), "4 coarse labels but 3 fine labels"),
        (lambda: pachinko(**TREE | {"fine": [0, 1, 1, 2]}), "fine label 1 is in two coarse"),
        (lambda: pachinko(**TREE | {"coarse": [0, 0, 1, -1]}), "coarse must be 0 or more"),
        (lambda: shards(LABELS, 251, 2, 0), "251 clients ask for 502 examples in all, .* only 500"),
        (lambda: fixed_classes(LABELS, 5, 11, 0), "classes_per_client is 11, but there are 10"),
        (lambda: fixed_classes([0, 1], 3, 2, 0), "label 0 has 1 examples for 3 clients"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words):
    refused(words, call)


MANY = np.arange(5000)


@pytest.mark.parametrize(
    "call",
    [
        lambda labels: dirichlet(labels, 2, 0.5, 1, 0),
        lambda labels: partition.dirichlet_overlapping(labels, 2, 0.5, 1, 0),
        lambda labels: silos(labels, 2, 0.5, 0),
        lambda labels: label_counts(labels, [[0], [1]]),
        lambda labels: partition.total_variation(labels, [[0], [1]]),
        lambda labels: pachinko(labels, labels, 2, 1, 0.5, 0.5, 0),
    ],
)
@pytest.mark.parametrize("labels", [[0, 1000, 0, 7] * 2, MANY, MANY * 10])
def test_labels_that_are_ids_are_refused(call, labels):
    refused(r"look like ids.*np\.unique", call, np.array(labels))


@pytest.mark.parametrize(("clients", "each"), [(100, 2), (5, 2), (10, 1), (7, 3), (250, 2), (3, 4)])
def test_shards_are_equal_and_of_few_labels(clients, each):
    parts = shards(LABELS, clients, each, seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(500))
    sizes = np.array([len(part) for part in parts])
    assert sizes.max() - sizes.min() <= each
    # A shard of at most 50 examples touches two labels at most.
    spread = -(-500 // (clients * each) // 50) + 1
    assert max(len(np.unique(LABELS[part])) for part in parts) <= each * spread


@pytest.mark.parametrize(
    ("clients", "each"), [(10, 1), (20, 3), (5, 10), (13, 2), (100, 2), (4, 2)]
)
def test_every_client_has_so_many_classes(clients, each):
    parts = fixed_classes(LABELS, clients, each, seed=1)
    assert {len(np.unique(LABELS[part])) for part in parts} == {each}
    everything = np.concatenate(parts)
    assert len(everything) == len(np.unique(everything))
    held = np.unique(LABELS[everything])
    assert len(everything) == np.isin(LABELS, held).sum()
    assert all(client % 10 in LABELS[part] for client, part in enumerate(parts))
