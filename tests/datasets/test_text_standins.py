"""The texts that stand in offline: fixed, of the promised structure, and learnable."""

from __future__ import annotations

import ast
import itertools
import logging
import subprocess
import sys
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from fedlib import datasets
from fedlib.datasets import text_standins
from fedlib.datasets.dataset import TextDataset
from fedlib.errors import Error

NAMES = ["shakespeare", "stackoverflow", "stackexchange", "sent140", "tweets", "ag_news", "dbpedia"]
USERS = ["shakespeare", "stackoverflow", "tweets"]


def every(data: TextDataset, split: str) -> list[str]:
    return [data.text(split, i) for i in range(data.size(split))]


@pytest.mark.parametrize("name", NAMES)
def test_load_text_falls_back_to_a_stand_in_that_says_so(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_announced", set())
    with caplog.at_level(logging.WARNING, "fedlib.datasets"):
        data = datasets.load_text(name)
        datasets.load_text(name)
    assert len(caplog.records) == 1 and "docstrings" in caplog.text
    assert data.name == name and data.stand_in
    assert data.source.startswith("offline stand-in for ") and "Python 3." in data.source
    card = datasets.info(name)
    assert not card["prepared"] and card["stand_in_is"] in data.source


@pytest.mark.parametrize("name", NAMES)
def test_structure(name: str) -> None:
    data = text_standins.make(name)
    for split in ("train", "test"):
        client = data.client(split)
        assert len(client) == data.size(split) > 400
        assert client.min() >= 0 and client.max() < len(data.clients)
        assert all(text.strip() for text in every(data, split))
    together = every(data, "train") + every(data, "test")
    assert len(set(together)) == len(together), "a text occurs twice"
    # A fifth of the texts, and at least one of each client, are for testing.
    assert set(data.client("test").tolist()) == set(range(len(data.clients)))
    assert 0.1 < data.size("test") / len(together) < 0.25
    with pytest.raises(ValueError, match="read-only"):
        data.arrays["train_text"][0] = 0


@pytest.mark.parametrize("name", USERS)
def test_clients_are_modules_of_the_standard_library(name: str) -> None:
    data = text_standins.make(name)
    assert {"logging", "http.client", "asyncio.base_events"} <= set(data.clients)
    assert len(data.clients) > 100
    sizes = np.bincount(data.client("train"))
    assert sizes.max() > 5 * np.median(sizes), "clients have uneven amounts of text"


def test_a_stand_in_is_the_same_in_every_process() -> None:
    code = (
        "from fedlib.datasets import text_standins as t;"
        "print(t.make('tweets').fingerprint, t.make('shakespeare').fingerprint)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1"},
        cwd=Path(text_standins.__file__).parents[2],
    )
    expected = [text_standins.make(name).fingerprint for name in ("tweets", "shakespeare")]
    assert run.stdout.split() == expected and len(set(expected)) == 2


def test_shakespeares_paragraphs_are_those_of_the_module() -> None:
    data = text_standins.make("shakespeare")
    root = Path(sysconfig.get_path("stdlib"))
    code = data.clients.index("textwrap")
    texts = [data.text("train", i) for i in np.flatnonzero(data.client("train") == code)]
    source = " ".join((root / "textwrap.py").read_text(encoding="utf-8").split())
    assert len(texts) >= 5
    assert all(" ".join(text.split())[:30] in source for text in texts)


def test_tags_are_modules_that_the_client_imports() -> None:
    data = text_standins.make("stackoverflow")
    root = Path(sysconfig.get_path("stdlib"))
    for i in range(0, data.size("train"), 500):
        name = data.clients[data.client("train")[i]]
        file = root / f"{name.replace('.', '/')}.py"
        file = file if file.is_file() else root / name.replace(".", "/") / "__init__.py"
        names = set()
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
        tags = data.tags("train", i)
        assert 1 <= len(tags) <= 5 and set(tags) <= names


def test_sentiment_labels_say_whether_the_function_returns_a_value() -> None:
    tree = ast.parse(
        '''
def a():
    """First words here.

    More."""
    if True:
        return 1
def b():
    """Second words here."""
    def inner():
        """Third words here."""
        return 2
    return
class C:
    """Not a function."""
    async def d(self):
        """Fourth words here."""
        with x:
            return None
        '''
    )
    docs = {
        doc.name: (doc.text, doc.function, doc.returns) for doc in text_standins._docs(tree, "m")
    }
    assert docs == {
        "m.a": ("First words here.\n\nMore.", True, True),
        "m.b": ("Second words here.", True, False),
        "m.b.inner": ("Third words here.", True, True),
        "m.C": ("Not a function.", False, False),
        "m.C.d": ("Fourth words here.", True, False),
    }


@pytest.mark.parametrize(
    ("name", "classes", "least"), [("tweets", 2, 0.75), ("ag_news", 4, 0.7), ("dbpedia", 14, 0.6)]
)
def test_labels_can_be_learnt_from_the_words(name: str, classes: int, least: float) -> None:
    data = text_standins.make(name)
    y, test_y = data.labels("train"), data.labels("test")
    assert data.classes is not None and len(data.classes) == classes
    assert set(y.tolist()) == set(test_y.tolist()) == set(range(classes))
    words = CountVectorizer(min_df=3, binary=True)
    x = words.fit_transform(every(data, "train"))
    model = LogisticRegression(max_iter=30, tol=1e-2).fit(x, y)
    accuracy = model.score(words.transform(every(data, "test")), test_y)
    most_common = np.bincount(test_y).max() / len(test_y)
    assert accuracy > least > most_common + 0.05


def test_without_sources_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_standins.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(Error, match="no source files of Python's standard library"):
        text_standins._library.__wrapped__()
    with pytest.raises(Error, match="no offline stand-in for 'reddit'"):
        text_standins.make("reddit")


# --- Generated posts: how hard they are


def test_the_tags_of_rare_words_hang_on_rare_words():
    data = text_standins.make("rare_words")
    assert data.size("train") == 2400 and data.size("test") == 600 and len(data.clients) == 200
    words, tags, told, true = Counter(), Counter(), 0, 0
    for i in range(data.size("train")):
        text, its_tags = data.text("train", i).split(), data.tags("train", i)
        words.update(set(text))
        tags.update(its_tags)
        hints = {f"topic{word[4:-1]}" for word in text if word.startswith("word")}
        assert len(text) == 8 and hints <= set(its_tags) and 1 <= len(its_tags) <= 2
        told, true = told + len(hints), true + len(its_tags)
    # The ceiling: nine of ten tags are told. The five commonest tags are a third of all.
    assert 0.88 < told / true < 0.92 and len(tags) == 40
    assert 0.3 < sum(count for _, count in tags.most_common(5)) / true < 0.4
    rare = [count / 2400 for word, count in words.items() if word.startswith("word")]
    assert len(rare) == 160 and max(rare) < 0.05 and np.mean(rare) < 0.01


def test_the_words_of_chains_foretell_the_next_ones():
    data = text_standins.make("word_chains")
    after: dict[str, Counter] = defaultdict(Counter)
    for i in range(data.size("train")):
        words = data.text("train", i).split()
        assert len(words) == 20
        for word, following in itertools.pairwise(words):
            after[word][following] += 1
    every = sum(after.values(), Counter())
    pairs = every.total()
    # The ceiling, a table of successors, and chance, the commonest word.
    assert 0.58 < sum(own.most_common(1)[0][1] for own in after.values()) / pairs < 0.64
    assert 0.08 < every.most_common(1)[0][1] / pairs < 0.11
    # Heavy tails: the rarer half of the words is a seventh of the text.
    assert len(after) == 120 and 0.1 < sum(sorted(every.values())[:60]) / pairs < 0.2


@pytest.mark.parametrize("name", ["rare_words", "word_chains"])
def test_generated_posts_are_the_same_each_time(name):
    first = text_standins.make(name).fingerprint
    text_standins.make.cache_clear()
    assert text_standins.make(name).fingerprint == first
