"""Requests that are wrong in every way that comes to mind, to a real server: each is answered with
one problem in JSON, and never with a 500.
"""

import contextlib
import json
import re
import socket
from collections.abc import Iterator

import pytest

from elmore.embedder import Embedder
from elmore.search.index import Index
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from tests.serve.running import running
from tests.serve.test_search_routes import index  # noqa: F401

POSTS = ["/embed", "/words", "/similarity", "/v1/embeddings", "/neighbors", "/substitutes"]
SURROGATE, DEEP, LONG_NUMBER = rb"\ud800", b"[" * 100_000, b"9" * 100_000
BODIES = [
    b"", b" ", b"null", b"[]", b"1", b'"a"', b"{", b"}", b"{]", b"{} {}", b"\x00", b"\xff\xfe",
    b"\xef\xbb\xbf{}", DEEP, b'{"a":' * 50_000, LONG_NUMBER, b"-" + LONG_NUMBER, b"1e999999",
    b"NaN", b"Infinity", b'{"sentences": NaN}', b'{"text": ' + DEEP + b"}",
    b'{"text": ' + LONG_NUMBER + b"}", b'{"text": "' + SURROGATE + b'"}',
    b'{"sentences": ["' + SURROGATE + b'"]}', b'{"sentences": [["a", "' + SURROGATE + b'"]]}',
    b'{"' + SURROGATE + b'": 1}', b'{"input": "' + SURROGATE + b'"}',
    b'{"input": "a", "model": "' + SURROGATE + b'", "dimensions": 1e400}',
    b'{"input": "a", "dimensions": ' + b"9" * 4000 + b"}", b'{"input": {"a": 1}}',
    b'{"input": [[[]]]}', b'{"input": [["a"], 1]}', b'{"a": "x", "b": "y", "weights": [1e400]}',
    b'{"a": "x", "b": "y", "weights": [NaN, 1, 1]}', b'{"a": "x", "b": {"c": "y"}}',
    b'{"sentences": ["a"], "layers": 1e400}', b'{"sentences": ["a"], "layers": -1}',
    b'{"sentences": ["a"], "layers": 99999999999999999999999}',
    b'{"sentences": ["a"], "layers": "mix", "gamma": 1e39}',
    b'{"sentences": ["a"], "layers": "mix", "weights": [1, 1]}',
    b'{"sentence": "a", "position": 1e400}', b'{"sentence": "a", "position": 18446744073709551616}',
    b'{"sentence": ["a"], "position": 0, "k": 1e30}', b'{"sentence": [], "position": 0}',
]  # fmt: skip
TYPES = [
    "text/plain", "application/xml", "multipart/form-data", "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded", "a", "/", "\x7f",
]  # fmt: skip
PATHS = ["/senses/" + "x" * 10_000, "/senses/%00", "/senses/%ff%fe", "/senses/%ed%a0%80",
         "/senses?word=%ff", "/senses?word=", "/senses", "/senses?word=a&layer=" + "9" * 5000,
         "/senses?word=a&layer=NaN", "/senses?word=bank&layer=1e5", "/%", "//", "/..", "/assets/",
         "/assets/%00", "/assets/../../app.py", "/assets/" + "x" * 5000, "/embed",
         "/metrics/x"]  # fmt: skip
HTTP = [
    b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1e3\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"POST /words HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 200_000 + b"\r\n",
    b"BREW /info HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def port(tiny_embedder: Embedder, index: Index) -> Iterator[int]:  # noqa: F811
    config = ServeConfig(receive_seconds=0.5, head_seconds=1)
    with running(create_app(tiny_embedder, index=index, config=config)) as address:
        yield int(address.rpartition(":")[2])


def say(port: int, content: bytes) -> tuple[int, str]:
    """The status and the type of the problem in the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(content)
        answer = b""
        while not (found := re.search(rb"content-length: (\d+).*?\r\n\r\n", answer, re.S | re.I)):
            piece = client.recv(1)
            assert piece, answer
            answer += piece
        body = client.recv(int(found[1]), socket.MSG_WAITALL)
    error = json.loads(body)["error"]
    assert "\n" not in error["message"]
    return int(answer.split()[1]), error["type"]


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@pytest.mark.parametrize("path", POSTS)
def test_bodies(port: int, path: str):
    for body in BODIES:
        assert say(port, post(path, body))[0] in (400, 404, 413, 422), body[:100]


@pytest.mark.parametrize("path", POSTS)
def test_content_types(port: int, path: str):
    for kind in TYPES:
        for body in (b'{"sentences": ["a"]}', b"a=b", b"--x\r\n\r\n--x--"):
            assert say(port, post(path, body, kind))[0] in (400, 415, 422), kind


def test_paths(port: int):
    for path in PATHS:
        asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        assert say(port, asked)[0] in (400, 404, 405, 422), path[:100]


def test_what_is_not_http(port: int):
    for content in HTTP:
        assert say(port, content)[0] in (400, 403, 404, 405, 408, 413), content[:100]


@pytest.mark.parametrize(
    "content",
    [b"POST /words HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
     b"POST /words HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
     b"POST /words HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
     b"POST /words HTTP/1.1\r\nHost: localhost\r\n"],
)  # fmt: skip
def test_a_request_without_an_end_is_408(port: int, content: bytes):
    assert say(port, content) == (408, "too_slow")
