"""AdaFedAdam's Sent140 setup: the sentiment of a user's tweets, an LSTM on frozen GloVe vectors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from fedlib import papers, partitioners, paths
from fedlib.datasets import TextDataset
from fedlib.datasets.text import most_frequent, read_glove, tweet_words, word_rows
from fedlib.errors import Error, require
from fedlib.models import Sent140LSTM
from fedlib.randomness import key, uniform
from fedlib.task import ClientData, Task
from fedlib.tasks import settings, texts

TOKENS = 25  # of a tweet, as in LEAF and FedProx
SPLITS = ("train", "test")
# Where word vectors are looked for under the data root, in this order.
GLOVE_FILES = ("raw/glove.6B.300d.txt", "raw/glove.txt", "glove.6B.300d.txt", "glove.txt")
SPREAD = 1.0  # standard deviation of a random vector's numbers
QUICK = {"clients": 20, "examples": 80, "width": 0.16, "tokens": 6, "dimensions": 25}


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    least: int | None = None,
    examples: int | None = None,
    tokens: int | None = None,
    width: float | None = None,
    glove: str | os.PathLike[str] | None = None,
) -> Task:
    """Users as clients, all of them every round; 80 % of each one's tweets train, 20 % test.

    Settings of AdaFedAdam, appendix C: 697 users, batches of 10, client learning rate 0.3, 1000
    rounds. How the paper came to 697 of Sent140's users is not known; here they are drawn from
    those with at least 30 tweets. Tokens as in LEAF and FedProx: 25 of them, capitals kept, unknown
    words and padding are one zero vector.

    ``quick``: 20 users of at most 80 tweets, 6 tokens, a sixth of the width, 40 rounds. The LSTM
    reads on over the padding to the last step, and it takes hundreds of steps of SGD until it
    remembers the words across it; on 25 tokens a short run learns the labels' frequencies alone.

    Args:
        seed: of the choice of users and of each one's split.
        data: the prepared data set, texts with two labels; default ``sent140``, else ``tweets``,
            else the offline stand-in.
        clients: how many users; default 20 (``quick``) or 697, or all if there are fewer.
        least: least number of tweets of a user; default 30 for ``sent140``, 20 for a stand-in, else
            5.
        examples: most tweets of a user, 0 for all; default 80 (``quick``) or all.
        tokens: of a tweet, the first ones; default 6 (``quick``) or 25.
        width: factor on the hidden units.
        glove: file of word vectors in GloVe's text format; default ``glove.6B.300d.txt`` or
            ``glove.txt`` in the data root or its folder ``raw``. Without a file the vectors are
            random, and ``source`` says so.
    """
    setup = papers.settings("adafedadam")["setups"]["Sent140"]
    paper = {
        "clients": setup["clients"],
        "examples": 0,
        "width": 1.0,
        "tokens": TOKENS,
        "dimensions": 300,
    }
    chosen = QUICK if preset == "quick" else paper
    width = chosen["width"] if width is None else width
    examples = int(chosen["examples"]) if examples is None else examples
    require(isinstance(examples, int) and examples >= 0, "examples", examples, "0, or 5 or more")
    tokens = int(chosen["tokens"]) if tokens is None else tokens
    require(isinstance(tokens, int) and tokens >= 1, "tokens", tokens, "a whole number >= 1")
    dataset = texts.choose("sent140", "tweets", data, data_root)
    if least is None:
        least = 20 if dataset.stand_in else 30 if dataset.name == "sent140" else 5
    require(isinstance(least, int) and least >= 3, "least", least, "a whole number >= 3")
    # The task splits each client's texts itself, so both splits are put together.
    labels = np.concatenate([dataset.labels(split) for split in SPLITS])
    codes = np.concatenate([dataset.client(split) for split in SPLITS])
    if labels.max() > 1:
        raise Error(
            f"task fair_sent140: {dataset.name!r} has labels up to {labels.max()}; needed: 0 and 1"
        )
    users, counts = np.unique(codes, return_counts=True)
    enough = users[counts >= least]
    if not len(enough):
        raise Error(f"task fair_sent140: no client of {dataset.name!r} has {least} texts")
    picked = texts.pick(enough, clients, int(chosen["clients"]), seed)
    own = [part[: examples or None] for part in texts.by_client(codes, picked)]
    sizes = np.array([len(part) for part in own])
    words = [tweet_words(_text(dataset, i)) for i in np.concatenate(own).tolist()]
    parts = np.split(np.arange(len(words)), np.cumsum(sizes)[:-1])
    train_parts, test_parts = partitioners.local_split(parts, 0.2, key(seed, "fair_sent140"))

    used = most_frequent((word for tweet in words for word in tweet), size=sum(map(len, words)))
    known, vectors, origin = _vectors(used, glove, int(chosen["dimensions"]), data_root)
    numbers = {word: number for number, word in enumerate(known, start=1)}
    x = word_rows(words, numbers, tokens, unknown=0)
    y = labels[np.concatenate(own)]
    matrix = np.concatenate([np.zeros((1, vectors.shape[1]), dtype=np.float32), vectors])
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    ids = [dataset.clients[code] for code in picked.tolist()]
    where = texts.source(dataset, "sent140", "Sent140")
    return Task(
        name="fair_sent140",
        model=lambda: Sent140LSTM(torch.from_numpy(matrix), width=width),
        train=ClientData(inputs, targets, train_parts, ids),
        test=ClientData(inputs, targets, test_parts, ids),
        rounds=40 if preset == "quick" else setup["rounds"],
        clients_per_round=None,
        batch_size=setup["batch_size"],
        hyperparameters=settings.adafedadam("Sent140"),
        preset=preset,
        seed=seed,
        options={
            "data": dataset.name,
            "clients": len(picked),
            "least": least,
            "examples": examples,
            "tokens": tokens,
            "width": float(width),
            "glove": origin,
        },
        stand_in=dataset.stand_in,
        source=f"{where}; {origin}",
        fingerprint=texts.encoded_fingerprint(x=x, y=y, sizes=sizes, vectors=matrix),
        label="Sent140",
    )


def _text(dataset: TextDataset, i: int) -> str:
    """Text ``i`` of both splits, the training split first."""
    first = dataset.size("train")
    return dataset.text("train", i) if i < first else dataset.text("test", i - first)


def _vectors(
    words: list[str],
    glove: str | os.PathLike[str] | None,
    dimensions: int,
    data_root: str | os.PathLike[str] | None,
) -> tuple[list[str], np.ndarray, str]:
    """Known words, their vectors float32 ``[words, dimensions]``, and where they come from."""
    root = paths.data_root(data_root)
    found = [root / name for name in GLOVE_FILES if (root / name).is_file()]
    file = Path(glove) if glove is not None else found[0] if found else None
    if file is None:
        return words, _random_vectors(words, dimensions), f"random {dimensions}-d word vectors"
    known, vectors = read_glove(file, set(words))
    if not known:
        raise Error(f"task fair_sent140: none of the data's words is in {file.name}")
    return known, vectors, f"word vectors of {file.name}"


def _random_vectors(words: list[str], dimensions: int) -> np.ndarray:
    """A vector per word that depends on the word alone, uniform with deviation ``SPREAD``."""
    keys = torch.tensor([key(0, f"vector of the word {word}") for word in words])
    half = SPREAD * 3**0.5
    return (uniform(keys, dimensions).double() * 2 * half - half).float().numpy()
