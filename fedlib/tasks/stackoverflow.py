"""The data of both Stack Overflow tasks: the official posts, a real substitute, or a stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedlib import datasets, papers
from fedlib.arguments import whole
from fedlib.datasets import TextDataset
from fedlib.datasets.posts import TAGS, WORDS, Posts, text_posts
from fedlib.errors import Error
from fedlib.randomness import numpy_generator
from fedlib.tasks import texts
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, choose_data

STATED = papers.settings("fedopt")
PAPER: Preset = {
    "data": None,
    "clients": ALL,
    "words": STATED["datasets"]["stackoverflow"]["vocab_words"],
    "cap": STATED["datasets"]["stackoverflow"]["nwp_max_sentences_per_client"],
    "validation": STATED["validation"]["stackoverflow_validation_examples"],
}
QUICK: Preset = {"clients": AtMost(40), "words": 1000, "validation": 400}


def load_posts(given: Given) -> tuple[dict[str, Posts], dict[str, Any]]:
    """The posts of both splits, and their ``name``, ``stand_in``, ``source`` and ``fingerprint``.

    The data asked for; else Stack Overflow, else prepared Stack Exchange posts, else a stand-in.

    Raises:
        Error: no such data, or data that are not posts.
    """
    root = given.data_root
    name = choose_data(given, "stackoverflow", "stackexchange")
    card = datasets.info(name, root)
    if card.get("kind") == "posts":
        posts = datasets.load_posts(name, root)
        fields = {field: card[field] for field in ("source", "fingerprint")}
        return posts, {"name": name, "stand_in": False, **fields}
    dataset = datasets.load_text(name, root)
    train, test = _encoded(dataset)
    if not (len(train) and len(test)):
        raise Error(f"no posts with words in both splits of {dataset.name!r}")
    return {"train": train, "test": test}, {
        "name": name,
        "stand_in": dataset.stand_in,
        "source": texts.source(dataset, "stackoverflow", "Stack Overflow"),
        "fingerprint": _fingerprint(train, test),
    }


# The last data set that was encoded, by fingerprint: a notebook loads a task many times.
_last: dict[str, tuple[Posts, Posts]] = {}


def _encoded(dataset: TextDataset) -> tuple[Posts, Posts]:
    if dataset.fingerprint not in _last:
        posts = text_posts(dataset, WORDS, TAGS)
        _last.clear()
        _last[dataset.fingerprint] = posts
    return _last[dataset.fingerprint]


def _fingerprint(*splits: Posts) -> str:
    fields = ("sentences", "starts", "words", "word_offsets", "tags", "tag_offsets")
    arrays = {
        f"{field}_{i}": getattr(posts, field) for i, posts in enumerate(splits) for field in fields
    }
    return texts.encoded_fingerprint(**arrays)


@dataclass(frozen=True)
class Chosen:
    """Clients of one split, each with consecutive posts.

    Attributes:
        clients: int64 ``[clients]``, their positions among the split's clients.
        starts, sizes: int64 ``[clients]``, the posts of each in the split.
        ids: the clients' names.
    """

    clients: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    ids: list[str]

    def packed(self) -> np.ndarray:
        """Where each client's posts start once only the chosen posts are left."""
        return np.cumsum(self.sizes) - self.sizes

    def rows(self) -> np.ndarray:
        """The posts of all clients, client after client: int64 ``[sum of sizes]``."""
        return np.repeat(self.starts - self.packed(), self.sizes) + np.arange(self.sizes.sum())


def training_clients(posts: Posts, clients: int | AtMost, cap: int, seed: int) -> Chosen:
    """Some clients that have posts, each with its first ``cap``."""
    whole("cap", cap, 1)
    starts = np.asarray(posts.starts)
    sizes = np.minimum(np.diff(starts), cap)
    return _chosen(posts, texts.pick(np.flatnonzero(sizes), clients, seed), starts, sizes)


def test_clients(posts: Posts, sentences: int, seed: int) -> Chosen:
    """The first ``sentences`` posts of the test clients in a random order; 0 for all posts.

    FedOpt's public code takes its 10,000 sentences in this way, from some hundred users. The paper
    says that they are random; here they are one choice, kept in all rounds.
    """
    whole("validation", sentences, 0)
    starts = np.asarray(posts.starts)
    sizes = np.diff(starts)
    order = np.flatnonzero(sizes)
    if sentences:
        order = numpy_generator(seed, "validation clients").permutation(order)
        before = np.cumsum(sizes[order]) - sizes[order]
        order = order[before < sentences]
        sizes[order[-1]] = min(sizes[order[-1]], sentences - before[len(order) - 1])
    return _chosen(posts, order, starts, sizes)


def _chosen(posts: Posts, clients: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> Chosen:
    ids = [posts.clients[client] for client in clients.tolist()]
    return Chosen(clients, starts[clients], sizes[clients], ids)


@dataclass(frozen=True)
class Selection:
    """What a task takes: posts, the first words of their vocabulary, and clients of both splits."""

    posts: dict[str, Posts]
    card: dict[str, Any]
    words: int
    train: Chosen
    test: Chosen

    def origin(self, *outputs: int) -> dict[str, Any]:
        """A task's fields that say which data it has, with its number of ``outputs``, if chosen.

        The fingerprint is the SHA-256 (hex) of what determines the task's examples: all posts, the
        sizes of the vocabulary, and which posts are taken.
        """
        arrays = {
            f"{split}_{field}": getattr(chosen, field)
            for split, chosen in (("train", self.train), ("test", self.test))
            for field in ("starts", "sizes")
        }
        arrays["posts"] = np.frombuffer(self.card["fingerprint"].encode(), dtype=np.uint8)
        arrays["vocabulary"] = np.array((self.words, *outputs))
        data = {"data": self.card["name"], "clients": len(self.train.ids), "words": self.words}
        return {
            "options": data,
            "stand_in": self.card["stand_in"],
            "source": self.card["source"],
            "fingerprint": texts.encoded_fingerprint(**arrays),
        }


def select(given: Given) -> Selection:
    """The posts, vocabulary and clients that the options ask for."""
    whole("words", given.words, 1)
    posts, card = load_posts(given)
    train = training_clients(posts["train"], given.clients, given.cap, given.seed)
    test = test_clients(posts["test"], given.validation, given.seed)
    return Selection(posts, card, min(given.words, len(posts["train"].word_list)), train, test)


def smaller_vocabulary(sentences: np.ndarray, known: int, words: int) -> np.ndarray:
    """Sentences of a vocabulary of ``known`` words, as the first ``words`` alone encode them."""
    ids = np.arange(known + 4)
    table = np.minimum(ids, words + 1)
    table[known + 2 :] = (words + 2, words + 3)
    return table.astype(np.int16)[sentences]
