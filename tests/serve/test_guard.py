"""What never reaches a route: slow, huge and broken requests, on a small app of its own."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.types import Message, Receive, Scope, Send

from elmore.serve import guard
from elmore.serve.config import ServeConfig
from elmore.serve.guard import Guard
from elmore.serve.memory import Memory


class Echo:
    """Answers with the body, piece by piece."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Connection:
    """A client that says what it is told to say, and then nothing more, for ever."""

    def __init__(self, *pieces: bytes, ends: bool = True, leaves: bool = False):
        self.said = self._messages(pieces, ends, leaves)
        self.heard: list[Message] = []
        self.reads = True

    def _messages(self, pieces: tuple[bytes, ...], ends: bool, leaves: bool) -> Iterator[Message]:
        for i, piece in enumerate(pieces):
            more = not ends or i + 1 < len(pieces)
            yield {"type": "http.request", "body": piece, "more_body": more}
        if leaves:
            yield {"type": "http.disconnect"}

    async def receive(self) -> Message:
        for message in self.said:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Message) -> None:
        if not self.reads:
            await asyncio.Event().wait()
        self.heard.append(message)

    @property
    def status(self) -> int:
        return int(self.heard[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.heard[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.heard[1:])


def visit(connection: Connection, headers: dict[str, str] | None = None, **limits: Any) -> Echo:
    """One request to an echo behind a guard."""
    echo = Echo()
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/embed", "headers": raw}
    config = ServeConfig(max_bytes=10, **limits)
    door = Guard(echo, config, Memory(config))
    asyncio.run(asyncio.wait_for(door(scope, connection.receive, connection.send), 5))
    return echo


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "LINGER_SECONDS", 0.05)


def test_a_body_in_pieces_arrives_whole_and_every_answer_has_the_headers():
    connection = Connection(b"12345", b"", b"67890")
    assert visit(connection).asked == 1
    assert (connection.status, connection.body) == (200, b"1234567890")
    assert b"default-src 'none'" in connection.headers[b"content-security-policy"]
    assert connection.headers[b"x-content-type-options"] == b"nosniff"


def test_a_promise_of_too_many_bytes_is_refused_before_they_come():
    connection = Connection(ends=False)
    assert visit(connection, {"content-length": "11"}).asked == 0
    assert connection.status == 413
    assert connection.headers[b"connection"] == b"close"
    message = json.loads(connection.body)["error"]
    assert message == {
        "message": "The request has 11 bytes; at most 10 are taken.", "type": "too_large",
    }  # fmt: skip


def test_a_body_without_length_is_cut_off_at_the_limit():
    connection = Connection(b"12345", b"678901", ends=False)
    assert visit(connection).asked == 0
    assert connection.status == 413
    assert not connection.heard[-1]["more_body"]  # the answer was ended, not left open


def test_a_refused_request_that_is_whole_keeps_its_connection():
    connection = Connection(b"12345678901")
    visit(connection)
    assert connection.status == 413
    assert b"connection" not in connection.headers


def test_a_refused_client_is_read_on_so_that_it_sees_the_answer():
    connection = Connection(*[b"123456"] * 100)
    visit(connection)
    assert connection.status == 413
    assert next(connection.said, None) is None  # all of it was taken


def test_a_body_that_does_not_arrive_in_time_is_given_up():
    connection = Connection(b"1", ends=False)
    assert visit(connection, receive_seconds=0.05).asked == 0
    assert connection.status == 408


def test_a_client_that_leaves_in_the_middle_is_forgotten():
    connection = Connection(b"1", ends=False, leaves=True)
    assert visit(connection).asked == 0
    assert connection.heard == []


def test_a_client_that_does_not_take_its_answer_is_given_up():
    connection = Connection(b"1")
    connection.reads = False
    visit(connection, send_seconds=0.05)  # comes back, and raises nothing
    assert connection.heard == []


def test_a_wrong_key_is_refused_before_the_body():
    connection = Connection(b"1")
    echo = visit(connection, {"authorization": "Bearer no"}, api_key=SecretStr("yes"))
    assert echo.asked == 0
    assert connection.status == 401
    assert connection.headers[b"www-authenticate"] == b"Bearer"


def test_what_an_app_raises_is_not_swallowed():
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    connection = Connection(b"1")
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    door = Guard(broken, ServeConfig(), Memory(ServeConfig()))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(door(scope, connection.receive, connection.send))
