"""AG News and DBpedia of Delta-SGD: DistilBERT on clients with Dirichlet(1) labels."""

from __future__ import annotations

import os

import numpy as np
import torch

from fedlib import datasets, papers, partitioners
from fedlib.datasets import TextDataset
from fedlib.datasets.text import WordTokenizer, pretrained_rows
from fedlib.errors import Error, require
from fedlib.models import DistilBERT
from fedlib.randomness import key
from fedlib.task import ClientData, Task
from fedlib.tasks import settings, texts

LABELS = {"ag_news": "AGNews", "dbpedia": "DBpedia"}
WEIGHTS = "distilbert-base-uncased"
QUICK = {
    "clients": 10,
    "sizes": 128,
    "length": 16,
    "test_examples": 200,
    "words": 2000,
    "layers": 1,
}
QUICK_WIDTH = 0.125
# The published code tests on every tenth of DBpedia's 70,000 test texts.
TEST_EXAMPLES = {"ag_news": 0, "dbpedia": 7000}


def load(
    name: str,
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    sizes: int | None = None,
    alpha: float = 1.0,
    author_split: bool = False,
    test_examples: int | None = None,
    length: int | None = None,
    pretrained: bool | str | None = None,
    words: int | None = None,
    layers: int | None = None,
    width: float | None = None,
) -> Task:
    """50 clients of 500 texts with labels from Dirichlet(1), 5 a round, batches of 16, 100 rounds.

    Sources: Delta-SGD section 4 and appendix B. What cannot be read there follows the authors'
    published code: 5 clients a round, 512 tokens, and for DBpedia a tenth of the test texts. A
    client's examples are drawn with replacement, so clients overlap.

    ``paper``: the published DistilBERT with its tokenizer, fine-tuned as a whole; this needs the
    package transformers. ``quick``: the same architecture, tiny and from random weights, on 16
    tokens of a text; 10 clients of 128 texts, 5 a round, 200 test texts, 20 rounds. A transformer
    from random weights learns slowly: in so short a run Adam's clients come some way, SGD's hardly.

    Args:
        name: ``ag_news`` or ``dbpedia``.
        seed: of the partition.
        data: the prepared data set, texts with labels; default ``name``, without it the offline
            stand-in.
        clients: how many; default 10 (``quick``) or 50.
        sizes: examples of each client; default 128 (``quick``) or 500.
        alpha: concentration of the Dirichlet distribution.
        author_split: train as the authors' code does, on the first 90 % of each client's examples
            in the order of their labels; see :func:`fedlib.partition.dirichlet_overlapping`.
        test_examples: how many test texts, spread evenly; 0 for all. Default 200 (``quick``), 7000
            (``dbpedia``) or all.
        length: tokens of a text.
        pretrained: whether to start from published weights; a string names others than
            ``distilbert-base-uncased``, or a folder that holds them. Default only in ``paper``.
        words, layers, width: of a model that is not pretrained: the size of its vocabulary, the
            number of its blocks, and a factor on their sizes.
    """
    quick = preset == "quick"
    stated = papers.settings("delta_sgd")
    federated = stated["federated"]
    paper = {
        "clients": federated["clients_text"],
        "sizes": federated["examples_per_client"],
        "length": 512,
        "test_examples": TEST_EXAMPLES[name],
        "words": 30_522,
        "layers": 6,
    }
    default = QUICK if quick else paper
    clients = default["clients"] if clients is None else clients
    sizes = default["sizes"] if sizes is None else sizes
    length = default["length"] if length is None else length
    tested = default["test_examples"] if test_examples is None else test_examples
    words = default["words"] if words is None else words
    layers = default["layers"] if layers is None else layers
    width = (QUICK_WIDTH if quick else 1.0) if width is None else width
    weights = (not quick) if pretrained is None else pretrained
    weights = (WEIGHTS if weights else "") if isinstance(weights, bool) else weights
    require(isinstance(length, int) and 3 <= length <= 512, "length", length, "3..512 tokens")
    if weights and (width, layers) != (1.0, 6):
        raise Error(f"task {name}: pretrained weights have width 1 and 6 layers; allowed: no other")

    dataset = datasets.load_text(name if data is None else data, data_root)
    labels, test_labels = (np.asarray(dataset.labels(split)) for split in ("train", "test"))
    classes = int(max(labels.max(), test_labels.max())) + 1
    parts = partitioners.dirichlet_overlapping(
        labels, clients, alpha, sizes, key(seed, "clients"), author_split=author_split
    )
    # Only texts that some client holds are encoded.
    held, places = np.unique(np.concatenate(parts), return_inverse=True)
    packed = np.split(places, np.cumsum([len(part) for part in parts])[:-1])
    chosen = _spread(len(test_labels), tested)
    x, test_x, vocab = _encode(dataset, held, chosen, length, words, weights)

    def model() -> DistilBERT:
        if weights:
            return DistilBERT(classes).load_pretrained(weights)
        return DistilBERT(classes, vocab, positions=length, layers=layers, width=width)

    return Task(
        name=name,
        model=model,
        train=ClientData(torch.from_numpy(x), torch.from_numpy(labels[held]), packed),
        test=ClientData(
            torch.from_numpy(test_x),
            torch.from_numpy(test_labels[chosen]),
            [np.arange(len(chosen))],
            ["all"],
        ),
        rounds=20 if quick else stated["rounds"]["text"],
        clients_per_round=5,
        batch_size=federated["batch_size_text"],
        hyperparameters=settings.delta_sgd(),
        client_hyperparameters=settings.delta_sgd_clients(),
        preset=preset,
        seed=seed,
        options={
            "data": dataset.name,
            "clients": clients,
            "sizes": sizes,
            "alpha": float(alpha),
            "author_split": author_split,
            "test_examples": len(chosen),
            "length": length,
            "pretrained": weights,
            "words": vocab,
            "layers": layers,
            "width": float(width),
        },
        stand_in=dataset.stand_in,
        source=texts.source(dataset, name, LABELS[name]),
        fingerprint=texts.encoded_fingerprint(
            x=x,
            y=labels[held],
            places=places,
            sizes=np.array([len(part) for part in parts]),
            test_x=test_x,
            test_y=test_labels[chosen],
        ),
        label=LABELS[name],
    )


def _spread(total: int, count: int) -> np.ndarray:
    """``count`` of the numbers 0 to ``total`` - 1, evenly spread; 0, or more than that, for all."""
    good = isinstance(count, int) and count >= 0
    require(good, "test_examples", count, "a whole number >= 0")
    if count == 0 or count >= total:
        return np.arange(total)
    return np.arange(count) * total // count


def _encode(
    dataset: TextDataset,
    held: np.ndarray,
    tested: np.ndarray,
    length: int,
    words: int,
    weights: str,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of tokens of the given training and test texts, and how many tokens there are.

    A tokenizer of words learns its vocabulary from the given training texts.
    """
    train = [dataset.text("train", i) for i in held.tolist()]
    test = [dataset.text("test", i) for i in tested.tolist()]
    if weights:
        rows = pretrained_rows(train + test, length, weights)
        vocab = int(rows.max(initial=0)) + 1
    else:
        tokenizer = WordTokenizer.fit(train, words)
        rows, vocab = tokenizer(train + test, length), len(tokenizer)
    # 512 tokens of many texts: half the memory where the numbers allow it.
    if vocab <= np.iinfo(np.int16).max:
        rows = rows.astype(np.int16)
    return rows[: len(train)], rows[len(train) :], vocab
