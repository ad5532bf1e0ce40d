"""AG News and DBpedia of Delta-SGD: DistilBERT on clients with Dirichlet(1) labels."""

import hashlib
from pathlib import Path

import numpy as np
import torch

from fedlib import datasets, papers, partitioners
from fedlib.clients import ClientData
from fedlib.datasets import TextDataset
from fedlib.datasets.text import pretrained_rows, tokenized
from fedlib.errors import Error, require
from fedlib.models import AttentionClassifier, DistilBERT
from fedlib.randomness import key
from fedlib.task import Task
from fedlib.tasks import settings, texts
from fedlib.tasks.presets import Given, Preset, choose_data, small_network

LABELS = {"ag_news": "AGNews", "dbpedia": "DBpedia"}
WEIGHTS = "distilbert-base-uncased"
STATED = papers.settings("delta_sgd")
FEDERATED = STATED["federated"]
PAPER: Preset = {
    "clients": FEDERATED["clients_text"],
    "sizes": FEDERATED["examples_per_client"],
    "alpha": STATED["table2a"]["alpha"],
    "author_split": True,
    "test_examples": 0,
    "length": 512,
    "network": "distilbert",
    "pretrained": True,
    "words": 30_522,
    "layers": 6,
    "width": 1.0,
    "rounds": STATED["rounds"]["text"],
    "clients_per_round": 5,
    "batch_size": FEDERATED["batch_size_text"],
    "local_epochs": FEDERATED["local_epochs"],
}
# The published code tests on every tenth of DBpedia's 70,000 test texts.
paper = {
    "ag_news": {"data": "ag_news", **PAPER},
    "dbpedia": {"data": "dbpedia", **PAPER, "test_examples": 7000},
}
LAPTOP = {"pretrained": False, "words": 5000, "length": 64, "layers": 2, "width": 0.25}
laptop = {name: {**values, **LAPTOP} for name, values in paper.items()}
QUICK = {
    **{"network": "attention", "pretrained": False, "words": 500, "length": 16},
    **{"clients": 20, "sizes": 200, "test_examples": 300, "rounds": 30},
}
quick = {name: {**values, **QUICK} for name, values in paper.items()}


def load(given: Given) -> Task:
    """50 clients of 500 texts with labels from Dirichlet(1), 5 a round, batches of 16, 100 rounds.

    Sources: Delta-SGD section 4 and appendix B. Settings that are illegible there follow the
    authors' published code: 5 clients a round, 512 tokens, and for DBpedia a tenth of the test
    texts. A client's examples are drawn with replacement, so clients overlap.

    ``paper`` fine-tunes the whole published DistilBERT with its tokenizer. It needs the package
    transformers. ``quick`` trains a network with one layer of attention, from random weights, with
    the clients' rates that were tuned for the small problems on images.

    Options:
        name: ``ag_news`` or ``dbpedia``.
        seed: seed of the partition.
        data: the prepared data set, texts with labels. Default: the offline stand-in.
        clients: number of clients.
        sizes: examples of each client.
        alpha: concentration of the Dirichlet distribution.
        author_split: train on the first 90 % of each client's examples in the order of their
            labels, as the authors' code behind the paper's numbers does. False is the paper's text:
            all of them. See :func:`fedlib.partition.dirichlet_overlapping`.
        test_examples: number of test texts, spread evenly. 0 for all.
        length: tokens of a text.
        network: ``"distilbert"``, or ``"attention"`` for
            :class:`fedlib.models.AttentionClassifier`, which ignores pretrained, layers and width.
        pretrained: whether to start from published weights. A string names other weights than
            ``distilbert-base-uncased``, or a folder with weights.
        words, layers, width: for a model that is not pretrained, the size of its vocabulary, the
            number of its blocks, and a factor on their sizes.
    """
    length, width = given.length, given.width
    small = small_network(given, "distilbert", "attention")
    weights = WEIGHTS if given.pretrained is True else given.pretrained or ""
    weights = "" if small else weights
    require(isinstance(length, int) and 3 <= length <= 512, "length", length, "3..512 tokens")
    if weights and (width, given.layers) != (1.0, 6):
        what = f"task {given.name}: width is {width} and layers is {given.layers}"
        raise Error(f"{what}, but pretrained weights have width 1 and 6 layers")

    dataset = datasets.load_text(choose_data(given), given.data_root)
    labels, test_labels = (np.asarray(dataset.labels(split)) for split in ("train", "test"))
    classes = int(max(labels.max(), test_labels.max())) + 1
    drawn = (labels, given.clients, given.alpha, given.sizes, key(given.seed, "clients"))
    parts = partitioners.dirichlet_overlapping(*drawn, author_split=given.author_split)
    # Only texts that some client holds are encoded.
    held, places = np.unique(np.concatenate(parts), return_inverse=True)
    sizes = texts.sizes_of(parts)
    tested = _spread(len(test_labels), given.test_examples)
    x, test_x, vocab = _encode(dataset, held, tested, length, given.words, weights)

    def model() -> AttentionClassifier | DistilBERT:
        if small:
            return AttentionClassifier(classes, vocab, length)
        if weights:
            return DistilBERT(classes).load_pretrained(weights)
        return DistilBERT(classes, vocab, length, layers=given.layers, width=width)

    y, test_y = labels[held], test_labels[tested]
    arrays = {"x": x, "y": y, "places": places, "sizes": sizes, "test_x": test_x, "test_y": test_y}
    if weights and Path(weights).is_dir():  # a folder's contents may change, unlike a name's
        files = sorted(path for path in Path(weights).iterdir() if path.is_file())
        hashes = [hashlib.sha256(path.name.encode() + path.read_bytes()) for path in files]
        arrays["weights"] = np.array([part.hexdigest() for part in hashes])
    packed = np.split(places, np.cumsum(sizes)[:-1])
    test = torch.from_numpy(test_x), torch.from_numpy(test_y)
    return Task(
        name=given.name,
        model=model,
        train=ClientData(torch.from_numpy(x), torch.from_numpy(y), packed),
        test=ClientData(*test, [np.arange(len(tested))], ["all"]),
        **settings.delta_sgd_task(small),
        options={
            "data": dataset.name,
            "test_examples": len(tested),
            "pretrained": weights,
            "words": vocab,
            **(dict.fromkeys(("pretrained", "layers", "width")) if small else {}),
        },
        **texts.origin(dataset, given.name, LABELS[given.name], **arrays),
    )


def _spread(total: int, count: int) -> np.ndarray:
    """``count`` of the numbers 0 to ``total`` - 1, evenly spread. 0, or too many, gives all."""
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
    """Rows of tokens of the given training and test texts, and the number of tokens."""
    train = [dataset.text("train", i) for i in held.tolist()]
    test = [dataset.text("test", i) for i in tested.tolist()]
    if weights:
        x, test_x = (pretrained_rows(texts, length, weights) for texts in (train, test))
        vocab = int(max(x.max(), test_x.max())) + 1
    else:
        x, test_x, vocab = tokenized(train, test, words, length)
    # 512 tokens of many texts need half the memory if the numbers are small enough.
    smaller = np.int16 if vocab <= np.iinfo(np.int16).max else np.int32
    return x.astype(smaller), test_x.astype(smaller), vocab
