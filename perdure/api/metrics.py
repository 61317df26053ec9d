"""What a process of the API counts, and what is open in the store, for Prometheus. Labels are few: no id, no tenant."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.store.backlog import Backlog, read_backlog
from perdure.store.database import Database, is_away
from perdure.store.events import Event

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_PATIENCE_S = 2.0
_BACKLOG = {
    "open_runs": "Runs that have begun and not ended, over all tenants.",
    "open_waits": "Questions that nobody has answered, over all tenants.",
    "queued_inputs": "Inputs that no run has taken, over all tenants.",
    "oldest_queued_seconds": "For how long the oldest of those has been due.",
}
_FIELDS = {"oldest_queued_seconds": "oldest_queued_s"}
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The counters of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "perdure_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "perdure_http_request_seconds", "Time until an answer begins.", ("method", "route"), registry=self.registry
        )
        self.runs = Counter("perdure_submitted_runs", "Runs handed in.", ("mode",), registry=self.registry)
        self.streams = Gauge("perdure_open_streams", "Readers that follow an event log.", registry=self.registry)
        self.lag = Histogram(
            "perdure_event_lag_seconds", "From an event's writing to its reader.",
            registry=self.registry, buckets=_LAG_SECONDS,
        )  # fmt: skip
        self._backlog = {
            name: Gauge(f"perdure_{name}", what, registry=self.registry) for name, what in _BACKLOG.items()
        }
        self._up = Gauge("perdure_store_up", "1 if the store answered this scrape, else 0.", registry=self.registry)

    @contextmanager
    def open_stream(self) -> Generator[Callable[[Event], None]]:
        """Count a reader inside the block; the function takes what it is given. Old events have no lag."""
        began = datetime.now(UTC)

        def seen(event: Event) -> None:
            if event.at >= began:
                self.lag.observe(max(0.0, (datetime.now(UTC) - event.at).total_seconds()))

        with self.streams.track_inprogress():
            yield seen

    async def measure(self, database: Database) -> None:
        """See what is open in the store now. If it does not answer, `perdure_store_up` is 0 and those gauges are NaN."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                backlog: Backlog | None = await read_backlog(database)
        except Exception as error:
            if not is_away(error):
                raise
            backlog = None
        self._up.set(backlog is not None)
        values = {} if backlog is None else asdict(backlog)
        for name, gauge in self._backlog.items():
            gauge.set(values.get(_FIELDS.get(name, name), math.nan))

    def text(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self.registry)


class CountRequests:
    """ASGI middleware that counts answers by route; what no route takes is one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Count in front of `app`."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if route != "none" else "any"
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(method, route).observe(time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, counted)
