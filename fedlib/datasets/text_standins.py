"""Offline stand-ins for texts: docstrings of Python's standard library, and two generated sets.

The docstrings are those of Python 3.11.7, frozen in ``docstrings.json.xz``, with the part of every
set that the quick presets use. A module is a client: its authors have their own vocabulary and
style, so the partition is natural. Never compare their numbers with a paper's. The difficulty of
the generated sets is known, see :func:`rare_words` and :func:`word_chains`.
"""

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

import numpy as np

from fedlib.datasets import npy
from fedlib.datasets.dataset import SPLITS, TextDataset
from fedlib.datasets.standins import about
from fedlib.randomness import numpy_generator

_Row = tuple[str, str, tuple[str, ...]]  # client, text, tags


@cache
def make(name: str) -> TextDataset:
    """The stand-in of a data set of texts. Every call gives the same texts.

    Args:
        name: ``shakespeare`` has paragraphs of docstrings, with 60 modules as roles. ``sent140``
            has the first paragraph of a function's docstring, with label 1 if the function returns
            a value (half of them do). ``ag_news`` and ``dbpedia`` have paragraphs of one client,
            with the topic of their module as label (4 and 14 topics). ``rare_words`` and
            ``word_chains`` are described in the functions.
    """
    generated = {"rare_words": rare_words, "word_chains": word_chains}
    texts, classes = (_split(generated[name]()), None) if name in generated else _docstrings(name)
    arrays, clients = npy.text_arrays(name, texts)
    said = about(name, arrays, classes, clients=clients)
    return TextDataset(name, arrays, tuple(clients), **said)


def _docstrings(name: str) -> tuple[list[npy.Text], tuple[str, ...] | None]:
    """The frozen texts of a data set, and its names of classes."""
    packed = files(__package__).joinpath("docstrings.json.xz").read_bytes()
    content = json.loads(lzma.decompress(packed))[name]
    texts: list[npy.Text] = []
    for split in SPLITS:
        columns = content[split]
        labels = columns.get("label", [None] * len(columns["text"]))
        rows = zip(columns["client"], columns["text"], labels, strict=True)
        texts += [(split, client, text.encode(), label) for client, text, label in rows]
    return texts, content["classes"] and tuple(content["classes"])


def _split(rows: Iterable[_Row]) -> Iterator[npy.Text]:
    """Every fifth text of a client is for testing, and no text occurs twice."""
    distinct: dict[str, _Row] = {}
    for row in rows:
        distinct.setdefault(row[1], row)
    seen: Counter[str] = Counter()
    for client, text, tags in distinct.values():
        seen[client] += 1
        yield "test" if seen[client] % 5 == 0 else "train", client, text.encode(), tags


# Numbers in the generated posts: users and their posts, topics, words of a topic, common words.
USERS, POSTS = 200, 15
TOPIC_TAGS, OWN_WORDS, COMMON_WORDS = 40, 4, 20
_OWN_TOPICS = 5  # topics of a user
_AT_HOME = 0.5  # the share of a user's posts about these topics
_HINTED = 0.9  # the probability that a post has a word of its topic
_LONG = 8  # words of a post


def rare_words() -> Iterator[_Row]:
    """Posts whose tags depend on rare words. They are generated, so their difficulty is known.

    There are 40 topics, the k-th as frequent as 1 / sqrt(k) (the first five are a quarter of all).
    A user writes half of the posts about five of them. A post has one or two topics, equally often,
    which are its tags. For each topic it has, with probability 0.9, one of the four words that no
    other topic has. The rest of its eight words are common words (30, the k-th as frequent as
    1 / k), which are not informative. So a topic's word occurs in 0.7 % of the posts, a common word
    in 10 to 80 %. A model that knows the words finds nine of ten tags and guesses the others.
    """
    random = numpy_generator(0, "stand-in rare_words")
    topics = np.arange(1, TOPIC_TAGS + 1) ** -0.5
    common = 1 / np.arange(1, COMMON_WORDS + 1)
    topics, common = topics / topics.sum(), common / common.sum()
    for user in range(USERS):
        home = random.choice(TOPIC_TAGS, _OWN_TOPICS, replace=False, p=topics)
        for _ in range(POSTS):
            source = (home, topics[home] / topics[home].sum())
            if random.random() > _AT_HOME:
                source = (np.arange(TOPIC_TAGS), topics)
            about = random.choice(source[0], random.integers(1, 3), replace=False, p=source[1])
            hints = [
                f"word{topic}{'abcd'[random.integers(OWN_WORDS)]}"
                for topic in about
                if random.random() < _HINTED
            ]
            filler = random.choice(COMMON_WORDS, _LONG - len(hints), p=common)
            words = random.permutation([*hints, *(f"the{number}" for number in filler)])
            tags = tuple(f"topic{topic}" for topic in sorted(about))
            yield f"user {user}", "\n" + " ".join(words), tags


# Numbers in the generated chains: speakers and their sentences, words, and words of a sentence.
SPEAKERS, SENTENCES, CHAIN_WORDS, CHAIN_LENGTH = 200, 10, 120, 20
_FOLLOWS = 0.6  # the probability that a word's successor follows it
_OWN_WORDS = 12  # words of a speaker, who takes half of the other words from them


def word_chains() -> Iterator[_Row]:
    """Sentences whose words predict the next. As they are generated, their difficulty is known.

    The k-th of 120 words is drawn as often as 1 / k. Each word has a successor among its three
    neighbours in frequency, which follows it with probability 0.6. Otherwise the next word is drawn
    anew, half of the time from twelve words of the speaker. A model that knows all successors is
    right in six of ten cases, and one that knows only the most common word in one of eleven. The
    rarer half of the words is a seventh of the text.
    """
    random = numpy_generator(0, "stand-in word_chains")
    share = 1 / np.arange(1, CHAIN_WORDS + 1)
    share /= share.sum()
    # Rings of four neighbours in frequency: 0 -> 1 -> 2 -> 3 -> 0, 4 -> 5 ...
    rings = np.arange(CHAIN_WORDS).reshape(-1, 4)
    after = np.roll(rings, -1, axis=1).ravel()
    for speaker in range(SPEAKERS):
        favourites = random.choice(CHAIN_WORDS, _OWN_WORDS, replace=False, p=share)
        for _ in range(SENTENCES):
            words = [random.choice(CHAIN_WORDS, p=share)]
            while len(words) < CHAIN_LENGTH:
                anew = random.choice(favourites) if random.random() < 0.5 else None
                anew = random.choice(CHAIN_WORDS, p=share) if anew is None else anew
                words.append(after[words[-1]] if random.random() < _FOLLOWS else anew)
            text = " ".join(f"word{word}" for word in words)
            yield f"speaker {speaker}", "\n" + text, ("chain",)
