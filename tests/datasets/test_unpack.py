"""Unpacking: what is wanted comes out, and nothing gets out of the folder or fills the disk."""

import bz2
import io
import tarfile
import zipfile

import pytest

from fedlib.datasets.unpack import unpack
from fedlib.errors import Error, Failure

FILES = {"set/a.bin": b"a" * 3_000_000, "set/deep/b.txt": b"bee", "readme.txt": b"read me"}


def tar(path, files=FILES, links=()):
    """``links``: (name, kind, target) of members that are no files."""
    mode = {".bz2": "w:bz2", ".gz": "w:gz", ".tgz": "w:gz", ".xz": "w:xz"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("./set")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    return path


def zipped(path, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def out(tmp_path):
    """The folder to unpack to; beside it nothing may appear."""
    folder = tmp_path / "outer" / "out"
    folder.mkdir(parents=True)
    return folder


def everything(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.tar.bz2", "x.tar.xz", "x.zip"])
def test_everything_or_what_is_wanted(tmp_path, out, name):
    archive = (zipped if name.endswith(".zip") else tar)(tmp_path / name)
    files = unpack(archive, out)
    assert {key: path.relative_to(out).as_posix() for key, path in files.items()} == {
        "a.bin": "set/a.bin",
        "b.txt": "set/deep/b.txt",
        "readme.txt": "readme.txt",
    }
    assert {place: (out / place).read_bytes() for place in FILES} == FILES
    other = out / "other"
    other.mkdir()
    assert unpack(archive, other, ["b.txt", "not there"]) == {"b.txt": other / "set/deep/b.txt"}
    assert everything(other) == ["set/deep/b.txt"]


def test_several_compressed_pieces_are_one_file(tmp_path, out):
    data = tar(tmp_path / "plain.tar").read_bytes()
    pieces = [bz2.compress(data[i : i + 100_000]) for i in range(0, len(data), 100_000)]
    (tmp_path / "pieces.tar.bz2").write_bytes(b"".join(pieces))
    assert set(unpack(tmp_path / "pieces.tar.bz2", out)) == {"a.bin", "b.txt", "readme.txt"}


def refused(archive, out, words, **options):
    with pytest.raises(Failure, match=words) as caught:
        unpack(archive, out, **options)
    assert "\n" not in str(caught.value) and archive.name in str(caught.value)
    assert set(everything(out.parent)) <= {f"out/{place}" for place in FILES}


@pytest.mark.parametrize("name", ["../evil.txt", "set/../../evil.txt"])
def test_no_member_leaves_the_folder(tmp_path, out, name):
    files = {**FILES, name: b"evil"}
    # Also where only other members are wanted.
    for wanted in (None, ["a.bin"]):
        refused(tar(tmp_path / "x.tar.gz", files), out, "is refused: .*outside", wanted=wanted)
    unpack(zipped(tmp_path / "x.zip", files), out)
    assert everything(out.parent) == sorted(f"out/{p}" for p in (*FILES, name.replace("../", "")))


def test_absolute_paths_are_taken_as_relative_ones(tmp_path, out):
    evil = tmp_path / "evil.txt"
    for make, name in ((tar, "x.tar"), (zipped, "x.zip")):
        unpacked = unpack(make(tmp_path / name, {str(evil): b"evil"}), out)["evil.txt"]
        assert unpacked == out / evil.relative_to("/") and unpacked.read_bytes() == b"evil"
        assert not evil.exists()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../../x"),
        (tarfile.LNKTYPE, "../x"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_devices_and_links_to_elsewhere_are_refused(tmp_path, out, kind, target):
    archive = tar(tmp_path / "x.tar.bz2", links=[("set/odd", kind, target)])
    refused(archive, out, "is refused: 'set/odd'")


def test_a_bomb_is_stopped(tmp_path, out):
    words = "holds more than is allowed, at 'set/a.bin'"
    refused(tar(tmp_path / "x.tar.gz"), out, words, limit=2_999_999)
    refused(zipped(tmp_path / "x.zip"), out, words, limit=2_999_999)


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.zip"])
def test_damaged_archives(tmp_path, out, name):
    archive = (zipped if name == "x.zip" else tar)(tmp_path / name)
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (b"no archive at all", b"", whole[: len(whole) // 2], bytes(flipped)):
        archive.write_bytes(content)
        refused(archive, out, "damaged or cut off")


@pytest.mark.parametrize("name", ["x.tar", "x.zip"])
def test_a_python_without_the_data_filter_is_told(tmp_path, out, monkeypatch, name):
    archive = (zipped if name == "x.zip" else tar)(tmp_path / name)
    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.delattr(tarfile, "FilterError")
    refused(archive, out, r"cannot unpack x\..* safely: .*use Python 3\.11\.4 or later")


def test_a_full_disk_and_other_suffixes(tmp_path, out, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    refused(tar(tmp_path / "x.tar.gz"), out, "cannot unpack .*No space left on device")
    (tmp_path / "x.rar").write_bytes(b"x")
    with pytest.raises(Error, match=r"x\.rar is no archive by its name; allowed: \.tar, "):
        unpack(tmp_path / "x.rar", out)
