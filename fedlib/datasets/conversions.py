"""How each recipe's edition is made from its upstream files.

A conversion gets the checked contents of the files by the roles of their repositories and by their
paths. It returns the arrays of both splits, as an import has them, and the clients' names if there
are any. The result has the fingerprint that the recipe states.
"""

import codecs
import csv
import gzip
import html
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import torch

from fedlib.datasets import npy
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS

Contents = Mapping[str, Mapping[str, bytes]]  # role -> path -> content
Made = tuple[dict[str, np.ndarray], list[str] | None]


def _only(files: Mapping[str, bytes]) -> bytes:
    (content,) = files.values()
    return content


# ---------------------------------------------------------------------------------------- images


def femnist(contents: Contents) -> Made:
    """LEAF's shards of JSON: 784 pixels from 0 to 1 a picture, by user.

    Writers are in the order of their training shard's number, then of their name. A writer's
    pictures are in the order of the file.
    """
    users: dict[str, dict[str, tuple[int, Any]]] = {split: {} for split in SPLITS}
    for path, content in contents["images"].items():
        split, number = re.findall(r"/(train|test)/all_data_(\d+)_", path)[0]
        data = json.loads(content)["user_data"]
        users[split] |= {user: (int(number), data[user]) for user in data}
    order = sorted(users["train"], key=lambda user: (users["train"][user][0], user))
    arrays = {}
    for split in SPLITS:
        theirs = [users[split][user][1] for user in order]
        sizes = [len(data["y"]) for data in theirs]
        pixels = np.concatenate([np.array(data["x"]) for data in theirs])
        arrays[f"{split}_x"] = np.rint(pixels * 255).astype(np.uint8).reshape(-1, 28, 28)
        arrays[f"{split}_y"] = np.concatenate([np.array(data["y"], np.int64) for data in theirs])
        arrays[f"{split}_client"] = np.repeat(np.arange(len(order)), sizes)
    return arrays, None


def mnist(contents: Contents) -> Made:
    """``training/<label>/<number>.png``, and QMNIST's tables, whose first rows are MNIST's.

    A row has eight numbers, with the label first and the writer third.
    """
    arrays: dict[str, np.ndarray] = {}
    for split, folder in (("train", "training"), ("test", "testing")):
        found = {}
        for path, content in contents["images"].items():
            where, label, name = path.split("/")
            if where == folder:
                found[int(name.removesuffix(".png"))] = (int(label), content)
        rows = [found[number] for number in range(len(found))]
        table = gzip.decompress(contents["writers"][f"qmnist-{split}-labels-idx2-int.gz"])
        numbers = np.frombuffer(table, ">i4", offset=12).reshape(-1, 8)[: len(rows)]
        arrays[f"{split}_x"] = np.stack([_picture(content) for _, content in rows])
        arrays[f"{split}_y"] = np.array([label for label, _ in rows], np.int64)
        if (numbers[:, 0] != arrays[f"{split}_y"]).any():
            raise ValueError("QMNIST's labels do not match those of MNIST")
        arrays[f"{split}_client"] = numbers[:, 2].astype(np.int64)
    return arrays, None


def fashion_mnist(contents: Contents) -> Made:
    """``<split>/<label>/<number>.png``, numbered within the label, and official files of labels."""
    arrays: dict[str, np.ndarray] = {}
    for split, theirs in (("train", "train"), ("test", "t10k")):
        packed = contents["labels"][f"data/fashion/{theirs}-labels-idx1-ubyte.gz"]
        labels = np.frombuffer(gzip.decompress(packed), np.uint8, offset=8).astype(np.int64)
        cells = _cells(contents["images"], f"fashion_mnist_images/{split}", map(str, range(10)))
        arrays |= {f"{split}_x": _dealt(cells, labels), f"{split}_y": labels}
    return arrays, None


def cifar10(contents: Contents) -> Made:
    """Exact PNG files by class, and JPEG copies that are numbered within it in official order.

    A JPEG's number is given to the PNG whose means over 4x4 pixels are nearest. The match is one to
    one. The sequence of labels comes from CIFAR-10N and label-errors.
    """
    names = CATALOGUE["cifar10"].classes or ()
    arrays: dict[str, np.ndarray] = {}
    for split, labels in _sequences(contents).items():
        cells = []
        exact = _cells(contents["images"], split, names)
        for pictures, copies in zip(exact, _cells(contents["order"], split, names), strict=True):
            flat, near = map(_coarse, (pictures, copies))
            # |a - b|^2 without |a|^2, which is the same for all b.
            found = ((flat**2).sum(1) - 2 * near @ flat.T).argmin(1)
            if len(np.unique(found)) != len(pictures):
                raise ValueError("the JPEG copies do not match the PNG files")
            cells.append(pictures[found])
        arrays |= {f"{split}_x": _dealt(cells, labels), f"{split}_y": labels}
    return arrays, None


# Twenty coarse labels in alphabetical order, from aquatic mammals to vehicles 2, by fine label.
COARSE = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)


def cifar100(contents: Contents) -> Made:
    """Exact PNG files by class, in the order of their paths within it.

    The sequence of labels comes from CIFAR-100N and label-errors, and so is the official one. The
    order of the pictures within a class is not.
    """
    names = sorted({path.split("/")[1] for path in contents["images"]})
    arrays = {"classes": np.array(names)}
    for split, labels in _sequences(contents).items():
        cells = _cells(contents["images"], split, names)
        arrays |= {f"{split}_x": _dealt(cells, labels), f"{split}_y": labels}
        arrays[f"{split}_coarse"] = np.array(COARSE)[labels]
    return arrays, None


def _coarse(pictures: np.ndarray) -> np.ndarray:
    """Means over 4x4 pixels, ``[N, 192]``, which are enough to identify a picture."""
    squares = pictures.reshape(-1, 8, 4, 8, 4, 3).astype(np.float32)
    return squares.mean((2, 4)).reshape(len(pictures), -1)


def _picture(content: bytes) -> np.ndarray:
    from PIL import Image  # torchvision brings it

    return np.asarray(Image.open(io.BytesIO(content)))


def _cells(files: Mapping[str, bytes], folder: str, classes: Any) -> list[np.ndarray]:
    """The pictures of each class, ``<folder>/<class>/<name>``, in the order of their paths."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in classes}
    for path in sorted(files, key=str.encode):
        where, name, _ = path.rsplit("/", 2)
        if where == folder:
            found[name].append(_picture(files[path]))
    return [np.stack(pictures) for pictures in found.values()]


def _dealt(cells: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Pictures in the sequence of their labels: each is the next one of its class."""
    out = np.empty((len(labels), *cells[0].shape[1:]), np.uint8)
    for label, pictures in enumerate(cells):
        out[labels == label] = pictures
    return out


def _sequences(contents: Contents) -> dict[str, np.ndarray]:
    """The labels of both splits of a CIFAR, in official order.

    CIFAR-N's file is a pickle by PyTorch of a dict of NumPy arrays, one of them ``clean_label``.
    Only arrays are unpickled, as other objects could run any code.
    """
    array, older = np._core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct"  # type: ignore[attr-defined]
    parts = [np.ndarray, np.dtype, type(np.dtype(np.int64)), array, (array, older)]
    with torch.serialization.safe_globals(parts):
        train = torch.load(io.BytesIO(_only(contents["train labels"])), weights_only=True)
    test = np.load(io.BytesIO(_only(contents["test labels"])), allow_pickle=False)
    return {"train": np.asarray(train["clean_label"], np.int64), "test": test.astype(np.int64)}


# ----------------------------------------------------------------------------------------- texts


def _ends(texts: int, train: int) -> list[str]:
    """The splits of this number of texts. The first ones train."""
    return ["train"] * train + ["test"] * (texts - train)


_TOKEN = re.compile(r'<a\s+name="?(speech\d+|\d[\d.]*)"?\s*>(.*?)</a>|<h3>.*?</h3>', re.I | re.S)


def _words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())


def _speeches(page: str) -> Iterator[tuple[str, list[str]]]:
    """Role and lines of each speech in a play. Names without a line between them speak together."""
    names: list[str] = []
    lines: list[str] = []
    spoken = False
    for anchor, content in _TOKEN.findall(page):
        if anchor.lower().startswith("speech"):
            if spoken:
                yield " & ".join(names), lines
                names, lines, spoken = [], [], False
            names.append(_words(content).rstrip(":. "))
        elif anchor and names:
            spoken = True
            lines += filter(None, [_words(content)])
    if spoken:
        yield " & ".join(names), lines


def shakespeare(contents: Contents) -> Made:
    """The HTML plays of the MIT edition. A role with two speeches or more is a client.

    Roles are in the order of their first speech, play by play. 80 % of a role's speeches, rounded
    up, train, and at least one tests.
    """

    def texts() -> Iterator[npy.Text]:
        for path in sorted(contents["plays"], key=str.encode):
            roles: dict[str, list[str]] = {}
            for role, lines in _speeches(contents["plays"][path].decode("iso-8859-1")):
                if lines:
                    roles.setdefault(role, []).append("\n".join(lines))
            for role, speeches in roles.items():
                if len(speeches) < 2:
                    continue
                train = min(math.ceil(0.8 * len(speeches) - 1e-9), len(speeches) - 1)
                for split, text in zip(_ends(len(speeches), train), speeches, strict=True):
                    yield split, f"{path.split('/')[0]}/{role}", text.encode(), None

    return npy.text_arrays("shakespeare", texts())


class _Plain(HTMLParser):
    """The text of a page. Tags are dropped, and some of them begin a line."""

    breaks = ("p", "br", "li", "pre", "h1", "h2", "h3", "blockquote", "hr")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in self.breaks:
            self._pieces.append("\n")

    def text(self) -> str:
        spaced = re.sub(r"[ \t\r\f]+", " ", "".join(self._pieces))
        return re.sub(r"\s*\n\s*", "\n", spaced).strip()


def stackexchange(contents: Contents) -> Made:
    """Dumps of sites (``Posts.xml``), questions and answers by user. The role is the site.

    A text is the question's title, if it is one, and the post. An answer has its question's tags.
    The last fifth of a user's posts, by day and number and rounded down, tests.
    """
    users: dict[str, list[tuple[str, int, str, list[str]]]] = {}
    for site, files in contents.items():
        content = _only(files).removeprefix(codecs.BOM_UTF8)
        root = ET.fromstring(re.sub(rb"<!DOCTYPE[^>]*>", b"", content))
        posts = [row.attrib for row in root.iter("row")]
        tags = {post["Id"]: re.findall(r"[^<>|]+", post.get("Tags", "")) for post in posts}
        for post in posts:
            user, question = int(post.get("OwnerUserId", -1)), post["PostTypeId"] == "1"
            if user < 0 or post["PostTypeId"] not in ("1", "2"):
                continue
            text = _Plain(post.get("Body", "")).text()
            if text:
                whole = f"{post['Title'] if question else ''}\n{text}"
                theirs = tags.get(post["Id"] if question else post["ParentId"], [])
                entry = (post["CreationDate"][:10], int(post["Id"]), whole, theirs)
                users.setdefault(f"{site}/{user}", []).append(entry)

    def texts() -> Iterator[npy.Text]:
        for user in sorted(users):
            posts = sorted(users[user], key=lambda post: post[:2])
            splits = _ends(len(posts), len(posts) - len(posts) // 5)
            for split, (_, _, text, theirs) in zip(splits, posts, strict=True):
                yield split, user, text.encode(), theirs

    return npy.text_arrays("stackexchange", texts())


def tweets(contents: Contents) -> Made:
    """Negative and positive tweets about airlines, of users with at least five of them.

    Users are numbered in the order of their first tweet, after the users of another table, which
    has only that use. A user's last fifth, at least one, tests.
    """
    table = _only(contents["numbers"]).decode("utf-8", "replace").splitlines()[1:]
    names = dict.fromkeys(("", line.split(";", 6)[5]) for line in table)
    codes = {name: code for code, name in enumerate(names)}
    users: dict[str, list[tuple[str, int]]] = {}
    lines = io.StringIO(_only(contents["airlines"]).decode("utf-8", "replace"), newline="")
    for row in csv.DictReader(lines):
        code = codes.setdefault(("airline", row["name"]), len(codes))
        if row["airline_sentiment"] != "neutral":
            entry = row["text"], int(row["airline_sentiment"] == "positive")
            users.setdefault(str(code), []).append(entry)

    def texts() -> Iterator[npy.Text]:
        for user in sorted(users, key=int):
            theirs = users[user]
            if len(theirs) < 5:
                continue
            splits = _ends(len(theirs), len(theirs) - max(1, len(theirs) // 5))
            for split, (text, label) in zip(splits, theirs, strict=True):
                yield split, f"user{user}", text.encode(), label

    return npy.text_arrays("tweets", texts())


def ag_news(contents: Contents) -> Made:
    """The official test file: label from 1, title, description. The first 6,000 rows train."""
    lines = io.StringIO(_only(contents["articles"]).decode(), newline="")
    rows = list(csv.reader(lines))
    entries = (
        (split, "all", f"{title}. {text}".encode(), int(label) - 1)
        for split, (label, title, text) in zip(_ends(len(rows), 6000), rows, strict=True)
    )
    return npy.text_arrays("ag_news", entries)


# By edition.
CONVERSIONS: dict[str, Callable[[Contents], Made]] = {
    "femnist_105": femnist,
    "shakespeare_plays": shakespeare,
    "stackexchange": stackexchange,
    "tweets": tweets,
    "ag_news_test": ag_news,
    "mnist_writers": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100_png": cifar100,
}
