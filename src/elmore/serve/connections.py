"""Limits on connections: how many there may be, and how long one may stay open without a request.
uvicorn's HTTP protocol, with a list of all connections that is looked through every second.
"""

import asyncio
from http import HTTPStatus
from socket import MSG_PEEK
from typing import Any, ClassVar, cast

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmore.serve.config import ServeConfig
from elmore.serve.guard import ABORT
from elmore.serve.problems import RefusedError

_SWEEP_SECONDS = 1.0


def limited(config: ServeConfig) -> type[asyncio.Protocol]:
    """For uvicorn's option `http`."""
    return type("Limited", (Connection,), {"registry": Connections(config)})


class Connections:
    """All connections of a server."""

    def __init__(self, config: ServeConfig):
        self._config = config
        self._all: set[Connection] = set()
        self._sweeping = False

    def add(self, new: "Connection") -> None:
        """Make room by closing a connection without a request; refuse the new one if none is."""
        same = [each for each in self._all if each.address == new.address]
        crowd = same if len(same) >= self._config.client_connections else list(self._all)
        if len(same) >= self._config.client_connections or (
            len(self._all) >= self._config.max_connections
        ):
            least = self._least_used(crowd, new.loop.time())
            if least is None:
                headers = {"Retry-After": "1"}
                new.refuse(RefusedError(503, "There are too many connections.", headers))
                return
            self._all.discard(least)
            least.transport.abort()
        self._all.add(new)
        if not self._sweeping:
            self._sweeping = True
            new.loop.call_later(_SWEEP_SECONDS, self._sweep, new.loop)

    def discard(self, connection: "Connection") -> None:
        self._all.discard(connection)

    def _least_used(self, crowd: list["Connection"], now: float) -> "Connection | None":
        """The oldest of those that are used least; none if all are in use."""
        before = now - self._config.stall_seconds
        ranked = sorted((each.use(before), each.since, id(each), each) for each in crowd)
        unused = (each for use, _, _, each in ranked if use != _IN_USE)
        return next((each for each in unused if not each.has_unread()), None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in list(self._all):
            connection.check_time(self._config, loop.time())
        self._sweeping = bool(self._all)
        if self._sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


# What a connection is used for; the lowest is closed first.
_CLOSING, _NEVER_USED, _IDLE, _STALLED, _IN_USE = range(5)


class Connection(H11Protocol):
    """The connection of one client. Time limits of requests are the guard's."""

    registry: ClassVar[Connections]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.since = self.loop.time()
        """When it was opened, or its last request began or ended."""
        self._app, self.app = self.app, cast(Any, self._serve)
        self._n_requests, self._used = 0, False
        self._head_since: float | None = None
        self._paused_since: float | None = None
        self._closing_since: float | None = None
        self.registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_since is None and not self._n_requests:
            self._head_since = self.loop.time()
        super().data_received(data)

    def pause_writing(self) -> None:
        self._paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._paused_since = None
        super().resume_writing()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ABORT] = self._abort
        self._n_requests += 1  # with pipelining, the next begins before the last has quite ended
        self._used, self._head_since, self.since = True, None, self.loop.time()
        try:
            await self._app(scope, receive, send)
        finally:
            self._n_requests -= 1
            self.since = self.loop.time()

    async def _abort(self) -> None:
        self.transport.abort()
        await asyncio.sleep(0)  # uvicorn then knows, and does not report an incomplete answer

    def use(self, before: float) -> int:
        """How much it is used; stalled if the client has not read, or not sent, since `before`."""
        if self.transport.is_closing():
            return _CLOSING
        if not self._has_request():
            return _IDLE if self._used else _NEVER_USED
        receiving = self.cycle is not None and self.cycle.more_body
        waiting_since = self.since if receiving else self._paused_since
        return _STALLED if waiting_since is not None and waiting_since < before else _IN_USE

    def _has_request(self) -> bool:
        """Also one whose head was read, but which `_serve` has not been given yet."""
        read = self.cycle is not None and not self.cycle.response_complete
        return read or self._n_requests > 0

    def has_unread(self) -> bool:
        """If bytes have arrived that were not read yet: a request, most likely. In a burst, many
        connections are accepted before the first of them is read."""
        if self.transport.is_closing() or self._has_request():
            return False
        with self.transport.get_extra_info("socket").dup() as socket:
            try:
                return bool(socket.recv(1, MSG_PEEK))
            except OSError:  # nothing there, or closed by the client
                return False

    def check_time(self, config: ServeConfig, now: float) -> None:
        if self.transport.is_closing():  # but what was written has not been read
            self._closing_since = self._closing_since or now
            if now - self._closing_since > config.idle_seconds:
                self.transport.abort()
        elif self._has_request():
            return
        elif self._head_since is not None and now - self._head_since > config.head_seconds:
            seconds = config.head_seconds
            self.refuse(RefusedError(408, f"The head did not arrive within {seconds:g} s."))
        elif now - self.since > config.idle_seconds:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this for what is not HTTP."""
        begun = self.cycle is not None and self.cycle.response_started
        if begun and not self.cycle.response_complete:
            self.transport.abort()  # an answer inside an answer would be misread
        else:
            self.refuse(RefusedError(400, "This is not a valid HTTP request."))

    def refuse(self, refused: RefusedError) -> None:
        """Answer without a request, and close the connection."""
        answer = refused.answer()
        headers = [*answer.raw_headers, (b"connection", b"close")]
        phrase = HTTPStatus(refused.status).phrase
        lines = [f"HTTP/1.1 {refused.status} {phrase}".encode()]
        lines += [b"%s: %s" % header for header in headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
