"""Where ``fedlib data prepare`` gets each data set: official addresses, SHA-256, sizes."""

from __future__ import annotations

from dataclasses import dataclass

from fedlib.errors import Error

# Where a SHA-256 was read; data/README.md says which of the files have been seen.
_TFF = "TensorFlow Federated's source"
_TFDS = "the check sums of TensorFlow Datasets"
_HUB = "the check sums of the Hugging Face datasets"

_MEGA, _GIGA = 10**6, 10**9


@dataclass(frozen=True)
class File:
    """A file to download.

    Attributes:
        name: what it is called on disk.
        urls: addresses of the same bytes, tried in this order.
        sha256: of the file, hexadecimal.
        size: in bytes.
        exact: whether that size was published; else it is rough, for the check of free space only.
        hash_from: where ``sha256`` was read.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int
    exact: bool = True
    hash_from: str = ""


@dataclass(frozen=True)
class Source:
    """The files of a data set.

    Attributes:
        files: to download.
        members: which files of the archives are needed, by name without folders; empty if the files
            are read as they are.
        unpacked: bytes of those members; rough for TFF's.
        prepared: bytes of the arrays made from them; rough likewise.
        origin: one line for the card where the catalogue speaks of more than this copy.
    """

    files: tuple[File, ...]
    members: tuple[str, ...] = ()
    unpacked: int = 0
    prepared: int = 0
    origin: str = ""


def source(name: str) -> Source:
    """The source of a data set; Error if it cannot be downloaded."""
    if name not in SOURCES:
        raise Error(
            f"{name!r} cannot be downloaded; import a copy with 'fedlib data import {name} FILE' "
            f"(see data/README.md). Can be downloaded: {', '.join(sorted(SOURCES))}"
        )
    return SOURCES[name]


def _plain(
    folders: tuple[str, ...],
    whose: str,
    prepared: int,
    sizes: dict[str, int],
    hashes: tuple[str, ...],
) -> Source:
    """Files that are read as they are: bytes by name, and in the same order their SHA-256."""
    return Source(
        tuple(
            File(name, tuple(folder + name for folder in folders), sha256, size, hash_from=whose)
            for (name, size), sha256 in zip(sizes.items(), hashes, strict=True)
        ),
        prepared=prepared,
    )


def _archive(
    urls: tuple[str, ...],
    size: int,
    sha256: str,
    whose: str,
    members: tuple[str, ...],
    unpacked: int,
    prepared: int,
) -> Source:
    """One archive with the files that are needed."""
    name = urls[0].rpartition("/")[2]
    return Source((File(name, urls, sha256, size, hash_from=whose),), members, unpacked, prepared)


_EMNIST = "TensorFlow Federated's EMNIST by writer, derived from NIST Special Database 19"
_SHAKESPEARE = "TensorFlow Federated's Shakespeare by role, after LEAF (Caldas et al. 2018)"


def _hdf5(name: str, sha256: str, about: int) -> File:
    """An archive of TensorFlow Federated; its size is an estimate."""
    file = f"{name}.tar.bz2"
    folders = (
        "https://storage.googleapis.com/tff-datasets-public/",
        "https://fedml.s3-us-west-1.amazonaws.com/",
    )
    urls = tuple(folder + file for folder in folders)
    return File(file, urls, sha256, about, exact=False, hash_from=_TFF)


def _federated(
    name: str, sha256: str, about: int, unpacked: int, prepared: int, origin: str = ""
) -> Source:
    """One archive with an HDF5 file of training and one of test clients."""
    members = (f"{name}_train.h5", f"{name}_test.h5")
    return Source((_hdf5(name, sha256, about),), members, unpacked, prepared, origin)


SOURCES: dict[str, Source] = {
    "mnist": _plain(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        _TFDS,
        70_000 * (28 * 28 + 8),
        {
            "train-images-idx3-ubyte.gz": 9_912_422,
            "train-labels-idx1-ubyte.gz": 28_881,
            "t10k-images-idx3-ubyte.gz": 1_648_877,
            "t10k-labels-idx1-ubyte.gz": 4_542,
        },
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion_mnist": _plain(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        _TFDS,
        70_000 * (28 * 28 + 8),
        {
            "train-images-idx3-ubyte.gz": 26_421_880,
            "train-labels-idx1-ubyte.gz": 29_515,
            "t10k-images-idx3-ubyte.gz": 4_422_102,
            "t10k-labels-idx1-ubyte.gz": 5_148,
        },
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "emnist_byclass": _archive(
        ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
        561_753_746,
        "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
        _TFDS,
        members=tuple(
            f"emnist-byclass-{split}-{kind}-ubyte.gz"
            for split in ("train", "test")
            for kind in ("images-idx3", "labels-idx1")
        ),
        unpacked=250 * _MEGA,
        prepared=(697_932 + 116_323) * (28 * 28 + 8),
    ),
    # The binary version: nothing in it has to be unpickled, and it is read by one line of NumPy.
    "cifar10": _archive(
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        _TFDS,
        members=(
            *(f"data_batch_{i}.bin" for i in range(1, 6)),
            *("test_batch.bin", "batches.meta.txt"),
        ),
        unpacked=60_000 * (3072 + 1),
        prepared=60_000 * (3072 + 8),
    ),
    "cifar100": _archive(
        ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
        168_513_733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        _TFDS,
        members=("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"),
        unpacked=60_000 * (3072 + 2),
        prepared=60_000 * (3072 + 16),
    ),
    "ag_news": _plain(
        ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",),
        _HUB,
        35 * _MEGA,
        {"train.csv": 29_470_338, "test.csv": 1_857_427},
        (
            "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
            "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
        ),
    ),
    "dbpedia": _archive(
        ("https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz",),
        68_341_743,
        "42db5221ddedddb673a4cabcc5f3a7d869714c878bcfe4ba94b29d14aa38e417",
        _HUB,
        members=("train.csv", "test.csv"),
        unpacked=200 * _MEGA,
        prepared=215 * _MEGA,
    ),
    "sent140": _archive(
        (
            "https://cs.stanford.edu/people/alecmgo/trainingandtestdata.zip",
            "http://cs.stanford.edu/people/alecmgo/trainingandtestdata.zip",
        ),
        81_363_704,
        "004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57",
        _TFDS,
        members=("training.1600000.processed.noemoticon.csv",),
        unpacked=240 * _MEGA,
        prepared=170 * _MEGA,
    ),
    "emnist": _federated(
        "fed_emnist",
        "fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0",
        300 * _MEGA,
        unpacked=3 * _GIGA,
        prepared=749_068 * (28 * 28 * 4 + 16),
        origin=_EMNIST,
    ),
    "emnist_digits": _federated(
        "fed_emnist_digitsonly",
        "55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b",
        150 * _MEGA,
        unpacked=2 * _GIGA,
        prepared=382_705 * (28 * 28 * 4 + 16),
        origin=_EMNIST,
    ),
    "fed_cifar100": _federated(
        "fed_cifar100",
        "e8575e22c038ecef1ce6c7d492d7abee7da13b1e1ba9b70a7fc18531ba7590de",
        200 * _MEGA,
        unpacked=_GIGA,
        prepared=60_000 * (3072 + 24),
    ),
    "shakespeare": _federated(
        "shakespeare",
        "0285be9906cb5f268092eee4edeeacfc2af4574f2941f7cc2f08a321d7f5c707",
        2 * _MEGA,
        unpacked=20 * _MEGA,
        prepared=10 * _MEGA,
        origin=_SHAKESPEARE,
    ),
    "stackoverflow": Source(
        files=(
            _hdf5(
                "stackoverflow",
                "99eca2f8b8327a09e5fc123979df2d237acbc5e52322f6d86bf523ee47b961a2",
                10 * _GIGA,
            ),
            _hdf5(
                "stackoverflow.word_count",
                "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
                100 * _MEGA,
            ),
            _hdf5(
                "stackoverflow.tag_count",
                "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d",
                _MEGA,
            ),
        ),
        members=(
            *("stackoverflow_train.h5", "stackoverflow_held_out.h5", "stackoverflow_test.h5"),
            *("stackoverflow.word_count", "stackoverflow.tag_count"),
        ),
        unpacked=60 * _GIGA,
        prepared=20 * _GIGA,
    ),
}
