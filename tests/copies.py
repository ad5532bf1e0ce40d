"""Small prepared copies of the data sets, of the real ones' shapes, for tests of tasks that need
them."""

import json
from hashlib import sha256

import numpy as np

from fedlib import datasets
from fedlib.datasets import catalogue


def prepare(root):
    """Random pictures and texts under ``root``, by the names of the data sets that tasks use."""
    draw = np.random.default_rng(0)
    writers = np.repeat(np.arange(50), 12)
    # In the files of the two handwriting sets paper is bright, as in the papers' copies.
    paper = np.full((600, 28, 28), 255, np.uint8)
    paper[:, 8:20, 8:20] = draw.integers(0, 120, (600, 12, 12))
    for name in ("emnist", "femnist"):
        owners = {"train_client": writers, "test_client": writers}
        pictures(root, name, paper, np.arange(600) % 62, **owners)
    for name in ("mnist", "fashion_mnist"):
        pictures(root, name, 255 - paper, np.arange(600) % 10)
    colour = draw.integers(0, 256, (600, 32, 32, 3), dtype=np.uint8)
    pictures(root, "cifar10", colour, np.arange(600) % 10)
    fine = np.arange(600) % 100
    pictures(root, "cifar100", colour, fine, train_coarse=fine // 5, test_coarse=fine // 5)
    words = [f"word{number}" for number in range(30)]
    for name, target in (
        ("shakespeare", {}),
        ("tweets", {"label": 2}),
        ("ag_news", {"label": 4}),
        ("dbpedia", {"label": 14}),
        ("stackexchange", {"tags": 5}),
    ):
        rows = []
        for number in range(600):
            text = " ".join(draw.choice(words, 8))
            row = {"client": f"user {number // 10}", "text": f"{text}\n{text}."}
            row["split"] = "test" if number % 5 == 4 else "train"
            row |= {"label": number % target["label"]} if "label" in target else {}
            row |= {"tags": [f"tag{number % 5}"]} if "tags" in target else {}
            rows.append(row)
        texts(root, name, rows)


def texts(root, name, rows):
    """Import texts under a root."""
    root.mkdir(exist_ok=True)
    file = root / f"{name}.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    datasets.import_file(name, file, root)


def pictures(root, name, x, y, **more):
    """Import the same examples for training and testing under a root."""
    root.mkdir(exist_ok=True)
    path = root / f"{name}.npz"
    np.savez(path, train_x=x, train_y=y, test_x=x, test_y=y, **more)
    datasets.import_file(name, path, root)


def news(folder):
    """AG News as a source of two small files, which are written to a folder to be "downloaded"."""
    folder.mkdir(exist_ok=True)
    content, official = b'"3","Oil, up","Prices rise"\n"1","World","Peace"\n' * 1000, []
    for path in (folder / "train.csv", folder / "test.csv"):
        path.write_bytes(content)
        digest = sha256(content).hexdigest()
        official.append(catalogue.File(path.name, digest, len(content), (path.as_uri(),)))
    return catalogue.Source(tuple(official))
