"""Preparing: files of the official formats become arrays; anything else leaves nothing behind."""

import gzip
import hashlib
import io
import shutil
import struct
import zipfile
from collections import namedtuple

import numpy as np
import pytest

from fedlib import datasets
from fedlib.datasets import preparing
from fedlib.datasets.catalogue import CATALOGUE, SOURCES
from fedlib.datasets.writers import WRITERS
from fedlib.errors import Error, Failure
from tests.datasets.conftest import holds, tarred

DRAW = np.random.default_rng(0)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


def prepare(name, root, **options):
    return datasets.prepare(name, root, **{"progress": False, **options})


def idx(array, zipped=True):
    """MNIST's format, written from its description."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    data = header + array.astype(np.uint8).tobytes()
    return gzip.compress(data, 1, mtime=0) if zipped else data


def mnist(train=500, test=7):
    images = {"train": DRAW.integers(0, 256, (train, 28, 28), dtype=np.uint8)}
    images["t10k"] = DRAW.integers(0, 256, (test, 28, 28), dtype=np.uint8)
    for part in images.values():
        part[:, [0, -1]] = part[:, :, [0, -1]] = 0
    labels = {part: np.arange(len(x)) % 10 for part, x in images.items()}
    files = {f"{part}-images-idx3-ubyte.gz": idx(x) for part, x in images.items()}
    files |= {f"{part}-labels-idx1-ubyte.gz": idx(y) for part, y in labels.items()}
    return files, images, labels


def zipped(files, folder=""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(folder + name, content)
    return out.getvalue()


def left(root):
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


# ------------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist(root, offer, tmp_path, name):
    files, images, labels = mnist()
    offered = offer(name, files)
    card = prepare(name, root)
    data = datasets.load(name, root)
    assert holds(data, train_x=images["train"], train_y=labels["train"])
    assert holds(data, test_x=images["t10k"], test_y=labels["t10k"])
    assert data.train_x.dtype == np.uint8 and data.train_y.dtype == np.int64
    assert not data.stand_in and data.polarity == "ink_bright" and len(data.classes) == 10
    assert card["counts"] == {"train": 500, "test": 7}
    assert datasets.verify(name, root) == card
    assert card["licence"] == CATALOGUE[name].licence and card["source"] == CATALOGUE[name].source
    (first, *_) = card["files"]
    content = files["train-images-idx3-ubyte.gz"]
    assert first["url"] == offered.files[0].urls[0]
    assert first["sha256"] == hashlib.sha256(content).hexdigest()
    # The files are kept, so the next time needs no network.
    assert left(root / "raw") == sorted(f"{name}/{file}" for file in files)
    shutil.rmtree(tmp_path / "offered")
    assert prepare(name, root, overwrite=True)["fingerprint"] == card["fingerprint"]
    # The same values, imported, have the same fingerprint.
    arrays = {"train_x": images["train"], "test_x": images["t10k"]}
    np.savez(tmp_path / "x.npz", **arrays, train_y=labels["train"], test_y=labels["t10k"])
    imported = datasets.import_file(name, tmp_path / "x.npz", tmp_path / "second")
    assert imported["fingerprint"] == card["fingerprint"]


def test_emnist_byclass_is_turned_upright(root, offer):
    train = DRAW.integers(0, 256, (90, 28, 28), dtype=np.uint8)
    labels = np.arange(90) % 62
    content = {"emnist-letters-train-images-idx3-ubyte.gz": b"not wanted"}
    for split, count in (("train", 90), ("test", 9)):
        content[f"emnist-byclass-{split}-images-idx3-ubyte.gz"] = idx(train[:count])
        content[f"emnist-byclass-{split}-labels-idx1-ubyte.gz"] = idx(labels[:count])
    offer("emnist_byclass", {"gzip.zip": zipped(content, "gzip/")})
    prepare("emnist_byclass", root)
    data = datasets.load("emnist_byclass", root)
    # The published files hold the columns of an image one after the other.
    upright = np.swapaxes(train, 1, 2)
    assert holds(data, train_x=upright, train_y=labels, test_x=upright[:9])
    assert data.classes[36] == "a"
    assert left(root / "raw") == ["emnist_byclass/gzip.zip"]


def cifar(count, labels):
    """Images [N, 32, 32, 3] and the bytes of their records."""
    images = DRAW.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    records = b"".join(
        bytes(row[i] for row in labels) + image[..., 0].tobytes() + image[..., 1].tobytes()
        + image[..., 2].tobytes()
        for i, image in enumerate(images)
    )  # fmt: skip
    return images, records


def test_cifar10(root, offer):
    labels = [[(i + part) % 10 for i in range(4)] for part in range(6)]
    parts = [cifar(4, [row]) for row in labels]
    names = "\n".join(CATALOGUE["cifar10"].classes) + "\n\n"
    content = {f"data_batch_{i + 1}.bin": parts[i][1] for i in range(5)}
    content |= {"test_batch.bin": parts[5][1], "batches.meta.txt": names.encode()}
    offer("cifar10", {"cifar-10-binary.tar.gz": tarred(content, "cifar-10-batches-bin/")})
    card = prepare("cifar10", root)
    data = datasets.load("cifar10", root)
    train = np.concatenate([images for images, _ in parts[:5]])
    assert holds(data, train_x=train, train_y=np.ravel(labels[:5]))
    assert holds(data, test_x=parts[5][0], test_y=labels[5])
    assert data.classes == CATALOGUE["cifar10"].classes and card["polarity"] is None
    assert left(root / "raw") == ["cifar10/cifar-10-binary.tar.gz"]


def test_cifar100(root, offer):
    fine, coarse = list(range(0, 100, 5)), list(range(20))
    (train_x, train), (test_x, test) = cifar(20, [coarse, fine]), cifar(3, [coarse, fine])
    content = {"train.bin": train, "test.bin": test}
    for kind, count in (("fine", 100), ("coarse", 20)):
        names = "".join(f"{kind}{i}\n" for i in range(count))
        content[f"{kind}_label_names.txt"] = names.encode()
    offer("cifar100", {"cifar-100-binary.tar.gz": tarred(content, "cifar-100-binary/")})
    card = prepare("cifar100", root)
    data = datasets.load("cifar100", root)
    assert holds(data, train_x=train_x, train_y=fine, train_coarse=coarse)
    assert holds(data, test_x=test_x, test_y=fine[:3], test_coarse=coarse[:3])
    assert data.classes[95] == "fine95" and card["coarse_classes"][19] == "coarse19"


NEWS = {
    "train": '"3","Oil, up ""again""","Prices\\rise - and ""fall"", says Émile"\n'
    '"1","World","Peace"\n',
    "test": '"4","Chips","Faster.\nSmaller."\n',
}


def test_ag_news(root, offer):
    offer("ag_news", {f"{split}.csv": text.encode() for split, text in NEWS.items()})
    card = prepare("ag_news", root)
    data = datasets.load_text("ag_news", root)
    texts = [data.text("train", i) for i in range(2)]
    assert texts == ['Oil, up "again" Prices\\rise - and "fall", says Émile', "World Peace"]
    assert data.text("test", 0) == "Chips Faster.\nSmaller."
    assert data.labels("train").tolist() == [2, 0] and data.labels("test").tolist() == [3]
    assert data.clients == ("all",) and data.client("train").tolist() == [0, 0]
    assert card["counts"] == {"train": 2, "test": 1, "train_clients": 1, "test_clients": 1}
    assert datasets.verify("ag_news", root) and left(root / "raw")


def test_dbpedia_is_the_abstract_alone(root, offer):
    content = {
        "train.csv": b'14,"E. D. Abbott Ltd"," Abbott of Farnham is a ""coachbuilder""."\n' * 50,
        "test.csv": b'1,"T"," x"\n',
        "classes.txt": b"Company\n",
    }
    offer("dbpedia", {"dbpedia_csv.tgz": tarred(content, "dbpedia_csv/")})
    prepare("dbpedia", root)
    data = datasets.load_text("dbpedia", root)
    assert data.size("train") == 50 and data.labels("train").tolist() == [13] * 50
    assert data.text("train", 49) == 'Abbott of Farnham is a "coachbuilder".'
    assert data.text("test", 0) == "x" and data.classes[13] == "WrittenWork"


def tweets(sizes):
    """Sent140's csv: all negative tweets, then all positive ones; ``sizes`` by user."""
    rows = []
    for polarity in ("0", "4"):
        for user, size in sizes.items():
            for i in range(size):
                if (i % 3 == 0) == (polarity == "4"):
                    rows.append(f'"{polarity}","1","Mon","NO_QUERY","{user}","tweet {i} & caf\xe9"')
    train = "".join(f"{row}\n" for row in rows).encode("latin-1")
    files = {"training.1600000.processed.noemoticon.csv": train}
    files["testdata.manual.2009.06.14.csv"] = b"other"
    return {"trainingandtestdata.zip": zipped(files)}


def by_user(root):
    data = datasets.load_text("sent140", root)
    tweets_of = {}
    for split in ("train", "test"):
        for i, client in enumerate(data.client(split)):
            tweet = (data.text(split, i), int(data.labels(split)[i]))
            tweets_of.setdefault((data.clients[client], split), []).append(tweet)
    return tweets_of


def test_sent140_by_user(root, offer):
    sizes = {"zoe": 40, "Ann": 35, "bob": 29, "cy": 3}
    offer("sent140", tweets(sizes))
    card = prepare("sent140", root)
    tweets_of = by_user(root)
    assert {user for user, _ in tweets_of} == {"zoe", "Ann"}
    assert datasets.load_text("sent140", root).clients == ("Ann", "zoe")
    for user, train in (("zoe", 32), ("Ann", 28)):
        assert len(tweets_of[user, "train"]) == train
        both = sorted(tweets_of[user, "train"] + tweets_of[user, "test"])
        expected = [(f"tweet {i} & café", int(i % 3 == 0)) for i in range(sizes[user])]
        assert both == sorted(expected)
    assert card["options"] == {"min_tweets": 30, "train_fraction": 0.8}
    # The draw of a user does not depend on who else is there.
    offer("sent140", tweets({**sizes, "cy": 30}))
    shutil.rmtree(root)
    prepare("sent140", root)
    more = by_user(root)
    assert len(more) == 6 and {key: more[key] for key in tweets_of} == tweets_of
    assert (len(more["cy", "train"]), len(more["cy", "test"])) == (24, 6)


def test_every_source_is_whole_and_has_a_reader_and_an_entry():
    assert set(SOURCES) == set(WRITERS) <= set(CATALOGUE)
    for chosen in SOURCES.values():
        assert chosen.files and chosen.prepared > 0 and chosen.hash_from
        assert bool(chosen.members) == bool(chosen.unpacked)
        for file in chosen.files:
            assert all(url.startswith("http") for url in file.urls) and file.size > 0
            assert len(bytes.fromhex(file.sha256)) == 32


# ------------------------------------------------------------------------------- what is refused


def refused(kind, words, name, root, **options):
    before = left(root / "prepared")
    with pytest.raises(kind, match=words):
        prepare(name, root, **options)
    assert left(root / "prepared") == before and not (root.parent / "evil").exists()
    assert not list(root.rglob("unpacked")) and not list(root.rglob("*.npy"))


def test_files_from_a_folder(root, offer, tmp_path):
    files, images, _ = mnist(20)
    offer("mnist", files)
    shutil.rmtree(tmp_path / "offered")
    given = tmp_path / "given"
    refused(Error, "there is no folder", "mnist", root, from_folder=given)
    given.mkdir()
    for name, content in list(files.items())[:-1]:
        (given / name).write_bytes(content)
    refused(Failure, "there is no t10k-labels-idx1-ubyte.gz in", "mnist", root, from_folder=given)
    assert not left(root)
    last = given / "t10k-labels-idx1-ubyte.gz"
    last.write_bytes(b"other")
    refused(Failure, "nothing was prepared", "mnist", root, from_folder=given)
    last.write_bytes(files[last.name])
    prepare("mnist", root, from_folder=given)
    assert (datasets.load("mnist", root).train_x == images["train"]).all()
    assert sorted(path.name for path in given.iterdir()) == sorted(files)
    assert not left(root / "raw")


def test_a_full_disk_is_told_before_anything_is_done(root, offer, monkeypatch):
    files, *_ = mnist(20)
    small = offer("mnist", files)
    usage = namedtuple("usage", "total used free")(10, 0, 10)
    monkeypatch.setattr(preparing.shutil, "disk_usage", lambda path: usage)
    size = sum(file.size for file in small.files)
    words = rf"not enough space .* {(size + 2000) / 1e6:,.1f} MB needed .* 0\.0 MB free"
    refused(Failure, words, "mnist", root)
    assert not left(root)


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TWO, TEN = idx(np.zeros((2, 28, 28))), idx(np.array([1, 10, 2]))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("mnist", {IMAGES: b"no gzip"}, "files of 'mnist' are not as"),
        ("mnist", {IMAGES: TWO}, r"mnist: images are \(2, 28, 28\), and there are 3 labels"),
        ("mnist", {LABELS: TEN}, f"{LABELS}: values from 1 to 10 .allowed: 0 to 9"),
        ("cifar10", {"data_batch_3.bin": None}, "there is no data_batch_3"),
        ("cifar10", {"test_batch.bin": b"\n" + bytes(3072)}, "test, y: values from 10 to 10"),
        ("cifar10", {"test_batch.bin": bytes(3072)}, "'cifar10' are not as fedlib .* ValueError"),
        ("cifar10", {"../../../../evil": b"x"}, "cifar-10-binary.tar.gz cannot be unpacked: "),
        ("cifar10", {None: b"x"}, "cifar-10-binary.tar.gz cannot be unpacked: "),
        ("ag_news", {"train.csv": b'"5","a","b"\n'}, "files of 'ag_news' are not as fedlib"),
        ("ag_news", {"train.csv": b""}, "the train split has no texts"),
    ],
)
def test_files_in_another_format(root, offer, name, changes, words):
    """Their SHA-256 would have to be the official one, or fedlib's idea of them wrong."""
    content = {f"data_batch_{i}.bin": bytes(3073) for i in range(1, 6)}
    content |= {"test_batch.bin": bytes(3073), "batches.meta.txt": b"x\n" * 10}
    content = mnist(3)[0] if name == "mnist" else content
    if name == "ag_news":
        content = {f"{split}.csv": text.encode() for split, text in NEWS.items()}
    content |= changes
    damaged = content.pop(None, None)
    content = {file: data for file, data in content.items() if data is not None}
    if name == "cifar10":
        whole = tarred(content)
        content = {"cifar-10-binary.tar.gz": whole[: len(whole) // 2] if damaged else whole}
    offer(name, content)
    refused(Error, words, name, root)
