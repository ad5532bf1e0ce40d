"""Both Stack Overflow tasks, users as clients: tags by logistic regression, next words by an LSTM.

FedOpt has both tasks, Mime the next words. Their data are the official posts, a real substitute, or
small generated sets at the quick preset.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib import datasets, losses, papers
from fedlib.arguments import whole
from fedlib.clients import ClientData
from fedlib.datasets import TextDataset
from fedlib.datasets.posts import PAD, TAGS, WORDS, Posts, bags, occurrences, text_posts
from fedlib.errors import Error
from fedlib.models import NextWordLSTM, TagModel, WindowModel
from fedlib.models.layers import scaled
from fedlib.models.next_word_lstm import SPECIAL
from fedlib.randomness import numpy_generator
from fedlib.task import Fixed, Task
from fedlib.tasks import settings, texts
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, choose_data, small_network

LABELS = {"stackoverflow_lr": "StackOverflow LR", "stackoverflow_nwp": "StackOverflow NWP"}
STATED = papers.settings("fedopt")
DATA = STATED["datasets"]["stackoverflow"]
SHARED: Preset = {
    "data": None,
    "clients": ALL,
    "words": DATA["vocab_words"],
    "cap": DATA["nwp_max_sentences_per_client"],
    "validation": STATED["validation"]["stackoverflow_validation_examples"],
}
OWN: dict[str, Preset] = {
    "stackoverflow_lr": {"tags": DATA["lr_tags"]},
    "stackoverflow_nwp": {"network": "lstm", "width": 1.0},
}
paper: dict[str, Preset] = {
    name: {**SHARED, **OWN[name], **settings.fedopt_run(label)} for name, label in LABELS.items()
}
# Smaller corpora than Stack Overflow do not support more words.
laptop = {
    "stackoverflow_lr": {**paper["stackoverflow_lr"], "words": 2000},
    "stackoverflow_nwp": {**paper["stackoverflow_nwp"], "words": 2000, "width": 0.5, "rounds": 500},
}
SMALL = "rare_words"  # the data of the small problem of tags
quick = {
    "stackoverflow_lr": {
        **{**paper["stackoverflow_lr"], "data": SMALL, "words": 180, "tags": 40, "validation": 0},
        **{"rounds": 80, "batch_size": 6},
    },
    "stackoverflow_nwp": {
        **paper["stackoverflow_nwp"],
        **{"data": "word_chains", "network": "window", "words": 120, "validation": 0},
        **{"rounds": 50, "clients_per_round": 10, "batch_size": 4},
    },
}
VECTOR = 16  # length of a word's vector in the small network
_PIECE = 1_000_000


def load(given: Given) -> Task:
    """Users as clients. Sources: FedOpt section 4 and appendix C.4 (data), Table 7 (batch), Tables
    8 and 9 (hyperparameters).

    ``stackoverflow_lr`` has 10 users a round, batches of 100 sentences and 1500 rounds. An input is
    the frequency of each of 10,000 words in a sentence and its title, among these words. The code
    behind the paper's numbers sums the loss over a batch (the loss is the mean over 500 tags).
    Otherwise the client learning rate of 100 would make no sense. This task sums too
    (``reduction`` "sum").

    ``stackoverflow_nwp`` has 50 users a round, batches of 16 sentences of 20 words and 1500 rounds.
    Mime trains the same model. If the paper is silent this follows its public code: a client's
    weight is the number of target words in its sentences (without padding), the loss is the mean
    over all 20 steps, padding included, and accuracy counts the targets that are words of the
    vocabulary. The prediction is the best of all words and special tokens.

    Options:
        seed: seed of the choice of users and of the validation sentences.
        data: the prepared data set (``stackoverflow``, or texts with tags). Default
            ``stackoverflow``, else ``stackexchange``. ``rare_words`` and ``word_chains`` are the
            quick preset's small problems (:mod:`fedlib.datasets.text_standins`), with their own
            learning rates (:func:`fedlib.tasks.settings.small`).
        clients: number of training users.
        words: size of the vocabulary. Fewer if the data has fewer words.
        tags: number of outputs. If the data has fewer tags, the others never occur. The learning
            rates are for a mean over 500.
        cap: largest number of a user's sentences, the first ones. 1000 in the paper.
        validation: number of test sentences for evaluation. 10,000 in the paper. 0 for all, which
            the paper evaluates once, after training (Table 10).
        network: for the next words, ``"lstm"``, or ``"window"``, a dense layer on 16 numbers for
            the word before, which goes with ``word_chains``.
        width: factor on embedding and hidden units.
    """
    whole("words", given.words, 1)
    posts, card = load_posts(given)
    train = training_clients(posts["train"], given.clients, given.cap, given.seed)
    test = test_clients(posts["test"], given.validation, given.seed)
    words = min(given.words, len(posts["train"].word_list))
    label = LABELS[given.name]
    if given.name == "stackoverflow_lr":
        whole("tags", given.tags, 1)
        small, outputs, values = given.data == SMALL, [given.tags], {}
        fields = _tags(given.tags, posts, words, train, test)
    else:
        small, outputs = small_network(given, "lstm", "window"), []
        values = settings.mime("StackOverflow")
        fields = _next_words(given, posts, words, train, test)
    # The examples depend on all posts, the sizes of the vocabulary, and the choice of posts.
    arrays = {"train_starts": train.starts, "train_sizes": train.sizes}
    arrays |= {"test_starts": test.starts, "test_sizes": test.sizes}
    arrays["posts"] = np.frombuffer(card["fingerprint"].encode(), dtype=np.uint8)
    arrays["vocabulary"] = np.array((words, *outputs))
    return Task(
        name=given.name,
        hyperparameters=values | (settings.small if small else settings.fedopt)(label),
        options={"data": card["name"], "clients": len(train.ids), "words": words},
        stand_in=card["stand_in"],
        source=card["source"],
        fingerprint=texts.encoded_fingerprint(**arrays),
        **fields,
    )


# ------------------------------------------------------------------------------------------ data


def load_posts(given: Given) -> tuple[dict[str, Posts], dict[str, Any]]:
    """The posts of both splits, and their ``name``, ``stand_in``, ``source`` and ``fingerprint``.

    It takes the given data, else Stack Overflow, else prepared Stack Exchange posts.

    Raises:
        Error: the data do not exist or are not posts.
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
        **texts.origin(dataset, "stackoverflow", "Stack Overflow", **_arrays(train, test)),
    }


# The last encoded data set, by fingerprint, as a notebook loads a task many times.
_last: dict[str, tuple[Posts, Posts]] = {}


def _encoded(dataset: TextDataset) -> tuple[Posts, Posts]:
    if dataset.fingerprint not in _last:
        posts = text_posts(dataset, WORDS, TAGS)
        _last.clear()
        _last[dataset.fingerprint] = posts
    return _last[dataset.fingerprint]


def _arrays(*splits: Posts) -> dict[str, np.ndarray]:
    fields = ("sentences", "starts", "words", "word_offsets", "tags", "tag_offsets")
    return {
        f"{field}_{i}": getattr(posts, field) for i, posts in enumerate(splits) for field in fields
    }


@dataclass(frozen=True)
class Chosen:
    """Clients of one split, each with consecutive posts.

    Attributes:
        starts, sizes: int64 ``[clients]``, the range of each client's posts in the split.
        ids: the clients' names.
    """

    starts: np.ndarray
    sizes: np.ndarray
    ids: list[str]

    def data(self, x: Tensor, y: Tensor, weights: Sequence[float] | None = None) -> ClientData:
        """The clients' data, from the inputs and targets of :meth:`rows`."""
        return ClientData(x, y, texts.consecutive(self.sizes), self.ids, weights)

    def rows(self) -> np.ndarray:
        """The posts of all clients, client after client: int64 ``[sum of sizes]``."""
        return np.concatenate([np.arange(first, end) for first, end in self.spans()])

    def spans(self) -> Iterator[tuple[int, int]]:
        """The begin and end of each client's posts."""
        return zip(self.starts.tolist(), (self.starts + self.sizes).tolist(), strict=True)


def training_clients(posts: Posts, clients: int | AtMost, cap: int, seed: int) -> Chosen:
    """Some clients that have posts, each with its first ``cap`` posts."""
    whole("cap", cap, 1)
    starts = np.asarray(posts.starts)
    sizes = np.minimum(np.diff(starts), cap)
    return _chosen(posts, texts.pick(np.flatnonzero(sizes), clients, seed), starts, sizes)


def test_clients(posts: Posts, sentences: int, seed: int) -> Chosen:
    """The first ``sentences`` posts of the test clients in a random order. 0 for all posts.

    FedOpt's public code takes its 10,000 sentences in this way, from about a hundred users. The
    paper says that they are random. Here one choice is made for all rounds.
    """
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
    return Chosen(starts[clients], sizes[clients], ids)


# ------------------------------------------------------------------------------------------ tags


def reader(train: Posts, test: Posts) -> Callable[[Tensor], dict[str, Tensor]]:
    """A function that reads the words of posts by their numbers ``[...]``, on the host.

    Posts stay in the host's memory or a file, in their stored form and length. Only the posts of a
    batch are read. Test posts are numbered after the training posts, and all posts of a batch are
    from one split.
    """
    splits = [
        (texts.tensor(posts.words), texts.tensor(posts.word_offsets)) for posts in (train, test)
    ]

    def read(x: Tensor) -> dict[str, Tensor]:
        number = x.long()
        is_test = bool(number.numel()) and int(number.reshape(-1)[0]) >= len(train)
        return occurrences(number - is_test * len(train), *splits[is_test])

    return read


def multi_hot(targets: Tensor, tags: int) -> Tensor:
    """Tag numbers ``[..., K]``, padded with -1, as ones among zeros: ``[..., tags]``."""
    hot = torch.zeros(*targets.shape[:-1], tags + 1, device=targets.device)
    number = targets.long()
    hot.scatter_(-1, torch.where(number < 0, tags, number), 1.0)
    return hot[..., :tags]


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy over all tags, for targets as tag numbers."""
    return losses.binary_cross_entropy(outputs, multi_hot(targets, outputs.shape[-1]))


def recall(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Recall at 5 for targets as tag numbers: hits and true tags of each post."""
    return losses.recall_at_5(outputs, multi_hot(targets, outputs.shape[-1]))


def _tags(
    tags: int, posts: dict[str, Posts], words: int, train: Chosen, test: Chosen
) -> dict[str, Any]:
    """The fields of the task of tags. An input is a post's number, with test posts at the end."""

    def data(split: str, chosen: Chosen, first: int) -> ClientData:
        rows = chosen.rows()
        y = torch.from_numpy(padded_tags(posts[split], rows, tags))
        return chosen.data(torch.from_numpy(rows + first), y)

    read = reader(posts["train"], posts["test"])
    return {
        "model": lambda: TagModel(words, tags),
        "train": data("train", train, 0),
        "test": data("test", test, len(posts["train"])),
        "loss": loss,
        "metrics": {"recall_at_5": recall},
        "transform": Fixed(lambda found, keys: bags(found, words), read),
        "reduction": "sum",
    }


def padded_tags(posts: Posts, rows: np.ndarray, tags: int) -> np.ndarray:
    """int16 ``[rows, most]``: each post's tags with numbers below ``tags``, then -1."""
    offsets, flat = np.asarray(posts.tag_offsets), posts.tags
    widest = int(np.diff(offsets).max(initial=1))
    out = np.full((len(rows), widest), -1, dtype=np.int16)
    column = np.arange(widest)
    # This works in pieces, as the indices need four times the memory of the result.
    for start in range(0, len(rows), _PIECE):
        part = rows[start : start + _PIECE]
        begin, end = offsets[part], offsets[part + 1]
        inside = column < (end - begin)[:, None]
        places = (begin[:, None] + column)[inside]
        out[start : start + _PIECE][inside] = flat[places]
    out[out >= tags] = -1
    return out


# ------------------------------------------------------------------------------------- next words


def _next_words(
    given: Given, posts: dict[str, Posts], words: int, train: Chosen, test: Chosen
) -> dict[str, Any]:
    """The fields of the task of next words."""

    def data(split: str, chosen: Chosen, weights: Sequence[float] | None = None) -> ClientData:
        known, tokens = len(posts[split].word_list), posts[split].sentences[chosen.rows()]
        if words < known:
            tokens = smaller_vocabulary(tokens, known, words)
        rows = texts.tensor(tokens)
        return chosen.data(rows[:, :-1], rows[:, 1:], weights)

    # A client's weight is the number of target words in its sentences.
    lengths = posts["train"].lengths
    weights = [lengths[first:end].sum(dtype=np.int64) for first, end in train.spans()]
    special = (PAD, words + 1, words + 3)
    return {
        "model": partial(_model, words, given),
        "train": data("train", train, weights),
        "test": data("test", test),
        "loss": losses.sequence_cross_entropy,
        "metrics": {"accuracy": losses.masked_accuracy(special)},
    }


def _model(words: int, given: Given) -> nn.Module:
    if given.network == "lstm":
        return NextWordLSTM(words, width=given.width)
    return WindowModel(words + SPECIAL, 1, scaled(VECTOR, given.width))


def smaller_vocabulary(sentences: np.ndarray, known: int, words: int) -> np.ndarray:
    """Recode sentences of a vocabulary of ``known`` words with the first ``words`` alone."""
    ids = np.arange(known + 4)
    table = np.minimum(ids, words + 1)
    table[known + 2 :] = (words + 2, words + 3)
    return table.astype(np.int16)[sentences]
