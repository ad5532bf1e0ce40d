"""Downloads: they resume, they are used only with the right SHA-256, and failures are one line."""

import hashlib
import socket

import numpy as np
import pytest

from fedlib.datasets import preparing
from fedlib.datasets.catalogue import SOURCES, File, source
from fedlib.errors import Error, Failure

CONTENT = np.random.default_rng(0).bytes(500_000)
OTHER = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])


@pytest.fixture(autouse=True)
def quick(site, monkeypatch):
    """A file to download, and no waiting between attempts."""
    site.files["/data.bin"] = CONTENT
    monkeypatch.setattr(preparing, "_WAIT", 0)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def wanted(*urls):
    return File("data.bin", urls, digest(CONTENT), len(CONTENT))


def fetch(file, folder):
    return preparing.fetch(file, folder, progress=False)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


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
    with pytest.raises(Failure, match=f"{words}.*--from"):
        fetch(file, tmp_path)
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
        with pytest.raises(Failure, match=words):
            fetch(file, tmp_path)
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
    words = f"{digest(OTHER)}, expected {digest(CONTENT)}: nothing was prepared"
    with pytest.raises(Failure, match=words):
        fetch(file, tmp_path)
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
            assert all(url.startswith("http") for url in file.urls) and file.size > 0
            assert len(bytes.fromhex(file.sha256)) == 32
    with pytest.raises(Error, match=r"'tweets' cannot be downloaded.*fedlib data import tweets"):
        source("tweets")
