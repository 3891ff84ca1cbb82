"""A real server on loopback, with clients that behave badly: the right answer to each, and the
others never notice.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY = "sesame"
BODY = json.dumps({"sentences": ["The bank of the river."]}).encode()
# The same command, with a model that takes its time over some sentences.
SLOW = """
import sys, time
from elmore.cli.main import main
from elmore.embedder import Embedder

embed = Embedder.embed
def slowly(self, sentences, **options):
    if any("slow" in words for words in sentences):
        print("computing", file=sys.stderr, flush=True)
        time.sleep(1)
    return embed(self, sentences, **options)
Embedder.embed = slowly
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Running:
    """A server's process and where it listens."""

    process: "subprocess.Popen[str]"
    port: int

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            given = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
            connection.request(method, path, body, {**given, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def raw(self, *pieces: bytes) -> socket.socket:
        """A connection on which this much has been said."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        for piece in pieces:
            client.sendall(piece)
        return client


def head(length: int, key: str = KEY) -> bytes:
    lines = ["POST /embed HTTP/1.1", "Host: x", "Content-Type: application/json",
             f"Authorization: Bearer {key}", f"Content-Length: {length}"]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode()


@contextlib.contextmanager
def serving(model: Path) -> Iterator[Running]:
    command = [sys.executable, "-c", SLOW, "serve", "--model", str(model), "--port", "0"]
    environment = {**os.environ, "ELMORE_API_KEY": KEY, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        welcome = process.stderr.readline()
        found = re.search(r"served at http://127\.0\.0\.1:(\d+)", welcome)
        assert found, welcome + process.stderr.read()
        yield Running(process, int(found[1]))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[Running]:
    with serving(tiny_model) as running:
        yield running
        assert running.ask("GET", "/health") == (200, '{"status":"ok"}')  # alive after all that


def test_requests_are_answered(server: Running):
    status, text = server.ask("POST", "/embed", BODY)
    assert status == 200
    assert json.loads(text)["sentences"][0]["words"] == ["The", "bank", "of", "the", "river", "."]


def test_a_wrong_key_is_401_and_invalid_json_422(server: Running):
    assert server.ask("POST", "/embed", BODY, Authorization="Bearer wrong")[0] == 401
    assert server.ask("POST", "/embed", BODY, Authorization="")[0] == 401
    assert server.ask("POST", "/embed", b'{"sentences": [')[0] == 422


def test_a_client_still_sending_a_huge_body_sees_why_it_was_refused(server: Running):
    body = b"x" * 30_000_000  # more than the sockets hold, so it is not sent when it is refused
    status, text = server.ask("POST", "/embed", body)
    assert status == 413
    assert "30,000,000 bytes; at most 1,048,576" in text
    assert server.ask("POST", "/embed", body, Authorization="Bearer wrong")[0] == 401


def test_an_endless_body_is_cut_off(server: Running):
    start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with server.raw(start) as client:
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(17):  # 1,114,112 bytes, and no end
            client.sendall(chunk)
        assert client.recv(100).startswith(b"HTTP/1.1 413")


def test_slow_clients_hold_up_nobody(server: Running):
    with contextlib.ExitStack() as stack:
        for _ in range(50):  # all of them in the middle of their bodies
            stack.enter_context(server.raw(head(len(BODY)), BODY[:10]))
        trickle = stack.enter_context(server.raw(head(len(BODY))))
        for i in range(len(BODY)):
            trickle.sendall(BODY[i : i + 1])
            if i % 10 == 0:
                assert server.ask("GET", "/health")[0] == 200  # sooner than the others time out
                assert server.ask("POST", "/embed", BODY)[0] == 200
        assert trickle.recv(100).startswith(b"HTTP/1.1 200")


def test_clients_that_vanish_leave_nothing_behind(server: Running):
    def files() -> int:
        return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))

    before = files()
    for part in (0, 10, len(BODY)):  # before, in and after their bodies
        for _ in range(20):
            server.raw(head(len(BODY)), BODY[:part]).close()
    assert server.ask("POST", "/embed", BODY)[0] == 200
    deadline = time.monotonic() + 20
    while files() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert files() <= before


def test_garbage_is_400(server: Running):
    with server.raw(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n") as client:  # somebody tries TLS
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_the_key_is_in_no_answer(server: Running):
    for path in ("/info", "/metrics", "/openapi.json", "/nothing"):
        assert KEY not in server.ask("GET", path)[1]


def test_a_full_queue_is_429_and_recovers(server: Running):
    slow = json.dumps({"input": [["slow"] * 4000]}).encode()  # four of these may wait
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(server.ask("POST", "/v1/embeddings", slow)[0])

    clients = [threading.Thread(target=ask) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert set(statuses) == {200, 429}
    assert server.ask("POST", "/embed", BODY)[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_finishes_what_is_in_flight(tiny_model: Path, number: signal.Signals):
    slow = json.dumps({"sentences": [["slow"]]}).encode()
    with serving(tiny_model) as server:
        with server.raw(head(len(slow)), slow) as client:
            assert server.process.stderr is not None
            assert server.process.stderr.readline() == "computing\n"
            server.process.send_signal(number)
            answer = client.recv(100)
        assert answer.startswith(b"HTTP/1.1 200")
        _, errors = server.process.communicate(timeout=60)
        assert (server.process.returncode, errors) == (0, "")
        with pytest.raises(ConnectionRefusedError):
            server.raw()
