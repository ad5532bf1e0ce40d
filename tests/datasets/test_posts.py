"""Posts as word numbers: every rule against a slow, independent encoding, written or in memory."""

import itertools
from operator import itemgetter

import numpy as np
import pytest
import torch

from fedlib.datasets import posts
from fedlib.datasets.posts import PostsWriter, bag_of_words, encode, from_arrays
from fedlib.errors import Error

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
    assert (
        encoded.word_offsets.dtype == encoded.tag_offsets.dtype == encoded.starts.dtype == np.int64
    )
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


def opened(folder, split="train"):
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    return from_arrays(arrays, split)


# -------------------------------------------------------------------------------------- encoding


def test_special_words_of_short_exact_and_long_sentences():
    words = " ".join(["w0"] * 25)
    texts = {n: words[: max(3 * n - 1, 0)] for n in (1, 19, 20, 21)}
    encoded = encode([("c", text, "", "") for text in texts.values()], VOCABULARY, TAGS)
    assert encoded.sentences.tolist() == [
        [BOS, 1, EOS] + [0] * 18,
        [BOS] + [1] * 19 + [EOS],
        [BOS] + [1] * 20,
        [BOS] + [1] * 20,
    ]
    assert (BOS, EOS, OOV) == (OOV + 1, OOV + 2, len(VOCABULARY) + 1)
    assert encoded.lengths.tolist() == [2, 20, 20, 20]
    # The bag keeps what the sentence cuts off.
    assert np.diff(encoded.word_offsets).tolist() == [1, 19, 20, 21]
    encoded = encode([("c", "w0 w1 w2", "", ""), ("c", "w0", "", "")], VOCABULARY, TAGS, length=2)
    assert encoded.sentences.tolist() == [[BOS, 1, 2], [BOS, 1, EOS]]


def test_encoding_follows_the_rules_word_by_word():
    rows = random_posts()
    encoded = encode(rows, VOCABULARY, TAGS)
    check(encoded, rows)
    assert (encoded.word_list, encoded.tag_list) == (tuple(VOCABULARY), tuple(TAGS))


def test_no_posts_and_posts_without_words_or_tags():
    none = encode([], VOCABULARY, TAGS)
    assert none.sentences.shape == (0, 21) and none.starts.tolist() == [0]
    assert none.targets().tolist() == []
    encoded = encode([("c", "", "", "sql||")], VOCABULARY, TAGS)
    # An empty text has one empty, unknown word for the sentence, and none for the bag.
    assert encoded.sentences[0, :4].tolist() == [BOS, OOV, EOS, 0]
    assert len(encoded.words) == len(encoded.tags) == 0


def test_unusable_input_is_refused_in_one_line():
    for rows, words, tags, message in (
        ([("a", "", "", ""), ("b", "", "", ""), ("a", "", "", "")], ["x"], ["t"], "client 'a' do"),
        ([], [str(i) for i in range(32_765)], ["t"], "32765 words in the vocabulary"),
        ([], ["x", "x"], ["t"], "vocabulary of words has an empty or repeated"),
        ([], ["x"], [""], "vocabulary of tags has an empty or repeated"),
        ([], ["x"], [], "0 tags in the vocabulary"),
    ):
        with pytest.raises(Error, match=message) as caught:
            encode(rows, words, tags)
        assert "\n" not in str(caught.value)
    with pytest.raises(Error, match="length is 0"):
        encode([], ["x"], ["t"], length=0)


# --------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("piece", [1, 3, 16_384])
def test_writing_in_pieces_equals_encoding_in_memory(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(posts, "_PIECE", piece)
    rows = random_posts(seed=piece)
    with PostsWriter(tmp_path, "train", VOCABULARY, TAGS) as writer:
        for client, its_rows in itertools.groupby(rows, key=itemgetter(0)):
            texts = [texts for _, *texts in its_rows]
            # A client in two calls, as bytes and as strings.
            half = (len(texts) + 1) // 2
            as_bytes = [[text.encode() for text in row] for row in texts[:half]]
            writer.add(client, *zip(*as_bytes, strict=True))
            if texts[half:]:
                writer.add(client, *zip(*texts[half:], strict=True))
    encoded = opened(tmp_path)
    check(encoded, rows)
    assert len(writer) == len(rows) and writer.clients == len(encoded.clients)
    memory = encode(rows, VOCABULARY, TAGS)
    for field in ("sentences", "lengths", "starts", "words", "word_offsets", "tags", "tag_offsets"):
        np.testing.assert_array_equal(getattr(encoded, field), getattr(memory, field))


def test_clients_without_posts_keep_their_place(tmp_path):
    with PostsWriter(tmp_path, "test", VOCABULARY, TAGS) as writer:
        writer.add("none", [], [], [])
        writer.add("one", ["w1"], ["w2"], ["git"])
        writer.add("ünï", [], [], [])
    encoded = opened(tmp_path, "test")
    assert encoded.clients == ("none", "one", "ünï")
    assert encoded.starts.tolist() == [0, 0, 1, 1]
    assert encoded.targets().tolist() == [0, 2, 0]


def test_posts_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(Error, match="do not stand together"):
        with PostsWriter(tmp_path, "train", VOCABULARY, TAGS) as writer:
            for client in "aba":
                writer.add(client, ["w1"], [""], [""])
    with pytest.raises(Error, match="1 tokens, 2 title, 1 tags"):
        with PostsWriter(tmp_path, "train", VOCABULARY, TAGS) as writer:
            writer.add("a", ["w1"], ["", ""], [""])
    with pytest.raises(Error, match="the posts have no train_sentences"):
        from_arrays({}, "train")


# ------------------------------------------------------------------------------------ using them


def test_targets_count_the_first_sentences_only():
    rows = [("a", "w1 " * n + "w1", "", "") for n in range(30)] + [("b", "w1", "", "")] * 4
    encoded = encode(rows, VOCABULARY, TAGS)
    lengths = [np.count_nonzero(slow(*row[1:])[0][1:]) for row in rows]
    assert encoded.targets().tolist() == [sum(lengths[:30]), sum(lengths[30:])]
    for cap in (1, 3, 4, 29):
        assert encoded.targets(cap).tolist() == [sum(lengths[:cap]), sum(lengths[30:][:cap])]
    with pytest.raises(Error, match="cap is 0"):
        encoded.targets(0)
    encoded = encode([("a", "w1", "", "")] * 1001 + [("b", "w1", "", "")], VOCABULARY, TAGS)
    assert encoded.targets().tolist() == [2000, 2]
    assert encoded.targets(2000).tolist() == [2002, 2]


def test_bag_of_words_divides_by_all_words():
    rows = [
        ("c", "w0 w0 w1", "w2", ""),
        ("c", "w0 unknown", "what w0", ""),  # half of the words are unknown
        ("c", "unknown", "", ""),
        ("c", "", "", ""),  # no word at all
    ]
    encoded = encode(rows, VOCABULARY, TAGS)
    size = len(VOCABULARY)
    bag = bag_of_words(torch.arange(4), *tensors(encoded), size)
    assert bag.shape == (4, size) and bag.dtype == torch.float32
    expected = torch.zeros(4, size)
    expected[0, :3] = torch.tensor([0.5, 0.25, 0.25])
    expected[1, 0] = 0.5
    torch.testing.assert_close(bag, expected, rtol=0, atol=0)


def test_bag_of_words_of_any_posts_in_any_shape():
    rows = random_posts(seed=3)
    encoded = encode(rows, VOCABULARY, TAGS)
    index = torch.from_numpy(np.random.default_rng(0).integers(0, len(rows), (3, 1, 8)))
    bag = bag_of_words(index, *tensors(encoded), len(VOCABULARY))
    assert bag.shape == (3, 1, 8, len(VOCABULARY))
    for i, row in zip(index.flatten().tolist(), bag.flatten(0, 2), strict=True):
        ids = np.array(slow(*rows[i][1:])[1], dtype=int)
        expected = np.bincount(ids, minlength=OOV + 1)[1:OOV] / max(len(ids), 1)
        np.testing.assert_array_equal(row.numpy(), expected.astype(np.float32))
    empty = bag_of_words(index[:0], *tensors(encoded), len(VOCABULARY))
    assert empty.shape == (0, 1, 8, len(VOCABULARY))


def tensors(encoded):
    # Copies, because torch warns about memory that may not be written.
    return torch.from_numpy(encoded.words.copy()), torch.from_numpy(encoded.word_offsets.copy())
