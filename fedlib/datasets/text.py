"""Texts as numbers: the papers' character and word encodings, and reading GloVe vectors."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from fedlib.errors import Error, first_line, require

# FedOpt's character vocabulary in the order of its public code: 86 characters, then numbers 1 to
# 86. 0 pads, and three more tokens follow. Only ASCII occurs, so a character is a byte.
SHAKESPEARE_CHARACTERS = (
    "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"
)
PAD, OOV, BOS, EOS = 0, 87, 88, 89
CHARACTERS = 90  # the size of the whole vocabulary
_TOKENS = np.full(256, OOV, dtype=np.uint8)  # the token of each byte
_TOKENS[list(SHAKESPEARE_CHARACTERS.encode())] = np.arange(1, OOV)
SEQUENCE = 80  # characters that a model reads at once
SPECIAL = 4  # special numbers: padding, unknown, start and end

_TWEET = re.compile(r"[\w']+|[.,!?;]")
# Words keep inner apostrophes, hyphens, dots and plus signs (don't, e-mail, os.path, c++).
_POST = re.compile(r"[a-z0-9_]+(?:['’.\-][a-z0-9_]+|\+\+|#)*|[.,!?;:()\"]")
# The same for letters of all scripts. In scripts without spaces each letter is a word.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARKS = "\u0080-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u060c\u061b\u061f\u06d4\u0964\u0965"
_MARKS += "\u2000-\u206f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20"
_LETTER = rf"(?:[a-z0-9_]|[^\x00-\x7f\s{_ALONE}{_MARKS}])"
_WORD = re.compile(rf"{_LETTER}+(?:['’.\-]{_LETTER}+|\+\+|#)*|[{_ALONE}]|[.,!?;:()\"。，！？、؟،।]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


# ------------------------------------------------------------------------------------ characters


def shakespeare_chunks(
    text: np.ndarray, offsets: np.ndarray, length: int = SEQUENCE
) -> tuple[np.ndarray, np.ndarray]:
    """Snippets as rows of ``length + 1`` tokens: row ``c`` is input ``c[:-1]``, target ``c[1:]``.

    Each snippet separately gets a start and an end token, is padded to a multiple of ``length + 1``
    and split. The step from the last token of a row to the first of the next is lost (one in 81),
    as in FedOpt's public code.

    Args:
        text: uint8 ``[bytes]``, all snippets in UTF-8 one after the other.
        offsets: int64 ``[snippets + 1]``. Snippet i is ``text[offsets[i]:offsets[i + 1]]``.
        length: tokens that a model reads at once. 80 in the paper.

    Returns:
        uint8 ``[rows, length + 1]``, and the number of rows of each snippet, int64 ``[snippets]``.
    """
    require(length >= 1, "length", length, "a whole number >= 1")
    sizes = np.diff(offsets)
    rows = -(-(sizes + 2) // (length + 1))
    first = np.concatenate([[0], np.cumsum(rows)])[:-1] * (length + 1)
    chunks = np.zeros(int(rows.sum()) * (length + 1), dtype=np.uint8)
    chunks[first] = BOS
    chunks[first + sizes + 1] = EOS
    # Byte j of snippet i goes to first[i] + 1 + j.
    shift = np.repeat(first + 1 - offsets[:-1], sizes)
    places = np.arange(offsets[0], offsets[-1]) + shift
    chunks[places] = _TOKENS[text[offsets[0] : offsets[-1]]]
    return chunks.reshape(-1, length + 1), rows


# ----------------------------------------------------------------------------------------- words


def tweet_words(text: str) -> list[str]:
    """Words and the marks ``. , ! ? ;`` of a tweet. Capitals stay, as in LEAF's Sent140.

    >>> tweet_words("@Ann I'm SO sad... why?! #no_way :-(")
    ['Ann', "I'm", 'SO', 'sad', '.', '.', '.', 'why', '?', '!', 'no_way']
    """
    return _TWEET.findall(text)


def post_words(text: str) -> list[str]:
    r"""Words and punctuation marks of a post or a docstring, in lower case.

    They are lower case, and marks are separate words, as in the federated Stack Overflow files,
    which are already tokenized. Letters beyond ASCII do not occur there and separate words here.

        >>> post_words("Don't use os.path; see C++ (or C#)!")
        ["don't", 'use', 'os.path', ';', 'see', 'c++', '(', 'or', 'c#', ')', '!']
    """
    return _POST.findall(text.lower())


def any_words(text: str) -> list[str]:
    """Like :func:`post_words`, but for all scripts. In some (Chinese, Thai) each letter is a word.

    >>> any_words("Très bien! Очень хорошо, 很好")
    ['très', 'bien', '!', 'очень', 'хорошо', ',', '很', '好']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def sentences(text: str) -> list[str]:
    """A post's sentences, split after ``. ! ?`` before white space, and at blank lines.

    >>> sentences("One. Two! e.g.this stays  Three")
    ['One.', 'Two!', 'e.g.this stays  Three']
    """
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def most_frequent(words: Iterable[str], size: int) -> list[str]:
    """The ``size`` most frequent words, most frequent first. Ties in alphabetical order.

    >>> most_frequent(["b", "a", "c", "b", "d", "a"], 3)
    ['a', 'b', 'c']
    """
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))[:size]


def word_rows(
    texts: Iterable[Sequence[str]], numbers: dict[str, int], length: int, unknown: int
) -> np.ndarray:
    """int32 ``[texts, length]``: the numbers of each text's first words, padded with 0 at the end.

    Args:
        texts: words of each text.
        numbers: numbers of the known words.
        length: length of a row.
        unknown: number of all other words.

    >>> word_rows([["a", "b", "c"], ["x"], []], {"a": 1, "b": 2}, length=2, unknown=9).tolist()
    [[1, 2], [9, 0], [0, 0]]
    """
    rows = [[numbers.get(word, unknown) for word in words[:length]] for words in texts]
    out = np.zeros((len(rows), length), dtype=np.int32)
    for row, tokens in zip(out, rows, strict=True):
        row[: len(tokens)] = tokens
    return out


def tokenized(
    train: Sequence[str],
    test: Sequence[str],
    size: int,
    length: int,
    split: Callable[[str], list[str]] = post_words,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Texts as rows of word numbers, for networks trained from scratch.

    0 pads, 1 stands for unknown words, 2 starts and 3 ends a text. The most frequent words of the
    training texts have 4 and up.

    Args:
        train, test: texts.
        size: size of the vocabulary, including the four special numbers.
        length: length of a row, 3 or more. Texts are truncated or padded at the end.
        split: splits a text into words.

    Returns:
        int32 ``[texts, length]`` for both, and the number of word numbers.
    """
    require(size > SPECIAL, "words", size, f"a whole number > {SPECIAL}")
    words = most_frequent((word for text in train for word in split(text)), size - SPECIAL)
    numbers = {word: number for number, word in enumerate(words, SPECIAL)}
    numbers |= {"[CLS]": 2, "[SEP]": 3}

    def rows(texts: Iterable[str]) -> np.ndarray:
        marked = (["[CLS]", *split(text)[: length - 2], "[SEP]"] for text in texts)
        return word_rows(marked, numbers, length, unknown=1)

    return rows(train), rows(test), SPECIAL + len(words)


def pretrained_rows(
    texts: Sequence[str],
    length: int = 512,
    name: str | os.PathLike[str] = "distilbert-base-uncased",
) -> np.ndarray:
    """int32 ``[texts, length]`` by a published tokenizer, truncated or padded at the end.

    Args:
        texts: the texts to encode.
        length: 512 tokens in the Delta-SGD code.
        name: name of the tokenizer for ``transformers.AutoTokenizer``, or its folder.

    Raises:
        Error: transformers is not installed, or the tokenizer is not available.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise Error(
            "a pretrained tokenizer needs transformers: install fedlib with its extra 'text'"
        ) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise Error(f"tokenizer {str(name)!r} cannot be loaded: {first_line(error)}") from None
    whole = {"padding": "max_length", "truncation": True, "max_length": length}
    return np.array(tokenizer(list(texts), **whole)["input_ids"], dtype=np.int32)


# ----------------------------------------------------------------------------------------- GloVe


def read_glove(
    path: str | os.PathLike[str], words: Collection[str]
) -> tuple[list[str], np.ndarray]:
    """Word vectors in GloVe's text format: a line per word, ``word v1 v2 ...``.

    Args:
        path: the file, UTF-8.
        words: which to keep (a set is fastest).

    Returns:
        The words in file order and float32 ``[words, dimensions]``. If a word occurs twice, its
        first vector counts.

    Raises:
        Error: the file cannot be read, or the line of one of the words has not as many finite
            numbers as line 1.
    """
    vectors: dict[str, np.ndarray] = {}
    dimensions = 0
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                dimensions = dimensions or line.count(" ")
                # The last fields are the numbers: a few words of some files contain spaces.
                word, *fields = line.rstrip().rsplit(" ", dimensions)
                if word in words and word not in vectors:
                    vector, most = np.array(fields, dtype=float), np.finfo(np.float32).max
                    if len(fields) != dimensions or not (np.abs(vector) <= most).all():
                        what = f"{word!r} has not {dimensions} finite numbers"
                        raise ValueError(f"line {number}: {what}")
                    vectors[word] = vector.astype(np.float32)
    except (OSError, ValueError) as error:
        raise Error(f"word vectors {path} cannot be read: {first_line(error)}") from None
    return list(vectors), np.array(list(vectors.values()), dtype=np.float32)
