"""Real copies of the data sets, where a checkout has them beside it: import, verify, load."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedlib import datasets

PACKS = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not (PACKS / "convert.py").is_file(),
    reason=f"no data packs here: {os.path.relpath(PACKS)}/convert.py is absent",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    out = tmp_path_factory.mktemp("packs")
    names = ["emnist", "femnist", "ag_news", "tweets", "stackexchange"]
    subprocess.run([sys.executable, PACKS / "convert.py", out, *names], check=True)
    return out


@pytest.mark.parametrize(
    ("name", "train", "test", "polarity"),
    [("emnist", 6000, 1500, "ink_bright"), ("femnist", 14708, 1685, "ink_dark")],
)
def test_images(files, tmp_path, name, train, test, polarity):
    datasets.import_file(name, files / f"{name}.npz", tmp_path)
    datasets.verify(name, tmp_path)
    data = datasets.load(name, tmp_path)
    assert (len(data.train_x), len(data.test_x)) == (train, test)
    assert data.polarity == polarity and not data.stand_in
    with np.load(files / f"{name}.npz") as original:
        assert (data.train_x == original["train_x"]).all()
        assert (data.test_y == original["test_y"]).all()
    if name == "femnist":
        assert len(np.unique(data.train_client)) == 105


@pytest.mark.parametrize(
    ("name", "rows", "clients"),
    [("ag_news", 7600, 1), ("tweets", 2428, 335), ("stackexchange", 7494, 1914)],
)
def test_texts(files, tmp_path, name, rows, clients):
    datasets.import_file(name, files / f"{name}.jsonl", tmp_path)
    datasets.verify(name, tmp_path)
    data = datasets.load_text(name, tmp_path)
    assert data.size("train") + data.size("test") == rows
    assert len(data.clients) == clients
    if name == "stackexchange":
        assert data.tags("train", 0)
    else:
        assert set(data.labels("train").tolist()) == set(range(len(data.classes)))
