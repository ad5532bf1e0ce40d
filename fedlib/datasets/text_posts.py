"""Tagged texts as posts: Stack Exchange dumps and stand-ins in the form of Stack Overflow."""

from __future__ import annotations

import itertools
from collections import defaultdict

from fedlib.datasets.dataset import TextDataset
from fedlib.datasets.posts import Posts, encode
from fedlib.datasets.text import most_frequent, post_words, sentences

Row = tuple[str, str, str, str]


def rows(dataset: TextDataset, split: str) -> list[Row]:
    """A split's sentences as (client, tokens, title, tags), a client's together, in their order.

    The first line of a text is its title (it may be empty). Each sentence of the rest is an example
    with the text's title and tags, as in the federated Stack Overflow files.

    Raises:
        Error: the texts have no tags.
    """
    clients: dict[int, list[Row]] = defaultdict(list)
    for i, client in enumerate(dataset.client(split).tolist()):
        title, _, body = dataset.text(split, i).partition("\n")
        tags = "|".join(tag.replace("|", " ") for tag in dataset.tags(split, i))
        words = " ".join(post_words(title))
        for sentence in sentences(body):
            tokens = " ".join(post_words(sentence))
            if tokens:
                clients[client].append((dataset.clients[client], tokens, words, tags))
    return [row for _, its_rows in sorted(clients.items()) for row in its_rows]


def text_posts(dataset: TextDataset, words: int, tags: int) -> tuple[Posts, Posts]:
    """Training and test posts, encoded with vocabularies of the training split.

    Args:
        dataset: texts with tags.
        words: size of the word vocabulary; words rank by the number of clients that use them, as
            in the federated Stack Overflow files.
        tags: size of the tag vocabulary; tags rank by the number of examples.

    Raises:
        Error: the texts have no tags.
    """
    train, test = rows(dataset, "train"), rows(dataset, "test")
    used: dict[str, set[str]] = defaultdict(set)
    for client, tokens, title, _ in train:
        used[client].update(tokens.split(), title.split())
    word_list = most_frequent(itertools.chain.from_iterable(used.values()), words)
    tag_list = most_frequent((tag for row in train for tag in row[3].split("|") if tag), tags)
    return encode(train, word_list, tag_list), encode(test, word_list, tag_list)
