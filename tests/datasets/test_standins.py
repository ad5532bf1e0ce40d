"""Stand-ins are fixed, have the real sets' shapes, types and partition structure, and can be
learnt."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fedlib.datasets import standins, text_standins
from fedlib.datasets.catalogue import CATALOGUE

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


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_fixed_and_have_the_shapes_types_and_labels_of_the_real_set(name):
    standins.make.cache_clear()
    np.random.seed(3)
    data, entry = standins.make(name), CATALOGUE[name]
    assert data.fingerprint[:16] == PICTURES[name]
    assert data.stand_in and data.source.startswith("offline")
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert x.dtype == np.uint8 and x.shape[1:] == entry.shape
        assert y.dtype == np.int64 and len(y) == len(x)
        assert y.min() >= 0 and y.max() < entry.class_count
    assert 5500 <= len(data.train_x) <= 6100 and 900 <= len(data.test_x) <= 2300
    assert data.polarity == entry.polarity
    if entry.shape == (28, 28):  # paper is bright or dark, as it says
        assert np.median(data.train_x[:, :2, :2]) == (255 if data.polarity == "ink_dark" else 0)
    with pytest.raises(ValueError, match="read-only"):
        data.train_x[0] = 0


def test_pictures_are_the_same_with_the_plainest_instructions():
    plainest = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"}
    code = (
        "from fedlib.datasets import standins\n"
        f"for name in {[*PICTURES]}: print(standins.make(name).fingerprint[:16])"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run(python, env=os.environ | plainest, capture_output=True, text=True)
    assert done.stdout.split() == [*PICTURES.values()], done.stderr


# ------------------------------------------------------------------------------------------ texts


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_fixed_and_no_text_is_there_twice(name):
    text_standins.make.cache_clear()
    data = text_standins.make(name)
    assert data.fingerprint[:16] == TEXTS[name]
    assert data.stand_in and data.source.startswith("offline")
    texts = [data.text(split, i) for split in ("train", "test") for i in range(data.size(split))]
    assert len(set(texts)) == len(texts) and all(text.strip() for text in texts)
    both = [set(data.client(split).tolist()) for split in ("train", "test")]
    assert both[0] == both[1] == set(range(len(data.clients)))
    with pytest.raises(ValueError, match="read-only"):
        data.arrays["train_text"][0] = 0
