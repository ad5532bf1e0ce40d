"""Posts of Stack Overflow as arrays of word and tag numbers, small enough to map into memory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

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
_SPACES = bytes.maketrans(b"\t\n\v\f\r", b"     ")


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
    piece = encoder.encode(*([row[column] for row in rows] for column in (1, 2, 3)))
    return Posts(
        sentences=piece.sentences,
        starts=np.array([*starts.values(), len(rows)], dtype=np.int64),
        words=piece.words,
        word_offsets=_offsets(piece.word_counts),
        tags=piece.tags,
        tag_offsets=_offsets(piece.tag_counts),
        clients=tuple(starts),
        lengths=piece.lengths,
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
            for kind, counts in (("word", piece.word_counts), ("tag", piece.tag_counts)):
                fields[f"{kind}_offsets"].append(fields[f"{kind}s"].length + np.cumsum(counts))
            for field in ("sentences", "lengths", "words", "tags"):
                fields[field].append(getattr(piece, field))
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


def bags(found: Mapping[str, Tensor], size: int) -> Tensor:
    """How often each word occurs in posts, divided by the number of all their words.

    Unknown words count in the divisor but have no column, so rows sum to at most 1 (FedOpt's
    public code; its text says that they sum to 1).

    Args:
        found: what :func:`occurrences` gives.
        size: number of words in the vocabulary.

    Returns:
        float32 ``[..., size]``; a post without words gives zeros.
    """
    ids, row, counts = found["ids"].long(), found["row"], found["counts"]
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


class _Piece(NamedTuple):
    sentences: np.ndarray
    lengths: np.ndarray
    words: np.ndarray
    word_counts: np.ndarray
    tags: np.ndarray
    tag_counts: np.ndarray


class _Table(dict[bytes, int]):
    """Words to ids; ``unknown`` for all others, without storing them."""

    def __init__(self, ids: Mapping[bytes, int], unknown: int) -> None:
        super().__init__(ids)
        self._unknown = unknown

    def __missing__(self, word: bytes) -> int:
        return self._unknown


class _Encoder:
    """Words to numbers, many posts at a time: one lookup per word, the rest is NumPy."""

    def __init__(self, words: Sequence[str], tags: Sequence[str], length: int) -> None:
        require(1 <= length <= 254, "length", length, "1 to 254 words")
        for kind, names in (("words", words), ("tags", tags)):
            if not 1 <= len(names) <= 32_000:
                raise Error(f"{len(names)} {kind} in the vocabulary; allowed: 1 to 32000 (int16)")
            if len(set(names)) < len(names) or "" in names:
                raise Error(f"the vocabulary of {kind} has an empty or repeated entry")
        self.length = length
        self.oov = len(words) + 1
        ids = {word: rank for rank, word in enumerate(_as_bytes(words), start=1)}
        # An empty word, between two spaces, is a word in next-word prediction (unknown) but not
        # in the bag of words: TFF splits at each single space there, at any white space here.
        self._words = _Table({**ids, b"": -1}, self.oov)
        self._tags = _Table({tag: rank for rank, tag in enumerate(_as_bytes(tags))}, -1)

    def encode(
        self,
        tokens: Sequence[str | bytes],
        titles: Sequence[str | bytes],
        tags: Sequence[str | bytes],
    ) -> _Piece:
        texts = [b""] * (2 * len(tokens))
        texts[0::2], texts[1::2] = _as_bytes(tokens), _as_bytes(titles)
        ids, counts = _look_up(texts, self._words, b" ")
        sentences, lengths = self._sentences(ids, counts[0::2], (np.cumsum(counts) - counts)[0::2])
        blob = b"".join(texts)
        if len(blob) > len(blob.translate(None, b"\t\n\v\f\r")):
            texts = [text.translate(_SPACES) for text in texts]
            ids, counts = _look_up(texts, self._words, b" ")
        words, word_counts = _drop_negative(ids, counts[0::2] + counts[1::2])
        ids, counts = _look_up(_as_bytes(tags), self._tags, b"|")
        return _Piece(sentences, lengths, words, word_counts, *_drop_negative(ids, counts))

    def _sentences(
        self, ids: np.ndarray, counts: np.ndarray, begin: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n, length = len(counts), self.length
        out = np.zeros((n, length + 1), dtype=np.int16)
        out[:, 0] = self.oov + 1
        column = np.arange(length)
        inside = column < counts[:, None]
        taken = ids[(begin[:, None] + column)[inside]]
        out[:, 1:][inside] = np.where(taken < 0, self.oov, taken)
        short = np.flatnonzero(counts < length)
        out[short, 1 + counts[short]] = self.oov + 2
        return out, np.minimum(counts + 1, length).astype(np.uint8)


def _look_up(
    texts: Sequence[bytes], table: _Table, separator: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all words of all texts in a row (int16), and the number of words of each text."""
    if not texts:
        return np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int64)
    whole = separator.join(texts)
    words = whole.split(separator)
    ids = np.fromiter(map(table.__getitem__, words), dtype=np.int16, count=len(words))
    # A text ends at every separator that join has put in, and at the end; counting those in
    # between from positions is faster than one count per text.
    separators = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8) == separator[0])
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    ends = np.cumsum(sizes + 1) - 1
    return ids, np.diff(np.searchsorted(separators, ends), prepend=-1)


def _drop_negative(ids: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keep = ids >= 0
    if keep.all():
        return ids, counts
    kept = np.concatenate([[0], np.cumsum(keep)])
    return ids[keep], np.diff(kept[_offsets(counts)])


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _as_bytes(texts: Iterable[str | bytes]) -> list[bytes]:
    return [text if isinstance(text, bytes) else text.encode("utf-8") for text in texts]


def _scattered(client: str) -> Error:
    return Error(f"the posts of client {client!r} do not stand together: sort them by client")
