"""Importing .npz: what is stored is what was given, and bad files leave nothing behind."""

import struct
import zipfile

import numpy as np
import pytest

from fedlib import datasets
from tests.datasets.conftest import holds, not_imported


def good(**changes):
    """A hand-made file: 6 training and 4 test images of 3x2."""
    arrays = {
        "train_x": np.arange(36, dtype=np.uint8).reshape(6, 3, 2),
        "train_y": np.array([0, 1, 2, 0, 1, 2]),
        "test_x": np.arange(24, dtype=np.uint8).reshape(4, 3, 2),
        "test_y": np.array([2, 1, 0, 2]),
        **changes,
    }
    return {key: value for key, value in arrays.items() if value is not None}


def write(folder, **changes):
    path = folder / "own.npz"
    np.savez(path, **good(**changes))
    return path


def test_round_trip_with_every_optional_array(tmp_path):
    extra = {
        "train_client": np.array([5, 5, 7, 7, 9, 9]),
        "test_client": np.array([5, 7, 9, 9], dtype=np.uint16),
        "train_coarse": np.array([0, 0, 1, 0, 0, 1]),
        "test_coarse": np.array([1, 0, 0, 1]),
        "classes": np.array(["a", "b", "c"]),
    }
    card = datasets.import_file("own-data_1", write(tmp_path, **extra), tmp_path / "root")
    data = datasets.load("own-data_1", tmp_path / "root")
    assert holds(data, **{**good(), **extra})
    assert data.train_y.dtype == data.test_client.dtype == np.int64
    assert isinstance(data.train_x, np.memmap) and not data.train_x.flags.writeable
    assert not data.stand_in and data.polarity is None
    assert card["counts"] == {"train": 6, "test": 4, "train_clients": 3, "test_clients": 3}
    assert data.fingerprint == card["fingerprint"]
    assert card["file"] == "own.npz" and card["format"] == 1


IMAGES, FLAGS = good()["train_x"], np.ones((6, 3, 2), dtype=bool)


@pytest.mark.parametrize(
    ("train", "test", "dtype"),
    [
        (np.linspace(0, 1, 36).reshape(6, 3, 2), np.zeros((4, 3, 2)), np.float32),
        (IMAGES.astype(int), np.full((4, 3, 2), 255, dtype=np.int16), np.uint8),
        (np.ones((6, 3, 2), dtype=">f4"), np.ones((4, 3, 2), dtype="<f2"), np.float32),
        (np.asfortranarray(IMAGES), np.asfortranarray(IMAGES[:4]), np.uint8),
        (FLAGS, ~FLAGS[:4], np.uint8),
        (np.ones((6, 9), dtype=np.float32), np.ones((4, 9), dtype=np.float32), np.float32),
    ],
    ids=["f64", "i64", "big-endian", "column-major", "bool", "table"],
)
def test_conversions(tmp_path, train, test, dtype):
    datasets.import_file("own", write(tmp_path, train_x=train, test_x=test), tmp_path)
    data = datasets.verify("own", tmp_path) and datasets.load("own", tmp_path)
    assert data.train_x.dtype == data.test_x.dtype == dtype
    assert data.train_x.flags.c_contiguous
    assert (data.train_x == train.astype(dtype)).all()
    assert (data.test_x == test.astype(dtype)).all()


WORDS = {"train_y": np.array([*"aaaaab"]), "test_y": np.array([*"aaaa"])}
REFUSED = [
    ({"test_y": None}, "lacks test_y"),
    ({"train_y": np.array([0, 1])}, "train_y has 2 entries, but train_x has 6"),
    ({"train_x": np.zeros(6, dtype=np.uint8)}, "train_x has 1 dimensions; needed: 2 to 4"),
    ({"train_y": np.array([None] * 6)}, r"'train_y' .* holds Python objects.*array.astype\(str\)"),
    ({"train_x": np.full((6, 3, 2), np.nan), "test_x": np.zeros((4, 3, 2))}, "train_x has values"),
    ({"train_x": np.ones((6, 3, 2)), "test_x": np.full((4, 3, 2), 1e300)}, "test_x has values"),
    ({"train_y": np.array([0, 1, 2, 0, 1, -2])}, "train_y has integers from -2 to 2; allowed: 0 "),
    ({"train_y": np.array([0.0, 1, 2, 0, 1, 2])}, "train_y is float64; needed: integers"),
    ({"train_coarse": np.array([*"ababab"])}, "train_coarse is <U1; needed: integers$"),
    ({"train_y": np.full(6, 2**63, dtype=np.uint64)}, "integers from 9223372036854775808 to"),
    ({"test_x": np.zeros((4, 2, 3), dtype=np.uint8)}, r"train_x, but uint8 \(2, 3\)"),
    ({"train_x": np.full((6, 3, 2), 256)}, "integers from 256 to 256"),
    ({"train_x": np.zeros((6, 3, 2), dtype=complex)}, "train_x is complex128"),
    ({"test_x": np.zeros((0, 3, 2), np.uint8), "test_y": np.zeros(0, int)}, "test_x is empty"),
    ({"classes": np.array(["a", "b"])}, "has label 2, but classes names only 2"),
    ({"classes": np.array([1, 2, 3])}, "classes must be"),
    ({**WORDS, "classes": np.array(["a"])}, "unknown label 'b'"),
    ({"train_clients": np.zeros(6, dtype=int)}, "'train_clients': did you mean 'train_client'"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_bad_arrays_are_refused_whole(tmp_path, changes, words):
    not_imported(words, write(tmp_path, **changes))


def header(text):
    """A .npy file with any header at all."""
    encoded = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded + b"\0" * 64


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 4), }\n"
CODE, BRACKETS = "__import__('os').abort()", "(" * 60_000
ODD = [b"", *map(header, (CODE, BRACKETS, HUGE))]


@pytest.mark.parametrize("content", ODD, ids=["empty", "code", "brackets", "huge"])
def test_members_that_are_no_arrays_are_refused(tmp_path, content):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(write(tmp_path)) as whole, zipfile.ZipFile(path, "w") as archive:
        for member in whole.namelist():
            archive.writestr(member, content if member == "test_y.npy" else whole.read(member))
    not_imported(r"odd\.npz: .*test_y", path)


def test_a_known_name_has_a_known_format(tmp_path):
    path = write(tmp_path)
    not_imported(r"shape \(3, 2\), but MNIST has \(28, 28\)", path, "mnist")
    not_imported(r"'shakespeare' is imported from a \.jsonl", path, "shakespeare")
    images = np.zeros((6, 28, 28), dtype=np.uint8)
    path = write(tmp_path, train_x=images, test_x=images[:4], test_y=np.array([0, 1, 10, 2]))
    not_imported("test_y has label 10, but MNIST has labels 0 to 9", path, "mnist")


@pytest.mark.parametrize(
    ("paper", "ink", "polarity"), [(0, 255, "ink_bright"), (1.0, 0.0, "ink_dark")]
)
def test_polarity_is_measured(tmp_path, paper, ink, polarity):
    images = np.full((6, 28, 28), paper, dtype=np.uint8 if paper == 0 else np.float32)
    images[:, 8:20, 8:20] = ink
    path = write(tmp_path, train_x=images, test_x=images[:4])
    datasets.import_file("emnist", path, tmp_path)
    data = datasets.load("emnist", tmp_path)
    assert data.polarity == polarity
    assert len(data.classes) == 62 and data.classes[10] == "A"


def test_names_that_could_not_be_folders_are_refused(tmp_path):
    for name in ("", "A", "a b", "../up", "a/b", ".hidden", "x" * 65):
        not_imported("cannot name a data set", write(tmp_path), name)
    path = tmp_path / "no.npz"
    not_imported("there is no file", path)
    path.touch()
    not_imported(r"not a \.npz file, or is cut off", path)  # how else: tests/faults/test_damaged.py
