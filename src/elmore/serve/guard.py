"""Checks before every route: the key, the size of the body, and timeouts for slow clients. A body
is collected before the route is called, so a slow client takes a little memory and does not delay
other clients.
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmore.serve.auth import Lock
from elmore.serve.config import ServeConfig
from elmore.serve.problems import RefusedError, too_large

LINGER_SECONDS = 5.0
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

    def __init__(self, app: ASGIApp, config: ServeConfig):
        self._app, self._config = app, config
        self._lock = Lock(config.api_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        inlet, outlet = _Inlet(receive), _Outlet(send, self._config.send_seconds)
        try:
            body = await self._admit(scope, inlet)
            await self._app(scope, _replay(body, receive), outlet)
        except RefusedError as refused:
            await _refuse(refused, scope, inlet, outlet)
        except _GoneError:
            pass
        except Exception:
            if not outlet.too_slow:  # if it was, the connection is closed
                raise

    async def _admit(self, scope: Scope, inlet: "_Inlet") -> bytes:
        """The complete body of an accepted request."""
        headers, most = Headers(scope=scope), self._config.max_bytes
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
                    body += await inlet.next()
        except TimeoutError:
            seconds = self._config.receive_seconds
            raise RefusedError(408, f"The body did not arrive within {seconds:g} s.") from None
        if len(body) > most:
            raise too_large("bytes or more", len(body), most)
        return bytes(body)


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
    """Sends, adds the headers of every answer, and limits the wait for a slow client."""

    def __init__(self, send: Send, seconds: float):
        self._send, self._seconds = send, seconds
        self.too_slow = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            self.too_slow = True
            raise


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
    if inlet.empty:
        await answer(scope, inlet.receive, send)
        return
    await answer(scope, inlet.receive, hold_open)
    with suppress(TimeoutError, _GoneError):
        async with asyncio.timeout(LINGER_SECONDS):
            while not inlet.empty:
                await inlet.next()
    await send({"type": "http.response.body", "body": b""})
