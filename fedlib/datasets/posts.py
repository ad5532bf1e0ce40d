"""Posts of Stack Overflow as arrays of numbers, and tagged texts in the same form."""

import itertools
import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlib.datasets import npy
from fedlib.datasets.dataset import TextDataset
from fedlib.datasets.text import most_frequent, post_words, sentences
from fedlib.errors import Error

WORDS, TAGS, LENGTH = 10_000, 500, 20
PAD = 0
Texts = Sequence[str | bytes]
Piece = tuple[str, Texts, Texts, Texts]  # a client, and tokens, titles and tags of some posts
Row = tuple[str, str, str, str]  # client, tokens, title and tags of a post
_FIELDS = ("sentences", "lengths", "starts", "words", "word_offsets", "tags", "tag_offsets")


@dataclass(frozen=True, eq=False)
class Posts:
    """One split, encoded. Word ids: 0 padding, 1..V words by rank, V+1 unknown, V+2 bos, V+3 eos.

    A post is one sentence (``tokens``) with the title and the tags of its question.

    Attributes:
        sentences: int16 ``[N, 21]``: bos, the first 20 words, eos if there are fewer, then padding.
            Inputs are all columns but the last, targets all but the first (FedOpt's next-word
            prediction).
        starts: int64 ``[clients + 1]``. Client c has posts ``starts[c]:starts[c + 1]``, in the
            order of the file.
        words: int16 ``[W]``, the ids of tokens and title of all posts in a row, unknown words
            included (FedOpt's tag prediction divides by their number too).
        word_offsets: int64 ``[N + 1]`` into ``words``.
        tags: int16 ``[K]``, ids ``0..TAGS-1`` of the tags that are in the vocabulary.
        tag_offsets: int64 ``[N + 1]`` into ``tags``.
        clients: names of the clients.
        lengths: uint8 ``[N]``, each sentence's number of targets without padding.
        word_list, tag_list: the vocabulary by rank. Word id i is ``word_list[i - 1]``.

    All arrays may be read-only memory maps.
    """

    sentences: np.ndarray
    starts: np.ndarray
    words: np.ndarray
    word_offsets: np.ndarray
    tags: np.ndarray
    tag_offsets: np.ndarray
    clients: Sequence[str]
    lengths: np.ndarray
    word_list: Sequence[str]
    tag_list: Sequence[str]

    def __len__(self) -> int:
        return len(self.sentences)


def encode(posts: Iterable[Row], words: Sequence[str], tags: Sequence[str]) -> Posts:
    """Encode posts that fit in memory. :func:`write` encodes larger data.

    Args:
        posts: (client, tokens, title, tags) with words separated by spaces, tags by ``|``. All
            posts of a client are consecutive.
        words, tags: the vocabularies in rank order, of at most 32,000 each.

    Raises:
        Error: a vocabulary is empty.
    """
    encoder = _Encoder(words, tags)
    by_client = itertools.groupby(posts, key=itemgetter(0))
    texts = ((client, *zip(*(row[1:] for row in rows), strict=True)) for client, rows in by_client)
    pieces = list(encoder.pieces(texts))
    return Posts(
        **{field: np.concatenate([piece[field] for piece in pieces]) for field in pieces[0]},
        starts=encoder.bounds(),
        clients=tuple(encoder.starts),
        word_list=tuple(words),
        tag_list=tuple(tags),
    )


def write(
    folder: Path,
    split: str,
    pieces: Iterable[Piece],
    words: Sequence[str],
    tags: Sequence[str],
) -> tuple[int, int]:
    """Encode one split into ``.npy`` files, a piece at a time.

    Files: ``<split>_<field>.npy`` for the fields of :class:`Posts`, and ``<split>_clients.npy``
    (the names as JSON in uint8).

    Args:
        folder: an existing folder.
        split: the files' prefix.
        pieces: client, and the tokens, titles and tags of some of its posts, perhaps none. All
            pieces of a client are consecutive.
        words, tags: see :func:`encode`.

    Returns:
        The numbers of posts and of clients.

    Raises:
        Error: a vocabulary is empty.
    """
    encoder = _Encoder(words, tags)
    with ExitStack() as stack:
        files: dict[str, npy.GrowingArray] = {}
        for arrays in encoder.pieces(pieces):
            for field, values in arrays.items():
                if field not in files:
                    file = npy.GrowingArray(folder / f"{split}_{field}.npy", values)
                    files[field] = stack.enter_context(closing(file))
                files[field].append(values)
    npy.save(folder, f"{split}_starts", encoder.bounds())
    npy.save_json(folder, f"{split}_clients", list(encoder.starts))
    return encoder.ends["sentences"], len(encoder.starts)


def occurrences(index: Tensor, words: Tensor, offsets: Tensor) -> dict[str, Tensor]:
    """The words of posts, for :func:`bags` to count.

    Args:
        index: int64 ``[...]``, numbers of posts.
        words: integers ``[W]``, ids ``1..size`` or others. May be a memory map.
        offsets: int64 ``[N + 1]``, on the device of ``words``.

    Returns:
        ``ids``: ``[W]``, all words of these posts. ``row``: int64 ``[W]``, the post of each word.
        ``counts``: int64 in the shape of ``index``, the number of words of each post.
    """
    posts = index.reshape(-1)
    begin = offsets[posts]
    counts = offsets[posts + 1] - begin
    row = torch.repeat_interleave(torch.arange(len(posts), device=posts.device), counts)
    # The position of each word is its post's beginning plus its place within the post.
    shift = begin - (counts.cumsum(0) - counts)
    place = torch.arange(len(row), device=posts.device) + shift[row]
    return {"ids": words[place], "row": row, "counts": counts.view(index.shape)}


def bags(words: Mapping[str, Tensor], size: int) -> Tensor:
    """The frequency of each word in posts: its count divided by the number of all their words.

    Unknown words count in the divisor but have no column, so rows sum to at most 1. This follows
    FedOpt's public code. Its text says that they sum to 1.

    Args:
        words: the result of :func:`occurrences`.
        size: number of words in the vocabulary.

    Returns:
        float32 ``[..., size]``. A post without words gives zeros.
    """
    ids, row, counts = words["ids"].long(), words["row"], words["counts"]
    known = (ids >= 1) & (ids <= size)
    bag = torch.zeros(counts.numel() * size, device=ids.device)
    # Counts are whole numbers, so the order of these additions does not matter.
    slot = torch.where(known, row * size + ids - 1, torch.zeros_like(ids))
    bag.index_add_(0, slot, known.float())
    return bag.view(*counts.shape, size) / counts.clamp(min=1).unsqueeze(-1)


def from_arrays(arrays: Mapping[str, np.ndarray], split: str) -> Posts:
    """A split of stored arrays (see :func:`write`) with their ``vocabulary``."""
    lists = json.loads(arrays["vocabulary"].tobytes())
    return Posts(
        # As plain arrays, as slicing a numpy.memmap costs more and there are many small slices.
        **{field: arrays[f"{split}_{field}"].view(np.ndarray) for field in _FIELDS},
        clients=tuple(json.loads(arrays[f"{split}_clients"].tobytes())),
        word_list=tuple(lists["words"]),
        tag_list=tuple(lists["tags"]),
    )


# ---------------------------------------------------------------------------------- tagged texts


def tagged_rows(dataset: TextDataset, split: str) -> list[Row]:
    """A split's sentences as (client, tokens, title, tags), client by client, in their order.

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
        words: size of the word vocabulary. Words are ranked by the number of clients that use
            them, as in the federated Stack Overflow files.
        tags: size of the tag vocabulary. Tags are ranked by the number of examples.

    Raises:
        Error: the texts have no tags.
    """
    train, test = tagged_rows(dataset, "train"), tagged_rows(dataset, "test")
    used: dict[str, set[str]] = defaultdict(set)
    for client, tokens, title, _ in train:
        used[client].update(tokens.split(), title.split())
    word_list = most_frequent(itertools.chain.from_iterable(used.values()), words)
    tag_list = most_frequent((tag for row in train for tag in row[3].split("|") if tag), tags)
    return encode(train, word_list, tag_list), encode(test, word_list, tag_list)


# -------------------------------------------------------------------------------------- encoding


class _Encoder:
    """Words to numbers, some posts at a time.

    Attributes:
        starts: for each client the number of its first post.
        ends: the numbers of sentences, words and tags so far.
    """

    def __init__(self, words: Sequence[str], tags: Sequence[str]) -> None:
        for kind, names in (("words", words), ("tags", tags)):
            if not names:
                raise Error(f"the training posts have no {kind}")
        self.oov = len(words) + 1
        self._words = {word.encode(): rank for rank, word in enumerate(words, start=1)}
        self._tags = {tag.encode(): rank for rank, tag in enumerate(tags)}
        self.starts: dict[str, int] = {}
        self.ends = {"sentences": 0, "words": 0, "tags": 0}

    def bounds(self) -> np.ndarray:
        """The start of each client's posts, and the end of the last client's posts."""
        return np.array([*self.starts.values(), self.ends["sentences"]], dtype=np.int64)

    def pieces(self, posts: Iterable[Piece]) -> Iterator[dict[str, np.ndarray]]:
        """The arrays piece by piece, by the names of the fields of :class:`Posts`. The first piece
        has the starts of the offsets.
        """
        offsets = dict.fromkeys(("word_offsets", "tag_offsets"), np.zeros(1, dtype=np.int64))
        yield self._encoded((), (), ()) | offsets
        for client, *texts in posts:
            self.starts.setdefault(client, self.ends["sentences"])
            arrays = self._encoded(*texts)
            for field in ("word", "tag"):
                arrays[f"{field}_offsets"] += self.ends[f"{field}s"]
            for field in self.ends:
                self.ends[field] += len(arrays[field])
            yield arrays

    def _encoded(self, tokens: Texts, titles: Texts, tags: Texts) -> dict[str, np.ndarray]:
        """Encoded posts. Offsets count from 0, which is left out."""
        ids, oov = self._words, self.oov
        sentences = np.zeros((len(tokens), LENGTH + 1), dtype=np.int16)
        sentences[:, 0] = oov + 1
        lengths, bags, bag_ends, tag_ids, tag_ends = [], array("h"), [], array("h"), []
        for row, *post in zip(sentences, tokens, titles, tags, strict=True):
            text, title, its_tags = (t if isinstance(t, bytes) else t.encode() for t in post)
            # For next-word prediction TFF splits at each single space, so there may be empty words,
            # which are unknown. For the bag of words it splits at any white space.
            sentence = [ids.get(word, oov) for word in text.split(b" ")[:LENGTH]]
            sentence += [oov + 2] * (len(sentence) < LENGTH)
            row[1 : len(sentence) + 1] = sentence
            lengths.append(len(sentence))
            bags.extend([ids.get(word, oov) for word in (text + b" " + title).split()])
            bag_ends.append(len(bags))
            tag_ids.extend(self._tags[tag] for tag in its_tags.split(b"|") if tag in self._tags)
            tag_ends.append(len(tag_ids))
        return {
            "sentences": sentences,
            "lengths": np.array(lengths, dtype=np.uint8),
            "words": np.array(bags, dtype=np.int16),
            "word_offsets": np.array(bag_ends, dtype=np.int64),
            "tags": np.array(tag_ids, dtype=np.int16),
            "tag_offsets": np.array(tag_ends, dtype=np.int64),
        }
