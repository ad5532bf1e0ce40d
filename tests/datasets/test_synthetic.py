"""LEAF's synthetic data: the published draw, and the generator's statistics."""

import numpy as np
import pytest

from fedlib.tasks.synthetic import leaf_synthetic


def test_the_default_draw_is_the_known_one():
    xs, ys = leaf_synthetic()
    sizes = [len(y) for y in ys]
    assert sum(sizes) == 10376
    assert np.median(sizes) == 23
    assert (min(sizes), max(sizes)) == (5, 1000)
    # From running the public generator with -num-tasks 100 -num-classes 10 -num-dim 60.
    counts = np.bincount(np.concatenate(ys), minlength=10)
    assert counts.tolist() == [1651, 294, 529, 886, 297, 484, 662, 5240, 303, 30]
    assert ys[0][:10].tolist() == [3, 3, 1, 1, 3, 8, 3, 1, 1, 3]
    assert xs[0][0, :3] == pytest.approx([1.0749854, 0.9781692, -1.2358333], rel=1e-6)
    assert xs[0].dtype == np.float32 and ys[0].dtype == np.int64
    assert xs[0].shape[1] == 60


def test_the_seed_alone_decides_and_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()
    assert not np.array_equal(leaf_synthetic(5, seed=1)[0][0], leaf_synthetic(5)[0][0])
    assert (np.random.get_state()[1] == before).all()
