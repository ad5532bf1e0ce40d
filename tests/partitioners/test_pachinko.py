"""Pachinko allocation against the paper's algorithm written out, and against its Figure 14."""

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from fedlib.partitioners import pachinko
from fedlib.partitioners.pachinko import log_gammas
from fedlib.randomness import numpy_generator

FINE = np.repeat(np.arange(100), 500)  # CIFAR-100's training labels, in order
COARSE = FINE // 5


def renormalize(theta, i):
    """Algorithm 8: the distribution over the other nodes."""
    a = sum(p for k, p in theta.items() if k != i)
    return {k: p / a for k, p in theta.items() if k != i} if a > 0 else {}


def multinomial(theta, u):
    total = 0.0
    for k, p in theta.items():
        total += p
        if u < total:
            return k
    return k


def algorithm_7(coarse, fine, sizes, root_theta, leaf_theta, uniform, select):
    """The paper's loop, one example at a time, with all randomness from the four functions."""
    left = {y: np.flatnonzero(fine == y).tolist() for y in np.unique(fine)}
    graph = {c: [int(y) for y in np.unique(fine[coarse == c])] for c in np.unique(coarse)}
    result = []
    for m, size in enumerate(sizes):
        theta_r = root_theta(m, list(graph))
        theta = {c: leaf_theta(m, graph[c]) for c in graph}
        mine = []
        for n in range(size):
            c = multinomial(theta_r, uniform(m, n, 0))
            y = multinomial(theta[c], uniform(m, n, 1))
            example = select(y, left[y])
            mine.append(example)
            left[y].remove(example)
            if not left[y]:
                graph[c].remove(y)
                theta[c] = renormalize(theta[c], y)
            if not graph[c]:
                del graph[c]
                theta_r = renormalize(theta_r, c)
        result.append(mine)
    return result


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 10.0), (1.0, 0.3), (20.0, 20.0)])
def test_equals_the_written_out_algorithm_until_the_last_example(alpha, beta):
    """Same uniforms; the tree is uneven, and in the end every node has been pruned."""
    random = np.random.default_rng(0)
    fine = random.permutation(np.repeat([3, 4, 7, 9, 10, 11, 15], [20, 5, 30, 1, 14, 20, 10]))
    coarse = np.array([2, 2, 2, 2, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 8])[fine]
    assert len(np.unique(coarse)) == 4
    sizes, seed = [30, 0, 25, 1, 24, 20], 5
    # Each client's preferences and uniforms, by the library's keys but by another formula.
    weights, uniforms = [], []
    for m, size in enumerate(sizes):
        generator = numpy_generator(seed, "partition pachinko", m)
        drawn = []
        for shape, nodes in ((alpha, np.unique(coarse)), (beta, np.unique(fine))):
            gamma = generator.standard_gamma(shape + 1, len(nodes))
            gamma *= (1 - generator.random(len(nodes))) ** (1 / shape)
            drawn.append(dict(zip(nodes.tolist(), gamma, strict=True)))
        weights.append(drawn)
        uniforms.append(generator.random((size, 2)))
    shuffler = numpy_generator(seed, "partition pachinko order")
    order = {y: shuffler.permutation(np.flatnonzero(fine == y)).tolist() for y in np.unique(fine)}

    def theta(level):
        def draw(m, nodes):
            total = sum(weights[m][level][k] for k in nodes)
            return {k: weights[m][level][k] / total for k in nodes}

        return draw

    want = algorithm_7(
        coarse,
        fine,
        sizes,
        theta(0),
        theta(1),
        lambda m, n, level: uniforms[m][n, level],
        lambda y, left: next(i for i in reversed(order[y]) if i in left),
    )
    got = pachinko(coarse, fine, len(sizes), sizes, alpha, beta, seed)
    assert [part.tolist() for part in got] == want
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


@pytest.mark.parametrize("shape", [0.1, 10.0])
def test_log_gammas_have_the_moments_of_the_theory(shape):
    logs = log_gammas(np.random.default_rng(0), shape, 200_000)
    variance = polygamma(1, shape)
    assert abs(logs.mean() - digamma(shape)) < 5 * np.sqrt(variance / 200_000)
    assert logs.var() == pytest.approx(variance, rel=0.03)
    assert np.exp(logs).mean() == pytest.approx(shape, rel=0.03)
