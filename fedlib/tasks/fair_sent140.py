"""AdaFedAdam's Sent140 setup: the sentiment of a user's tweets, an LSTM on frozen GloVe vectors."""

import os
from pathlib import Path

import numpy as np
import torch

from fedlib import datasets, papers, paths
from fedlib.arguments import whole
from fedlib.datasets import TextDataset
from fedlib.datasets.store import Root
from fedlib.datasets.text import most_frequent, read_glove, tweet_words, word_rows
from fedlib.errors import Error
from fedlib.models import Sent140LSTM
from fedlib.randomness import key, uniform
from fedlib.task import Task
from fedlib.tasks import fair, settings, texts
from fedlib.tasks.presets import AtMost, Given, Preset, choose_data

LABEL = "Sent140"
SPLITS = ("train", "test")
# Files of word vectors under the data root, in the order of the search.
GLOVE_FILES = ("raw/glove.6B.300d.txt", "raw/glove.txt", "glove.6B.300d.txt", "glove.txt")
SPREAD = 1.0  # standard deviation of a random vector's numbers
paper: Preset = {
    "data": None,
    "clients": AtMost(papers.settings("adafedadam")["setups"][LABEL]["clients"]),
    "least": None,
    "examples": 0,
    "tokens": 25,  # as in LEAF and FedProx
    "width": 1.0,
    "glove": 300,
    **settings.adafedadam_run(LABEL),
}
quick = {
    **paper,
    **{"clients": AtMost(20), "examples": 80, "tokens": 6, "width": 0.16, "glove": 25},
    "rounds": 40,
}


def load(given: Given) -> Task:
    """Users as clients, all of them every round. 80 % of each user's tweets train, 20 % test.

    Settings of AdaFedAdam, appendix C: 697 users, batches of 10, client learning rate 0.3, 1000
    rounds. How the paper chose 697 of Sent140's users is not known. Here they are drawn from the
    users with at least 30 tweets. Tokens are as in LEAF and FedProx: 25 of them, with capitals.
    Unknown words and padding are one zero vector.

    ``quick`` takes few tokens. The LSTM also reads the padding up to the last step, and needs
    hundreds of steps of SGD until it remembers the words across it. On 25 tokens a short run learns
    only the labels' frequencies.

    Options:
        seed: seed of the choice of users and of each user's split.
        data: the prepared data set, texts with two labels. Default: ``sent140``, else ``tweets``,
            else the offline stand-in.
        clients: number of users. By default fewer if there are fewer.
        least: least number of tweets of a user. Default: 30 for ``sent140``, 20 for a stand-in,
            else 5.
        examples: most tweets of a user, 0 for all.
        tokens: number of tokens of a tweet, the first ones.
        width: factor on the hidden units.
        glove: file of word vectors in GloVe's text format. A number searches the data root and its
            folder ``raw`` for ``glove.6B.300d.txt`` or ``glove.txt``. Without such a file the
            vectors are random, of this length, and ``source`` says so.
    """
    least, root = given.least, given.data_root
    whole("tokens", given.tokens, 1)
    dataset = datasets.load_text(choose_data(given, "sent140", "tweets"), root)
    if least is None:
        least = 20 if dataset.stand_in else 30 if dataset.name == "sent140" else 5
    whole("least", least, 3)
    # The task splits each client's texts itself, so it merges both splits.
    labels = np.concatenate([dataset.labels(split) for split in SPLITS])
    codes = np.concatenate([dataset.client(split) for split in SPLITS])
    if labels.max() > 1:
        what = f"task fair_sent140: {dataset.name!r} has labels up to {labels.max()}"
        raise Error(f"{what}: the labels must be 0 and 1")
    users, counts = np.unique(codes, return_counts=True)
    enough = users[counts >= least]
    if not len(enough):
        raise Error(f"task fair_sent140: no client of {dataset.name!r} has {least} texts")
    picked = texts.pick(enough, given.clients, given.seed)
    held, sizes = texts.packed(codes, picked, given.examples)
    words = [tweet_words(_text(dataset, i)) for i in held.tolist()]

    used = most_frequent((word for tweet in words for word in tweet), size=sum(map(len, words)))
    known, vectors, vectors_from = _vectors(used, given.glove, root)
    numbers = {word: number for number, word in enumerate(known, start=1)}
    x, y = word_rows(words, numbers, given.tokens, unknown=0), labels[held]
    matrix = np.concatenate([np.zeros((1, vectors.shape[1]), dtype=np.float32), vectors])
    ids = [dataset.clients[code] for code in picked.tolist()]
    arrays = {"x": x, "y": y, "sizes": sizes, "vectors": matrix}
    origin = texts.origin(dataset, "sent140", "Sent140", **arrays)
    origin["source"] += f"; {vectors_from}"
    return Task(
        name=given.name,
        model=lambda: Sent140LSTM(torch.from_numpy(matrix), width=given.width),
        hyperparameters=settings.adafedadam(LABEL),
        options={"data": dataset.name, "clients": len(picked)}
        | {"least": least, "glove": vectors_from},
        **origin,
        **fair.divided(
            given, torch.from_numpy(x), torch.from_numpy(y), texts.consecutive(sizes), ids
        ),
    )


def _text(dataset: TextDataset, i: int) -> str:
    """Text ``i`` of both splits, the training split first."""
    first = dataset.size("train")
    return dataset.text("train", i) if i < first else dataset.text("test", i - first)


def _vectors(
    words: list[str], glove: str | os.PathLike[str] | int, data_root: Root
) -> tuple[list[str], np.ndarray, str]:
    """Known words, their vectors float32 ``[words, D]``, and the source of these."""
    if isinstance(glove, int):
        root = paths.data_root(data_root)
        files = [root / name for name in GLOVE_FILES if (root / name).is_file()]
        if not files:
            return words, _random_vectors(words, glove), f"random {glove}-d word vectors"
        glove = files[0]
    known, vectors = read_glove(glove, set(words))
    if not known:
        raise Error(f"task fair_sent140: none of the data's words is in {Path(glove).name}")
    return known, vectors, f"word vectors of {Path(glove).name}"


def _random_vectors(words: list[str], dimensions: int) -> np.ndarray:
    """A random vector per word, a function of the word alone, uniform with deviation ``SPREAD``."""
    keys = torch.tensor([key(0, f"vector of the word {word}") for word in words])
    half = SPREAD * 3**0.5
    return (uniform(keys, dimensions).double() * 2 * half - half).float().numpy()
