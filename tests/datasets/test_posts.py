"""Posts as word numbers: every rule against a slow, independent encoding, written or in memory."""

import itertools
from operator import itemgetter

import numpy as np
import pytest
import torch

from fedlib.datasets import npy, posts
from fedlib.datasets.dataset import TextDataset
from fedlib.datasets.posts import encode, from_arrays, text_posts
from tests.refusals import refused

VOCABULARY = [f"w{i}" for i in range(30)] + ["ß", "don't", "日本"]
TAGS = ["python", "c++", "git"]
OOV, BOS, EOS = len(VOCABULARY) + 1, len(VOCABULARY) + 2, len(VOCABULARY) + 3


def slow(tokens, title, tags, length=20):
    """One post by the rules, word by word: sentence, bag, tags."""
    ids = {word: 1 + i for i, word in enumerate(VOCABULARY)}
    words = tokens.split(" ")
    sentence = [BOS] + [ids.get(word, OOV) for word in words[:length]]
    if len(words) < length:
        sentence.append(EOS)
    sentence += [0] * (length + 1 - len(sentence))
    # As tf.strings.split does with bytes: only ASCII white space separates.
    bag = [ids.get(word.decode(), OOV) for word in (tokens + " " + title).encode().split()]
    return sentence, bag, [TAGS.index(tag) for tag in tags.split("|") if tag in TAGS]


def random_posts(clients=7, seed=0):
    random = np.random.default_rng(seed)
    pool = [*VOCABULARY, "unknown", "W1", "", "a\tb", "w1\nw2", "w3\u2009w4", "naïve", "\ud7ff"]
    rows = []
    for client in range(clients):
        for _ in range(random.integers(0, 60)):
            text = " ".join(random.choice(pool, random.integers(0, 30)))
            title = " ".join(random.choice(pool, random.integers(0, 6)))
            tags = "|".join(random.choice([*TAGS, "sql", ""], random.integers(0, 5)))
            rows.append((f"client {client}", text, title, tags))
    return rows


def check(encoded, rows):
    assert encoded.sentences.dtype == encoded.words.dtype == encoded.tags.dtype == np.int16
    places = (encoded.word_offsets, encoded.tag_offsets, encoded.starts)
    assert {each.dtype for each in places} == {np.dtype(np.int64)}
    assert len(encoded) == len(rows)
    for i, (_, *texts) in enumerate(rows):
        sentence, bag, tags = slow(*texts)
        assert encoded.sentences[i].tolist() == sentence
        assert encoded.words[encoded.word_offsets[i] : encoded.word_offsets[i + 1]].tolist() == bag
        assert encoded.tags[encoded.tag_offsets[i] : encoded.tag_offsets[i + 1]].tolist() == tags
        assert encoded.lengths[i] == np.count_nonzero(sentence[1:])
    assert encoded.word_offsets[-1] == len(encoded.words)
    assert encoded.tag_offsets[-1] == len(encoded.tags)
    for code, client in enumerate(encoded.clients):
        mine = range(encoded.starts[code], encoded.starts[code + 1])
        assert list(mine) == [i for i, row in enumerate(rows) if row[0] == client]


# -------------------------------------------------------------------------------------- encoding


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_encoding_follows_the_rules_word_by_word_in_memory_and_in_pieces(tmp_path, most):
    rows = random_posts(seed=most)
    pieces = [("none", [], [], [])]
    for client, its_rows in itertools.groupby(rows, key=itemgetter(0)):
        texts = [[text.encode() for text in texts] for _, *texts in its_rows]
        for start in range(0, len(texts), most):
            pieces.append((client, *zip(*texts[start : start + most], strict=True)))
    pieces.append(("ünï", [], [], []))
    clients = {row[0] for row in rows}
    written = posts.write(tmp_path, "train", pieces, VOCABULARY, TAGS)
    assert written == (len(rows), len(clients) + 2)
    npy.save_json(tmp_path, "vocabulary", {"words": VOCABULARY, "tags": TAGS})
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in tmp_path.glob("*.npy")}
    in_memory, encoded = encode(rows, VOCABULARY, TAGS), from_arrays(arrays, "train")
    check(in_memory, rows)
    check(encoded, rows)
    assert (in_memory.word_list, in_memory.tag_list) == (tuple(VOCABULARY), tuple(TAGS))
    assert encoded.clients[0] == "none" and encoded.clients[-1] == "ünï"


def test_words_rank_by_the_clients_that_use_them_in_titles_too_and_tags_by_examples():
    told = [("a", b"Rare rare\nx. x y. y", ["t"]), ("b", b"z\nx", ["u"]), ("c", b"z\ny", ["u"])]
    rows = [(split, *row) for split in ("train", "test") for row in told]
    arrays, clients = npy.text_arrays("told", rows)
    train, _ = text_posts(TextDataset("told", arrays, tuple(clients)), 3, 1)
    # Two of three clients use x, two y and two z, in titles only; one uses "rare" and ".", twice.
    assert train.word_list == ("x", "y", "z") and train.tag_list == ("t",)
    assert train.clients == ("a", "b", "c") and train.starts.tolist() == [0, 3, 4, 5]
    refused("have no tags", encode, [], ["x"], [])


# ------------------------------------------------------------------------------------ using them


def test_bag_of_words_of_any_posts_in_any_shape():
    # Half of the words are unknown; none is known; there is none.
    rows = [("c", "w0 unknown", "what w0", ""), ("c", "unknown", "", ""), ("c", "", "", "")]
    rows += random_posts(seed=3)
    encoded = encode(rows, VOCABULARY, TAGS)
    assert bag_of_words(encoded, torch.arange(3))[:, :2].tolist() == [[0.5, 0], [0, 0], [0, 0]]
    index = torch.from_numpy(np.random.default_rng(0).integers(0, len(rows), (3, 1, 8)))
    bag = bag_of_words(encoded, index)
    assert bag.shape == (3, 1, 8, len(VOCABULARY))
    for i, row in zip(index.flatten().tolist(), bag.flatten(0, 2), strict=True):
        ids = np.array(slow(*rows[i][1:])[1], dtype=int)
        expected = np.bincount(ids, minlength=OOV + 1)[1:OOV] / max(len(ids), 1)
        np.testing.assert_array_equal(row.numpy(), expected.astype(np.float32))
    empty = bag_of_words(encoded, index[:0])
    assert empty.shape == (0, 1, 8, len(VOCABULARY))


def bag_of_words(encoded, index):
    # Copies, because torch warns about memory that may not be written.
    words, offsets = (torch.from_numpy(a.copy()) for a in (encoded.words, encoded.word_offsets))
    return posts.bags(posts.occurrences(index, words, offsets), len(VOCABULARY))
