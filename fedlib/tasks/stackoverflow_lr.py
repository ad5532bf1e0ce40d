"""Stack Overflow tag prediction of FedOpt: logistic regression from words to tags."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedlib.arguments import whole
from fedlib.datasets.posts import Posts, bags, occurrences
from fedlib.losses import binary_cross_entropy, recall_at_5
from fedlib.models import TagModel
from fedlib.task import ClientData, Fixed, Task
from fedlib.tasks import settings, stackoverflow, texts
from fedlib.tasks.presets import Given
from fedlib.tasks.stackoverflow import Chosen

LABEL = "StackOverflow LR"
paper = {
    **stackoverflow.PAPER,
    "tags": stackoverflow.STATED["datasets"]["stackoverflow"]["lr_tags"],
    **settings.fedopt_run(LABEL),
}
# Smaller corpora than Stack Overflow do not support more words.
laptop = {**paper, "words": 2000}
SMALL = "rare_words"  # the small problem's data
quick = {
    **{**paper, "data": SMALL, "words": 180, "tags": 40, "validation": 0},
    **{"rounds": 80, "batch_size": 6},
}
_PIECE = 1_000_000


class Bags:
    """The transform from post numbers to bags of words, float32 ``[..., words]``.

    Posts stay as they are stored, as long as they are, in the host's memory or a file; only what a
    batch needs is read. Test posts are numbered after the training posts, and a batch holds posts
    of one split.

    Args:
        train, test: the posts of both splits.
        words: size of the vocabulary; other words count in the divisor only.
    """

    def __init__(self, train: Posts, test: Posts, words: int) -> None:
        self.words, self.first_test = words, len(train)
        self._splits = [
            (texts.tensor(posts.words), texts.tensor(posts.word_offsets)) for posts in (train, test)
        ]

    def read(self, x: Tensor) -> dict[str, Tensor]:
        """The words of posts ``x [...]``, both on the host."""
        number = x.long()
        is_test = bool(number.numel()) and int(number.reshape(-1)[0]) >= self.first_test
        return occurrences(number - is_test * self.first_test, *self._splits[is_test])

    def __call__(self, words: Mapping[str, Tensor], keys: Tensor | None) -> Tensor:
        return bags(words, self.words)


def multi_hot(targets: Tensor, tags: int) -> Tensor:
    """Tag numbers ``[..., K]``, -1 where there are fewer, as ones among zeros: ``[..., tags]``."""
    hot = torch.zeros(*targets.shape[:-1], tags + 1, device=targets.device)
    number = targets.long()
    hot.scatter_(-1, torch.where(number < 0, tags, number), 1.0)
    return hot[..., :tags]


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy over all tags, for targets as tag numbers."""
    return binary_cross_entropy(outputs, multi_hot(targets, outputs.shape[-1]))


def recall(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Recall at 5 for targets as tag numbers: hits and true tags of each post."""
    return recall_at_5(outputs, multi_hot(targets, outputs.shape[-1]))


def load(given: Given) -> Task:
    """Users as clients, 10 a round, batches of 100 sentences, 1500 rounds.

    Sources: FedOpt section 4 and appendix C.4 (data), Table 7 (batch), Tables 8 and 9
    (hyperparameters). An input says how often each of 10,000 words occurs in a sentence and its
    title, divided by the number of all their words. The code behind the printed numbers sums the
    loss over a batch (of the mean over 500 tags), without which the client learning rate of 100
    would make no sense; so does this task (``reduction`` "sum").

    Options:
        seed: of the choice of users and of the validation sentences.
        data: the prepared data set (``stackoverflow``, or texts with tags); default
            ``stackoverflow``, else ``stackexchange``, else the offline stand-in. ``rare_words`` is
            the quick preset's small problem (:func:`fedlib.datasets.text_standins.rare_words`),
            with learning rates of its own (:func:`fedlib.tasks.settings.small`).
        clients: how many training users.
        words: size of the vocabulary; fewer where the data has fewer words.
        tags: how many outputs. Where the data has fewer tags the others never occur: the learning
            rates fit a mean over 500.
        cap: sentences of a user, the first ones; 1000 in the paper.
        validation: how many test sentences are evaluated; 10,000 in the paper. 0 for all, which
            the paper evaluates once, after training (Table 10).
    """
    whole("tags", given.tags, 1)
    chosen = stackoverflow.select(given)
    train, test = chosen.posts["train"], chosen.posts["test"]
    transform = Bags(train, test, chosen.words)
    return Task(
        name=given.name,
        model=lambda: TagModel(chosen.words, given.tags),
        train=_client_data(train, chosen.train, given.tags, 0),
        test=_client_data(test, chosen.test, given.tags, len(train)),
        loss=loss,
        metrics={"recall_at_5": recall},
        transform=Fixed(transform, transform.read),
        reduction="sum",
        hyperparameters=(settings.small if given.data == SMALL else settings.fedopt)(LABEL),
        label=LABEL,
        **chosen.origin(given.tags),
    )


def _client_data(posts: Posts, chosen: Chosen, tags: int, first: int) -> ClientData:
    """The chosen posts: their numbers (from ``first``) and their tags."""
    rows = chosen.rows()
    x, y = torch.from_numpy(rows + first), torch.from_numpy(padded_tags(posts, rows, tags))
    return ClientData.contiguous(x, y, chosen.packed(), chosen.sizes, chosen.ids)


def padded_tags(posts: Posts, rows: np.ndarray, tags: int) -> np.ndarray:
    """int16 ``[rows, most]``: numbers below ``tags`` of each post's tags, then -1."""
    offsets, flat = np.asarray(posts.tag_offsets), posts.tags
    widest = int(np.diff(offsets).max(initial=1))
    out = np.full((len(rows), widest), -1, dtype=np.int16)
    column = np.arange(widest)
    # In pieces: the places need four times the memory of the result.
    for start in range(0, len(rows), _PIECE):
        part = rows[start : start + _PIECE]
        begin, end = offsets[part], offsets[part + 1]
        inside = column < (end - begin)[:, None]
        places = (begin[:, None] + column)[inside]
        out[start : start + _PIECE][inside] = flat[places]
    out[out >= tags] = -1
    return out
