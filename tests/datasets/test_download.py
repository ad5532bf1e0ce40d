"""Downloads: they are used only with the right SHA-256, and failures are one line."""

import hashlib
import socket
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import numpy as np
import pytest

from fedlib.datasets import fetching
from fedlib.datasets.catalogue import File
from fedlib.datasets.fetching import Shelf
from fedlib.errors import Failure

CONTENT = np.random.default_rng(0).bytes(500_000)
OTHER = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])


class Served(SimpleHTTPRequestHandler):
    """The files of a folder; while ``cut.bin`` is sent the connection breaks, and ``right.bin`` is
    sent from where it is asked for.
    """

    ranges: ClassVar[list[str | None]] = []

    def do_GET(self):
        asked = self.headers["Range"]
        self.ranges.append(asked)
        if self.path != "/right.bin" or not asked:
            return super().do_GET()
        rest = CONTENT[int(asked.removeprefix("bytes=").removesuffix("-")) :]
        self.send_response(206 if rest else 416)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    def copyfile(self, source, outputfile):
        outputfile.write(source.read(120_000 if self.path == "/cut.bin" else -1))

    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """The address of a server in a thread; no test goes out on the network."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name, content in (("right", CONTENT), ("cut", CONTENT), ("other", OTHER)):
        (folder / f"{name}.bin").write_bytes(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=folder))
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(folder, *urls):
    folder.mkdir(exist_ok=True)
    expected = File("data.bin", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), urls)
    return Shelf(folder).official("own", expected)


def test_every_address_that_fails_is_named_and_one_that_works_is_asked_once(
    site, tmp_path, monkeypatch
):
    monkeypatch.setattr(fetching, "SECONDS", 0.2)
    raw, right = tmp_path / "raw", f"{site}/right.bin"
    with socket.socket() as closed, socket.socket() as silent:  # One where nobody listens.
        urls = [f"{site}/{name}.bin" for name in ("cut", "other", "elsewhere")]
        for server in (closed, silent):
            server.bind(("127.0.0.1", 0))
            urls.append(f"http://127.0.0.1:{server.getsockname()[1]}/data.bin")
        silent.listen()  # It never answers.
        wrong = f"SHA-256 {hashlib.sha256(OTHER).hexdigest()}, expected"
        reasons = ("broke after 120,000 of 500,000 bytes", wrong, "404", "refused", "timed")
        named = ", ".join(f"{url}: .*{why}.*" for url, why in zip(urls, reasons, strict=True))
        with pytest.raises(Failure, match=f"cannot download {named}: nothing was prepared.*--from"):
            fetch(raw, *urls)
        assert not any(path.is_file() for path in raw.rglob("*"))
        path = fetch(raw, *urls, right)
    assert path == raw / "own" / "data.bin" and path.read_bytes() == CONTENT
    assert [*path.parent.iterdir()] == [path] == [fetch(raw, urls[0])]  # which would fail
    path.write_bytes(OTHER)
    with pytest.raises(Failure, match=r"has SHA-256 .*: nothing was prepared\. Remove it"):
        fetch(raw, right)


def test_a_download_that_broke_goes_on_where_it_was(site, tmp_path):
    raw, right = tmp_path / "raw", f"{site}/right.bin"
    with pytest.raises(Failure, match="broke after"):
        fetch(raw, f"{site}/cut.bin")
    Served.ranges.clear()
    assert fetch(raw, right).read_bytes() == CONTENT and Served.ranges == ["bytes=120000-"]
    # What is left of another file, or of one that was whole, is not built upon.
    for left in (OTHER[:-5], OTHER, CONTENT):
        (raw / "own" / "data.bin").unlink()
        (raw / "own" / "data.bin.part").write_bytes(left)
        try:
            fetch(raw, right)
        except Failure:
            fetch(raw, right)
        assert (raw / "own" / "data.bin").read_bytes() == CONTENT
        assert not (raw / "own" / "data.bin.part").exists()
