"""Stack Overflow next-word prediction of FedOpt and Mime: a client per user, an LSTM."""

from __future__ import annotations

import os

import numpy as np

from fedlib import papers
from fedlib.datasets.posts import PAD, WORDS, Posts
from fedlib.errors import require
from fedlib.losses import masked_accuracy, sequence_cross_entropy
from fedlib.models import NextWordLSTM
from fedlib.task import ClientData, Task
from fedlib.tasks import settings, stackoverflow, texts
from fedlib.tasks.stackoverflow import Chosen

LABEL = "StackOverflow NWP"
QUICK = {"clients": 40, "words": 1000, "width": 0.125, "cap": 64, "validation": 400}


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    words: int | None = None,
    width: float | None = None,
    cap: int | None = None,
    validation: int | None = None,
) -> Task:
    """Users as clients, 50 a round, batches of 16 sentences of 20 words, 1500 rounds.

    Sources: FedOpt section 4 and appendix C.4 (data), Table 7 (batch), Tables 8 and 9
    (hyperparameters); Mime trains the same model. Where the paper is silent this follows its public
    code: a client weighs as many target words as its sentences have (padding aside), the loss is
    the mean over all 20 steps, padding included, and accuracy counts the targets that are words of
    the vocabulary, the prediction being the best of words and special tokens.

    ``quick``: 40 users of at most 64 sentences, 10 a round, 1000 words, an eighth of the width, 30
    rounds. So short a run learns little more than how frequent words are; the most frequent tokens
    are special ones, and accuracy, which does not count those, stays near 0 while the loss falls.

    Args:
        seed: of the choice of users and of the validation sentences.
        data: the prepared data set (``stackoverflow``, or texts with tags); default
            ``stackoverflow``, else ``stackexchange``, else the offline stand-in.
        clients: how many training users; default 40 (``quick``) or all.
        words: size of the vocabulary; fewer where the data has fewer words.
        width: factor on embedding and hidden units.
        cap: sentences of a user, the first ones; 1000 in the paper.
        validation: how many test sentences are evaluated; 10,000 in the paper. 0 for all, which
            the paper evaluates once, after training (Table 10).
    """
    quick = preset == "quick"
    width = (QUICK["width"] if quick else 1.0) if width is None else width
    cap = (int(QUICK["cap"]) if quick else stackoverflow.CAP) if cap is None else cap
    words = (int(QUICK["words"]) if quick else WORDS) if words is None else words
    require(isinstance(words, int) and words >= 1, "words", words, "a whole number >= 1")
    if validation is None:
        validation = int(QUICK["validation"]) if quick else stackoverflow.VALIDATION
    found = stackoverflow.load_source(data, data_root)
    vocabulary = min(words, len(found.train.word_list))
    most = int(QUICK["clients"]) if quick else None
    train = stackoverflow.training_clients(found.train, clients, most, cap, seed)
    test = stackoverflow.test_clients(found.test, validation, seed)
    weights = found.train.targets(cap)[train.clients].astype(np.float64)
    stated = papers.settings("fedopt")
    special = (PAD, vocabulary + 1, vocabulary + 3)
    return Task(
        name="stackoverflow_nwp",
        model=lambda: NextWordLSTM(vocabulary, width=width),
        train=_client_data(found.train, train, vocabulary, weights),
        test=_client_data(found.test, test, vocabulary),
        loss=sequence_cross_entropy,
        metrics={"accuracy": masked_accuracy(special)},
        rounds=30 if quick else stated["rounds"][LABEL],
        clients_per_round=10 if quick else stated["federated"]["clients_per_round"][LABEL],
        batch_size=stated["batch_size"][LABEL],
        hyperparameters=settings.mime("StackOverflow") | settings.fedopt(LABEL),
        preset=preset,
        seed=seed,
        options={
            "data": found.name,
            "clients": len(train.ids),
            "words": vocabulary,
            "width": float(width),
            "cap": cap,
            "validation": validation,
        },
        stand_in=found.stand_in,
        source=found.source,
        fingerprint=stackoverflow.fingerprint(found, vocabulary, train=train, test=test),
        label=LABEL,
    )


def _client_data(
    posts: Posts, chosen: Chosen, words: int, weights: np.ndarray | None = None
) -> ClientData:
    """Inputs and targets: views of a copy of the chosen sentences, or of the memory map."""
    known = len(posts.word_list)
    if words == known and not chosen.copied:
        tokens, starts = posts.sentences, chosen.starts
    else:
        tokens, starts = np.asarray(posts.sentences[chosen.rows()]), chosen.packed()
        if words < known:
            tokens = stackoverflow.smaller_vocabulary(tokens, known, words)
    whole = texts.tensor(tokens)
    x, y = whole[:, :-1], whole[:, 1:]
    return ClientData.contiguous(x, y, starts, chosen.sizes, chosen.ids, weights)
