"""Metrics for Prometheus, separate for each app."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_WORDS = (16, 64, 256, 1024, 2048, 4096, 8192)
_ELSEWHERE = "other"  # all unknown paths: one label for each would fill the memory


class Metrics:
    """Requests by route and status, batches, and the queue."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory, processor time, open files
        self._requests = Counter(
            "elmore_requests", "Answers sent.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "elmore_request_seconds", "From the headers to the last byte of the answer.",
            ["route"], buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._batch_requests = self._histogram("batch_requests", "Requests per batch.", _REQUESTS)
        self._batch_words = self._histogram("batch_words", "Words per batch.", _WORDS)
        self._batch_seconds = self._histogram("batch_seconds", "Seconds per batch.", _SECONDS)
        self.queued_words = Gauge(
            "elmore_queued_words", "Words waiting for the model.", registry=self._registry
        )
        self.held_bytes = Gauge(
            "elmore_held_bytes", "Bodies and answers in memory.", registry=self._registry
        )

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"elmore_{name}", help, buckets=buckets, registry=self._registry)

    def batch(self, n_requests: int, n_words: int, seconds: float) -> None:
        self._batch_requests.observe(n_requests)
        self._batch_words.observe(n_words)
        self._batch_seconds.observe(seconds)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self._registry)


class Measured:
    """ASGI middleware: counts and times every answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500  # an exception becomes a 500 later

        async def watch(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = getattr(scope.get("route"), "path", _ELSEWHERE)
            self._metrics.request(route, status, time.perf_counter() - began)
