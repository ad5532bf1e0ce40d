"""TFF's files, HDF5 and SQLite: what is prepared from small ones equals what was put in."""

import json
import sqlite3
import struct
import tracemalloc

import h5py
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedlib import datasets
from fedlib.cli import app
from fedlib.datasets import posts, store, tff_files
from fedlib.datasets.tff import WRITERS
from fedlib.datasets.tff_files import HDF5Reader, SQLiteReader, parse_example
from fedlib.errors import Error

# --------------------------------------------------------------- examples, encoded by hand here


def varint(number):
    number %= 2**64
    out = b""
    while number > 127:
        out, number = out + bytes([number % 128 + 128]), number // 128
    return out + bytes([number])


def block(field, content):
    return varint(field * 8 + 2) + varint(len(content)) + content


def feature(values, packed=True):
    """A tf.train.Feature of bytes, floats or integers."""
    if isinstance(values[0], bytes):
        return block(1, b"".join(block(1, value) for value in values))
    if isinstance(values[0], float):
        raw = [struct.pack("<f", value) for value in values]
        return block(
            2, block(1, b"".join(raw)) if packed else b"".join(b"\x0d" + one for one in raw)
        )
    raw = [varint(value) for value in values]
    return block(3, block(1, b"".join(raw)) if packed else b"".join(b"\x08" + one for one in raw))


def example(values, packed=True):
    """A tf.train.Example of {name: values}."""
    pairs = b""
    for name, one in values.items():
        if isinstance(one, np.ndarray):
            one = one.ravel().tolist()
        one = one if isinstance(one, list) else [one]
        pairs += block(1, block(1, name.encode()) + block(2, feature(one, packed)))
    return block(1, pairs)


def write_sqlite(path, splits, packed=True):
    """``splits``: {split: {client: [example as {feature: value}]}}; rows are interleaved."""
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE TABLE examples(split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
        )
        file.execute(
            "CREATE TABLE client_metadata(client_id TEXT, split_name TEXT, num_examples INTEGER)"
        )
        file.execute("CREATE INDEX by_client ON examples(split_name, client_id)")
        for split, clients in splits.items():
            most = max(map(len, clients.values()))
            for place in range(most):
                for client, examples in reversed(clients.items()):
                    if place < len(examples):
                        row = (split, client, example(examples[place], packed))
                        file.execute("INSERT INTO examples VALUES (?, ?, ?)", row)
            for client, examples in clients.items():
                row = (client, split, len(examples))
                file.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", row)
    file.close()
    return path


def write_h5(path, clients, like):
    """``clients``: {client: [example]}; ``like``: {feature: array of no rows, or str}."""
    with h5py.File(path, "w") as file:
        group = file.create_group("examples")
        for client, examples in clients.items():
            one = group.create_group(client)
            for key, kind in like.items():
                values = [row[key] for row in examples]
                if kind is str:
                    data = np.array(values, dtype=object)
                    one.create_dataset(key, data=data, dtype=h5py.string_dtype())
                else:
                    array = np.array(values, dtype=kind.dtype).reshape(-1, *kind.shape[1:])
                    one.create_dataset(key, data=array)
    return path


def both(folder, name, like, splits, names):
    """The same content in both forms; ``names``: {our split: (h5 file, split in SQLite)}."""
    h5 = {s: write_h5(folder / file, splits[s], like) for s, (file, _) in names.items()}
    path = folder / f"{name}.sqlite"
    sqlite = write_sqlite(path, {theirs: splits[s] for s, (_, theirs) in names.items()})
    return {"h5": h5, "sqlite": {"anything": sqlite}}


def prepare(name, files, root):
    with store.writing(name, root) as folder:
        card = WRITERS[name](files, folder, False)
        return store.write_card(folder, {"name": name, "source": "a test", **card})


@pytest.fixture(params=["h5", "sqlite"])
def form(request):
    return request.param


# -------------------------------------------------------------------------------------- examples


def test_every_kind_of_feature_packed_or_not():
    values = {
        "text": [b"\xff\x00", b"", "ß日".encode()],
        "floats": [0.1, -0.0, float("inf"), 1e-45],
        "integers": [0, 1, 127, 128, 300, -1, 2**63 - 1, -(2**63)],
    }
    for packed in (True, False):
        found = parse_example(example(values, packed))
        assert found["text"] == values["text"]
        expected = np.array(values["floats"], dtype=np.float32)
        assert found["floats"].dtype == np.float32
        np.testing.assert_array_equal(found["floats"].view(np.uint32), expected.view(np.uint32))
        assert found["integers"].dtype == np.int64
        assert found["integers"].tolist() == values["integers"]
        assert list(parse_example(example(values, packed), {"text", "none"})) == ["text"]


def test_messages_in_parts_unknown_fields_and_empty_lists():
    mixed = block(3, block(1, varint(5) + varint(600)) + b"\x08" + varint(7) + block(1, varint(8)))
    unknown = b"\x50\x01" + b"\x59" + bytes(8) + b"\x65" + bytes(4) + block(13, b"abc")
    pair = block(1, unknown + block(2, mixed) + block(1, b"n"))
    proto = unknown + block(1, pair) + block(1, block(1, block(1, b"e") + block(2, block(2, b""))))
    found = parse_example(proto)
    assert found["n"].tolist() == [5, 600, 7, 8]
    assert found["e"].shape == (0,) and found["e"].dtype == np.float32
    assert parse_example(b"") == {}


def test_damaged_examples_are_refused_or_read_but_never_crash():
    whole = example({"pixels": [0.5] * 5, "label": [300, 2], "text": [b"words"]})
    for cut in range(1, len(whole)):
        with pytest.raises(ValueError):
            parse_example(whole[:cut])
    random = np.random.default_rng(0)
    for _ in range(2000):
        data = bytearray(whole)
        data[random.integers(len(data))] = random.integers(256)
        try:
            parse_example(bytes(data))
        except ValueError:
            pass
    for value in ("text", None, 3):
        with pytest.raises(ValueError, match="not a string of bytes"):
            parse_example(value)
    for packed in (b"\x80", b"\x80" * 10 + b"\x01"):
        with pytest.raises(ValueError, match="does not end"):
            parse_example(block(1, block(1, block(1, b"a") + block(2, block(3, block(1, packed))))))


# ---------------------------------------------------------------------------------------- arrays

EMNIST = {"pixels": np.zeros((0, 28, 28), np.float32), "label": np.zeros(0, np.int32)}
EMNIST_NAMES = {
    "train": ("fed_emnist_train.h5", "all_train"),
    "test": ("fed_emnist_test.h5", "all_test"),
}


def emnist(exact=True, seed=0):
    """Writers in one split only, one without examples, ids whose order is not their numbers'."""
    random = np.random.default_rng(seed)

    def images(n):
        levels = random.integers(0, 256, (n, 28, 28)).astype(np.float32)
        levels[:, 0] = 255  # paper is bright
        pixels = levels / np.float32(255) if exact else random.random((n, 28, 28), np.float32)
        return [
            {"pixels": image, "label": int(label)}
            for image, label in zip(pixels, random.integers(0, 62, n), strict=True)
        ]

    return {
        "train": {"f10_1": images(3), "f9_1": images(2), "é": images(4), "f2_0": []},
        "test": {"f9_1": images(2), "f99": images(1), "é": images(2)},
    }


def test_emnist_bit_for_bit(tmp_path, form):
    splits = emnist()
    card = prepare("emnist", both(tmp_path, "emnist", EMNIST, splits, EMNIST_NAMES)[form], tmp_path)
    assert card["counts"] == {"train": 9, "train_clients": 3, "test": 5, "test_clients": 3}
    data = datasets.load("emnist", tmp_path)
    assert data.clients == ("f10_1", "f2_0", "f99", "f9_1", "é")  # by code point
    assert data.polarity == "ink_dark" and len(data.classes) == 62 and not data.stand_in
    for split, x, y, codes in (
        ("train", data.train_x, data.train_y, data.train_client),
        ("test", data.test_x, data.test_y, data.test_client),
    ):
        rows = [(c, row) for c in sorted(splits[split]) for row in splits[split][c]]
        assert x.dtype == np.uint8 and y.dtype == codes.dtype == np.int64
        pixels = torch.from_numpy(np.array(x)).float() / 255
        expected = np.stack([row["pixels"] for _, row in rows])
        np.testing.assert_array_equal(pixels.numpy().view(np.uint32), expected.view(np.uint32))
        assert y.tolist() == [row["label"] for _, row in rows]
        assert [data.clients[code] for code in codes] == [client for client, _ in rows]
    assert datasets.verify("emnist", tmp_path)["fingerprint"] == data.fingerprint


def test_emnist_of_other_pixels_stays_float(tmp_path, form):
    splits = emnist(exact=False)
    prepare("emnist", both(tmp_path, "emnist", EMNIST, splits, EMNIST_NAMES)[form], tmp_path)
    data = datasets.load("emnist", tmp_path)
    expected = [row["pixels"] for c in sorted(splits["train"]) for row in splits["train"][c]]
    assert data.train_x.dtype == data.test_x.dtype == np.float32
    np.testing.assert_array_equal(data.train_x, np.stack(expected))


@pytest.mark.parametrize("value", [-0.0, np.nextafter(np.float32(0.2), np.float32(1)), 1.5])
def test_one_pixel_that_is_not_a_level_is_kept(tmp_path, value):
    splits = emnist()
    splits["test"]["f99"][0]["pixels"][5, 5] = value
    prepare("emnist", both(tmp_path, "emnist", EMNIST, splits, EMNIST_NAMES)["h5"], tmp_path)
    data = datasets.load("emnist", tmp_path)
    assert data.train_x.dtype == data.test_x.dtype == np.float32
    where = data.test_client.tolist().index(data.clients.index("f99"))
    assert data.test_x[where, 5, 5].tobytes() == np.float32(value).tobytes()


def test_bright_ink_is_found_as_such(tmp_path):
    splits = emnist()
    for clients in splits.values():
        for row in (row for rows in clients.values() for row in rows):
            row["pixels"] = ((255 - row["pixels"] * 255).round() / 255).astype(np.float32)
    prepare("emnist", both(tmp_path, "emnist", EMNIST, splits, EMNIST_NAMES)["h5"], tmp_path)
    assert datasets.load("emnist", tmp_path).polarity == "ink_bright"


CIFAR = {
    "image": np.zeros((0, 32, 32, 3), np.uint8),
    "label": np.zeros(0, np.int64),
    "coarse_label": np.zeros(0, np.int64),
}


def test_cifar100_bit_for_bit_with_test_clients_of_their_own(tmp_path, form):
    random = np.random.default_rng(0)
    splits = {
        split: {
            str(client): [
                {
                    "image": random.integers(0, 256, (32, 32, 3), dtype=np.uint8),
                    "label": int(random.integers(100)),
                    "coarse_label": int(random.integers(20)),
                }
                for _ in range(2)
            ]
            for client in range(clients)
        }
        for split, clients in (("train", 11), ("test", 3))
    }
    names = {s: (f"fed_cifar100_{s}.h5", s) for s in splits}
    card = prepare("fed_cifar100", both(tmp_path, "cifar100", CIFAR, splits, names)[form], tmp_path)
    assert card["counts"] == {"train": 22, "train_clients": 11, "test": 6, "test_clients": 3}
    data = datasets.load("fed_cifar100", tmp_path)
    assert data.clients[:4] == ("0", "1", "10", "2")
    assert data.clients[-3:] == ("test/0", "test/1", "test/2")
    for split, prefix in (("train", ""), ("test", "test/")):
        rows = [(c, row) for c in sorted(splits[split]) for row in splits[split][c]]
        for field, key in (("x", "image"), ("y", "label"), ("coarse", "coarse_label")):
            expected = np.stack([row[key] for _, row in rows])
            np.testing.assert_array_equal(getattr(data, f"{split}_{field}"), expected)
        codes = getattr(data, f"{split}_client")
        assert [data.clients[code] for code in codes] == [prefix + client for client, _ in rows]
    assert data.train_x.dtype == np.uint8 and data.train_y.dtype == np.int64


# ----------------------------------------------------------------------------------------- texts


def test_shakespeare_as_texts(tmp_path, form):
    def lines(*texts):
        return [{"snippets": text if form == "h5" else text.encode()} for text in texts]

    splits = {
        "train": {
            "THE_TEMPEST_ARIEL": lines("All hail, great master!", "", "Où — 海\n"),
            "HAMLET_GHOST": lines("Adieu."),
            "HAMLET_NOBODY": [],
        },
        "test": {"HAMLET_GHOST": lines("Remember me."), "OTHELLO_CLOWN": lines("a\r", "b")},
    }
    names = {s: (f"shakespeare_{s}.h5", s) for s in splits}
    write = {"h5": write_h5, "sqlite": write_sqlite}
    if form == "h5":
        files = {
            s: write["h5"](tmp_path / file, splits[s], {"snippets": str})
            for s, (file, _) in names.items()
        }
    else:
        files = {"x": write["sqlite"](tmp_path / "shakespeare.sqlite", splits)}
    card = prepare("shakespeare", files, tmp_path)
    assert card["counts"] == {"train": 4, "train_clients": 2, "test": 3, "test_clients": 2}
    data = datasets.load_text("shakespeare", tmp_path)
    assert data.clients == ("HAMLET_GHOST", "HAMLET_NOBODY", "OTHELLO_CLOWN", "THE_TEMPEST_ARIEL")
    train = [(data.clients[c], data.text("train", i)) for i, c in enumerate(data.client("train"))]
    assert train == [
        ("HAMLET_GHOST", "Adieu."),
        ("THE_TEMPEST_ARIEL", "All hail, great master!"),
        ("THE_TEMPEST_ARIEL", ""),
        ("THE_TEMPEST_ARIEL", "Où — 海\n"),
    ]
    test = [(data.clients[c], data.text("test", i)) for i, c in enumerate(data.client("test"))]
    assert test == [
        ("HAMLET_GHOST", "Remember me."),
        ("OTHELLO_CLOWN", "a\r"),
        ("OTHELLO_CLOWN", "b"),
    ]
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
    return {"words": words, "tags": tags}


def stack_overflow(seed=0):
    random = np.random.default_rng(seed)
    pool = [*WORD_LIST[:50], WORD_LIST[-1], "beyond", "ß", ""]
    tags = ["tag600", "tag5", "tag0", "tag498", "tag499", "tag601", "none"]

    def rows(n):
        return [
            {
                "creation_date": "2010-01-01",
                "score": int(random.integers(-5, 5)),
                "tags": "|".join(random.choice(tags, random.integers(0, 4))),
                "title": " ".join(random.choice(pool, random.integers(0, 5))),
                "tokens": " ".join(random.choice(pool, random.integers(0, 28))),
                "type": "question",
            }
            for _ in range(n)
        ]

    return {
        "train": {"100": rows(8), "20": rows(5), "3": []},
        "heldout": {"7": rows(2)},
        "test": {"100": rows(3), "41": rows(1)},
    }


STACK = {"creation_date": str, "score": np.zeros(0, np.int64)}
STACK |= {key: str for key in ("tags", "title", "tokens", "type")}


def stack_files(folder, splits, form):
    if form == "h5":
        theirs = {"train": "train", "heldout": "held_out", "test": "test"}
        files = {
            f"file {s}": write_h5(folder / f"stackoverflow_{theirs[s]}.h5", splits[s], STACK)
            for s in splits
        }
    else:
        as_bytes = {
            s: {
                c: [
                    {k: v.encode() if isinstance(v, str) else v for k, v in row.items()}
                    for row in rows
                ]
                for c, rows in clients.items()
            }
            for s, clients in splits.items()
        }
        files = {"sqlite": write_sqlite(folder / "stackoverflow.sqlite", as_bytes)}
    return files | count_files(folder)


@pytest.mark.parametrize("piece", [2, 4096])
def test_stack_overflow_as_posts(tmp_path, form, piece, monkeypatch):
    monkeypatch.setattr(tff_files, "_PIECE", piece)
    splits = stack_overflow()
    card = prepare("stackoverflow", stack_files(tmp_path, splits, form), tmp_path)
    assert card["kind"] == "posts"
    assert card["counts"] == {
        **{"train": 13, "train_clients": 3, "heldout": 2, "heldout_clients": 1},
        **{"test": 4, "test_clients": 2},
    }
    loaded = datasets.load_posts("stackoverflow", tmp_path)
    assert list(loaded) == ["train", "heldout", "test"]
    # Rank by count, then by the file's order; the last of the 500 is tag498.
    tag_list = ["tag600", "tag5", *(f"tag{i}" for i in range(499) if i != 5)]
    for split, found in loaded.items():
        rows = [
            (client, row["tokens"], row["title"], row["tags"])
            for client in sorted(splits[split])
            for row in splits[split][client]
        ]
        expected = posts.encode(rows, WORD_LIST, tag_list)
        fields = ("sentences", "lengths", "words", "word_offsets", "tags", "tag_offsets")
        for field in fields:
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
        assert list(found.clients) == sorted(splits[split])
        sizes = [len(splits[split][client]) for client in found.clients]
        assert np.diff(found.starts).tolist() == sizes
        assert found.word_list == tuple(WORD_LIST) and found.tag_list == tuple(tag_list)
    train = loaded["train"]
    assert set(np.unique(train.tags)) <= {0, 1, 2, 499} and 499 in train.tags
    for field in fields:
        array = getattr(train, field)
        assert not array.flags.writeable and isinstance(array.base, np.memmap)


def test_prepared_posts_are_listed_verified_and_loaded_by_their_own_function(tmp_path):
    prepare("stackoverflow", stack_files(tmp_path, stack_overflow(), "h5"), tmp_path)
    assert datasets.verify("stackoverflow", tmp_path)["kind"] == "posts"
    assert datasets.info("stackoverflow", tmp_path)["prepared"]
    assert [card["name"] for card in datasets.prepared(tmp_path)] == ["stackoverflow"]
    shown = CliRunner().invoke(app, ["data", "list", "--json", "--data-root", str(tmp_path)])
    listed = {card["name"]: card for card in json.loads(shown.stdout)}
    assert listed["stackoverflow"]["counts"]["train"] == 13
    for load in (datasets.load, datasets.load_text):
        with pytest.raises(Error, match=r"holds posts, not \w+: use load_posts"):
            load("stackoverflow", tmp_path)
    with pytest.raises(Error, match="'mnist' holds arrays, not posts: use load"):
        datasets.load_posts("mnist", tmp_path)
    path = tmp_path / "prepared/stackoverflow/train_words.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Error, match="array 'train_words' of 'stackoverflow' was altered"):
        datasets.verify("stackoverflow", tmp_path)


def test_posts_that_are_not_prepared(tmp_path):
    with pytest.raises(
        Error, match=r"not prepared.*get it with 'fedlib data prepare stackoverflow'"
    ):
        datasets.load_posts("stackoverflow", tmp_path)
    (tmp_path / "posts.jsonl").write_text("{}")
    with pytest.raises(Error, match="cannot be imported"):
        datasets.import_file("stackoverflow", tmp_path / "posts.jsonl", tmp_path)


def test_writing_posts_does_not_hold_them_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(posts, "_PIECE", 1000)
    row = {"tags": "tag1", "title": "w1 w2", "tokens": "w1 w2 w3 w4 w5 w6 w7 w8"}
    like = {key: str for key in row}
    held = []
    for clients in (8, 64):
        folder = tmp_path / str(clients)
        folder.mkdir()
        content = {str(client): [row] * 1000 for client in range(clients)}
        path = write_h5(folder / "x_train.h5", content, like)
        with posts.PostsWriter(folder, "train", WORD_LIST, ["tag1"]) as writer:
            tracemalloc.start()
            for client, values in HDF5Reader(path).pieces(dict.fromkeys(like)):
                writer.add(client, *(values[key] for key in ("tokens", "title", "tags")))
            held.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert held[1] < 1.5 * held[0]


# ---------------------------------------------------------------------------------------- errors


def test_bad_hdf5_files_are_refused_in_one_line(tmp_path):
    splits = emnist()
    files = both(tmp_path, "emnist", EMNIST, splits, EMNIST_NAMES)["h5"]
    whole = files["train"].read_bytes()

    def refused(message):
        with pytest.raises(Error, match=message) as caught:
            prepare("emnist", files, tmp_path)
        assert "\n" not in str(caught.value)
        assert datasets.prepared(tmp_path) == []

    for content in (b"", b"junk", whole[:100], whole[: len(whole) // 2], whole[:-1]):
        files["train"].write_bytes(content)
        refused("fed_emnist_train.h5 is not a whole HDF5 file")
    files["train"].unlink()
    refused("fed_emnist_train.h5 is not a whole HDF5 file")
    with h5py.File(files["train"], "w") as file:
        file["data"] = [1]
    refused("has no group 'examples'")
    for key, value, message in (
        ("pixels", None, "client 'a': no feature 'pixels'"),
        ("pixels", np.zeros((2, 784), np.float32), r"pixels is float32 \(2, 784\); needed: floats"),
        ("pixels", np.zeros((2, 28, 28), np.uint8), r"pixels is uint8 \(2, 28, 28\); needed"),
        ("label", np.zeros(3, np.int32), "features of unequal lengths"),
        ("label", np.zeros(2, np.float32), "label is float32"),
        ("label", np.array([0, 62]), "label is 0 to 62; allowed: 0 to 61"),
        ("label", np.array([-1, 0]), "label is -1 to 0"),
        ("pixels", np.full((2, 28, 28), np.nan, np.float32), "pixels has values that are not"),
    ):
        good = {"pixels": np.zeros((2, 28, 28), np.float32), "label": np.zeros(2, np.int32)}
        with h5py.File(files["train"], "w") as file:
            for name, array in {**good, key: value}.items():
                if array is not None:
                    file[f"examples/a/{name}"] = array
        refused(message)
    write_h5(files["train"], {"a": []}, EMNIST)
    refused("the train split has no examples")
    write_h5(tmp_path / "s_train.h5", {"a": [{"snippets": 3}]}, {"snippets": np.zeros(0, int)})
    with pytest.raises(Error, match="snippets is int64"):
        prepare("shakespeare", {"train": tmp_path / "s_train.h5", "test": files["test"]}, tmp_path)


def test_bad_sqlite_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "emnist_all.sqlite"

    def refused(message):
        with pytest.raises(Error, match=message) as caught:
            prepare("emnist", {"sqlite": path}, tmp_path)
        assert "\n" not in str(caught.value)
        assert datasets.prepared(tmp_path) == []

    def written(**changes):
        path.unlink(missing_ok=True)
        good = {"pixels": [0.5] * 784, "label": [3]}
        one = {key: value for key, value in {**good, **changes}.items() if value is not None}
        write_sqlite(path, {"all_train": {"a": [one]}, "all_test": {"a": [good]}})

    refused("there is no file")
    path.write_bytes(b"junk" * 100)
    refused("is not TFF's SQLite file: file is not a database")
    path.write_bytes(b"")
    refused("is not TFF's SQLite file: no such table")
    for changes, message in (
        ({"label": None}, "all_train client 'a': no feature 'label'"),
        ({"label": [1, 2]}, "label is not 1 integers"),
        ({"label": [1.0]}, "label is not 1 integers"),
        ({"pixels": [0.5] * 783}, "pixels is not 784 floats"),
        ({"pixels": [b"x"]}, "pixels is not 784 floats"),
        ({"label": [62]}, "label is 62 to 62"),
    ):
        written(**changes)
        refused(message)
    for statement, message in (
        ("UPDATE examples SET serialized_example_proto = x'0A05'", "an example cannot be read"),
        ("UPDATE examples SET serialized_example_proto = 'text'", "not a string of bytes"),
        ("DELETE FROM examples WHERE split_name = 'all_train'", "0 examples, but its metadata"),
        ("UPDATE client_metadata SET split_name = 'train'", "has no split 'all_train'"),
        ("UPDATE client_metadata SET client_id = NULL", "a client id of split .* is not a text"),
    ):
        written()
        with sqlite3.connect(path) as file:
            file.execute(statement)
        file.close()
        refused(message)
    text = tmp_path / "s.sqlite"
    write_sqlite(text, {s: {"a": [{"snippets": b"\xff"}]} for s in ("train", "test")})
    with pytest.raises(Error, match="a text is not UTF-8"):
        prepare("shakespeare", {"sqlite": text}, tmp_path)
    with pytest.raises(Error, match="tokens is not one string"):
        features = {"tokens": None}
        text.unlink()
        write_sqlite(text, {"train": {"a": [{"tokens": [b"a", b"b"]}]}})
        list(SQLiteReader(text, "train").pieces(features))


def test_missing_or_doubtful_files_are_named(tmp_path):
    for files, message in (
        ({}, r"emnist: no train \(.h5\) or sqlite file among the given ones \(nothing\)"),
        ({"x": tmp_path / "a_train.h5"}, "no test .*a_train.h5"),
        ({"x": tmp_path / "a.sqlite", "y": tmp_path / "b.sqlite"}, "more than one sqlite file"),
    ):
        with pytest.raises(Error, match=message):
            WRITERS["emnist"](files, tmp_path, False)
    files = stack_files(tmp_path, stack_overflow(), "h5")
    for key in ("words", "tags"):
        rest = {k: path for k, path in files.items() if k != key}
        with pytest.raises(Error, match=f"no {key[:-1]}_count file"):
            prepare("stackoverflow", rest, tmp_path)
    for name, content, message in (
        ("words", "w1 5\nw2\n", "word_count, line 2: is not 'word count'"),
        ("words", "w1 5\n", "has 1 words; needed: at least 10000"),
        ("words", b"\xff", "cannot be read"),
        ("tags", "[", "tag_count cannot be read"),
        ("tags", '{"a": "b"}', "is not a JSON object of tags and counts"),
        ("tags", '{"a": 1}', "has 1 tags; needed: at least 500"),
    ):
        good = files[name].read_bytes()
        files[name].write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(Error, match=message) as caught:
            prepare("stackoverflow", files, tmp_path)
        assert "\n" not in str(caught.value)
        files[name].write_bytes(good)
    assert datasets.prepared(tmp_path) == []
