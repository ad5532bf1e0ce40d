"""Sizes against the moments of their distributions; quantity skew; local splits."""

import numpy as np
import pytest
from scipy.stats import norm

from fedlib import partition
from fedlib.partitioners import local_split, lognormal_sizes, quantity, uniform_sizes


def test_uniform_sizes_are_uniform_on_both_ends_included():
    sizes = uniform_sizes(40_100, 100, 500, seed=0)
    counts = np.bincount(sizes)
    assert sizes.dtype == np.int64 and len(counts) == 501 and counts[:100].sum() == 0
    assert counts[100] > 50 and counts[500] > 50  # 100 each on average
    chi_square = ((counts[100:] - 100) ** 2 / 100).sum()
    assert abs(chi_square - 400) < 5 * np.sqrt(800)
    assert set(uniform_sizes(5, 7, 7, seed=0)) == {7}


def test_lognormal_sizes_have_the_quantiles_of_the_theory():
    sizes = lognormal_sizes(20_000, seed=1)
    assert sizes.dtype == np.int64 and sizes.min() == 5 and sizes.max() == 1000
    # floor(x) + 5 <= 25 where x < 21, and so on: shares below, from the normal distribution.
    for size, normal in ((5, -1.5), (25, (np.log(21) - 3) / 2), (152, (np.log(148) - 3) / 2)):
        assert (sizes <= size).mean() == pytest.approx(norm.cdf(normal), abs=0.015)
    assert (sizes == 1000).mean() == pytest.approx(norm.sf((np.log(995) - 3) / 2), abs=0.006)


def test_quantity_deals_exact_sizes_and_no_index_twice():
    sizes = [5, 0, 30, 1]
    parts = quantity(40, sizes, seed=2)
    assert [len(part) for part in parts] == sizes
    everything = np.concatenate(parts)
    assert everything.dtype == np.int64
    assert len(set(everything.tolist())) == 36 and 0 <= everything.min() <= everything.max() < 40
    assert sorted(np.concatenate(quantity(6, [2, 4], 0))) == list(range(6))


def test_local_split_divides_each_client():
    parts = [np.arange(10), np.arange(100, 103), np.array([7]), np.array([], dtype=np.int64)]
    train, test = local_split(parts, 0.2, seed=0)
    assert [len(part) for part in train] == [8, 2, 1, 0]
    assert [len(part) for part in test] == [2, 1, 0, 0]
    for whole, a, b in zip(parts, train, test, strict=True):
        assert sorted([*a, *b]) == whole.tolist()
    chosen = np.array([local_split(parts, 0.2, seed)[1][0] for seed in range(500)])
    counts = np.bincount(chosen.ravel(), minlength=10)  # 100 each on average
    assert np.abs(counts - 100).max() < 50


def test_local_split_keeps_copies_on_one_side():
    parts = partition.dirichlet_overlapping(np.arange(300) % 10, 4, 0.1, 200, seed=0)
    for part, train, test in zip(parts, *local_split(parts, 0.2, seed=0), strict=True):
        assert sorted([*train, *test]) == sorted(part)
        assert not {*train} & {*test} and len({*test}) == round(0.2 * len({*part}))


def test_local_split_of_a_client_does_not_depend_on_the_others():
    first = local_split([np.arange(10), np.arange(5)], np.float32(0.2), seed=1)
    second = local_split([np.arange(10), np.arange(50)], 0.2, seed=1)
    assert (first[1][0] == second[1][0]).all()
