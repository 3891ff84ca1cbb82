"""A web server on this machine that misbehaves as asked: it cuts connections, redirects, ignores
ranges, is busy, or serves another file than before. It writes down what was asked of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGEST = 1 << 30


@dataclass
class Site:
    """Files by path, and how they are served."""

    files: dict[str, bytes] = field(default_factory=dict)
    etag: str | None = '"one"'
    cut_after: list[int] = field(default_factory=list)
    """Bytes of the next answers before the connection is cut, one answer each."""
    codes: list[int] = field(default_factory=list)
    """Of the next answers, before files are served."""
    ranges: bool = True
    heeds_if_range: bool = True
    redirects: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    """What it says the length is, if that is a lie."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Paths with their ranges."""
    before: Callable[[str], None] = lambda path: None
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        site, wanted = self.site, self.headers.get("Range")
        site.asked.append((self.path, wanted))
        site.before(self.path)
        if site.codes:
            self.send_response(site.codes.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path not in site.files:
            self.send_error(404)
        else:
            self.serve(site.files[self.path], wanted)

    def serve(self, content: bytes, wanted: str | None) -> None:
        site, start = self.site, 0
        same = self.headers.get("If-Range") == site.etag or not site.heeds_if_range
        if wanted is not None and site.ranges and same:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        length = len(content) - start if site.length is None else site.length
        self.send_header("Content-Length", str(length))
        if site.etag is not None:
            self.send_header("ETag", site.etag)
        self.end_headers()
        body = content[start:]
        if site.cut_after:
            self.wfile.write(body[: site.cut_after.pop(0)])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(body)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    handler = type("OfSite", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
