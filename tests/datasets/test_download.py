"""Downloads: they are used only with the right SHA-256, and failures are one line."""

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
def offered(site):
    site.files["/data.bin"] = CONTENT


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
    assert site.asked == ["/data.bin"] and left(tmp_path) == ["data.bin"]
    path.unlink()
    there = tmp_path / "a b.bin"
    there.write_bytes(CONTENT)
    assert fetch(wanted(there.as_uri()), tmp_path).read_bytes() == CONTENT


def test_a_broken_download_leaves_nothing_and_a_mirror_is_asked(site, tmp_path):
    file = wanted(f"{site.url}/data.bin")
    site.break_after, site.breaks = 120_000, 2
    with pytest.raises(Failure, match=r"cannot download .*invalid hash value.*--from"):
        fetch(file, tmp_path)
    assert left(tmp_path) == []
    mirrored = wanted(*file.urls, f"{site.url}/data.bin")
    assert fetch(mirrored, tmp_path).read_bytes() == CONTENT and left(tmp_path) == ["data.bin"]


def test_mirrors_are_used_and_every_address_that_fails_is_named(site, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "SECONDS", 0.2)
    with socket.socket() as closed, socket.socket() as silent:  # One where nobody listens.
        addresses = []
        for server in (closed, silent):
            server.bind(("127.0.0.1", 0))
            addresses.append(f"http://127.0.0.1:{server.getsockname()[1]}/data.bin")
        silent.listen()  # It never answers.
        file = wanted(f"{site.url}/elsewhere.bin", *addresses)
        nobody, quiet = (f"; {address}: " for address in addresses)
        words = (
            rf"cannot download {site.url}/elsewhere.bin: .*404.*{nobody}.*refused.*{quiet}.*timed"
        )
        with pytest.raises(Failure, match=words):
            fetch(file, tmp_path)
        assert left(tmp_path) == []
        mirrored = wanted(*file.urls, f"{site.url}/data.bin")
        assert fetch(mirrored, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("where", ["site", "disk"])
def test_other_content_is_never_used(site, tmp_path, where):
    file = wanted(f"{site.url}/data.bin")
    if where == "site":
        site.files["/data.bin"] = OTHER
    else:
        (tmp_path / "data.bin").write_bytes(OTHER)
    with pytest.raises(Failure, match="nothing was prepared") as caught:
        fetch(file, tmp_path)
    assert digest(OTHER) in str(caught.value) and digest(CONTENT) in str(caught.value)
    (tmp_path / "data.bin").unlink(missing_ok=True)
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
