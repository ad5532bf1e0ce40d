"""Stack Overflow next-word prediction of FedOpt and Mime: a client per user, an LSTM."""

from __future__ import annotations

from functools import partial

import numpy as np
from torch import nn

from fedlib.datasets.posts import PAD, Posts
from fedlib.losses import masked_accuracy, sequence_cross_entropy
from fedlib.models import NextWordLSTM, WindowModel
from fedlib.models.layers import scaled
from fedlib.models.next_word_lstm import SPECIAL
from fedlib.task import ClientData, Task
from fedlib.tasks import settings, stackoverflow, texts
from fedlib.tasks.presets import Given, small_network
from fedlib.tasks.stackoverflow import Chosen

LABEL = "StackOverflow NWP"
paper = {**stackoverflow.PAPER, **{"network": "lstm", "width": 1.0}, **settings.fedopt_run(LABEL)}
# Smaller corpora than Stack Overflow do not support more words.
laptop = {**paper, "words": 2000, "width": 0.5, "rounds": 500}
VECTOR = 16  # of a word, in the small network
quick = {
    **paper,
    **{"data": "word_chains", "network": "window", "words": 120, "validation": 0},
    **{"rounds": 50, "clients_per_round": 10, "batch_size": 4},
}


def load(given: Given) -> Task:
    """Users as clients, 50 a round, batches of 16 sentences of 20 words, 1500 rounds.

    Sources: FedOpt section 4 and appendix C.4 (data), Table 7 (batch), Tables 8 and 9
    (hyperparameters); Mime trains the same model. Where the paper is silent this follows its public
    code: a client weighs as many target words as its sentences have (padding aside), the loss is
    the mean over all 20 steps, padding included, and accuracy counts the targets that are words of
    the vocabulary, the prediction being the best of words and special tokens.

    Options:
        seed, data, clients, words, cap, validation: see stackoverflow_lr.
        data: ``word_chains`` are the quick preset's small problem
            (:func:`fedlib.datasets.text_standins.word_chains`).
        network: ``"lstm"``, or ``"window"``, a dense layer on 16 numbers for the word before, with
            learning rates of its own (:func:`fedlib.tasks.settings.small`).
        width: factor on embedding and hidden units.
    """
    small = small_network(given, "lstm", "window")
    chosen = stackoverflow.select(given)
    train, test = chosen.posts["train"], chosen.posts["test"]
    weights = train.targets(given.cap)[chosen.train.clients].astype(np.float64)
    special = (PAD, chosen.words + 1, chosen.words + 3)
    return Task(
        name=given.name,
        model=partial(_model, chosen.words, given),
        train=_client_data(train, chosen.train, chosen.words, weights),
        test=_client_data(test, chosen.test, chosen.words),
        loss=sequence_cross_entropy,
        metrics={"accuracy": masked_accuracy(special)},
        hyperparameters=settings.mime("StackOverflow")
        | (settings.small if small else settings.fedopt)(LABEL),
        label=LABEL,
        **chosen.origin(),
    )


def _model(words: int, given: Given) -> nn.Module:
    if given.network == "lstm":
        return NextWordLSTM(words, width=given.width)
    return WindowModel(words + SPECIAL, 1, scaled(VECTOR, given.width))


def _client_data(
    posts: Posts, chosen: Chosen, words: int, weights: np.ndarray | None = None
) -> ClientData:
    """Inputs and targets: views of the chosen sentences."""
    tokens, known = posts.sentences[chosen.rows()], len(posts.word_list)
    if words < known:
        tokens = stackoverflow.smaller_vocabulary(tokens, known, words)
    rows = texts.tensor(tokens)
    x, y = rows[:, :-1], rows[:, 1:]
    return ClientData.contiguous(x, y, chosen.packed(), chosen.sizes, chosen.ids, weights)
