"""Stand-ins are fixed, have the real sets' shapes, types and partition structure, and can be
learnt."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from fedlib.datasets import standins, text_standins
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.errors import Error

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


def test_enlarging_and_moving_are_torchs():
    random = np.random.default_rng(0)
    small = random.random((5, 8, 8))
    large = standins._enlarged(small, 28)
    theirs = F.interpolate(torch.from_numpy(small)[:, None], size=(28, 28), mode="bilinear")
    np.testing.assert_allclose(large, theirs[:, 0].numpy(), atol=1e-14)
    grid = torch.from_numpy(random.uniform(-1.4, 1.4, (5, 6, 7, 2)))  # some points lie outside
    moved = F.grid_sample(theirs, grid, mode="bilinear", align_corners=False)[:, 0].numpy()
    column, row = (((grid[..., axis] + 1) * 28 - 1) / 2 for axis in (0, 1))
    ours = standins._bilinear(large, row.numpy(), column.numpy())
    np.testing.assert_allclose(ours, moved, atol=1e-14)


def test_writers_are_uneven_and_differ_and_mnists_test_writers_are_other_people():
    for name in ("emnist", "femnist"):
        data = standins.make(name)
        train, test = np.bincount(data.train_client), np.bincount(data.test_client)
        assert len(train) == len(test) == 100 and test.min() >= 2 and train.min() >= 4
        assert train.max() > 5 * train.min()
    ink = 255.0 - data.train_x.reshape(len(data.train_x), -1).mean(axis=1)
    by_writer = [ink[data.train_client == code] for code in range(100)]
    chance = np.mean([own.std() for own in by_writer]) / np.sqrt(train.mean())
    assert np.std([own.mean() for own in by_writer]) > 3 * chance
    mnist, fashion = standins.make("mnist"), standins.make("fashion_mnist")
    assert not set(mnist.train_client.tolist()) & set(mnist.test_client.tolist())
    assert fashion.train_client is None and fashion.test_client is None


def test_writers_of_pairs_like_some_digits_better_and_share_no_original():
    data = standins.make("digit_writers")
    for split, each in (("train", 40), ("test", 16)):
        assert np.bincount(getattr(data, f"{split}_client")).tolist() == [each] * 140
    firsts = [{x.tobytes() for x in x[:, :, :8]} for x in (data.train_x, data.test_x)]
    assert not firsts[0] & firsts[1]
    counts = np.zeros((140, 10))
    np.add.at(counts, (data.train_client, data.train_y), 1)
    # A Dirichlet(10) share has variance 0.09 / 101, a mean of 40 labels 0.09 / 40 more at most.
    assert 0.09 / 40 < (counts / 40).var(0).mean() < 1.5 * (0.09 / 40 + 0.09 / 101)
    # What makes the problem hard is that the second digit is in the way.
    net = MLPClassifier((32,), max_iter=60, random_state=0)
    x, test_x = (x.reshape(len(x), -1) / 255 for x in (data.train_x, data.test_x))
    assert 0.9 < net.fit(x, data.train_y).score(test_x, data.test_y) < 0.99


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


@pytest.mark.parametrize(
    ("name", "classes", "least"), [("sent140", 2, 0.75), ("ag_news", 4, 0.7), ("dbpedia", 14, 0.6)]
)
def test_labels_can_be_learnt_from_the_words(name, classes, least):
    data = text_standins.make(name)
    y, test_y = data.labels("train"), data.labels("test")
    assert len(data.classes) == classes
    assert set(y.tolist()) == set(test_y.tolist()) == set(range(classes))
    words = CountVectorizer(min_df=3, binary=True)
    texts, test = ([data.text(s, i) for i in range(data.size(s))] for s in ("train", "test"))
    model = LogisticRegression(max_iter=30, tol=1e-2).fit(words.fit_transform(texts), y)
    most_common = np.bincount(test_y).max() / len(test_y)
    assert model.score(words.transform(test), test_y) > least > most_common + 0.05


def test_the_tags_of_rare_words_hang_on_rare_words():
    data = text_standins.make("rare_words")
    assert data.size("train") == 2400 and data.size("test") == 600 and len(data.clients) == 200
    words, tags, told, true = Counter(), Counter(), 0, 0
    for i in range(data.size("train")):
        text, its_tags = data.text("train", i).split(), data.tags("train", i)
        words.update(set(text))
        tags.update(its_tags)
        hints = {f"topic{word[4:-1]}" for word in text if word.startswith("word")}
        assert len(text) == 8 and hints <= set(its_tags) and 1 <= len(its_tags) <= 2
        told, true = told + len(hints), true + len(its_tags)
    # The ceiling: nine of ten tags are told. The five commonest tags are a third of all.
    assert 0.88 < told / true < 0.92 and len(tags) == 40
    assert 0.3 < sum(count for _, count in tags.most_common(5)) / true < 0.4
    rare = [count / 2400 for word, count in words.items() if word.startswith("word")]
    assert len(rare) == 160 and max(rare) < 0.05 and np.mean(rare) < 0.01


def test_the_words_of_chains_foretell_the_next_ones():
    data = text_standins.make("word_chains")
    after = defaultdict(Counter)
    for i in range(data.size("train")):
        words = data.text("train", i).split()
        assert len(words) == 20
        for word, following in itertools.pairwise(words):
            after[word][following] += 1
    every = sum(after.values(), Counter())
    pairs = every.total()
    # The ceiling, a table of successors, and chance, the commonest word.
    assert 0.58 < sum(own.most_common(1)[0][1] for own in after.values()) / pairs < 0.64
    assert 0.08 < every.most_common(1)[0][1] / pairs < 0.11
    # Heavy tails: the rarer half of the words is a seventh of the text.
    assert len(after) == 120 and 0.1 < sum(sorted(every.values())[:60]) / pairs < 0.2


@pytest.mark.parametrize("make", [standins.make, text_standins.make])
def test_an_unknown_stand_in_is_refused(make):
    with pytest.raises(Error, match="no offline stand-in for 'mnits'; there is one for: "):
        make("mnits")
