"""A web server in a thread, for the tests of downloads; no test goes out on the network."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Site:
    """What the server does, and what it was asked.

    Attributes:
        files: content by path.
        ranges: whether Range is understood.
        break_after: bytes of a body after which the connection is cut.
        breaks: how many more answers are cut.
        status: answered to everything in place of the files, if not None.
        asked: (path, Range header or None) of each request.
    """

    def __init__(self, url):
        self.url = url
        self.files, self.asked = {}, []
        self.ranges, self.status = True, None
        self.break_after, self.breaks = 0, 0


@pytest.fixture
def site():
    """A :class:`Site` that is being served."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            site.asked.append((self.path, wanted))
            assert self.headers.get("Accept-Encoding") == "identity"
            if site.status is not None or self.path not in site.files:
                self.send_error(site.status or 404)
                return
            content, start = site.files[self.path], 0
            if wanted and site.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                whole = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", whole)
            else:
                self.send_response(200)
            body = content[start:]
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
