"""Importing: what is stored is what was given, and a bad file is refused whole, in a line."""

import json
import struct
import zipfile

import numpy as np
import pytest

from fedlib import datasets
from tests.datasets.conftest import holds, not_imported
from tests.refusals import refused

SPLITS = ("train", "test")
IMAGES = np.arange(36, dtype=np.uint8).reshape(6, 3, 2)
GOOD = {"train_x": IMAGES, "train_y": np.array([0, 1, 2, 0, 1, 2])}
GOOD |= {"test_x": IMAGES[:4], "test_y": np.array([2, 1, 0, 2])}


def saved(folder, **changes):
    """A hand-made file: 6 training and 4 test images of 3x2."""
    arrays = {key: value for key, value in (GOOD | changes).items() if value is not None}
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


def loaded(path, name="own", load=datasets.load):
    card = datasets.import_file(name, path, path.with_name("there"), overwrite=True)
    data = load(name, path.with_name("there"))
    assert datasets.verify(name, path.with_name("there")) == card
    assert data.fingerprint == card["fingerprint"]
    return card, data


# ---------------------------------------------------------------------------------------- arrays


def test_every_array_comes_back(tmp_path):
    extra = {
        "train_client": np.array([5, 5, 7, 7, 9, 9]),
        "test_client": np.array([5, 7, 9, 9], dtype=np.uint16),
        "train_coarse": np.array([0, 0, 1, 0, 0, 1]),
        "test_coarse": np.array([1, 0, 0, 1]),
        "classes": np.array(["a", "b", "c"]),
    }
    card, data = loaded(saved(tmp_path, **extra), "own-data_1")
    assert holds(data, **GOOD, **extra)
    assert data.train_y.dtype == data.test_client.dtype == np.int64
    assert isinstance(data.train_x, np.memmap) and not data.train_x.flags.writeable
    assert not data.stand_in and data.polarity is None
    assert card["counts"] == {"train": 6, "test": 4, "train_clients": 3, "test_clients": 3}
    assert card["file"] == "own.npz" and card["format"] == 1


@pytest.mark.parametrize(
    ("train", "test", "dtype"),
    [
        (np.linspace(0, 1, 36).reshape(6, 3, 2), np.zeros((4, 3, 2)), np.float32),
        (IMAGES.astype(int), np.full((4, 3, 2), 255, dtype=np.int16), np.uint8),
        (np.ones((6, 3, 2), dtype=">f4"), np.ones((4, 3, 2), dtype="<f2"), np.float32),
        (np.asfortranarray(IMAGES), np.asfortranarray(IMAGES[:4]), np.uint8),
        (IMAGES > 9, IMAGES[:4] > 3, np.uint8),
        (np.ones((6, 9), dtype=np.float32), np.ones((4, 9), dtype=np.float32), np.float32),
        (np.ones((6, 5, 5, 200)), np.ones((4, 5, 5, 200)), np.float32),
    ],
    ids=["f64", "i64", "big-endian", "column-major", "bool", "table", "many channels"],
)
def test_numbers_of_other_kinds_are_converted(tmp_path, train, test, dtype):
    _, data = loaded(saved(tmp_path, train_x=train, test_x=test))
    assert data.train_x.dtype == data.test_x.dtype == dtype
    assert data.train_x.flags.c_contiguous
    assert holds(data, train_x=train.astype(dtype), test_x=test.astype(dtype))


def test_words_are_numbered_and_other_names_of_arrays_are_known(tmp_path):
    words = {"train_y": np.array([*"bcabca"]), "test_y": np.array([*"aabb"])}
    words |= {"train_client": np.array(["bob", "ann"] * 3), "test_client": np.array(["zoe"] * 4)}
    _, data = loaded(saved(tmp_path, **words))
    assert data.classes == ("a", "b", "c") and data.clients == ("ann", "bob", "zoe")
    assert holds(data, train_y=[1, 2, 0, 1, 2, 0], train_client=[1, 0] * 3, test_client=[2] * 4)
    _, data = loaded(saved(tmp_path, **words, classes=np.array([*"cba"])))
    assert data.classes == ("c", "b", "a") and holds(data, test_y=[2, 2, 1, 1])
    keras = {f"{part}_{split}": GOOD[f"{split}_{part}"] for part in "xy" for split in SPLITS}
    med = {f"{split}_images": GOOD[f"{split}_x"] for split in SPLITS}
    med |= {f"{split}_labels": GOOD[f"{split}_y"][:, None] for split in SPLITS}
    for arrays in (keras, med):
        np.savez(tmp_path / "other.npz", **arrays)
        assert holds(loaded(tmp_path / "other.npz")[1], **GOOD)
    np.savez(tmp_path / "other.npz", **med, val_images=IMAGES)
    not_imported("'val_images' is in neither split: .* rename: train_x", tmp_path / "other.npz")


REFUSED = [
    ({"test_y": None}, "lacks test_y"),
    ({"train_y": np.array([0, 1])}, "train_y has 2 entries, but train_x has 6"),
    ({"train_x": IMAGES[:, 0, 0]}, r"train_x has shape \(6,\), but needs examples, then"),
    ({"train_y": IMAGES}, r"train_y has shape \(6, 3, 2\), .* one label .*masks.*recipes.md"),
    ({"train_y": np.array([None] * 6)}, r"'train_y' .* holds Python objects.*array.astype\(str\)"),
    ({"train_x": np.full((6, 3, 2), np.nan), "test_x": np.zeros((4, 3, 2))}, "train_x has values"),
    ({"train_x": np.ones((6, 3, 2)), "test_x": np.full((4, 3, 2), 1e300)}, "test_x has values"),
    ({"train_y": np.array([0, 1, 2, 0, 1, -2])}, "train_y has integers from -2 to 2 .allowed: 0 "),
    ({"train_y": np.array([0.0, 1, 2, 0, 1, 2])}, "train_y is float64, but needs integers"),
    ({"train_coarse": np.array([*"ababab"])}, "train_coarse is <U1, but needs integers$"),
    ({"train_y": np.full(6, 2**63, dtype=np.uint64)}, "integers from 9223372036854775808 to"),
    ({"test_x": np.zeros((4, 2, 3), dtype=np.uint8)}, r"train_x, but uint8 \(2, 3\)"),
    ({"test_x": np.zeros((0, 3, 2), np.uint8), "test_y": np.zeros(0, int)}, "test_x is empty"),
    ({"classes": np.array(["a", "b"])}, "has label 2, but classes names only 2"),
    ({"classes": np.array([1, 2, 3])}, "classes must be"),
    ({"train_y": np.array([*"bbbbbb"]), "test_y": np.array([*"bbbb"]), "classes": np.array(["a"])},
     "unknown label 'b'"),
    ({"train_clients": np.zeros(6, dtype=int)}, "'train_clients': did you mean 'train_client'"),
    *(({"train_x": np.zeros((6, *shape))}, r"channels seem .*x.transpose\(0, 2, 3, 1\)")
      for shape in ((3, 32, 32), (512, 7, 7))),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_bad_arrays_are_refused_whole(tmp_path, changes, words):
    not_imported(words, saved(tmp_path, **changes))


def header(text):
    """A .npy file with any header at all."""
    encoded = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded + b"\0" * 64


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 4), }\n"
ODD = [b"", *map(header, ("__import__('os').abort()", "(" * 60_000, HUGE))]


@pytest.mark.parametrize("content", ODD, ids=["empty", "code", "brackets", "huge"])
def test_members_that_are_no_arrays_are_refused(tmp_path, content):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(saved(tmp_path)) as whole, zipfile.ZipFile(path, "w") as archive:
        for member in whole.namelist():
            archive.writestr(member, content if member == "test_y.npy" else whole.read(member))
    not_imported(r"odd\.npz: .*test_y", path)


@pytest.mark.parametrize(
    ("paper", "ink", "polarity"), [(0, 255, "ink_bright"), (1.0, 0.0, "ink_dark")]
)
def test_polarity_is_measured(tmp_path, paper, ink, polarity):
    images = np.full((6, 28, 28), paper, dtype=np.uint8 if paper == 0 else np.float32)
    images[:, 8:20, 8:20] = ink
    _, data = loaded(saved(tmp_path, train_x=images.reshape(6, 784), test_x=images[:4]), "emnist")
    assert holds(data, train_x=images) and data.polarity == polarity
    assert len(data.classes) == 62 and data.classes[10] == "A"


def test_names_and_files_that_do_not_go_together_are_refused(tmp_path):
    path = saved(tmp_path)
    for name in ("", "A", "a b", "../up", "a/b", ".hidden", "x" * 65):
        not_imported("cannot name a data set", path, name)
    not_imported(r"shape \(3, 2\), but MNIST has \(28, 28\)", path, "mnist")
    not_imported(r"'shakespeare' is imported from a \.jsonl", path, "shakespeare")
    images = np.zeros((6, 28, 28), dtype=np.uint8)
    path = saved(tmp_path, train_x=images, test_x=images[:4], test_y=np.array([0, 1, 10, 2]))
    not_imported("test_y has label 10, but MNIST has labels 0 to 9", path, "mnist")
    not_imported("there is no file", tmp_path / "no.npz")
    (tmp_path / "no.npz").touch()  # damaged otherwise: tests/faults/test_damaged.py
    not_imported(r"not a \.npz file, or is truncated", tmp_path / "no.npz")
    (tmp_path / "own.csv").touch()
    not_imported(r"read_csv.*fedlib\.table_task: see docs/guide/recipes\.md", tmp_path / "own.csv")
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    not_imported(r"ImageFolder.*fedlib\.from_datasets: see docs/guide", tmp_path / "pets")
    message = r"fedlib data import emnist_byclass FILE\.npz"  # there is no stand-in
    refused(message, datasets.load, "emnist_byclass", tmp_path)


# ----------------------------------------------------------------------------------------- texts


def row(**changes):
    values = {"client": "a", "split": "train", "text": "x", "label": 1, **changes}
    return {key: value for key, value in values.items() if value is not None}


def lines(folder, rows, ascii_only=False):
    texts = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=ascii_only) for r in rows]
    (folder / "own.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder / "own.jsonl"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_texts_come_back_with_labels(tmp_path, ascii_only):
    rows = [
        row(client="Ada", text="first"),
        row(client="Bob", text="zwei: ß, 漢字 🙂\nnext", label=0),
    ]
    rows += [row(client="Bob", split="test", text="", label=0)]
    rows += [row(client="Ćrą", split="test", text="last", label=3)]
    card, data = loaded(lines(tmp_path, rows, ascii_only), load=datasets.load_text)
    found = [
        (data.clients[data.client(split)[i]], split, data.text(split, i), data.labels(split)[i])
        for split in ("train", "test")
        for i in range(data.size(split))
    ]
    assert found == [tuple(r[key] for key in ("client", "split", "text", "label")) for r in rows]
    assert card["counts"] == {"train": 2, "test": 2, "train_clients": 2, "test_clients": 2}
    refused("have no tags", data.tags, "train", 0)
    refused("and no text 2", data.text, "train", 2)
    refused("the dev texts of 'own' have no text", data.text, "dev", 0)


def test_texts_with_tags_or_nothing_and_other_fields(tmp_path):
    rows = [row(label=None, tags=["c++", "Ä"], date=5), row(split="test", label=None, tags=[])]
    card, data = loaded(lines(tmp_path, rows), load=datasets.load_text)
    assert data.tags("train", 0) == ["c++", "Ä"] and data.tags("test", 0) == []
    assert card["ignored_fields"] == ["date"]
    refused("have no label", data.labels, "train")
    path, first = tmp_path / "own.jsonl", json.dumps(row(label=None))
    path.write_bytes(b"\xef\xbb\xbf" + f"{first}\r\n\r\n{first.replace('train', 'test')}".encode())
    assert loaded(path, load=datasets.load_text)[1].text("test", 0) == "x"


def test_labels_may_be_words(tmp_path):
    words = ["sport", "arts", "Ökologie", "arts"]
    rows = [row(label=word, split="train" if i < 2 else "test") for i, word in enumerate(words)]
    for order in (1, -1):  # which decides nothing
        card, data = loaded(lines(tmp_path, rows[::order]), load=datasets.load_text)
        assert tuple(card["classes"]) == data.classes == ("arts", "sport", "Ökologie")
        assert data.labels("train")[::order].tolist() == [1, 0]
    rows = [
        {**line, "label": word} for line, word in zip(rows, ["Sports", "World"] * 2, strict=True)
    ]
    _, data = loaded(lines(tmp_path, rows), "ag_news", datasets.load_text)
    assert data.labels("train").tolist() == [data.classes.index(w) for w in ("Sports", "World")]


BAD_LINES = [
    ("{", "line 2: Invalid JSON: EOF while parsing"),
    ("[" * 100000, "line 2: Invalid JSON: recursion limit"),
    ('{"client": "\xff"}', "line 2: Invalid JSON: invalid unicode"),
    (row(client=None), "line 2: client: Field required"),
    (row(split="valid"), "line 2: split: Input should be 'train' or 'test', not 'valid'"),
    (row(label=-1), "line 2: label is -1 .allowed: a whole number >= 0, or a word"),
    (row(label=True), "line 2: label is True .allowed"),
    (row(label=2**63), "line 2: label is 9223372036854775808 .allowed"),
    (row(label="a"), "line 2: has a word as label, but the lines before have label"),
    (row(tags=["a"]), "line 2: has both label and tags"),
    (row(label=None), "line 2: has neither label nor tags, but the lines before have label"),
]
UNUSABLE = [
    ("own", [row()], "own.jsonl: the test split has no texts"),
    ("own", [row(split="test")], "own.jsonl: the train split has no texts"),
    ("own", [row(text=""), row(split="test")], "the train split has only empty texts"),
    ("ag_news", [row(label=4)], "line 1 has label 4, but AG News has labels 0 to 3"),
    ("ag_news", [row(label=None)], "line 1: lacks 'label', which AG News needs"),
    ("ag_news", [row(label="Sport")], "line 1: unknown label 'Sport': did you mean 'Sports'"),
    ("mnist", [row()], r"'mnist' is imported from a \.npz"),
    *(("own", [row(), second], message) for second, message in BAD_LINES),
]


@pytest.mark.parametrize(("name", "rows", "message"), UNUSABLE)
def test_bad_texts_are_refused_whole(tmp_path, name, rows, message):
    path = lines(tmp_path, rows)
    if "unicode" in message:
        path.write_bytes(path.read_text("utf-8").encode("latin-1"))
    not_imported(message, path, name)


# ------------------------------------------------------------------------------------------ LEAF


def leaf(folder, x, y):
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True, exist_ok=True)
        users = {"f2": {"x": x[:1], "y": y[:1]}, "f1": {"x": x[1:], "y": y[1:]}}
        (folder / split / "all_data_0.json").write_text(json.dumps({"user_data": users}))
    return folder


@pytest.mark.parametrize(
    ("x", "y", "stored"),
    [
        ([[0.5, 1], [2, 3]], [4, 0], [[0.5, 1], [2, 3]]),
        ([[[0.5], [1]], [[2], [3]]], [4.0, 0.0], [[0.5, 1], [2, 3]]),
    ],
)
def test_leafs_numbers(tmp_path, x, y, stored):
    _, data = loaded(leaf(tmp_path / "leaf", x, y))
    assert data.clients == ("f1", "f2")
    for split in SPLITS:
        expected = {f"{split}_x": stored, f"{split}_y": [4, 0], f"{split}_client": [1, 0]}
        assert holds(data, **expected)


def test_leafs_writers_and_plays(tmp_path):
    writer = leaf(tmp_path / "b", [[1.0] * 784, [0.0] * 784], [61.0, 0.0])
    assert loaded(writer, "femnist")[1].train_x.shape == (2, 28, 28)
    _, data = loaded(leaf(tmp_path / "c", ["To be", "or not"], ["e", "f"]), load=datasets.load_text)
    assert data.text("train", 1) == "or not" and data.clients == ("f2", "f1")
    assert data.classes == ("e", "f") and data.labels("test").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([["a", "b"], ["c"]], [1, 2], "neither texts nor numbers: .* For rows of words, .* the te"),
        ([[1], [2, 3]], [1, 2], "neither texts nor numbers"),
        ([[1], [2], [3]], [1, 2], "train/all_data_0.json is not as LEAF writes it"),
        ([[1], [2]], [1, -2], "integers from -2 to 1"),
        (None, None, "train/all_data_0.json is not as LEAF writes it: JSONDecodeError"),
        ([], [], "the train split has no examples"),
    ],
)  # fmt: skip
def test_what_leaf_does_not_write_is_refused(tmp_path, x, y, message):
    folder = leaf(tmp_path / "leaf", x or [], y or [])
    if x is None:
        (folder / "train/all_data_0.json").write_text('{"user_data": {"a"')
    not_imported(message, folder)
