"""The text tasks: their data against literal expectations, their settings against the papers."""

import sys
import types

import numpy as np
import pytest
import torch

import fedlib
from fedlib import datasets, papers, partition, randomness
from fedlib.datasets.posts import encode
from fedlib.tasks import news, stackoverflow
from fedlib.tasks.fair_sent140 import SPREAD, _random_vectors
from tests import copies
from tests.refusals import refused


def row(client, split, text, **target):
    return {"client": client, "split": split, "text": text, **target}


# ------------------------------------------------------------------------------------ Shakespeare


def test_shakespeare_by_hand(tmp_path):
    train = [row("lear", "train", "dh"), row("fool", "train", "d" * 80), row("lear", "train", "l")]
    test = [row("lear", "test", "pt"), row("fool", "test", "~")]
    rows = [*train, *test, row("kent", "train", "only here")]
    copies.texts(tmp_path / "data", "shakespeare", rows)
    task = fedlib.load_task("shakespeare", preset="paper")
    assert task.train.ids == task.test.ids == ["lear", "fool"] and not task.stand_in
    assert task.train.sizes.tolist() == [2, 2] and task.test.sizes.tolist() == [1, 1]
    x, y = task.train.x.tolist(), task.train.y.tolist()
    assert x[0] == [88, 1, 2, 89] + [0] * 76 and y[0] == [1, 2, 89] + [0] * 77
    assert x[1][:3] == [88, 3, 89] and x[2] == [88] + [1] * 79 and y[2] == [1] * 80
    # Targets that are not padding: 3 + 2, and 80 + 0 (the second row holds the end mark alone).
    assert task.train.client_weights().tolist() == [5, 80]
    assert x[3] == [89] + [0] * 79 and y[3] == [0] * 80
    assert task.test.y[1].tolist() == [87, 89] + [0] * 78


def test_shakespeare_counts_all_targets_in_the_loss_but_padding_not_in_accuracy():
    task = fedlib.load_task("shakespeare")
    outputs = torch.zeros(1, 1, 4, 90)
    outputs[..., 0] = 5
    outputs[0, 0, 0, 7] = 9
    targets = torch.tensor([[[7, 89, 0, 0]]], dtype=torch.uint8)
    hits, counted = task.metrics["accuracy"](outputs, targets)
    assert (hits.item(), counted.item()) == (1, 2)
    log_softmax = outputs.double().log_softmax(-1)[0, 0]
    each = [-log_softmax[t, target].item() for t, target in enumerate((7, 89, 0, 0))]
    assert task.loss(outputs.double(), targets).item() == pytest.approx(np.mean(each))


# --------------------------------------------------------------------------------- Stack Overflow


def test_validation_takes_whole_clients_in_a_random_order():
    posts = encode([(f"c{i // 3}", "a", "", "") for i in range(30)], ["a"], ["t"])
    chosen = stackoverflow.test_clients(posts, 7, seed=0)
    assert chosen.sizes.tolist() == [3, 3, 1]
    assert chosen.starts.tolist() == [3 * int(name[1:]) for name in chosen.ids]
    orders = [stackoverflow.test_clients(posts, 7, seed=seed).ids for seed in range(4)]
    assert orders[0] == chosen.ids and len({tuple(ids) for ids in orders}) > 1
    whole = stackoverflow.test_clients(posts, 0, seed=0)
    assert whole.sizes.sum() == 30 and whole.ids == [f"c{i}" for i in range(10)]
    assert stackoverflow.test_clients(posts, 10**6, seed=0).sizes.sum() == 30


def test_a_smaller_vocabulary_encodes_as_if_it_were_the_only_one():
    rows = [("a", " ".join("abcdef"[i] for i in p), "", "") for p in ([0, 5, 2], [3] * 30, [1])]
    large, small = (encode(rows, list("abcdef")[:n], ["t"]) for n in (6, 2))
    again = stackoverflow.smaller_vocabulary(large.sentences, 6, 2)
    assert again.dtype == np.int16 and (again == small.sentences).all()


@pytest.fixture
def posts(tmp_path):
    rows = [
        row("ann", "train", "B\na b a.", tags=["z", "y"]),
        row("bob", "train", "\na. a! b " + "a " * 30, tags=["z"]),
        row("ann", "test", "c\nb a z", tags=["y", "z|never seen"]),
        row("eve", "test", "\na", tags=[]),
    ]
    copies.texts(tmp_path / "data", "stackexchange", rows)


@pytest.mark.usefixtures("posts")
def test_next_word_prediction_by_hand():
    task = fedlib.load_task("stackoverflow_nwp", preset="paper")
    assert not task.stand_in and "in place of Stack Overflow" in task.source
    assert task.options["data"] == "stackexchange" and task.options["words"] == 4
    # By users: '.', 'a' and 'b' 2 each, '!' 1. So '.': 1, a: 2, b: 3, '!': 4, unknown 5, start 6,
    # end 7.
    assert task.train.ids == ["ann", "bob"] and task.train.sizes.tolist() == [1, 3]
    x, y = task.train.x.tolist(), task.train.y.tolist()
    assert x[0] == [6, 2, 3, 2, 1, 7] + [0] * 14 and y[0] == [2, 3, 2, 1, 7] + [0] * 15
    assert y[1][:4] == [2, 1, 7, 0] and y[3] == [3] + [2] * 19 and x[3][:3] == [6, 3, 2]
    # Targets: 5, and 3 + 3 + 20.
    assert task.train.client_weights().tolist() == [5, 26]
    order = {name: i for i, name in enumerate(task.test.ids)}
    assert set(order) == {"ann", "eve"}
    first = task.test.y[task.test.starts[order["ann"]]].tolist()
    assert first[:5] == [3, 2, 5, 7, 0]
    outputs = torch.zeros(1, 1, 5, 8)
    outputs[..., 3] = 1
    hits, counted = task.metrics["accuracy"](outputs, torch.tensor([[first[:5]]]))
    assert (hits.item(), counted.item()) == (1, 2), "unknown, end and padding do not count"


@pytest.mark.usefixtures("posts")
def test_tag_prediction_by_hand():
    task = fedlib.load_task("stackoverflow_lr", preset="paper")
    assert (task.options["words"], task.options["tags"]) == (4, 500)
    # z is in 4 examples (bob's three sentences count), y in one.
    assert task.train.y.tolist() == [[0, 1], [0, -1], [0, -1], [0, -1]]
    bag = task.transform(task.train.x[None, :2], torch.zeros(1, 2, dtype=torch.int64))
    assert bag.shape == (1, 2, 4)
    # 'b' of the title and 'a b a .': five words.
    assert bag[0, 0].tolist() == pytest.approx([0.2, 0.4, 0.4, 0])
    assert bag[0, 1].tolist() == pytest.approx([0.5, 0.5, 0, 0])
    ann = task.test.starts[task.test.ids.index("ann")]
    test_bag = task.transform(task.test.x[None, ann : ann + 1], None)
    # c, b, a, z: unknown words count in the divisor.
    assert test_bag[0, 0].tolist() == pytest.approx([0, 0.25, 0.25, 0])
    assert task.test.y[ann].tolist() == [1], "a tag that training has not is left out"


def test_the_tag_loss_is_a_mean_over_tags_summed_over_the_batch():
    numbers = [[0.0, 2.0, -1.0, 3.0, 1.0, 0.5], [1.0] * 6]
    logits = torch.tensor([numbers], dtype=torch.float64)
    targets = torch.tensor([[[1, 2], [-1, -1]]], dtype=torch.int16)
    hot = np.array([[[0, 1, 1, 0, 0, 0], [0] * 6]])
    z = logits.numpy()
    expected = (np.log1p(np.exp(z)) - hot * z).mean(-1)
    assert np.allclose(stackoverflow.loss(logits, targets), expected)
    assert torch.equal(stackoverflow.multi_hot(targets, 6), torch.tensor(hot).float())
    hits, positives = stackoverflow.recall(logits, targets)  # tag 2 is the sixth of its example
    assert hits.tolist() == [[1, 0]] and positives.tolist() == [[2, 0]]


def test_prepared_posts_are_used_though_they_are_no_texts(monkeypatch):
    rows = [("a", "w v w", "v", "t")] * 3 + [("b", "v", "", "")] * 4
    splits = {split: encode(rows, ["w", "v"], ["t"]) for split in ("train", "test")}
    card = {"prepared": True, "kind": "posts", "source": "TFF", "fingerprint": "f" * 64}
    monkeypatch.setattr(datasets.store, "prepared_names", lambda root: ["stackoverflow"])
    monkeypatch.setattr(datasets, "info", lambda name, root: card)
    monkeypatch.setattr(datasets, "load_posts", lambda name, root: splits)
    words, tags = (
        fedlib.load_task(name, preset="paper", cap=2)
        for name in ("stackoverflow_nwp", "stackoverflow_lr")
    )
    for task in (words, tags):
        assert not task.stand_in and task.source == "TFF"
        assert (task.train.starts.tolist(), task.train.sizes.tolist()) == ([0, 2], [2, 2])
    assert words.train.x[:, :5].tolist() == [[4, 1, 2, 1, 5]] * 2 + [[4, 2, 5, 0, 0]] * 2
    assert words.train.client_weights().tolist() == [8, 4]
    assert tags.train.x.tolist() == [0, 1, 3, 4]
    assert tags.train.y.tolist() == [[0], [0], [-1], [-1]]


# ----------------------------------------------------------------------------------------- Sent140


def tweets(tmp_path):
    splits = ["train"] * 7 + ["test"] * 3
    rows = [row("u", s, f"good Word{i} . bad", label=i % 2) for i, s in enumerate(splits)]
    rows += [row("v", "train", "good bad " * 20, label=1)] * 5
    rows += [row("w", "test", "few", label=0)] * 4
    copies.texts(tmp_path / "data", "tweets", rows)


def test_sent140_by_hand(tmp_path):
    tweets(tmp_path)
    glove = tmp_path / "vectors.txt"
    glove.write_text("bad 1 2\nother 3 3\ngood -1 0.5\n", encoding="utf-8")
    task = fedlib.load_task("fair_sent140", preset="paper", glove=glove)
    assert not task.stand_in and task.train.ids == ["u", "v"]
    assert "in place of Sent140" in task.source and "vectors.txt" in task.source
    # bad: 1, good: 2, everything else and padding: 0.
    assert task.train.x[3].tolist() == [2, 0, 0, 1] + [0] * 21
    assert task.train.x[10].tolist() == [2, 1] * 12 + [2]
    assert task.train.y.tolist() == [0, 1] * 5 + [1] * 5
    assert task.train.sizes.tolist() == [8, 4] and task.test.sizes.tolist() == [2, 1]
    held = torch.cat([task.train.index, task.test.index]).tolist()
    assert sorted(held) == list(range(15))
    matrix = next(t for t in task.model().state_dict().values() if t.shape == (3, 2))
    assert matrix.tolist() == [[0, 0], [1, 2], [-1, 0.5]]
    setup = papers.settings("adafedadam")["setups"]["Sent140"]
    assert (task.rounds, task.batch_size, task.clients_per_round) == (1000, 10, None)
    assert task.rounds == setup["rounds"] and task.hyperparameters["fedavg"]["client_lr"] == 0.3


def test_sent140_finds_vectors_under_the_data_root_or_says_that_they_are_random(tmp_path):
    tweets(tmp_path)
    task = fedlib.load_task("fair_sent140")
    assert "random 25-d word vectors" in task.source
    again = fedlib.load_task("fair_sent140", examples=5)
    file = tmp_path / "data" / "raw" / "glove.txt"
    file.parent.mkdir()
    file.write_text("bad 1 2\n", encoding="utf-8")
    found = fedlib.load_task("fair_sent140")
    assert found.source.endswith("word vectors of glove.txt")
    assert len({task.fingerprint, again.fingerprint, found.fingerprint}) == 3
    file.write_text("nothing 1 2\n", encoding="utf-8")
    refused(r"none of the data's words is in glove\.txt", fedlib.load_task, "fair_sent140")


def test_random_vectors_depend_on_the_word_alone():
    words = [f"w{i}" for i in range(400)]
    vectors = _random_vectors(words, 25)
    assert (vectors[7] == _random_vectors(["w7"], 25)[0]).all()
    assert len(np.unique(vectors)) > 9000
    assert abs(vectors.mean()) < 0.05 and vectors.std() == pytest.approx(SPREAD, rel=0.03)


# -------------------------------------------------------------------------------------------- news


def test_news_settings_and_partition(tmp_path):
    rows = [row("all", "train", f"word{i % 4} number {i}", label=i % 4) for i in range(300)]
    rows += [row("all", "test", f"word{i % 4} test {i}", label=i % 4) for i in range(50)]
    copies.texts(tmp_path / "data", "ag_news", rows)
    task = fedlib.load_task("ag_news", preset="paper", pretrained=False, length=8, width=0.05)
    assert (task.rounds, task.clients_per_round, task.batch_size) == (100, 5, 16)
    stated = papers.settings("delta_sgd")
    assert task.rounds == stated["rounds"]["text"]
    assert task.batch_size == stated["federated"]["batch_size_text"]
    assert task.train.sizes.tolist() == [450] * 50 and len(task.test) == 1
    assert task.client_hyperparameters["delta_sgd"]["delta"] == 0.1
    assert len(task.train.x) <= 300 and task.test.sizes.tolist() == [50]
    labels, draw = np.arange(300) % 4, randomness.key(0, "clients")
    parts = partition.dirichlet_overlapping(labels, 50, 1.0, 500, draw, author_split=True)
    held = np.unique(np.concatenate(parts))  # only these are encoded
    assert held[task.train.index].tolist() == np.concatenate(parts).tolist()
    # Words of a text and their label stay together.
    first = {int(y): set(task.train.x[task.train.y == y][:, 1].tolist()) for y in range(4)}
    assert all(len(words) == 1 for words in first.values())
    assert len(set.union(*first.values())) == 4


def test_a_folder_of_other_weights_is_another_task(tmp_path, monkeypatch):
    def encode(texts, max_length, **how):
        return {"input_ids": [[len(one)] * max_length for one in texts]}

    tokenizer = types.SimpleNamespace(from_pretrained=lambda name: encode)
    named = types.SimpleNamespace(AutoTokenizer=tokenizer)
    monkeypatch.setitem(sys.modules, "transformers", named)
    rows = [row("all", split, f"{i}", label=i % 4) for split in datasets.SPLITS for i in range(40)]
    copies.texts(tmp_path / "data", "ag_news", rows)

    def identity():
        (tmp_path / "own" / "old").mkdir(parents=True, exist_ok=True)
        own = {"pretrained": str(tmp_path / "own"), "length": 8, "sizes": 10}
        return fedlib.load_task("ag_news", preset="paper", **own).identity

    before = identity()
    (tmp_path / "own" / "model.safetensors").write_bytes(b"more training")
    assert identity() == identity() != before


def test_dbpedia_tests_on_every_tenth_text_at_paper():
    assert news._spread(70_000, 7000).tolist() == list(range(0, 70_000, 10))
    assert news._spread(10, 0).tolist() == list(range(10)) == news._spread(10, 99).tolist()
    assert news._spread(10, 4).tolist() == [0, 2, 5, 7]
