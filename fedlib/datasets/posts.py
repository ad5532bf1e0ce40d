"""Posts of Stack Overflow as arrays of word and tag numbers, small enough to map into memory."""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlib.arguments import check_fields
from fedlib.datasets import npy
from fedlib.errors import Error, require

WORDS, TAGS, LENGTH = 10_000, 500, 20
PAD = 0
Texts = Sequence[str | bytes]
_FIELDS = ("sentences", "lengths", "starts", "words", "word_offsets", "tags", "tag_offsets")


@dataclass(frozen=True, eq=False)
class Posts:
    """One split, encoded. Word ids: 0 padding, 1..V words by rank, V+1 unknown, V+2 bos, V+3 eos.

    A post is one sentence (``tokens``) with the title and the tags of the question it is from.

    Attributes:
        sentences: int16 ``[N, length + 1]``: bos, the first ``length`` words, eos if there are
            fewer than ``length``, then padding. Inputs are all columns but the last, targets all
            but the first (FedOpt's next-word prediction).
        starts: int64 ``[clients + 1]``; client c has posts ``starts[c]:starts[c + 1]``, in the
            order of the file.
        words: int16 ``[W]``, the ids of tokens and title of all posts in a row, unknown words
            included (FedOpt's tag prediction divides by their number too).
        word_offsets: int64 ``[N + 1]`` into ``words``.
        tags: int16 ``[K]``, ids ``0..TAGS-1`` of the tags that are in the vocabulary.
        tag_offsets: int64 ``[N + 1]`` into ``tags``.
        clients: names of the clients.
        lengths: uint8 ``[N]``, the number of targets of each sentence that are not padding.
        word_list, tag_list: the vocabulary by rank; word id i is ``word_list[i - 1]``.

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
    word_list: Sequence[str] = ()
    tag_list: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def __len__(self) -> int:
        return len(self.sentences)

    def targets(self, cap: int = 1000) -> np.ndarray:
        """int64 ``[clients]``: targets that are not padding among each client's first ``cap``
        sentences, the weight of the client in next-word prediction."""
        require(cap >= 1, "cap", cap, "1 or more sentences")
        begin = np.asarray(self.starts[:-1])
        end = np.minimum(begin + cap, self.starts[1:])
        total = np.zeros(len(begin), dtype=np.int64)
        some = np.flatnonzero(end > begin)
        if len(some):
            edges = np.stack([begin[some], end[some]], axis=1).reshape(-1)
            # reduceat sums between consecutive edges, every second sum is a client; the last edge
            # may not be the length of the array, and means the end when left out.
            edges = edges[:-1] if edges[-1] == len(self.lengths) else edges
            total[some] = np.add.reduceat(self.lengths, edges, dtype=np.int64)[::2]
        return total


def encode(
    posts: Iterable[tuple[str, str, str, str]],
    words: Sequence[str],
    tags: Sequence[str],
    length: int = LENGTH,
) -> Posts:
    """Encode posts that fit in memory; :func:`write` is for those that do not.

    Args:
        posts: (client, tokens, title, tags) with words separated by spaces, tags by ``|``; all
            posts of a client stand together.
        words, tags: the vocabularies in rank order.
        length: words kept of a sentence.

    Raises:
        Error: a client's posts do not stand together, or a vocabulary cannot be encoded.
    """
    encoder = _Encoder(words, tags, length)
    rows: list[tuple[str, str, str, str]] = []
    starts: dict[str, int] = {}
    for client, its_posts in itertools.groupby(posts, key=itemgetter(0)):
        if client in starts:
            raise _scattered(client)
        starts[client] = len(rows)
        rows += its_posts
    arrays = encoder.encode(*([row[column] for row in rows] for column in (1, 2, 3)))
    for field in ("word_offsets", "tag_offsets"):
        arrays[field] = np.insert(arrays[field], 0, 0)
    return Posts(
        **arrays,
        starts=np.array([*starts.values(), len(rows)], dtype=np.int64),
        clients=tuple(starts),
        word_list=tuple(words),
        tag_list=tuple(tags),
    )


def write(
    folder: Path,
    split: str,
    pieces: Iterable[tuple[str, Texts, Texts, Texts]],
    words: Sequence[str],
    tags: Sequence[str],
    length: int = LENGTH,
) -> tuple[int, int]:
    """Encode one split into ``.npy`` files, a piece at a time.

    Files: ``<split>_<field>.npy`` for the fields of :class:`Posts`, and ``<split>_clients.npy``
    (the names as JSON in uint8).

    Args:
        folder: an existing folder.
        split: the files' prefix.
        pieces: client, and the tokens, titles and tags of some of its posts, perhaps none; all
            pieces of a client stand together.
        words, tags, length: as for :func:`encode`.

    Returns:
        How many posts and clients there are.

    Raises:
        Error: as :func:`encode`.
    """
    encoder = _Encoder(words, tags, length)
    kinds: dict[str, npy.Kind] = {field: (np.int64, ()) for field in _FIELDS}
    kinds |= {"sentences": (np.int16, (length + 1,)), "lengths": (np.uint8, ())}
    kinds |= {"words": (np.int16, ()), "tags": (np.int16, ())}
    starts: dict[str, int] = {}
    last = None
    with npy.growing(folder, {f"{split}_{field}": kind for field, kind in kinds.items()}) as out:
        fields = {field: out[f"{split}_{field}"] for field in kinds}
        for field in ("word_offsets", "tag_offsets"):
            fields[field].append([0])
        for client, *texts in pieces:
            if client != last and client in starts:
                raise _scattered(client)
            starts.setdefault(client, fields["sentences"].length)
            last, piece = client, encoder.encode(*texts)
            for field in ("word", "tag"):
                piece[f"{field}_offsets"] += fields[f"{field}s"].length
            for field, values in piece.items():
                fields[field].append(values)
        count = fields["sentences"].length
        fields["starts"].append([*starts.values(), count])
    npy.save_json(folder, f"{split}_clients", list(starts))
    return count, len(starts)


def occurrences(index: Tensor, words: Tensor, offsets: Tensor) -> dict[str, Tensor]:
    """The words of posts, which :func:`bags` counts.

    Args:
        index: int64 ``[...]``, numbers of posts.
        words: integers ``[W]``, ids ``1..size`` or others; may be a memory map.
        offsets: int64 ``[N + 1]``, on the device of ``words``.

    Returns:
        ``ids``: ``[W]``, all words of these posts; ``row``: int64 ``[W]``, which of the posts
        each is of; ``counts``: int64 in the shape of ``index``, how many words each post has.
    """
    posts = index.reshape(-1)
    begin = offsets[posts]
    counts = offsets[posts + 1] - begin
    row = torch.repeat_interleave(torch.arange(len(posts), device=posts.device), counts)
    # Position of each word: its post's beginning plus its place within the post.
    shift = begin - (counts.cumsum(0) - counts)
    place = torch.arange(len(row), device=posts.device) + shift[row]
    return {"ids": words[place], "row": row, "counts": counts.view(index.shape)}


def bags(words: Mapping[str, Tensor], size: int) -> Tensor:
    """How often each word occurs in posts, divided by the number of all their words.

    Unknown words count in the divisor but have no column, so rows sum to at most 1 (FedOpt's
    public code; its text says that they sum to 1).

    Args:
        words: what :func:`occurrences` gives.
        size: number of words in the vocabulary.

    Returns:
        float32 ``[..., size]``; a post without words gives zeros.
    """
    ids, row, counts = words["ids"].long(), words["row"], words["counts"]
    known = (ids >= 1) & (ids <= size)
    bag = torch.zeros(counts.numel() * size, device=ids.device)
    # Counts are whole numbers, so the order of these additions does not matter.
    slot = torch.where(known, row * size + ids - 1, torch.zeros_like(ids))
    bag.index_add_(0, slot, known.float())
    return bag.view(*counts.shape, size) / counts.clamp(min=1).unsqueeze(-1)


def from_arrays(arrays: Mapping[str, np.ndarray], split: str) -> Posts:
    """A split of stored arrays (see :func:`write`) with their ``vocabulary``, if any."""
    lists: dict[str, list[str]] = {"words": [], "tags": []}
    if "vocabulary" in arrays:
        lists = json.loads(arrays["vocabulary"].tobytes())
    missing = [key for key in (*_FIELDS, "clients") if f"{split}_{key}" not in arrays]
    if missing:
        raise Error(f"the posts have no {split}_{missing[0]}: prepare them again with overwrite")
    return Posts(
        # As plain arrays: slicing a numpy.memmap costs more, and there are many small slices.
        **{field: arrays[f"{split}_{field}"].view(np.ndarray) for field in _FIELDS},
        clients=tuple(json.loads(arrays[f"{split}_clients"].tobytes())),
        word_list=tuple(lists["words"]),
        tag_list=tuple(lists["tags"]),
    )


# -------------------------------------------------------------------------------------- encoding


class _Encoder:
    """Words to numbers, some posts at a time."""

    def __init__(self, words: Sequence[str], tags: Sequence[str], length: int) -> None:
        require(1 <= length <= 254, "length", length, "1 to 254 words")
        for kind, names in (("words", words), ("tags", tags)):
            if not 1 <= len(names) <= 32_000:
                raise Error(f"{len(names)} {kind} in the vocabulary; allowed: 1 to 32000 (int16)")
            if len(set(names)) < len(names) or "" in names:
                raise Error(f"the vocabulary of {kind} has an empty or repeated entry")
        self.length, self.oov = length, len(words) + 1
        self._words = {word.encode(): rank for rank, word in enumerate(words, start=1)}
        self._tags = {tag.encode(): rank for rank, tag in enumerate(tags)}

    def encode(self, tokens: Texts, titles: Texts, tags: Texts) -> dict[str, np.ndarray]:
        """Arrays by the names of the fields of :class:`Posts`; of offsets without the first 0."""
        ids, oov, length = self._words, self.oov, self.length
        sentences = np.zeros((len(tokens), length + 1), dtype=np.int16)
        sentences[:, 0] = oov + 1
        lengths, bags, bag_ends, tag_ids, tag_ends = [], array("h"), [], array("h"), []
        for row, *post in zip(sentences, tokens, titles, tags, strict=True):
            text, title, its_tags = (t if isinstance(t, bytes) else t.encode() for t in post)
            # TFF splits at each single space for next-word prediction, so that there may be empty
            # words, which are unknown, and at any white space for the bag of words.
            sentence = [ids.get(word, oov) for word in text.split(b" ")[:length]]
            sentence += [oov + 2] * (len(sentence) < length)
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


def _scattered(client: str) -> Error:
    return Error(f"the posts of client {client!r} do not stand together: sort them by client")
