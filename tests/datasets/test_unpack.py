"""Unpacking: what is wanted comes out, and nothing gets out of the folder or fills the disk."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile

import pytest

from fedlib.datasets import unpack as module
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
        for name, content in files.items() if isinstance(files, dict) else files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    return path


def zipped(path, files=FILES, modes=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/", b"")
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            if modes and name in modes:
                info.external_attr = modes[name] << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
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
    found = unpack(archive, out)
    assert {key: path.relative_to(out).as_posix() for key, path in found.items()} == {
        "a.bin": "set/a.bin",
        "b.txt": "set/deep/b.txt",
        "readme.txt": "readme.txt",
    }
    assert {place: (out / place).read_bytes() for place in FILES} == FILES
    other = out / "other"
    other.mkdir()
    assert unpack(archive, other, ["b.txt", "not there"]) == {"b.txt": other / "set/deep/b.txt"}
    assert everything(other) == ["set/deep/b.txt"]


def test_single_compressed_files(tmp_path, out):
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"name.x{suffix}").write_bytes(pack(b"content"))
        found = unpack(tmp_path / f"name.x{suffix}", out)
        assert found == {"name.x": out / "name.x"} and (out / "name.x").read_bytes() == b"content"
        (out / "name.x").unlink()
    alone = lzma.compress(b"content", lzma.FORMAT_ALONE)  # What TFF's .lzma files are.
    for data in (alone, lzma.compress(b"content")):
        (tmp_path / "emnist.sqlite.lzma").write_bytes(data)
        unpack(tmp_path / "emnist.sqlite.lzma", out)["emnist.sqlite"].unlink()
    # Several compressed pieces one after the other are one file.
    (tmp_path / "pieces.tar.bz2").write_bytes(
        b"".join(
            bz2.compress(part) for part in split(tar(tmp_path / "plain.tar").read_bytes(), 100_000)
        )
    )
    assert set(unpack(tmp_path / "pieces.tar.bz2", out)) == {"a.bin", "b.txt", "readme.txt"}


def split(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def refused(archive, out, words, **options):
    with pytest.raises(Failure, match=words) as caught:
        unpack(archive, out, **options)
    assert "\n" not in str(caught.value) and archive.name in str(caught.value)
    assert everything(out.parent) == []


ESCAPES = [
    ("../evil.txt", "'../evil.txt' leaves the folder"),
    ("set/../../evil.txt", "leaves the folder"),
    ("/tmp/fedlib-evil.txt", "has an absolute path"),
    ("C:/evil.txt", "has an absolute path"),
    ("..\\evil.txt", "leaves the folder"),
    ("set\\evil.txt", "a name that is not allowed"),
]


@pytest.mark.parametrize(("name", "words"), ESCAPES)
def test_no_member_leaves_the_folder(tmp_path, out, name, words):
    files = {**FILES, name: b"evil"}
    refused(tar(tmp_path / "x.tar.gz", files), out, words)
    # Also where only other members are wanted.
    refused(tar(tmp_path / "x.tar.gz", files), out, words, wanted=["a.bin"])
    refused(zipped(tmp_path / "x.zip", files), out, words)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "a.bin"),
        (tarfile.LNKTYPE, "set/a.bin"),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_are_refused(tmp_path, out, kind, target):
    archive = tar(tmp_path / "x.tar.bz2", links=[("set/odd", kind, target)])
    refused(archive, out, "'set/odd' is a link or a device")


def test_links_in_a_zip_are_refused(tmp_path, out):
    modes = {"set/link": stat.S_IFLNK | 0o777, "readme.txt": stat.S_IFREG | 0o644}
    archive = zipped(tmp_path / "x.zip", {**FILES, "set/link": b"/etc/passwd"}, modes)
    refused(archive, out, "'set/link' is a link or a device")


def test_a_bomb_is_stopped(tmp_path, out):
    refused(tar(tmp_path / "x.tar.gz"), out, "holds more than is allowed", limit=2_999_999)
    refused(zipped(tmp_path / "x.zip"), out, "holds more than is allowed", limit=3_000_000)
    (tmp_path / "x.lzma").write_bytes(lzma.compress(bytes(10**7), lzma.FORMAT_ALONE))
    refused(tmp_path / "x.lzma", out, "holds more than is allowed", limit=10**6)


def test_names_that_occur_twice_are_refused(tmp_path, out):
    twice = [("set/a.bin", b"1"), ("other/a.bin", b"2")]
    refused(tar(tmp_path / "x.tar", twice), out, "holds 'a.bin' twice")
    refused(tar(tmp_path / "x.tar", [("set", b"1"), ("set/a", b"2")]), out, "as file and folder")


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.zip", "x.gz", "x.lzma"])
def test_damaged_archives(tmp_path, out, name):
    archive = tmp_path / name
    if name == "x.zip":
        zipped(archive)
    elif name.startswith("x.tar"):
        tar(archive)
    else:
        pack = gzip.compress if name == "x.gz" else lzma.compress
        archive.write_bytes(pack(bytes(range(256)) * 1000))
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (b"no archive at all", b"", whole[: len(whole) // 2], bytes(flipped)):
        archive.write_bytes(content)
        refused(archive, out, "damaged or cut off")


def test_an_encrypted_zip_is_refused(tmp_path, out):
    data = bytearray(zipped(tmp_path / "x.zip", {"a": b"content"}).read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(b"a", data.index(mark)) and data.rindex(mark)
        data[at + flags] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    refused(tmp_path / "x.zip", out, "encrypted", wanted=["a"])


def test_a_full_disk_leaves_nothing(tmp_path, out, monkeypatch):
    class Full(io.FileIO):
        def write(self, data):
            if self.tell() > 10**6:
                raise OSError(28, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(module, "open", lambda path, mode: Full(path, mode), raising=False)
    refused(tar(tmp_path / "x.tar.gz"), out, "cannot unpack .*No space left on device")


def test_other_suffixes(tmp_path, out):
    (tmp_path / "x.rar").write_bytes(b"x")
    with pytest.raises(Error, match=r"x\.rar is no archive by its name; allowed: \.tar, "):
        unpack(tmp_path / "x.rar", out)
