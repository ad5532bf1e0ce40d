"""Encodings of texts, held against rows written by hand."""

import sys
import types

import numpy as np
import pytest

from fedlib.datasets import text
from tests.refusals import refused


def flat(snippets):
    offsets = np.concatenate([[0], np.cumsum([len(snippet) for snippet in snippets])])
    return np.frombuffer(b"".join(snippets), dtype=np.uint8), offsets.astype(np.int64)


# ------------------------------------------------------------------------------------ characters


@pytest.mark.parametrize(
    ("snippet", "tokens"),
    # First, last, and some of the middle, counted by hand in the vocabulary's listing; a character
    # outside of it is as many unknown tokens as it has bytes.
    [("dh\r", [88, 1, 2, 86, 89]), ("D H\n", [88, 8, 14, 9, 63, 89]), ("~é", [88, 87, 87, 87, 89])],
)
def test_the_character_vocabulary(snippet, tokens):
    assert len(set(text.SHAKESPEARE_CHARACTERS)) == len(text.SHAKESPEARE_CHARACTERS) == 86
    assert (text.PAD, text.OOV, text.BOS, text.EOS, text.CHARACTERS) == (0, 87, 88, 89, 90)
    rows, _ = text.shakespeare_chunks(*flat([snippet.encode()]), length=len(tokens) - 1)
    assert rows.tolist() == [tokens]


def test_chunks_equal_a_plain_loop_on_a_slice_of_a_larger_text():
    draw = np.random.default_rng(0)
    snippets = [bytes(draw.integers(0, 256, draw.integers(0, 30)).tolist()) for _ in range(50)]
    data, offsets = flat(snippets)
    known = {ord(c): i for i, c in enumerate(text.SHAKESPEARE_CHARACTERS, 1)}
    expected = []
    for snippet in snippets[10:40]:
        tokens = [88, *(known.get(byte, 87) for byte in snippet), 89]
        tokens += [0] * (-len(tokens) % 8)
        expected += [tokens[i : i + 8] for i in range(0, len(tokens), 8)]
    rows, counts = text.shakespeare_chunks(data, offsets[10:41], length=7)
    assert rows.tolist() == expected and len(counts) == 30


# ----------------------------------------------------------------------------------------- words


def test_post_words_are_lower_case_and_keep_inner_marks():
    words = ["e-mail", "os.path.join", ";", "a_b", "x’s"]
    assert text.post_words("e-mail os.path.join; A_b ~ x’s") == words
    assert text.post_words("  \n ~ ") == []


def test_tokens_are_the_most_frequent_words_of_the_training_texts():
    train = ["see the cat", "The dog, the cat"]
    x, rows, size = text.tokenized(train, ["The cat sat.", "the " * 9, ""], 6, 6)
    assert size == 6
    # the: 4, cat: 5; all others are unknown.
    assert x.tolist() == [[2, 1, 4, 5, 3, 0], [2, 4, 1, 1, 4, 3]]
    assert rows.tolist() == [[2, 4, 5, 1, 1, 3], [2, 4, 4, 4, 4, 3], [2, 3, 0, 0, 0, 0]]
    refused("words is 4 .allowed: a whole number > 4", text.tokenized, ["a"], ["a"], 4, 6)


def test_pretrained_rows_are_truncated_and_padded(monkeypatch):
    def tokenizer(texts, padding, truncation, max_length):
        assert (padding, truncation) == ("max_length", True)
        return {"input_ids": [[len(one)] * max_length for one in texts]}

    named = types.SimpleNamespace(from_pretrained=lambda name: tokenizer)
    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(AutoTokenizer=named))
    rows = text.pretrained_rows(["a bcd", "one"], length=3)
    assert rows.dtype == np.int32 and rows.tolist() == [[5, 5, 5], [3, 3, 3]]
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused("needs transformers", text.pretrained_rows, ["a"])


# ----------------------------------------------------------------------------------------- GloVe


def test_read_glove(tmp_path):
    file = tmp_path / "glove.txt"
    refused(r"word vectors .* cannot be read: .*No such file", text.read_glove, file, {"the"})
    file.write_text("the 1 2.5\né -1e-2 0\nnew york 3 4\nthe 9 9\nof x\n", encoding="utf-8")
    words, vectors = text.read_glove(file, {"é", "the", "new york", "absent"})
    assert words == ["the", "é", "new york"] and vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 2.5], [np.float32(-0.01), 0], [3, 4]]


@pytest.mark.parametrize(
    "content", [b"of 1 2\nthe 1 x\n", b"the 1 1e39\n", b"of 1 2\nthe 1\n", b"the \xff"]
)
def test_a_damaged_line_of_word_vectors_is_refused(tmp_path, content):
    file = tmp_path / "glove.txt"
    file.write_bytes(content)
    refused("word vectors .*glove.txt cannot be read: ", text.read_glove, file, {"the"})
