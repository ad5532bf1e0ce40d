"""Pachinko allocation against the paper's algorithm written out, and against its Figure 14."""

import numpy as np
import pytest

from fedlib.partitioners import pachinko
from fedlib.randomness import numpy_generator

FINE = np.repeat(np.arange(100), 500)  # CIFAR-100's training labels, in order
COARSE = FINE // 5


def share(weights, nodes):
    """A client's distribution over the nodes that are left: Algorithm 8 renormalises to it."""
    total = sum(weights[k] for k in nodes)
    return {k: weights[k] / total for k in nodes}


def multinomial(theta, u):
    total = 0.0
    for k, p in theta.items():
        total += p
        if u < total:
            return k
    return k


def algorithm_7(coarse, fine, sizes, alpha, beta, seed):
    """The paper's loop, one example at a time; gammas are drawn by the library's keys and by
    another formula."""
    shuffler = numpy_generator(seed, "partition pachinko order")
    left = {y: shuffler.permutation(np.flatnonzero(fine == y)).tolist() for y in np.unique(fine)}
    graph = {c: np.unique(fine[coarse == c]).tolist() for c in np.unique(coarse)}
    result = []
    for m, size in enumerate(sizes):
        generator, weights, mine = numpy_generator(seed, "partition pachinko", m), [], []
        for shape, nodes in ((alpha, np.unique(coarse)), (beta, np.unique(fine))):
            gamma = generator.standard_gamma(shape + 1, len(nodes))
            gamma *= (1 - generator.random(len(nodes))) ** (1 / shape)
            weights.append(dict(zip(nodes.tolist(), gamma, strict=True)))
        for root, leaf in generator.random((size, 2)):
            c = multinomial(share(weights[0], graph), root)
            y = multinomial(share(weights[1], graph[c]), leaf)
            mine.append(left[y].pop())
            if not left[y]:
                graph[c].remove(y)
            if not graph[c]:
                del graph[c]
        result.append(mine)
    return result


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 10.0), (1.0, 0.3), (20.0, 20.0)])
def test_equals_the_written_out_algorithm_until_the_last_example(alpha, beta):
    """The tree is uneven, and in the end every node has been pruned."""
    random = np.random.default_rng(0)
    fine = random.permutation(np.repeat([3, 4, 7, 9, 10, 11, 15], [20, 5, 30, 1, 14, 20, 10]))
    coarse = np.array([2, 2, 2, 2, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 8])[fine]
    assert len(np.unique(coarse)) == 4
    sizes = [30, 0, 25, 1, 24, 20]
    got = pachinko(coarse, fine, len(sizes), sizes, alpha, beta, 5)
    assert [part.tolist() for part in got] == algorithm_7(coarse, fine, sizes, alpha, beta, 5)
    assert sorted(np.concatenate(got)) == list(range(100))


def test_figure_14():
    """Most clients have 20 to 30 of the 100 labels, few have more than 40, some very few."""
    unique = []
    for seed in range(3):
        parts = pachinko(COARSE, FINE, 500, 100, 0.1, 10.0, seed)
        assert {len(part) for part in parts} == {100}
        assert (np.sort(np.concatenate(parts)) == np.arange(50_000)).all()
        unique.append([len(np.unique(FINE[part])) for part in parts])
    unique = np.array(unique)
    assert 0.5 < ((unique >= 20) & (unique <= 30)).mean() < 0.64
    assert (unique > 40).mean() < 0.01
    assert unique.max() > 36 and (unique.min(axis=1) < 8).all()
    # Sampling without replacement makes the last clients, who get the leftovers, the poorest.
    assert unique[:, -100:].mean() < unique[:, :100].mean() - 2


def test_extreme_concentrations_never_leave_a_client_without_a_distribution():
    fine = np.repeat(np.arange(6), 10)
    parts = pachinko(fine // 2, fine, 6, 10, 1e-6, 1e-6, seed=0)
    assert sorted(np.concatenate(parts)) == list(range(60))
