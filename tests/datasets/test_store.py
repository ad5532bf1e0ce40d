"""The prepared folder: verify notices every change, listing survives damage, loading prefers it."""

import json
import logging
from contextlib import suppress

import numpy as np
import pytest

from fedlib import datasets
from fedlib.errors import Error
from tests import copies
from tests.refusals import refused


@pytest.fixture
def root(tmp_path):
    x = np.arange(60, dtype=np.uint8).reshape(5, 12)
    copies.pictures(tmp_path, "own", x, np.arange(5))
    return tmp_path


def test_a_missing_cut_or_exchanged_array_is_noticed(root):
    path = root / "prepared/own/test_x.npy"
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[:20], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(content)
        refused("array 'test_x' of 'own' was altered", datasets.verify, "own", root)
    np.save(path, np.zeros((2, 13), dtype=np.uint8))
    refused(r"it is \|u1 \[2, 13\], the card says \|u1 \[5, 12\]", datasets.load, "own", root)
    np.save(path, np.array([{}, {}], dtype=object))
    refused("array 'test_x' of 'own' was altered", datasets.load, "own", root)
    path.unlink()
    for look in (datasets.verify, datasets.load):
        refused("array 'test_x' of 'own' is missing", look, "own", root)


def test_a_changed_card_is_noticed(root):
    path = root / "prepared/own/card.json"
    card = json.loads(path.read_text())
    other = {**card, "classes": ["x"]}
    path.write_text(json.dumps(other))
    refused("fingerprint does not match", datasets.verify, "own", root)
    path.unlink()
    message = r"card\.json cannot be read: No such file .* import own FILE"
    refused(message, datasets.load, "own", root)


ODD_CARDS = [
    *((text, "Invalid JSON") for text in ("", "\xff", "[" * 100_000)),
    ("[]", "should be an object"),
    ('{"format": 99}', r"this version of fedlib: format: .*\. Make it again with 'fedlib data"),
    ('{"format": 1}', "name: Field"),
]


@pytest.mark.parametrize(("text", "words"), ODD_CARDS, ids=lambda text: text[:9])
def test_a_broken_card_is_refused_and_listed_as_broken(root, command, text, words):
    (listed,) = datasets.prepared(root)
    folder = root / "prepared/own"
    assert listed["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert listed["counts"] == {"train": 5, "test": 5}
    (folder / "card.json").write_bytes(text.encode("latin1"))
    with pytest.raises(Error, match=words) as caught:
        datasets.load("own", root)
    (listed,) = datasets.prepared(root)
    assert listed["name"] == "own" and listed["error"] == str(caught.value)
    told = datasets.info("own", root)
    assert told["prepared"] is True and told["error"] == listed["error"]
    for words in (["list"], ["data", "list"], ["list", "data", "--json"], ["doctor"]):
        assert "own" in command.says(*words, "--data-root", str(root))


def test_a_card_with_any_field_of_another_kind_is_refused(root):
    path = root / "prepared/own/card.json"
    card = json.loads(path.read_text())
    for key in card:
        for value in (None, 3, -1.5, "x", [], {}, [1], {"a": 1}, True):
            path.write_text(json.dumps({**card, key: value}))
            for read in (datasets.verify, datasets.load, datasets.info):
                with suppress(Error):
                    read("own", root)
    assert datasets.prepared(root / "nowhere") == []


def test_names_and_info(root):
    assert "own" in datasets.names(root) and "cifar10" in datasets.names(root)
    assert datasets.info("own", root)["prepared"] is True
    card = datasets.info("cifar10", root)
    assert card["prepared"] is False and card["licence"] and card["source"]
    json.dumps(card)
    refused("unknown data set 'cifra10': did you mean 'cifar10'", datasets.info, "cifra10", root)
    refused("not prepared, so there is nothing to verify", datasets.verify, "cifar10", root)


def test_the_stand_in_is_logged_once_and_real_data_replace_it(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(datasets, "_announced", set())
    with caplog.at_level(logging.WARNING, logger="fedlib.datasets"):
        assert datasets.load("mnist", tmp_path).stand_in
        datasets.load("mnist", tmp_path)
    (said,) = caplog.messages
    assert said.startswith("no prepared copy of 'mnist': ")
    copies.pictures(tmp_path, "mnist", np.zeros((2, 28, 28), np.uint8), np.array([3, 4]))
    data = datasets.load("mnist", tmp_path)
    assert not data.stand_in and data.test_y.tolist() == [3, 4]
