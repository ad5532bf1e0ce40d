"""Delta-SGD's overlapping Dirichlet clients, AdaFedAdam's silos, and the measures of skew."""

import numpy as np
import pytest

from fedlib import partition
from fedlib.partitioners import dirichlet_overlapping, label_counts, silos
from fedlib.partitioners.dirichlet import TRIES, rounded_counts
from fedlib.randomness import numpy_generator
from tests.refusals import refused

CIFAR10 = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000))


# ------------------------------------------------------------------------ overlapping clients


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
def test_overlapping_counts_are_the_rounded_proportions(alpha):
    parts = dirichlet_overlapping(CIFAR10, 100, alpha, 500, seed=1)
    q = partition.dirichlet_proportions(100, 10, alpha, seed=1)
    counts = label_counts(CIFAR10, parts)
    assert (counts.sum(axis=1) == 500).all()
    usual = np.round(500 * q[:, :-1]).sum(axis=1) <= 500
    assert usual.mean() > 0.5
    assert (counts[usual, :-1] == np.round(500 * q[usual, :-1])).all()
    assert np.abs(counts - 500 * q).max() <= 5


def test_overlapping_clients_draw_from_all_examples_with_replacement():
    labels = np.repeat([0, 1], 50)
    parts = dirichlet_overlapping(labels, 20, 1.0, 400, seed=0)
    assert all(len(part) == 400 for part in parts)  # more than there are
    mixed = [part for part in parts if 0.1 < labels[part].mean() < 0.9]
    assert mixed and all((np.diff(labels[part]) < 0).sum() > 9 for part in mixed)
    uses = np.bincount(np.concatenate(parts), minlength=100)
    for label in (0, 1):
        mine = uses[labels == label]
        # Poisson-like: the variance of a count equals its mean.
        assert mine.var() == pytest.approx(mine.mean(), rel=0.6)


def test_author_split_keeps_the_first_nine_tenths_of_the_classes_in_order():
    parts = dirichlet_overlapping(CIFAR10, 100, 1.0, 500, seed=1, author_split=True)
    q = partition.dirichlet_proportions(100, 10, 1.0, seed=1)
    for part, row in zip(parts, q, strict=True):
        y = CIFAR10[part]
        assert (np.diff(y) >= 0).all()
        counts = np.round(500 * row).astype(int)
        counts[-1] = max(500 - counts[:-1].sum(), 0)
        kept = int(0.9 * counts.sum())
        assert len(part) == kept and (y == np.repeat(np.arange(10), counts)[:kept]).all()
    assert {len(part) for part in parts} <= {450, 451}


def test_rounded_counts_by_hand():
    """What rounding gives too much is taken back; where it is not: test_released_draws."""
    assert rounded_counts(np.array([0.25, 0.25, 0.5]), 10).tolist() == [2, 2, 6]  # halves to even
    q = np.array([0.3, 0.3, 0.3, 0.1])
    assert rounded_counts(q, 2).tolist() == [0, 1, 1, 0]
    assert rounded_counts(q, 0).tolist() == [0, 0, 0, 0]


# ------------------------------------------------------------------------ silos


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.5, 1.0])
def test_silos_use_every_example_once_and_give_everyone_enough(beta):
    for seed in range(5):
        parts = silos(CIFAR10, 16, beta, seed)
        assert (np.sort(np.concatenate(parts)) == np.arange(50_000)).all()
        # Shares of the classes, to within the rounding of the cuts.
        shares = label_counts(CIFAR10, parts) / 5000
        assert shares.sum(axis=1).min() >= 1 / 160 - 10 / 5000


def test_silos_take_the_first_draw_whose_least_share_is_a_tenth_of_equal_ones():
    labels, found = np.zeros(10_000, dtype=int), []
    for seed in range(300):
        draw = numpy_generator(seed, "partition silos")
        shares = np.zeros(4)
        while shares.min() < 1 / 40:
            shares = draw.dirichlet(np.full(4, 0.5), size=1)[0]
        counts = label_counts(labels, silos(labels, 4, 0.5, seed))[:, 0]
        assert np.abs(counts - 10_000 * shares).max() <= 1
        found.append(shares.min())
    assert min(found) < 1 / 39  # and some are near the bound


def test_silos_are_shuffled():
    first = silos(CIFAR10, 4, 1.0, seed=0)
    assert all((np.diff(CIFAR10[part]) < 0).mean() > 0.2 for part in first)
    # Which examples of a class a client has is random, not the first of the file.
    mine = first[0][CIFAR10[first[0]] == 0]
    rank = np.searchsorted(np.flatnonzero(CIFAR10 == 0), mine)
    assert abs(rank.mean() - 2499.5) < 5 * 1443 / np.sqrt(len(mine))


def test_silos_never_empty_even_where_classes_are_tiny():
    labels = np.repeat(np.arange(3), 4)
    for seed in range(20):
        parts = silos(labels, 6, 1.0, seed)
        assert min(map(len, parts)) > 0 and sum(map(len, parts)) == 12


def test_silos_give_up_with_the_numbers():
    message = f"beta is 0.001, and in {TRIES} tries .* 1/160 .* than 16"
    refused(message, silos, np.repeat(np.arange(10), 50), 16, 0.001, seed=0)


# ------------------------------------------------------------------------ measures


def test_label_counts_and_total_variation_by_hand():
    labels = np.array([0, 0, 1, 1, 3])
    parts = [np.array([0, 1]), np.array([2, 4]), np.array([0, 1, 2, 3, 4]), np.array([], dtype=int)]
    counts = [[2, 0, 0, 0], [0, 1, 0, 1], [2, 2, 0, 1], [0, 0, 0, 0]]
    assert label_counts(labels, parts).tolist() == counts
    distance = partition.total_variation(labels, parts)
    # All: 0.4, 0.4, 0, 0.2. First: 1, 0, 0, 0. Second: 0, 0.5, 0, 0.5.
    assert distance[:3] == pytest.approx([0.6, 0.4, 0.0]) and np.isnan(distance[3])
