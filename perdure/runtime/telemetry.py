"""OpenTelemetry of a process: an extra, imported only where it is switched on.

Where to, how often and how much is said by the standard variables `OTEL_*`, which the SDK reads itself. Traces go out by
OTLP over HTTP; the metrics of Temporal's client and workers by Temporal's own exporter, to the same place.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from temporalio.runtime import OpenTelemetryConfig, Runtime, TelemetryConfig

from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_METRICS = "OTEL_METRICS_EXPORTER"
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_SERVICE = "OTEL_SERVICE_NAME"
_RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
_NOBODY = "http://localhost:4318"

_next_ids: ContextVar[tuple[int, int] | None] = ContextVar("span ids", default=None)


def derived_id(size: int, *parts: str | int) -> int:
    """An id of so many bytes that depends on `parts` alone: whoever knows the run knows its spans."""
    text = "\x1f".join(["span", *(str(part) for part in parts)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size], "big") or 1


@contextmanager
def named(trace_id: int, span_id: int) -> Generator[None]:
    """Have the span that is begun inside the block get these ids; its trace is its parent's if it has one."""
    token = _next_ids.set((trace_id, span_id))
    try:
        yield
    finally:
        _next_ids.reset(token)


class Telemetry:
    """What a process sends. Made by `start_telemetry`."""

    def __init__(self, provider: TracerProvider) -> None:
        """Send by `provider`."""
        self.provider = provider

    def tracer(self, name: str) -> Tracer:
        """For the spans of one part of the program."""
        return self.provider.get_tracer(name)

    async def close(self) -> None:
        """Send what is left, and stop."""
        await asyncio.to_thread(self.provider.shutdown)


def start_telemetry(service: str) -> Telemetry:
    """Begin to send traces and metrics of this process. Called before Temporal's client is made.

    Args:
        service: the process's name, where `OTEL_SERVICE_NAME` does not say another.

    Raises:
        InvalidInput: the extra is not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"PERDURE_OTEL is on and {error.name!r} is not installed: pip install 'perdure[otel]', or set PERDURE_OTEL=0"
        ) from error

    class Ids(RandomIdGenerator):
        """Random ids, except where `named` says others."""

        def generate_span_id(self) -> int:
            given = _next_ids.get()
            return super().generate_span_id() if given is None else given[1]

        def generate_trace_id(self) -> int:
            given = _next_ids.get()
            return super().generate_trace_id() if given is None else given[0]

    named_elsewhere = _SERVICE in os.environ or f"{SERVICE_NAME}=" in os.environ.get(_RESOURCE, "")
    resource = Resource.create({} if named_elsewhere else {SERVICE_NAME: service})
    provider = TracerProvider(resource=resource, id_generator=Ids(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # else the user's module has set its own
        trace.set_tracer_provider(provider)
    _send_temporal_metrics(os.environ, service)
    return Telemetry(provider)


def _send_temporal_metrics(environment: Mapping[str, str], service: str) -> None:
    if environment.get(_METRICS, "otlp") == "none":
        return
    base = environment.get(_ENDPOINT) or _NOBODY
    url = environment.get(_METRICS_ENDPOINT) or f"{base.rstrip('/')}/v1/metrics"
    metrics = OpenTelemetryConfig(url=url, http=True, headers=_headers(environment.get(_HEADERS, "")))
    tags = {"service_name": environment.get(_SERVICE, service)}
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=metrics, global_tags=tags)))


def _headers(text: str) -> dict[str, str]:
    """Pairs as the standard variable has them: `name=value`, separated by commas."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): value.strip() for name, _, value in pairs}
