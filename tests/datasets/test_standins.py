"""Stand-ins have the real sets' shapes, types and partition structure, and need learning."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPClassifier

from fedlib.datasets import standins
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.errors import Error

NAMES = ["cifar10", "cifar100", "mnist", "fashion_mnist", "emnist", "femnist"]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_types_and_labels_are_those_of_the_real_set(name):
    data, entry = standins.make(name), CATALOGUE[name]
    assert data.stand_in and "stand-in" in data.source
    assert len(data.fingerprint) == 64
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert x.dtype == np.uint8 and x.shape[1:] == entry.shape
        assert y.dtype == np.int64 and len(y) == len(x)
        assert y.min() >= 0 and y.max() < entry.class_count
    assert 5900 <= len(data.train_x) <= 6100
    assert 900 <= len(data.test_x) <= 1050
    assert data.polarity == entry.polarity
    if data.polarity:  # paper is bright or dark, as it says
        assert np.median(data.train_x[:, :2, :2]) == (255 if data.polarity == "ink_dark" else 0)
    with pytest.raises(ValueError, match="read-only"):
        data.train_x[0] = 0


def test_remaking_gives_the_same_data():
    first = standins.make("cifar10")
    standins.make.cache_clear()
    np.random.seed(3)
    torch.manual_seed(3)
    again = standins.make("cifar10")
    assert first is not again
    assert (first.train_x == again.train_x).all() and first.fingerprint == again.fingerprint
    assert first.fingerprint != standins.make("cifar100").fingerprint


# Whoever has other bytes does not find the published runs, which go by the hash of their data.
FINGERPRINTS = {
    "cifar10": "99b2a70bd6bde63e",
    "cifar100": "003617063a67bc18",
    "digit_pairs": "45c3fc6dfd33f9f0",
    "first_digits": "c2610e5fe14babd0",
    "digit_writers": "672526ffba92147e",
    "mnist": "1edba9b8e6aae50f",
    "fashion_mnist": "cc0280b17ea72e2c",
    "emnist": "80136e53bc713bea",
    "femnist": "1bfac25d37fdbd5f",
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_pictures_are_the_same_on_every_processor(name):
    assert standins.make(name).fingerprint[:16] == FINGERPRINTS[name]


def test_pictures_are_the_same_with_the_plainest_instructions():
    plainest = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"}
    code = (
        "from fedlib.datasets import standins\n"
        f"for name in {[*FINGERPRINTS]}: print(standins.make(name).fingerprint[:16])"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run(python, env=os.environ | plainest, capture_output=True, text=True)
    assert done.stdout.split() == [*FINGERPRINTS.values()], done.stderr


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


@pytest.mark.parametrize("name", ["emnist", "femnist"])
def test_every_writer_has_uneven_training_data_and_two_test_images(name):
    data = standins.make(name)
    train, test = np.bincount(data.train_client), np.bincount(data.test_client)
    assert len(train) == len(test) == 100
    assert test.min() >= 2 and train.min() >= 4
    assert train.max() > 5 * train.min()


def test_mnist_has_other_people_for_testing_and_fashion_mnist_has_none():
    mnist, fashion = standins.make("mnist"), standins.make("fashion_mnist")
    assert not set(mnist.train_client.tolist()) & set(mnist.test_client.tolist())
    assert fashion.train_client is None and fashion.test_client is None


def test_writers_differ():
    data = standins.make("femnist")
    ink = 255.0 - data.train_x.reshape(len(data.train_x), -1).mean(axis=1)
    codes = data.train_client
    means = np.array([ink[codes == code].mean() for code in np.unique(codes)])
    within = np.mean([ink[codes == code].std() for code in np.unique(codes)])
    chance = within / np.sqrt(np.bincount(codes).mean())
    assert means.std() > 3 * chance


def test_cifar100_has_five_fine_labels_in_each_coarse_one():
    data = standins.make("cifar100")
    pairs = set(zip(data.train_y.tolist(), data.train_coarse.tolist(), strict=True))
    assert len(pairs) == 100
    assert np.bincount([coarse for _, coarse in pairs]).tolist() == [5] * 20
    assert np.bincount(data.train_y).tolist() == [60] * 100


def test_a_linear_model_is_better_than_chance_but_far_from_done_on_the_shapes():
    data = standins.make("cifar10")

    def features(x):  # the pixels, coarsened to 16x16 for speed
        return x.reshape(len(x), 16, 2, 16, 2, 3).mean(axis=(2, 4)).reshape(len(x), -1) / 255

    model = RidgeClassifier(alpha=10).fit(features(data.train_x[:3000]), data.train_y[:3000])
    assert 0.15 < model.score(features(data.test_x), data.test_y) < 0.6


def test_a_small_network_learns_the_shapes():
    torch.manual_seed(0)
    data = standins.make("cifar10")
    images = torch.tensor(np.concatenate([data.train_x[:4000], data.test_x]))
    x, test = (images.permute(0, 3, 1, 2).float() / 255 - 0.5).tensor_split([4000])
    y = torch.tensor(data.train_y[:4000])
    net = torch.nn.Sequential(
        torch.nn.AvgPool2d(2),
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 25, 10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    for _ in range(5):
        for batch in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (net(test).argmax(1).numpy() == data.test_y).mean()
    assert accuracy > 0.6


def test_writers_of_pairs_like_some_digits_better_and_share_no_original():
    data = standins.make("digit_writers")
    assert data.train_x.shape == (140 * 40, 8, 16) and data.test_x.shape == (140 * 16, 8, 16)
    for split, each in (("train", 40), ("test", 16)):
        assert set(np.bincount(getattr(data, f"{split}_client"))) == {each}
    firsts = [{x.tobytes() for x in x[:, :, :8]} for x in (data.train_x, data.test_x)]
    assert not firsts[0] & firsts[1]
    counts = np.zeros((140, 10))
    np.add.at(counts, (data.train_client, data.train_y), 1)
    # A Dirichlet(10) share has variance 0.09 / 101, a mean of 40 labels 0.09 / 40 more at most.
    assert 0.09 / 40 < (counts / 40).var(0).mean() < 1.5 * (0.09 / 40 + 0.09 / 101)


def test_a_small_network_tells_the_first_digits_of_writers_but_not_all():
    """What makes the problem hard is that the second digit is in the way."""
    data = standins.make("digit_writers")
    net = MLPClassifier((32,), max_iter=60, random_state=0)
    x, y = data.train_x.reshape(len(data.train_x), -1) / 255, data.train_y
    accuracy = net.fit(x, y).score(data.test_x.reshape(len(data.test_x), -1) / 255, data.test_y)
    assert 0.9 < accuracy < 0.99


def test_an_unknown_stand_in_is_refused():
    with pytest.raises(Error, match="no offline stand-in for 'mnits'; there is one for: cifar10, "):
        standins.make("mnits")
