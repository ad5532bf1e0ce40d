"""Offline stand-ins: data with the shapes, types and partition structure of the real data.

They let every task run offline. They are not the real data and say so (``Dataset.stand_in``). Never
compare their numbers with a paper's.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import Dataset, describe, fingerprint
from fedlib.randomness import numpy_generator

_SEED = 0  # a stand-in is one fixed data set, like a real one
_SIZES = {"train": 6000, "test": 1000}
_WRITERS = 100
# Writers of pairs of digits, and the concentration of their preferred digits.
PAIR_WRITERS, LIKING = 140, 10.0
_TEST_WRITERS = 40  # MNIST's stand-in has other people as test writers, as the real data has


@cache
def make(name: str) -> Dataset:
    """Make the stand-in of a data set of arrays. A name always gives the same arrays.

    Args:
        name: ``mnist``, ``fashion_mnist``, ``emnist`` or ``femnist`` (about 6000 training and 1000
            test examples), ``digit_pairs`` or ``first_digits`` (6000 and 2000), ``digit_writers``
            (140 writers with 40 and 16). A writer of ``femnist`` has about a sixth as many
            test as training examples, but at least 2.
    """
    arrays = _MAKERS[name](name)
    # The stand-in for clothes is digits too.
    classes = CATALOGUE["mnist" if name == "fashion_mnist" else name].classes
    said: dict[str, Any] = arrays | about(name, arrays, classes)
    return Dataset(name, polarity=CATALOGUE[name].polarity, **said)


def about(
    name: str,
    arrays: Mapping[str, np.ndarray],
    classes: tuple[str, ...] | None,
    **names: Sequence[str],
) -> dict[str, Any]:
    """A stand-in's fields about itself. Its arrays are read-only from now on.

    Args:
        names: further contents of the fingerprint.
    """
    for array in arrays.values():
        array.setflags(write=False)
    known = CATALOGUE[name]
    origin = "offline" if known.built_in else f"offline stand-in for {known.title}"
    records = {key: describe(array) for key, array in arrays.items()}
    return {
        "classes": classes,
        "stand_in": True,
        "source": f"{origin}: {known.stand_in}",
        "fingerprint": fingerprint(records | names, classes),
    }


# ------------------------------------------------------------------------------------ handwriting


def _originals() -> tuple[Any, dict[str, np.ndarray]]:
    """Scikit-learn's digits, and those that a split draws from: 4 in 5 are for training."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = numpy_generator(_SEED, "stand-in originals").permutation(len(digits.target))
    cut = len(order) * 4 // 5
    return digits, {"train": order[:cut], "test": order[cut:]}


def _pairs(name: str) -> dict[str, np.ndarray]:
    """Two digits beside each other, 8x16. No original occurs in both splits.

    In ``digit_pairs`` the label is the two-digit number, and its tens are the coarse label. All
    hundred are equally frequent. ``first_digits``, the same pictures, have only the tens as labels,
    so the second digit is a distraction.
    """
    digits, pools = _originals()
    arrays: dict[str, np.ndarray] = {}
    for split, count in {"train": 6000, "test": 2000}.items():
        random = numpy_generator(_SEED, f"stand-in digit_pairs {split}")
        number = random.permutation(np.arange(count) % 100)
        arrays[f"{split}_x"] = _paired(digits, pools[split], number, random)
        arrays[f"{split}_y"] = number.astype(np.int64)
        arrays[f"{split}_coarse"] = (number // 10).astype(np.int64)
        if name == "first_digits":
            arrays[f"{split}_y"] = arrays.pop(f"{split}_coarse")
    return arrays


def _pairs_by_writers(name: str) -> dict[str, np.ndarray]:
    """``first_digits`` of 140 writers with 40 training and 16 test pictures each.

    A writer's frequencies of first digits are drawn from Dirichlet(LIKING). The second digits are
    uniform. No original occurs in both splits.
    """
    digits, pools = _originals()
    random = numpy_generator(_SEED, "stand-in digit_writers")
    liking = random.dirichlet(np.full(10, LIKING), size=PAIR_WRITERS)
    arrays: dict[str, np.ndarray] = {}
    for split, count in {"train": 40, "test": 16}.items():
        tens = np.concatenate([random.choice(10, count, p=shares) for shares in liking])
        number = 10 * tens + random.integers(0, 10, len(tens))
        arrays[f"{split}_x"] = _paired(digits, pools[split], number, random)
        arrays[f"{split}_y"] = tens.astype(np.int64)
        arrays[f"{split}_client"] = np.repeat(np.arange(PAIR_WRITERS), count)
    return arrays


def _paired(
    digits: Any, pool: np.ndarray, number: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Pictures uint8 ``[N, 8, 16]`` of numbers ``[N]`` from 0 to 99."""
    tens, units = (_drawn(digits, pool, part, random) for part in divmod(number, 10))
    points = np.concatenate([tens, units], axis=2)  # scikit-learn's points, from 0 to 16
    return np.round(points * (255 / 16)).astype(np.uint8)


def _drawn(
    digits: Any, pool: np.ndarray, wanted: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """An image ``[N, 8, 8]`` from the pool for each wanted digit."""
    chosen = np.empty(len(wanted), dtype=np.int64)
    for digit in range(10):
        places = np.flatnonzero(wanted == digit)
        chosen[places] = random.choice(pool[digits.target[pool] == digit], len(places))
    images: np.ndarray = digits.images[chosen]
    return images


def _digits(name: str) -> dict[str, np.ndarray]:
    """Scikit-learn's digits, written by several hands.

    No original occurs in both splits. A writer has a place on the paper, a slant, a stroke width
    and a pressure. Every image varies a little more.
    """
    digits, pools = _originals()
    random = numpy_generator(_SEED, f"stand-in {name}")
    writers = _WRITERS + (_TEST_WRITERS if name == "mnist" else 0)
    # The numbers of training examples are log-normal.
    sizes = random.lognormal(0.0, 0.6, _WRITERS)
    sizes = np.maximum(4, np.round(sizes / sizes.sum() * _SIZES["train"])).astype(np.int64)
    train = np.repeat(np.arange(_WRITERS), sizes)
    if name == "mnist":
        test = np.repeat(np.arange(_WRITERS, writers), max(2, sizes.sum() // 6 // _TEST_WRITERS))
    elif name == "fashion_mnist":
        # The real set has no people, so its examples vary one by one.
        writers = sum(_SIZES.values())
        train, test = np.split(np.arange(writers), [_SIZES["train"]])
    else:
        test = np.repeat(np.arange(_WRITERS), np.maximum(2, sizes // 6))
    hands = {
        "x": random.uniform(-0.12, 0.12, writers),
        "y": random.uniform(-0.12, 0.12, writers),
        "slant": random.normal(0.0, 0.18, writers),
        "size": random.uniform(0.9, 1.15, writers),
        "width": random.uniform(0.6, 1.5, writers),
        "pressure": random.uniform(0.75, 1.0, writers),
    }
    arrays: dict[str, np.ndarray] = {}
    for split, writer in {"train": train, "test": test}.items():
        writer = writer[random.permutation(len(writer))]
        chosen = random.choice(pools[split], size=len(writer))
        images = _written(digits.images[chosen], {k: v[writer] for k, v in hands.items()}, random)
        if CATALOGUE[name].polarity == "ink_dark":
            images = 255 - images
        arrays[f"{split}_x"] = images
        arrays[f"{split}_y"] = digits.target[chosen].astype(np.int64)
        if name != "fashion_mnist":
            arrays[f"{split}_client"] = writer.astype(np.int64)
    return arrays


def _written(
    originals: np.ndarray, hand: dict[str, np.ndarray], random: np.random.Generator
) -> np.ndarray:
    """uint8 ``[N, 28, 28]``, bright ink, from ``[N, 8, 8]`` in 0..16.

    This uses float64 and one operation at a time, so that every processor gives the same bytes, as
    runs are found by the hash of their data.
    """
    count, side = len(originals), 28
    slant = hand["slant"] + random.normal(0.0, 0.05, count)
    right = hand["x"] + random.normal(0.0, 0.04, count)
    down = hand["y"] + random.normal(0.0, 0.04, count)
    # An affine map from the output's coordinates (-1..1) to the input's, and then to pixels.
    x = ((2 * np.arange(side) + 1) / side - 1).reshape(1, 1, side)
    y = x.reshape(1, side, 1)
    size, slant, right, down = (v[:, None, None] for v in (hand["size"], slant, right, down))
    column = ((size * x + slant * y + right + 1) * side - 1) / 2
    row = ((size * y + down + 1) * side - 1) / 2
    small = originals.shape[-1]
    place = (np.arange(side) + 0.5) * small / side - 0.5
    place = place.clip(0, small - 1)  # border pixels extend outwards
    moved = _bilinear(_bilinear(originals / 16, place[:, None], place), row, column)
    ink = np.power(moved.clip(0, 1), hand["width"][:, None, None]) * hand["pressure"][:, None, None]
    return np.round(ink * 255).astype(np.uint8)


def _bilinear(images: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The values of images ``[N, s, s]`` at fractional pixels, broadcast to ``[N, h, w]``, and 0
    outside."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    last = padded.shape[-1] - 1
    row, column = ((place + 1).clip(0, last) for place in (row, column))
    top, left = (np.minimum(np.floor(p).astype(np.int64), last - 1) for p in (row, column))
    image = np.arange(len(images))[:, None, None]
    down, right = row - top, column - left
    upper = padded[image, top, left] * (1 - right) + padded[image, top, left + 1] * right
    top = top + 1
    lower = padded[image, top, left] * (1 - right) + padded[image, top, left + 1] * right
    value: np.ndarray = upper * (1 - down) + lower * down
    return value


_MAKERS: dict[str, Callable[[str], dict[str, np.ndarray]]] = {
    **dict.fromkeys(("digit_pairs", "first_digits"), _pairs),
    "digit_writers": _pairs_by_writers,
    **dict.fromkeys(("mnist", "fashion_mnist", "emnist", "femnist"), _digits),
}
