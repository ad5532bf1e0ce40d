"""Importing .jsonl: texts come back as written, and bad lines are named by number."""

import json

import pytest

from fedlib import datasets
from tests.datasets.conftest import not_imported
from tests.refusals import refused

LABELLED = [
    {"client": "Ada", "split": "train", "text": "first", "label": 1},
    {"client": "Bob", "split": "train", "text": "zweites: Grüße, 漢字 🙂\nnext", "label": 0},
    {"client": "Bob", "split": "test", "text": "", "label": 0},
    {"client": "Ćrą", "split": "test", "text": "last", "label": 3},
]


def row(**changes):
    values = {"client": "a", "split": "train", "text": "x", "label": 1, **changes}
    return json.dumps({key: value for key, value in values.items() if value is not None})


def write(folder, rows, ascii_only=False):
    path = folder / "own.jsonl"
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=ascii_only) for r in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("ascii_only", [False, True])
def test_round_trip_with_labels(tmp_path, ascii_only):
    card = datasets.import_file("own", write(tmp_path, LABELLED, ascii_only), tmp_path)
    data = datasets.load_text("own", tmp_path)
    expected = [row["text"] for row in LABELLED[:2]]
    assert [data.text("train", i) for i in range(data.size("train"))] == expected
    assert [data.text("test", i) for i in range(2)] == ["", "last"]
    assert [data.clients[code] for code in data.client("train")] == ["Ada", "Bob"]
    assert [data.clients[code] for code in data.client("test")] == ["Bob", "Ćrą"]
    assert data.labels("train").tolist() == [1, 0] and data.labels("test").tolist() == [0, 3]
    assert card["counts"] == {"train": 2, "test": 2, "train_clients": 2, "test_clients": 2}
    assert datasets.verify("own", tmp_path)["fingerprint"] == data.fingerprint
    refused("have no tags", data.tags, "train", 0)
    refused("there is no text 2", data.text, "train", 2)
    refused("the dev texts of 'own' have no text", data.text, "dev", 0)


def test_round_trip_with_tags_and_other_fields(tmp_path):
    rows = [row(label=None, tags=["c++", "Ä"], date=5), row(split="test", label=None, tags=[])]
    card = datasets.import_file("own", write(tmp_path, rows), tmp_path)
    data = datasets.load_text("own", tmp_path)
    assert data.tags("train", 0) == ["c++", "Ä"] and data.tags("test", 0) == []
    assert card["ignored_fields"] == ["date"]
    refused("have no label", data.labels, "train")


def test_texts_without_target_blank_lines_and_a_byte_order_mark(tmp_path):
    path, first = tmp_path / "own.jsonl", row(label=None)
    path.write_bytes(b"\xef\xbb\xbf" + f"{first}\r\n\r\n{first.replace('train', 'test')}".encode())
    datasets.import_file("own", path, tmp_path)
    assert datasets.load_text("own", tmp_path).text("test", 0) == "x"


GOOD = row()


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("{", "line 2: Invalid JSON: EOF while parsing"),
        ("[" * 100000, "line 2: Invalid JSON: recursion limit"),
        (row(client=None), "line 2: client: Field required"),
        (row(text=7), "line 2: text: Input should be a valid string, not 7"),
        (row(split="valid"), "line 2: split: Input should be 'train' or 'test', not 'valid'"),
        (row(label=-1), "line 2: label is -1; allowed: a whole number >= 0, or a word"),
        (row(label=True), "line 2: label is True; allowed"),
        (row(label=2**63), "line 2: label is 9223372036854775808; allowed"),
        (row(label="a"), "line 2: has a word as label, but the lines before have label"),
        (row(tags=["a"]), "line 2: has both label and tags"),
        (row(label=None, tags="a"), "line 2: tags: Input should be a valid array"),
        (row(label=None, tags=["a"]), "line 2: has tags, but the lines before have label"),
        (row(label=None), "line 2: has neither label nor tags, but the lines before have label"),
        ('{"client": "\xff"}', "line 2: Invalid JSON: invalid unicode"),
    ],
)
def test_bad_lines_are_named(tmp_path, second, words):
    path = tmp_path / "own.jsonl"
    path.write_bytes(f"{GOOD}\n{second}\n".encode("latin-1"))
    not_imported(words, path)


WORDED = [
    {"client": "a", "split": "train", "text": "one", "label": "sport"},
    {"client": "a", "split": "train", "text": "two", "label": "arts"},
    {"client": "b", "split": "test", "text": "three", "label": "Ökologie"},
    {"client": "b", "split": "test", "text": "four", "label": "arts"},
]


def test_labels_may_be_words(tmp_path):
    card = datasets.import_file("own", write(tmp_path, WORDED), tmp_path)
    data = datasets.load_text("own", tmp_path)
    assert tuple(card["classes"]) == data.classes == ("arts", "sport", "Ökologie")
    assert data.labels("train").tolist() == [1, 0] and data.labels("test").tolist() == [2, 0]
    assert datasets.verify("own", tmp_path)["fingerprint"] == data.fingerprint
    # The order of the lines decides nothing.
    datasets.import_file("turned", write(tmp_path, WORDED[::-1]), tmp_path)
    assert datasets.load_text("turned", tmp_path).classes == data.classes


def test_words_of_a_known_name_are_its_classes(tmp_path):
    words = ["Sports", "World"] * 2
    rows = [{**line, "label": word} for line, word in zip(WORDED, words, strict=True)]
    datasets.import_file("ag_news", write(tmp_path, rows), tmp_path)
    data = datasets.load_text("ag_news", tmp_path)
    assert data.labels("train").tolist() == [data.classes.index(w) for w in ("Sports", "World")]
    rows[3]["label"] = "Sport"
    message = "line 4: unknown label 'Sport': did you mean 'Sports'"
    not_imported(message, write(tmp_path, rows), "ag_news")


UNUSABLE = [
    ("own", [GOOD], "own.jsonl: the test split has no texts"),
    ("own", [row(split="test")], "own.jsonl: the train split has no texts"),
    ("own", [row(text=""), row(split="test")], "the train split has only empty texts"),
    ("ag_news", [row(label=4)], "line 1 has label 4, but AG News has labels 0 to 3"),
    ("ag_news", [row(label=None)], "line 1: lacks 'label', which AG News needs"),
    ("mnist", [GOOD], r"'mnist' is imported from a \.npz"),
]


@pytest.mark.parametrize(("name", "rows", "words"), UNUSABLE)
def test_files_that_do_not_fit_are_refused_whole(tmp_path, name, rows, words):
    not_imported(words, write(tmp_path, rows), name)


def test_where_there_is_no_stand_in_it_is_said_how_to_import(tmp_path):
    message = r"fedlib data import emnist_byclass FILE\.npz"
    refused(message, datasets.load, "emnist_byclass", tmp_path)
