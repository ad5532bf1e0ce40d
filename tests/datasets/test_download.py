"""Downloads: they resume, they are used only with the right SHA-256, and failures are one line;
archives unpack in their folder or not at all."""

import hashlib
import io
import socket
import tarfile
import zipfile

import numpy as np
import pytest

from fedlib.datasets import download
from fedlib.datasets.sources import SOURCES, File, source
from fedlib.errors import Error, Failure

CONTENT = np.random.default_rng(0).bytes(500_000)
OTHER = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])


@pytest.fixture(autouse=True)
def quick(site, monkeypatch):
    """A file to download, and no waiting between attempts."""
    site.files["/data.bin"] = CONTENT
    monkeypatch.setattr(download, "_WAIT", 0)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def wanted(*urls):
    return File("data.bin", urls, digest(CONTENT), len(CONTENT))


def fetch(file, folder, **options):
    return download.fetch(file, folder, progress=False, **options)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(kind, words, file, folder, **options):
    with pytest.raises(kind, match=words) as caught:
        fetch(file, folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_download_is_the_file_and_is_not_asked_for_twice(site, tmp_path):
    file = wanted(f"{site.url}/data.bin")
    path = fetch(file, tmp_path)
    assert path == tmp_path / "data.bin" and path.read_bytes() == CONTENT
    assert fetch(file, tmp_path) == path
    assert site.asked == [("/data.bin", None)] and left(tmp_path) == ["data.bin"]
    path.unlink()
    there = tmp_path / "a b.bin"
    there.write_bytes(CONTENT)
    assert fetch(wanted(there.as_uri()), tmp_path).read_bytes() == CONTENT


def test_a_broken_download_goes_on_where_it_stopped(site, tmp_path):
    file = wanted(f"{site.url}/data.bin")
    site.break_after, site.breaks = 120_000, 3
    words = "broke off after 360000 of 500000 bytes: 360000 bytes are kept and the next run goes on"
    assert "--from" in refused(Failure, words, file, tmp_path)
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    starts = [None, "bytes=120000-", "bytes=240000-", "bytes=360000-"]
    assert [start for _, start in site.asked] == starts and left(tmp_path) == ["data.bin"]
    # A server without Range begins again; nothing is left to ask of a whole part.
    (tmp_path / "data.bin").rename(tmp_path / "data.bin.part")
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    (tmp_path / "data.bin").unlink()
    site.ranges, site.breaks = False, 1
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_mirrors_are_used_and_every_address_that_fails_is_named(site, tmp_path):
    with socket.socket() as closed:  # Bound, but nobody listens.
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/data.bin"
        file = wanted(f"{site.url}/elsewhere.bin", nobody)
        words = rf"cannot download {site.url}/elsewhere.bin: .*404.*; {nobody}: .*refused.*--from"
        refused(Failure, words, file, tmp_path)
        assert left(tmp_path) == []
        mirrored = wanted(*file.urls, f"{site.url}/data.bin")
        assert fetch(mirrored, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("where", ["site", "part", "disk"])
def test_other_content_is_put_aside_and_never_used(site, tmp_path, where):
    file = wanted(f"{site.url}/data.bin")
    if where == "site":
        site.files["/data.bin"] = OTHER
    else:
        name = "data.bin.part" if where == "part" else "data.bin"
        (tmp_path / name).write_bytes(OTHER)
    text = refused(Failure, "nothing was prepared", file, tmp_path)
    assert digest(OTHER) in text and digest(CONTENT) in text
    assert left(tmp_path) == ["data.bin.wrong"]
    assert (tmp_path / "data.bin.wrong").read_bytes() == OTHER
    site.files["/data.bin"] = CONTENT
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_the_table_of_sources_is_whole():
    for name in SOURCES:
        chosen = source(name)
        assert chosen.files and chosen.prepared > 0 and chosen.hash_from
        assert bool(chosen.members) == bool(chosen.unpacked)
        for file in chosen.files:
            assert file.size > 0 and file.urls
            assert all(url.startswith("http") for url in file.urls)
            assert len(bytes.fromhex(file.sha256)) == 32
    with pytest.raises(Error, match=r"'tweets' cannot be downloaded.*fedlib data import tweets"):
        source("tweets")


# ------------------------------------------------------------------------------------- archives

FILES = {"set/a.bin": CONTENT, "set/b.txt": b"b", "readme.txt": b"read me"}


def packed(path, files, links=()):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    return path


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.bz2", "x.zip"])
def test_archives_unpack_whole_or_are_refused_in_a_line(tmp_path, name):
    out = tmp_path / "out"
    unpacked = download.unpack(packed(tmp_path / name, FILES), out)
    assert {path.relative_to(out).as_posix(): path.read_bytes() for path in unpacked.values()} == (
        FILES
    )
    whole = (tmp_path / name).read_bytes()
    for content in (b"no archive at all", whole[: len(whole) // 2]):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Failure, match=rf"^{name} cannot be unpacked: ") as caught:
            download.unpack(tmp_path / name, tmp_path / "other")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({"set/../../evil.txt": b"evil"}, ()),
        ({}, [("set/odd", tarfile.SYMTYPE, "/etc/passwd")]),
        ({}, [("set/odd", tarfile.CHRTYPE, "")]),
    ],
)
def test_nothing_leaves_the_folder(tmp_path, files, links):
    archive = packed(tmp_path / "x.tar.gz", FILES | files, links)
    with pytest.raises(Failure, match=r"x\.tar\.gz cannot be unpacked"):
        download.unpack(archive, tmp_path / "out")
    if files:
        download.unpack(packed(tmp_path / "x.zip", FILES | files), tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()
