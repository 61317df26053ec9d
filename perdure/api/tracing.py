"""Traces over HTTP: the caller's `traceparent` is taken over; the spans of requests are FastAPI's own, if they are sent."""

from __future__ import annotations

from fastapi.telemetry import TelemetryConfig
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.runtime.telemetry import Telemetry
from perdure.runtime.trace_context import under


def request_telemetry(telemetry: Telemetry | None) -> TelemetryConfig:
    """How FastAPI traces: a span of each request and nothing else. Its logs would hold the messages of errors."""
    config = TelemetryConfig(
        tracing=telemetry is not None, metrics=False, logs=False, operation_spans=False, auto_configure=False
    )
    if telemetry is not None:
        config["tracer_provider"] = telemetry.provider
    return config


class TakeTrace:
    """An ASGI middleware. What a request hands in belongs to its caller's trace, also where no spans are sent."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with under(Headers(scope=scope).get("traceparent", "").strip()):
            await self._app(scope, receive, send)
