"""Checks before every route: who asks, the size of the body, and time and memory for slow clients.
A body is collected before the route is called, and an answer is sent in small pieces, so a slow
client takes a limited amount of memory and does not delay other clients.
"""

import asyncio
import time
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmore.serve.auth import Lock, check_site
from elmore.serve.config import ServeConfig
from elmore.serve.memory import Hold, Memory, NoRoomError
from elmore.serve.problems import RefusedError, busy, too_large

ABORT = "elmore.abort"
"""Key of a scope: an async function that closes the connection without sending what waits."""
LINGER_SECONDS = 5.0
PIECE = 1 << 15
"""Bytes sent at once. About three times as much can wait in a connection, outside `Memory`."""
HEADERS = {
    "Cache-Control": "no-cache",  # so that page and scripts are always of the same version
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _GoneError(Exception):
    """The client disconnected before its request was complete."""


class Guard:
    """ASGI middleware: refuses what should not reach a route."""

    def __init__(self, app: ASGIApp, config: ServeConfig, memory: Memory):
        self._app, self._config, self._memory = app, config, memory
        self._lock = Lock(config.api_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        inlet = _Inlet(receive)
        with self._memory.hold() as hold:
            outlet = _Outlet(send, hold, self._config.send_seconds)
            try:
                await self._ask(scope, inlet, outlet, hold)
            except RefusedError as refused:
                await _refuse(refused, scope, inlet, outlet)
            except NoRoomError:
                problem = "Too many answers wait for their clients"
                await _refuse(busy(1, problem), scope, inlet, outlet)
            except _GoneError:
                pass
            except TimeoutError:
                await self._end(scope, inlet, outlet)

    async def _ask(self, scope: Scope, inlet: "_Inlet", outlet: "_Outlet", hold: Hold) -> None:
        now = asyncio.get_running_loop().time
        async with asyncio.timeout(self._config.request_seconds) as deadline:
            hold.cut_off = lambda: None if deadline.expired() else deadline.reschedule(now())
            scope.setdefault("state", {})["hold"] = hold
            try:
                body = await self._admit(scope, inlet, hold)
                await self._app(scope, _replay(body, inlet.receive), outlet)
            finally:
                hold.cut_off = lambda: None

    async def _admit(self, scope: Scope, inlet: "_Inlet", hold: Hold) -> bytes:
        """The complete body of an accepted request."""
        headers, most = Headers(scope=scope), self._config.max_bytes
        check_site(self._config, scope, headers)
        if not self._lock.opens(scope["path"], headers):
            message = "The key is missing or wrong; send Authorization: Bearer KEY."
            raise RefusedError(401, message, {"WWW-Authenticate": "Bearer"})
        promised = int(headers.get("content-length", "0"))
        if promised > most:
            raise too_large("bytes", promised, most)
        body = bytearray()
        try:
            async with asyncio.timeout(self._config.receive_seconds):
                while not inlet.empty and len(body) <= most:
                    piece = await inlet.next()
                    hold.add(len(piece))
                    body += piece
        except TimeoutError:
            seconds = self._config.receive_seconds
            raise RefusedError(408, f"The body did not arrive within {seconds:g} s.") from None
        if len(body) > most:
            raise too_large("bytes or more", len(body), most)
        return bytes(body)

    async def _end(self, scope: Scope, inlet: "_Inlet", outlet: "_Outlet") -> None:
        """The time is over: say so, or close the connection if the answer has begun."""
        if not outlet.started:
            seconds = self._config.request_seconds
            message = f"The request took longer than {seconds:g} s."
            await _refuse(RefusedError(503, message, {"Retry-After": "60"}), scope, inlet, outlet)
        elif ABORT in scope:
            await scope[ABORT]()


class _Inlet:
    """The pieces of a request's body."""

    def __init__(self, receive: Receive):
        self.receive = receive
        self.empty = False

    async def next(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        self.empty = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece


class _Outlet:
    """Sends in small pieces, adds the headers of every answer, and limits the wait for a slow
    client. The start of an answer is sent with its first piece, when it is known that the memory
    for an answer in one piece is there.
    """

    def __init__(self, send: Send, hold: Hold, seconds: float):
        self._send, self._hold, self._seconds = send, hold, seconds
        self._start: Message | None = None
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            if not more and len(body) > PIECE:
                self._hold.add(len(body))
            self.started = True
            await self._pass_on(self._start)
            self._start = None
        for i in range(0, max(len(body), 1), PIECE):
            last = not more and i + PIECE >= len(body)
            piece = {"body": body[i : i + PIECE], "more_body": not last}
            await self._pass_on({"type": "http.response.body", **piece})

    async def _pass_on(self, message: Message) -> None:
        self._hold.waiting_since = time.monotonic()
        async with asyncio.timeout(self._seconds):
            await self._send(message)
            await asyncio.sleep(0)  # it does not wait as long as there is room for what is sent
        self._hold.waiting_since = None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one message; then the other messages of the connection."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(refused: RefusedError, scope: Scope, inlet: _Inlet, send: Send) -> None:
    """Answer at once, then continue reading for a while: if the connection were closed while the
    client is still sending, it would be reset, and the client would not see the answer."""

    async def hold_open(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send({**message, "more_body": True})

    answer = refused.answer()
    with suppress(TimeoutError):  # nobody reads the refusal
        if inlet.empty:
            await answer(scope, inlet.receive, send)
            return
        await answer(scope, inlet.receive, hold_open)
        with suppress(TimeoutError, _GoneError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not inlet.empty:
                    await inlet.next()
        await send({"type": "http.response.body", "body": b""})
