"""A web server in a thread, for the tests of downloads; no test goes out on the network."""

import dataclasses
import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fedlib.datasets import catalogue


class Site:
    """What the server does, and what it was asked.

    Attributes:
        files: content by path.
        break_after: bytes of a body after which the connection is cut.
        breaks: how many more answers are cut.
        status: answered to everything in place of the files, if not None.
        asked: the path of each request.
    """

    def __init__(self, url):
        self.url = url
        self.files, self.asked = {}, []
        self.status = None
        self.break_after, self.breaks = 0, 0


@pytest.fixture
def site():
    """A :class:`Site` that is being served."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.asked.append(self.path)
            assert self.headers.get("Accept-Encoding") == "identity"
            if site.status is not None or self.path not in site.files:
                self.send_error(site.status or 404)
                return
            self.send_response(200)
            body = site.files[self.path]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.breaks > 0:
                site.breaks -= 1
                body = body[: site.break_after]
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tarred(files, folder="", kind="gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(folder + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def holds(data, **expected):
    """Whether these fields of a data set are these arrays or names."""
    for field, value in expected.items():
        assert np.array_equal(getattr(data, field), value), field
    return True


@pytest.fixture
def offer(site, monkeypatch):
    """Serve files in place of a data set's official ones, everything else as in the table."""

    def offer(name, files):
        original = catalogue.SOURCES[name]
        assert {file.name for file in original.files} == set(files)
        offered = []
        for file in original.files:
            content = files[file.name]
            site.files[f"/{file.name}"] = content
            url, sha256 = f"{site.url}/{file.name}", hashlib.sha256(content).hexdigest()
            offered.append(catalogue.File(file.name, (url,), sha256, len(content)))
        small = dataclasses.replace(original, files=tuple(offered), unpacked=1000, prepared=1000)
        monkeypatch.setitem(catalogue.SOURCES, name, small)
        return small

    return offer
