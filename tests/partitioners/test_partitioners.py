"""Partitioners against slow references, exact counts and the theory's moments."""

import numpy as np
import pytest

from fedlib.partitioners import by_user, dirichlet, dirichlet_proportions, iid
from fedlib.randomness import numpy_generator


def test_iid_gives_every_index_once_in_near_equal_parts():
    parts = iid(1003, 10, seed=4)
    assert sorted(np.concatenate(parts)) == list(range(1003))
    assert sorted({len(part) for part in parts}) == [100, 101]
    assert all(part.dtype == np.int64 for part in parts)


def test_users_keep_the_order_of_their_examples():
    codes = np.random.default_rng(0).integers(3, size=1000)  # short ones are sorted otherwise
    want = [np.flatnonzero(codes == user).tolist() for user in range(3)]
    assert [part.tolist() for part in by_user(codes)] == want


def slow_lda(labels, clients, q, sizes, seed):
    """One example at a time, as the public description has it; same uniforms as the library."""
    shuffler = numpy_generator(seed, "partition dirichlet order")
    pools = [list(shuffler.permutation(np.flatnonzero(labels == c))) for c in range(q.shape[1])]
    q = q.copy()
    for c, pool in enumerate(pools):
        if not pool:
            q[:, c] = 0
    result = []
    for client in range(clients):
        u = numpy_generator(seed, "partition dirichlet labels", client).random(sizes[client])
        mine = []
        for value in u:
            row = q[client]
            if row.sum() == 0:
                row = np.array([len(pool) for pool in pools], dtype=float)
            row = row / row.sum()
            label, acc = 0, row[0]
            while acc <= value:
                label += 1
                acc += row[label]
            mine.append(pools[label].pop(0))
            if not pools[label]:
                q[:, label] = 0
        result.append(mine)
    return result


@pytest.mark.parametrize("alpha", [0.05, 0.5, 10.0])
def test_dirichlet_equals_the_slow_reference_until_the_last_example(alpha):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(7), 40))
    sizes = [28, 0, 56, *[28] * 7]
    got = dirichlet(labels, 10, alpha, sizes, seed=5)
    want = slow_lda(labels, 10, dirichlet_proportions(10, 7, alpha, 5), sizes, 5)
    assert [part.tolist() for part in got] == want
    assert sorted(np.concatenate(got)) == list(range(280))  # everything is used, nothing twice


def test_dirichlet_leaves_out_classes_that_do_not_occur():
    # With so small an alpha a client has one class, and must not be given one that nobody has.
    labels = np.repeat([0, 1, 2], 400)
    parts = dirichlet(labels, 20, 0.001, 20, seed=0)
    shifted = dirichlet(2 * labels + 1, 20, 0.001, 20, seed=0)
    assert [part.tolist() for part in parts] == [part.tolist() for part in shifted]
    assert all(len(np.unique(labels[part])) == 1 for part in shifted)


def test_dirichlet_proportions_have_the_moments_of_the_theory():
    alpha, classes = 0.3, 5
    q = dirichlet_proportions(4000, classes, alpha, seed=2)
    total = alpha * classes
    variance = (1 / classes) * (1 - 1 / classes) / (total + 1)
    assert np.allclose(q.sum(axis=1), 1)
    assert np.abs(q.mean(axis=0) - 0.2).max() < 5 * np.sqrt(variance / 4000)
    assert np.allclose(q.var(axis=0), variance, rtol=0.1)
    assert np.corrcoef(q.T)[0, 1] == pytest.approx(-1 / (classes - 1), abs=0.06)
