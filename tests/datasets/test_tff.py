"""TFF's HDF5 files: what is prepared from small ones equals what was put in."""

import json
import tracemalloc

import h5py
import numpy as np
import pytest

from fedlib import datasets
from fedlib.datasets import catalogue, posts, writers
from tests.datasets.conftest import tarred
from tests.refusals import refused


def write_h5(folder, name, splits, like):
    """Files ``<name>_<split>.h5`` by their names.

    ``splits``: {split: {client: [example]}}; ``like``: {feature: array of no rows, or str}.
    """
    paths = {}
    for split, clients in splits.items():
        path = folder / f"{name}_{'held_out' if split == 'heldout' else split}.h5"
        paths[path.name] = path
        with h5py.File(path, "w") as file:
            examples = file.create_group("examples")
            for client, rows in clients.items():
                group = examples.create_group(client)
                for key, kind in like.items():
                    values = [row[key] for row in rows]
                    if kind is str:
                        data = np.array(values, dtype=object)
                        group.create_dataset(key, data=data, dtype=h5py.string_dtype())
                    else:
                        data = np.array(values, dtype=kind.dtype).reshape(-1, *kind.shape[1:])
                        group.create_dataset(key, data=data)
    return paths


def in_order(clients):
    """Client and example, as they are to be stored: by the client's id, then as they came."""
    return [(client, row) for client in sorted(clients) for row in clients[client]]


@pytest.fixture
def prepare(offer):
    """Prepare a data set from TFF's files, which are offered in its archives."""

    def prepare(name, files, root):
        archives = {}
        for file in catalogue.SOURCES[name].files:
            start = file.name.removesuffix(".tar.bz2")
            inside = {n: path.read_bytes() for n, path in files.items() if n.startswith(start)}
            archives[file.name] = tarred(inside, kind="bz2")
        offer(name, archives)
        return datasets.prepare(name, root, progress=False)

    return prepare


# ---------------------------------------------------------------------------------------- arrays


def are_stored(data, splits, prefix="", **fields):
    """The arrays are the files' rows, client by client; a test client's id has a prefix."""
    for split, own in splits.items():
        rows = in_order(own)
        for field, key in fields.items():
            expected = np.stack([row[key] for _, row in rows])
            np.testing.assert_array_equal(getattr(data, f"{split}_{field}"), expected)
        codes, before = getattr(data, f"{split}_client"), prefix if split == "test" else ""
        assert [data.clients[code] for code in codes] == [before + client for client, _ in rows]
    kinds = [array.dtype for array in (data.train_x, data.train_y, data.train_client)]
    assert kinds == [np.uint8, np.int64, np.int64]


EMNIST = {"pixels": np.zeros((0, 28, 28), np.float32), "label": np.zeros(0, np.int32)}


def emnist():
    """Writers in one split only, one without examples, ids whose order is not their numbers'."""
    random = np.random.default_rng(0)

    def images(n):
        levels = random.integers(0, 256, (n, 28, 28))
        levels[:, 0] = 255  # paper is bright
        pixels, labels = levels / np.float32(255), random.integers(0, 62, n).tolist()
        columns = {"levels": levels, "pixels": pixels.astype(np.float32), "label": labels}
        return [{key: values[i] for key, values in columns.items()} for i in range(n)]

    return {
        "train": {"f10_1": images(3), "f9_1": images(2), "é": images(4), "f2_0": []},
        "test": {"f9_1": images(2), "f99": images(1), "é": images(2)},
    }


def test_emnist_bit_for_bit(tmp_path, prepare):
    splits = emnist()
    card = prepare("emnist", write_h5(tmp_path, "fed_emnist", splits, EMNIST), tmp_path)
    assert card["counts"] == {"train": 9, "train_clients": 3, "test": 5, "test_clients": 3}
    data = datasets.load("emnist", tmp_path)
    assert data.clients == ("f10_1", "f2_0", "f99", "f9_1", "é")  # by code point
    assert data.polarity == "ink_dark" and len(data.classes) == 62 and not data.stand_in
    are_stored(data, splits, x="levels", y="label")
    assert datasets.verify("emnist", tmp_path)["fingerprint"] == data.fingerprint


def test_a_pixel_is_one_of_256_levels(tmp_path, prepare):
    splits = emnist()
    pixels = splits["test"]["f99"][0]["pixels"]
    pixels[5, 5], pixels[5, 6] = -0.0, np.nextafter(np.float32(0.2), np.float32(1))
    prepare("emnist", write_h5(tmp_path, "fed_emnist", splits, EMNIST), tmp_path / "root")
    data = datasets.load("emnist", tmp_path / "root")
    where = data.test_client.tolist().index(data.clients.index("f99"))
    assert data.test_x[where, 5, 5:7].tolist() == [0, 51]
    for value, words in ((2.0, "x: values .* 0 to 255"), (0.5, "a pixel is not")):
        pixels[5, 5] = value
        files = write_h5(tmp_path, "fed_emnist", splits, EMNIST)
        refused(words, prepare, "emnist", files, tmp_path / words[:7])


CIFAR = {
    "image": np.zeros((0, 32, 32, 3), np.uint8),
    "label": np.zeros(0, np.int64),
    "coarse_label": np.zeros(0, np.int64),
}


def test_cifar100_bit_for_bit_with_test_clients_of_their_own(tmp_path, prepare):
    random = np.random.default_rng(0)

    def image():
        pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        fine = int(random.integers(100))
        return {"image": pixels, "label": fine, "coarse_label": int(random.integers(20))}

    splits = {
        split: {str(client): [image(), image()] for client in range(clients)}
        for split, clients in (("train", 11), ("test", 3))
    }
    card = prepare("fed_cifar100", write_h5(tmp_path, "fed_cifar100", splits, CIFAR), tmp_path)
    assert card["counts"] == {"train": 22, "train_clients": 11, "test": 6, "test_clients": 3}
    data = datasets.load("fed_cifar100", tmp_path)
    assert data.clients[:4] == ("0", "1", "10", "2")
    assert data.clients[-3:] == ("test/0", "test/1", "test/2")
    are_stored(data, splits, "test/", x="image", y="label", coarse="coarse_label")


# ----------------------------------------------------------------------------------------- texts


def test_shakespeare_as_texts(tmp_path, prepare):
    roles = {
        "train": {"ARIEL": ["All hail, great master!", "", "Où — 海\n"], "GHOST": ["Adieu."]},
        "test": {"GHOST": ["Remember me."], "OTHELLO_CLOWN": ["a\r", "b"]},
    }
    roles["train"]["HAMLET_NOBODY"] = []
    splits = {
        split: {role: [{"snippets": text} for text in texts] for role, texts in own.items()}
        for split, own in roles.items()
    }
    files = write_h5(tmp_path, "shakespeare", splits, {"snippets": str})
    card = prepare("shakespeare", files, tmp_path)
    assert card["counts"] == {"train": 4, "train_clients": 2, "test": 3, "test_clients": 2}
    data = datasets.load_text("shakespeare", tmp_path)
    assert data.clients == ("ARIEL", "GHOST", "HAMLET_NOBODY", "OTHELLO_CLOWN")
    for split, own in roles.items():
        rows = [(data.clients[c], data.text(split, i)) for i, c in enumerate(data.client(split))]
        assert rows == in_order(own)
    datasets.verify("shakespeare", tmp_path)


# --------------------------------------------------------------------------------- Stack Overflow

WORD_LIST = [f"w{i}" for i in range(posts.WORDS)]


def count_files(folder):
    words = folder / "stackoverflow.word_count"
    lines = [f"{word} {20_000 - i}\n" for i, word in enumerate([*WORD_LIST, "beyond"])]
    words.write_text("".join(lines), encoding="utf-8")
    tags = folder / "stackoverflow.tag_count"
    # Ties keep the file's order; rank 0 is tag600, the rarest of the first 500 come from a tie.
    counts = {f"tag{i}": 5 for i in range(600)} | {"tag600": 9, "tag601": 4, "tag5": 7}
    tags.write_text(json.dumps(counts), encoding="utf-8")
    return {path.name: path for path in (words, tags)}


def stack_overflow(seed=0):
    random = np.random.default_rng(seed)
    pool = [*WORD_LIST[:50], WORD_LIST[-1], "beyond", "ß", ""]
    tags = ["tag600", "tag5", "tag0", "tag498", "tag499", "tag601", "none"]

    def rows(n):
        return [
            {
                "score": int(random.integers(-5, 5)),  # which is not read
                "tags": "|".join(random.choice(tags, random.integers(0, 4))),
                "title": " ".join(random.choice(pool, random.integers(0, 5))),
                "tokens": " ".join(random.choice(pool, random.integers(0, 28))),
            }
            for _ in range(n)
        ]

    return {
        "train": {"100": rows(8), "20": rows(5), "3": []},
        "heldout": {"7": rows(2)},
        "test": {"100": rows(3), "41": rows(1)},
    }


STACK = {"score": np.zeros(0, np.int64), "tags": str, "title": str, "tokens": str}


def stack_files(folder):
    splits = stack_overflow()
    return write_h5(folder, "stackoverflow", splits, STACK) | count_files(folder)


def test_stack_overflow_as_posts(tmp_path, prepare, monkeypatch):
    monkeypatch.setattr(writers, "_PIECE", 2)  # a client comes in several pieces
    splits = stack_overflow()
    card = prepare("stackoverflow", stack_files(tmp_path), tmp_path)
    assert card["kind"] == "posts"
    assert card["counts"] == {"train": 13, "train_clients": 3, "test": 4, "test_clients": 2}
    loaded = datasets.load_posts("stackoverflow", tmp_path)
    assert list(loaded) == ["train", "test"]
    # Rank by count, then by the file's order; the last of the 500 is tag498.
    tag_list = ["tag600", "tag5", *(f"tag{i}" for i in range(499) if i != 5)]
    fields = ("sentences", "lengths", "words", "word_offsets", "tags", "tag_offsets")
    for split, own in loaded.items():
        clients = sorted(splits[split])
        rows = [
            (client, row["tokens"], row["title"], row["tags"])
            for client, row in in_order(splits[split])
        ]
        expected = posts.encode(rows, WORD_LIST, tag_list)
        for field in fields:
            np.testing.assert_array_equal(getattr(own, field), getattr(expected, field))
        assert list(own.clients) == clients
        assert np.diff(own.starts).tolist() == [len(splits[split][client]) for client in clients]
        assert (own.word_list, own.tag_list) == (expected.word_list, expected.tag_list)
    train = loaded["train"]
    assert set(np.unique(train.tags)) <= {0, 1, 2, 499} and 499 in train.tags
    for field in fields:
        array = getattr(train, field)
        assert not array.flags.writeable and isinstance(array.base, np.memmap)


def test_posts_have_a_loader_of_their_own(tmp_path, prepare):
    message = "not prepared.*'fedlib data prepare stackoverflow'"
    refused(message, datasets.load_posts, "stackoverflow", tmp_path)
    prepare("stackoverflow", stack_files(tmp_path), tmp_path)
    for load in (datasets.load, datasets.load_text):
        refused(r"holds posts, not \w+: use load_posts", load, "stackoverflow", tmp_path)
    refused("'mnist' holds arrays, not posts: use load", datasets.load_posts, "mnist", tmp_path)
    assert datasets.verify("stackoverflow", tmp_path)["kind"] == "posts"


def test_writing_posts_does_not_hold_them_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "_PIECE", 100)
    row = {"tags": "tag1", "title": "w1 w2", "tokens": "w1 w2 w3 w4 w5 w6 w7 w8"}
    held = []
    for clients in (4, 32):
        content = {"train": {str(client): [row] * 100 for client in range(clients)}}
        (path,) = write_h5(tmp_path, f"of_{clients}", content, dict.fromkeys(row, str)).values()
        tracemalloc.start()
        pieces = writers.read_pieces(path, ["tokens", "title", "tags"])
        posts.write(tmp_path, f"of_{clients}", pieces, WORD_LIST, ["tag1"])
        held.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert held[1] < 1.5 * held[0]
