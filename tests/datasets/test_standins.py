"""Stand-ins are fixed and have the real sets' shapes."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fedlib.datasets import standins, text_standins
from fedlib.tasks.synthetic import leaf_synthetic

# Whoever has other bytes does not find the published runs, which go by the hash of their data.
PICTURES = {
    "digit_pairs": "45c3fc6dfd33f9f0",
    "first_digits": "c2610e5fe14babd0",
    "digit_writers": "672526ffba92147e",
    "mnist": "1edba9b8e6aae50f",
    "fashion_mnist": "cc0280b17ea72e2c",
    "emnist": "80136e53bc713bea",
    "femnist": "1bfac25d37fdbd5f",
}
TEXTS = {
    "shakespeare": "18c753871fa2a7e0",
    "sent140": "84c1cead4eca56d4",
    "ag_news": "323b66efaf6b93a4",
    "dbpedia": "50f31a21e293ca7c",
    "rare_words": "2f80711c5bdb9bf3",
    "word_chains": "5d2a2e80b86054b4",
}


MAKERS = [(standins, name) for name in PICTURES] + [(text_standins, name) for name in TEXTS]


@pytest.mark.parametrize(("maker", "name"), MAKERS)
def test_stand_ins_are_fixed_and_of_the_kind_of_the_real_sets(maker, name):
    """Whatever else is true of them was seen once, and is so as long as the bytes are these."""
    maker.make.cache_clear()
    np.random.seed(3)
    data = maker.make(name)
    assert data.fingerprint[:16] == (PICTURES | TEXTS)[name]
    assert data.stand_in and data.source.startswith("offline")
    array = data.train_x if maker is standins else data.arrays["train_text"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_pictures_are_the_same_with_the_plainest_instructions():
    plainest = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"}
    code = (
        "from fedlib.datasets import standins\n"
        f"for name in {[*PICTURES]}: print(standins.make(name).fingerprint[:16])"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run(python, env=os.environ | plainest, capture_output=True, text=True)
    assert done.stdout.split() == [*PICTURES.values()], done.stderr


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
