"""Real connections to a server with small limits: who is closed when, and that healthy clients are
always answered.
"""

import asyncio
import contextlib
import json
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from elmore.embedder import Embedder
from elmore.serve.app import create_app
from elmore.serve.config import ServeConfig
from elmore.serve.connections import limited
from tests.serve.running import running

HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = json.dumps({"sentences": [["bank"] * 100]}).encode()
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


async def freeze() -> None:
    """Holds up the whole server, as a burst of other work does."""
    time.sleep(1)


class Served:
    """A server and how to reach it."""

    def __init__(self, address: str, app: Any):
        self.address, self.memory = address, app.state.server.memory
        self.port = int(address.rpartition(":")[2])

    def connect(self, content: bytes = b"", small_buffer: bool = False) -> socket.socket:
        client = socket.socket()
        if small_buffer:  # so that answers wait in the server, not in the kernel
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", self.port))
        client.sendall(content)
        return client

    def status(self, path: str = "/health") -> int:
        with urllib.request.urlopen(self.address + path, timeout=20) as answer:
            return int(answer.status)

    def embed(self) -> bytes:
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.address}/embed", BODY, headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return bytes(answer.read())


@contextlib.contextmanager
def served(embedder: Embedder, **limits: Any) -> Iterator[Served]:
    app = create_app(embedder, config=ServeConfig(max_words=20_000, **limits))
    app.add_api_route("/freeze", freeze)
    with running(app) as address:
        yield Served(address, app)


def ending(client: socket.socket) -> bytes:
    """What is received until the connection is closed by the server."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(1 << 16):
            received += piece
    return received


def received(client: socket.socket) -> bytes:
    """An answer whose length is known."""
    answer = b""
    while not (found := re.search(rb"content-length: (\d+).*\r\n\r\n", answer, re.S)):
        answer += client.recv(1)
    return answer + client.recv(int(found[1]), socket.MSG_WAITALL)


def problem(answer: bytes) -> tuple[int, str]:
    """The status and the type of an error response."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]["type"]


def test_idle_connections_are_closed(tiny_embedder: Embedder):
    with served(tiny_embedder, idle_seconds=0.3) as server:
        began = time.monotonic()
        with server.connect() as silent:
            assert ending(silent) == b""
        with server.connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as answered:
            assert ending(answered).endswith(b'{"status":"ok"}')
        assert time.monotonic() - began < 10


def test_a_head_that_does_not_arrive_is_408(tiny_embedder: Embedder):
    with (
        served(tiny_embedder, head_seconds=0.5, idle_seconds=60) as server,
        server.connect(b"GET /health HTTP/1.1\r\n") as client,
    ):
        for _ in range(3):  # some bytes now and then do not help
            client.sendall(b"X-Slow: 1\r\n")
            time.sleep(0.1)
        assert problem(ending(client)) == (408, "too_slow")


@pytest.mark.parametrize("limit", [{"max_connections": 20}, {"client_connections": 20}])
def test_idle_connections_lock_nobody_out(tiny_embedder: Embedder, limit: dict[str, int]):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, idle_seconds=60, **limit))
        idle = [stack.enter_context(server.connect()) for _ in range(40)]
        assert server.status() == 200
        assert server.embed()
        for client in idle[:20]:  # the oldest are closed first
            assert ending(client) == b""
        idle[-1].sendall(REQUEST)
        assert idle[-1].recv(100).startswith(b"HTTP/1.1 200")


def test_a_connection_that_was_used_is_kept_longer(tiny_embedder: Embedder):
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, idle_seconds=60, max_connections=5))
        used = stack.enter_context(server.connect(ask))
        assert received(used).startswith(b"HTTP/1.1 200")
        for _ in range(20):
            stack.enter_context(server.connect())
        assert server.status() == 200
        used.sendall(ask)
        assert received(used).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("limit", [{"max_connections": 20}, {"client_connections": 20}])
def test_a_request_that_waits_to_be_read_is_not_closed(
    tiny_embedder: Embedder, limit: dict[str, int]
):
    """In a burst, all connections are accepted before the first request is read."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, idle_seconds=60, **limit))
        ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        kept = stack.enter_context(server.connect(ask))
        assert received(kept).startswith(b"HTTP/1.1 200")
        stack.enter_context(server.connect(ask.replace(b"/health", b"/freeze")))
        time.sleep(0.2)
        asking = stack.enter_context(server.connect(REQUEST))
        kept.sendall(REQUEST)  # so is the next request of a connection that was idle
        for _ in range(40):
            stack.enter_context(server.connect())
        assert asking.recv(100).startswith(b"HTTP/1.1 200")
        assert kept.recv(100).startswith(b"HTTP/1.1 200")


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def test_a_request_that_was_read_but_not_begun_is_not_closed(tiny_embedder: Embedder):
    """Between the two, the server may accept others."""

    async def answer_the_second() -> tuple[bool, bytes]:
        http: Any = limited(ServeConfig(max_connections=1))
        config = uvicorn.Config(create_app(tiny_embedder), http=http, log_level="critical")
        config.load()
        asking, late = Wire(), Wire()
        first, second = (http(config, ServerState(), {}) for _ in range(2))
        first.connection_made(asking)
        first.data_received(REQUEST)  # makes a task, which has not run yet
        second.connection_made(late)
        first.check_time(ServeConfig(), first.loop.time() + 1000)  # nor is it idle
        return asking.is_closing(), late.written

    closed, written = asyncio.run(answer_the_second())
    assert not closed
    assert written.startswith(b"HTTP/1.1 503")


def test_clients_that_do_not_finish_their_bodies_lock_nobody_out(tiny_embedder: Embedder):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, max_connections=5, stall_seconds=0.2))
        for _ in range(5):
            stack.enter_context(server.connect(REQUEST[:-10]))
        time.sleep(0.5)
        assert server.status() == 200


def test_when_all_connections_are_in_use_a_new_one_is_503(tiny_embedder: Embedder):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, max_connections=2, stall_seconds=60))
        for _ in range(2):
            stack.enter_context(server.connect(REQUEST[:-10]))
        time.sleep(0.3)
        refused = stack.enter_context(server.connect())
        answer = ending(refused)
        assert problem(answer) == (503, "unavailable")
        assert b"retry-after: 1\r\n" in answer.lower()


# Clients that do not read -----------------------------------------------------------------------

N_LONG = 20_000  # words: an answer of 11 MB, more than the kernel takes from the server
LONG = json.dumps({"sentences": [["bank"] * N_LONG]}).encode()
LONG_REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(LONG) + LONG
LONG_BYTES = N_LONG * 3 * 16 * 4  # of its vectors


def wait_until_held(server: Served, n_bytes: int) -> None:
    deadline = time.monotonic() + 20
    while server.memory.used < n_bytes:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_unread_answers_are_counted_and_more_are_429(tiny_embedder: Embedder):
    with contextlib.ExitStack() as stack:
        limits = {"held_bytes": 2 * LONG_BYTES, "stall_seconds": 600}  # nobody is cut off
        server = stack.enter_context(served(tiny_embedder, **limits))
        reads_not = stack.enter_context(server.connect(LONG_REQUEST, small_buffer=True))
        wait_until_held(server, LONG_BYTES)
        refused = stack.enter_context(server.connect(LONG_REQUEST))
        answer = received(refused)
        assert problem(answer) == (429, "busy")
        assert b"retry-after: 1\r\n" in answer.lower()
        assert server.embed()  # a small one still fits
        reads_not.close()
        while server.memory.used:  # what was held is free again
            time.sleep(0.01)
        refused.sendall(LONG_REQUEST)
        assert refused.recv(100).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_loses_its_answer_to_others(tiny_embedder: Embedder):
    limits = {"held_bytes": 2 * LONG_BYTES, "stall_seconds": 0.3}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, **limits))
        reads_not = stack.enter_context(server.connect(LONG_REQUEST, small_buffer=True))
        wait_until_held(server, LONG_BYTES)
        time.sleep(1)
        other = stack.enter_context(server.connect(LONG_REQUEST))
        assert other.recv(100).startswith(b"HTTP/1.1 200")
        answer = ending(reads_not)
        assert answer.startswith(b"HTTP/1.1 200")
        assert not answer.endswith(b"0\r\n\r\n")  # and can be told from a complete one


@pytest.mark.parametrize("limit", ["send_seconds", "request_seconds"])
def test_a_client_that_does_not_read_is_cut_off_in_time(
    tiny_embedder: Embedder, limit: str, capfd: pytest.CaptureFixture[str]
):
    with served(tiny_embedder, **{limit: 0.5}) as server:
        with server.connect(LONG_REQUEST, small_buffer=True) as client:
            deadline = time.monotonic() + 20
            while server.memory.used == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            while server.memory.used and time.monotonic() < deadline:
                time.sleep(0.01)
            assert server.memory.used == 0
            assert not ending(client).endswith(b"0\r\n\r\n")
        assert server.status() == 200
    assert capfd.readouterr().err == ""  # a client cannot fill the log


def test_many_answers_in_one_piece_are_counted_too(tiny_embedder: Embedder):
    inputs = json.dumps({"input": [["bank"]] * 20_000}).encode()
    head = HEAD.replace(b"/embed", b"/v1/embeddings")
    asked = head + b"Content-Length: %d\r\n\r\n" % len(inputs) + inputs
    with contextlib.ExitStack() as stack:
        limits = {"held_bytes": 8_000_000, "max_sentences": 20_000, "stall_seconds": 600}
        server = stack.enter_context(served(tiny_embedder, **limits))
        stack.enter_context(server.connect(asked, small_buffer=True))
        wait_until_held(server, 4_000_000)
        other = stack.enter_context(server.connect(asked))
        assert problem(received(other)) == (429, "busy")


def test_a_body_on_its_way_in_is_counted(tiny_embedder: Embedder):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(tiny_embedder, held_bytes=200_000))
        start = HEAD + b"Content-Length: 1000000\r\n\r\n"
        stack.enter_context(server.connect(start + b" " * 150_000))
        wait_until_held(server, 100_000)
        other = stack.enter_context(server.connect(start + b" " * 150_000))
        assert problem(ending(other)) == (429, "busy")
