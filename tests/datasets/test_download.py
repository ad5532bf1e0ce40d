"""Downloads: they resume, they are used only with the right SHA-256, and failures are one line."""

import hashlib
import io
import socket
from collections import namedtuple

import numpy as np
import pytest

from fedlib.datasets import download
from fedlib.datasets.sources import SOURCES, File, source
from fedlib.errors import Error, Failure

CONTENT = np.random.default_rng(0).bytes(50_000)


@pytest.fixture(autouse=True)
def quick(site, monkeypatch):
    """A file to download in many small pieces, and no waiting between attempts."""
    site.files["/data.bin"] = CONTENT
    monkeypatch.setattr(download, "_WAIT", 0)
    monkeypatch.setattr(download, "_PIECE", 1000)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def wanted(site, *more, **changes):
    urls = (*more, f"{site.url}/data.bin") if site else more
    values = {"sha256": digest(CONTENT), "size": len(CONTENT), **changes}
    return File("data.bin", urls, **values)


def fetch(file, folder, **options):
    return download.fetch(file, folder, progress=False, **options)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(kind, words, file, folder, **options):
    with pytest.raises(kind, match=words) as caught:
        fetch(file, folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_download_is_the_file_and_is_not_asked_for_twice(site, tmp_path, length, known):
    site.length = length
    file = wanted(site) if known else wanted(site, exact=False, size=7)
    path = fetch(file, tmp_path)
    assert path == tmp_path / "data.bin" and path.read_bytes() == CONTENT
    assert fetch(file, tmp_path) == path
    assert site.asked == [("/data.bin", None)] and left(tmp_path) == ["data.bin"]


def test_a_broken_download_goes_on_where_it_stopped(site, tmp_path):
    site.break_after, site.breaks = 12_000, 3
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT
    starts = [None, "bytes=12000-", "bytes=24000-", "bytes=36000-"]
    assert [start for _, start in site.asked] == starts


def test_a_later_run_goes_on_with_what_an_earlier_one_left(site, tmp_path):
    site.break_after, site.breaks = 0, 99
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:20_000])
    words = "broke off.*20000 bytes are kept and the next run goes on from there"
    refused(Failure, words, wanted(site), tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:20_000]
    site.breaks = 0
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT
    assert site.asked[-1] == ("/data.bin", "bytes=20000-") and left(tmp_path) == ["data.bin"]


def test_a_server_that_always_breaks_at_the_same_place_is_given_up(site, tmp_path):
    site.ranges, site.break_after, site.breaks = False, 30_000, 10**6
    refused(Failure, "broke off", wanted(site), tmp_path)
    assert len(site.asked) == download._ATTEMPTS
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:30_000]
    # A server that once gets to the end is enough: without Range it begins again.
    site.asked.clear()
    (tmp_path / "data.bin.part").unlink()
    site.breaks = 1
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT and len(site.asked) == 2


def test_a_whole_part_is_checked_without_being_asked_for(site, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT
    assert site.asked == []
    (tmp_path / "data.bin").unlink()
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert fetch(wanted(site, exact=False), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("/data.bin", "bytes=50000-")]  # Answered 416: nothing left.


def test_a_part_that_is_too_long_is_thrown_away(site, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"x")
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("/data.bin", None)]


@pytest.mark.parametrize("status", [404, 403])
def test_a_refusal_is_not_asked_again_but_a_mirror_is_used(site, tmp_path, status):
    site.status = status
    words = rf"cannot download {site.url}/data.bin: the server answers {status}.*--from"
    refused(Failure, words, wanted(site), tmp_path)
    assert len(site.asked) == 1 and left(tmp_path) == []
    site.status = None
    file = wanted(site, f"{site.url}/elsewhere.bin")
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert [path for path, _ in site.asked[1:]] == ["/elsewhere.bin", "/data.bin"]


def test_an_overloaded_server_is_asked_again(site, tmp_path):
    site.status = 503
    refused(Failure, "the server answers 503", wanted(site), tmp_path)
    assert len(site.asked) == download._ATTEMPTS


def test_without_a_network_the_address_and_the_way_out_are_named(tmp_path):
    with socket.socket() as closed:  # Bound, but nobody listens.
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/data.bin"
        text = refused(Failure, "no connection", wanted(None, url), tmp_path)
    assert url in text and "--from" in text and left(tmp_path) == []


def test_a_name_that_is_not_known_is_not_asked_for_again(tmp_path, monkeypatch):
    asked = []

    def unknown_name(*_):
        asked.append(1)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown_name)
    file = wanted(None, "http://nowhere.invalid/data.bin")
    refused(Failure, "name is not known here", file, tmp_path)
    assert len(asked) == 1


@pytest.mark.parametrize("known", [True, False])
def test_other_content_is_put_aside_and_never_used(site, tmp_path, known):
    other = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    site.files["/data.bin"] = other
    file = wanted(site) if known else wanted(site, exact=False)
    text = refused(Failure, "nothing was prepared", file, tmp_path)
    assert digest(other) in text and digest(CONTENT) in text
    assert left(tmp_path) == ["data.bin.wrong"]
    assert (tmp_path / "data.bin.wrong").read_bytes() == other
    site.files["/data.bin"] = CONTENT
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_a_part_of_something_else_is_found_out_in_the_end(site, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"x" * 20_000)
    refused(Failure, "nothing was prepared", wanted(site), tmp_path)
    assert left(tmp_path) == ["data.bin.wrong"]


def test_a_file_of_another_size_is_not_even_downloaded(site, tmp_path):
    site.files["/data.bin"] = b"<html>Please log in</html>"
    refused(Failure, "it offers 26 bytes, the official file has 50000", wanted(site), tmp_path)
    assert left(tmp_path) == []


def test_a_file_that_was_altered_on_disk_is_put_aside(site, tmp_path):
    fetch(wanted(site), tmp_path).write_bytes(CONTENT[:-1])
    refused(Failure, "the next run downloads it", wanted(site), tmp_path)
    assert left(tmp_path) == ["data.bin.wrong"]


def test_files_from_a_folder_are_checked_and_stay_there(site, tmp_path):
    given, raw = tmp_path / "given", tmp_path / "raw"
    given.mkdir()
    raw.mkdir()
    words = f"there is no data.bin in {given}; it comes from {site.url}/data.bin"
    refused(Error, words, wanted(site), raw, from_folder=given)
    (given / "data.bin").write_bytes(CONTENT[1:])
    refused(Failure, digest(CONTENT[1:]), wanted(site), raw, from_folder=given)
    (given / "data.bin").write_bytes(CONTENT)
    assert fetch(wanted(site), raw, from_folder=given) == given / "data.bin"
    assert left(given) == ["data.bin"] and left(raw) == [] and site.asked == []


def test_file_addresses(tmp_path):
    there, raw = tmp_path / "a b.bin", tmp_path / "raw"
    raw.mkdir()
    file = wanted(None, there.as_uri())
    refused(Failure, "there is no such file", file, raw)
    there.write_bytes(CONTENT)
    (raw / "data.bin.part").write_bytes(CONTENT[:7])
    assert fetch(file, raw).read_bytes() == CONTENT


def test_an_interruption_keeps_the_part(site, tmp_path, monkeypatch):
    class Bar(download.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n > 20_000:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(download, "tqdm", lambda **options: Bar(file=io.StringIO(), **options))
        with pytest.raises(KeyboardInterrupt):
            download.fetch(wanted(site), tmp_path, progress=True)
    size = (tmp_path / "data.bin.part").stat().st_size
    assert 20_000 < size < 50_000
    assert fetch(wanted(site), tmp_path).read_bytes() == CONTENT
    assert site.asked[-1] == ("/data.bin", f"bytes={size}-")


def test_space_is_checked_before(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")(10**12, 0, 5 * 10**9)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage)
    download.require_space(tmp_path / "not" / "there", {"to download": 5 * 10**9})
    needed = {"to download": 2 * 10**9, "unpacked": 0, "prepared": 3 * 10**9 + 10**8}
    words = (
        r"not enough space in .*: about 5\.10 GB needed "
        r"\(2\.00 GB to download, 3\.10 GB prepared\), 5\.00 GB free"
    )
    with pytest.raises(Failure, match=words):
        download.require_space(tmp_path, needed)


def test_what_is_still_to_download(tmp_path):
    file = File("a", ("x",), "", 100)
    assert download.missing_bytes(file, tmp_path) == 100
    assert download.missing_bytes(File("a", ("x",), "", 70, exact=False), tmp_path) == 70
    (tmp_path / "a.part").write_bytes(b"x" * 30)
    assert download.missing_bytes(file, tmp_path) == 70
    (tmp_path / "a").write_bytes(b"")
    assert download.missing_bytes(file, tmp_path) == 0


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
