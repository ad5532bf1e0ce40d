"""Tasks by one call from imported images and texts: who holds what, what the model sees, names."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedlib
from fedlib import datasets
from tests import copies
from tests.refusals import refused

NAMES = ("bright", "dark", "striped")
TOPICS = {"sport": "ball team goal win", "music": "song band tune play", "food": "soup bread eat"}


def pictures(count, seed, colours=0):
    """6 x 5 images of three kinds, with noise, and their labels."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, count)
    x = np.full((count, 6, 5), 60.0)
    x[labels == 0] += 100
    x[labels == 2, ::2] += 100
    x += draw.uniform(0, 40, x.shape)
    x = x if not colours else np.stack([x] * colours, -1) + 10 * np.arange(colours)
    return x.astype(np.uint8), labels


@pytest.fixture(autouse=True)
def imported(tmp_path):
    """Images without clients, ``plain`` and ``colour``, ``own`` with them, texts ``topics``."""
    for name, colours in (("plain", 0), ("colour", 2), ("own", 0)):
        (x, y), (test_x, test_y) = (pictures(count, count, colours) for count in (120, 30))
        arrays = {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}
        arrays["classes"] = np.array(NAMES)
        if name == "own":
            arrays |= {"train_client": np.arange(120) % 4 + 7, "test_client": np.arange(30) % 2 + 7}
        np.savez(tmp_path / f"{name}.npz", **arrays)
        datasets.import_file(name, tmp_path / f"{name}.npz")
    draw, lines = np.random.default_rng(0), []
    for number in range(180):
        topic = list(TOPICS)[draw.integers(0, 3)]
        text = " ".join(draw.choice(TOPICS[topic].split(), 5))
        split, client = ("test" if number // 6 % 4 == 3 else "train"), f"writer {number % 6}"
        lines.append({"client": client, "split": split, "text": text, "label": topic})
    copies.texts(tmp_path / "data", "topics", lines)


def test_images_are_divided_by_dirichlet_or_at_random():
    task = fedlib.image_task("plain", clients=8, alpha=0.1, seed=3)
    labels = pictures(120, 120)[1]
    expected = fedlib.partition.dirichlet(labels, 8, 0.1, 15, seed=3)
    assert torch.equal(task.train.index, torch.from_numpy(np.concatenate(expected)))
    assert task.train.sizes.tolist() == [15] * 8 and task.test.sizes.tolist() == [30]
    assert list(task.test.ids) == ["all"] and tuple(task.classes) == NAMES
    assert task.name == "plain_images" and task.seed == 3
    assert dict(task.options) == {"data": "plain", "clients": 8, "alpha": 0.1}
    even = fedlib.image_task("plain", clients=8)
    assert sorted(even.train.index.tolist()) == list(range(120))
    assert even.train.sizes.tolist() == [15] * 8


def test_images_have_their_own_clients():
    task = fedlib.image_task("own")
    assert list(task.train.ids) == ["7", "8", "9", "10"] and list(task.test.ids) == ["7", "8"]
    assert task.train.index[:30].tolist() == list(range(0, 120, 4))
    assert task.test.index[15:].tolist() == list(range(1, 30, 2))
    assert fedlib.image_task("own", clients=2).test.sizes.tolist() == [30]


@pytest.mark.parametrize(("name", "channels"), [("plain", 1), ("colour", 2)])
def test_inputs_have_mean_0_and_deviation_1_by_channel(name, channels):
    task = fedlib.image_task(name, clients=2)
    x = task.transform(task.train.x.unsqueeze(0), None)
    assert x.shape == (1, 120, channels, 6, 5) and x.dtype == torch.float32
    deviation, mean = torch.std_mean(x, (0, 1, 3, 4), correction=0)
    torch.testing.assert_close(mean, torch.zeros(channels), atol=1e-5, rtol=0)
    torch.testing.assert_close(deviation, torch.ones(channels), atol=1e-5, rtol=0)
    raw = pictures(120, 120)[0]
    assert np.corrcoef(x[0, :, 0].flatten(), raw.flatten())[0, 1] == pytest.approx(1)


def test_texts_become_numbers_of_words():
    task = fedlib.text_task("topics", words=6, length=7)
    assert tuple(task.classes) == ("food", "music", "sport")
    assert list(task.train.ids) == [f"writer {n}" for n in range(6)] == list(task.test.ids)
    assert task.train.x.shape == (138, 7) and int(task.train.x.max()) == 5
    data = datasets.load_text("topics")
    counts = {}
    for i in range(138):
        for word in data.text("train", i).split():
            counts[word] = counts.get(word, 0) + 1
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:2]
    numbers = {word: number for number, word in enumerate(frequent, 4)}
    for i in (0, 7):
        words = [numbers.get(word, 1) for word in data.text("test", i).split()]
        assert task.test.x[i].tolist() == [2, *words, 3]
    assert task.test.y.tolist() == data.labels("test").tolist()
    skewed = fedlib.text_task("topics", clients=9, alpha=0.3)
    assert skewed.train.sizes.tolist() == [15] * 9 and len(skewed.test) == 1


def test_fields_of_a_task_may_be_given():
    task = fedlib.image_task("plain", clients=2, rounds=7, l2=0.5, name="mine")
    assert (task.rounds, task.l2, task.name) == (7, 0.5, "mine")
    assert fedlib.text_task("topics", clients=2, version="1").version == "1"

    def halves(x, keys):
        return x.float().flatten(-2) / 2

    task = fedlib.image_task("plain", lambda: nn.Linear(30, 3), clients=2, transform=halves)
    assert fedlib.run(task, "fedavg", rounds=1, overrides={"client_lr": 1e-4}).diverged is None


def table(rows=90):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"age": draw.integers(20, 90, rows), "tall": draw.random(rows) < 0.5})
    frame["when"] = 2**40 + draw.integers(0, 1000, rows)  # beyond what float32 tells apart
    frame["same"] = 7.5
    frame["sick"] = np.where(frame["when"] % 1000 + 5 * frame["age"] > 750, "yes", "no")
    frame["clinic"] = draw.choice(["7", "07", "b"], rows)
    return frame.set_index(draw.permutation(rows))  # whose order means nothing


def test_a_table_is_a_task():
    frame = table()
    task = fedlib.table_task(frame, label="sick", client="clinic")
    assert tuple(task.classes) == ("no", "yes") and task.train.ids == ["07", "7", "b"]
    assert task.test.ids == task.train.ids and len(task.train.x) + len(task.test.x) == 90
    raw = frame.drop(columns=["sick", "clinic"]).to_numpy(float)
    rows = {tuple(row): place for place, row in enumerate(raw.tolist())}
    for data in (task.train, task.test):
        places = np.array([rows[tuple(row)] for row in data.x.tolist()])
        assert [task.classes[label] for label in data.y] == frame["sick"].iloc[places].tolist()
        for name, part in zip(data.ids, data.parts, strict=True):
            assert set(frame["clinic"].iloc[places[part]]) == {name}
    sizes = frame.groupby("clinic").size()
    assert task.test.sizes.tolist() == [round(size / 5) for size in sizes]
    x = task.transform(task.train.x.unsqueeze(0), None)[0]
    expected = (task.train.x - task.train.x.mean(0)) / task.train.x.std(0, correction=0).clamp(1e-9)
    assert x.dtype == torch.float32 and torch.allclose(x, expected.float(), atol=1e-5)
    losses = fedlib.run(task, "fedavg", rounds=30, client_lr=0.1).series("loss")
    assert losses.iloc[-1] < 0.9 * losses.iloc[0]
    frame["kind"] = ["test", "train", "train"] * 30
    how = {"label": "sick", "split": "kind", "clients": 4, "alpha": 0.5}
    task = fedlib.table_task(frame.drop(columns="clinic"), **how)
    assert task.test.x.tolist() == raw[::3].tolist() and task.train.sizes.tolist() == [15] * 4
    refused(
        "names no clients: give their number",
        fedlib.table_task,
        frame[["age", "sick"]],
        label="sick",
    )


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        ({}, {"label": "sik"}, "unknown label column 'sik': did you mean 'sick'"),
        (
            {},
            {"client": None, "split": "clinic"},
            r"column 'clinic' has '.*' \(allowed: 'train' and 'test'\)",
        ),
        ({}, {"client": "sick"}, "one column has two roles"),
        ({"age": None}, {}, "column 'age' has nothing in row 0: fill it"),
        ({"age": np.inf}, {}, "column 'age' has numbers that are not finite"),
        (
            {"age": 2**60 + np.arange(90)},
            {},
            r"'age' has whole numbers from 2\*\*53 on, as ids have",
        ),
        ({"age": "young"}, {}, r"'age' is .*, but a feature is a number: .*pandas\.get_dummies"),
        ({"age": [[1, 2]] * 90}, {}, r"pandas\.DataFrame\(frame\['age'\]\.tolist\(\)\)"),
        ({"sick": np.linspace(0, 1, 90)}, {}, "'sick' has fractions, no labels"),
        ({"sick": [1, "1", 2] * 30}, {}, "'sick': 1 and '1' would have one name"),
    ],
)
def test_tables_that_are_no_tasks_are_refused(change, columns, message):
    frame = table().assign(**change)
    refused(message, fedlib.table_task, frame, **{"label": "sick", "client": "clinic"} | columns)


def test_mistakes_are_named(tmp_path):
    copies.pictures(tmp_path / "data", "flat", np.ones((2, 3), np.uint8), np.array([0, 1]))
    tagged = [{"client": "a", "split": s, "text": "x", "tags": ["t"]} for s in ("train", "test")]
    copies.texts(tmp_path / "data", "tagged", tagged)
    for call, message in (
        (lambda: fedlib.image_task("plain"), "'plain' names no clients: give their number"),
        (lambda: fedlib.image_task("own", alpha=1.0), "alpha is 1.0, but the number of clients"),
        (lambda: fedlib.image_task("flat", clients=2), "holds 3 numbers an example, no images"),
        (lambda: fedlib.text_task("tagged"), "texts of 'tagged' have no label"),
    ):
        refused(message, call)
