"""What receives traces in tests: an OTLP server on a real socket, and the spans that came, as a tree."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

METRICS = "/v1/metrics"


@dataclass(frozen=True, slots=True)
class Span:
    """One span that was sent."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    failed: bool
    values: dict[str, Any] = field(default_factory=dict[str, Any])


class Collector:
    """An OTLP receiver that keeps everything."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bytes: list[bytes] = []
        self.paths: set[str] = set()
        self._lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """Has a process of ours send here, soon."""
        return {
            "PERDURE_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    port = 0

    def take(self, path: str, body: bytes) -> None:
        """Keep what one request has brought."""
        with self._lock:
            self.paths.add(path)
            if path == METRICS:
                return
            self.bytes.append(body)
            self.spans.extend(_read(body))

    def of_trace(self, trace: str) -> list[Span]:
        """The spans of one trace so far, in the order of their beginning."""
        with self._lock:
            return sorted((span for span in self.spans if span.trace == trace), key=lambda span: span.began)

    def of_run(self, run: str) -> list[Span]:
        """The spans that name a run, likewise."""
        with self._lock:
            found = [span for span in self.spans if span.values.get("perdure.run") == run]
        return sorted(found, key=lambda span: (span.began, span.name))


def tree(spans: list[Span]) -> list[tuple[str, str]]:
    """Each span's name and its parent's, sorted; "" for a parent that is not among them."""
    names = {span.id: span.name for span in spans}
    return sorted((span.name, names.get(span.parent, "")) for span in spans)


@contextmanager
def collecting() -> Generator[Collector]:
    """A receiver, for the length of the block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, name="collector", daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _read(body: bytes) -> Iterator[Span]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    name=span.name,
                    service=str(about.get("service.name")),
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    failed=span.status.code == Status.STATUS_CODE_ERROR,
                    values={pair.key: _value(pair.value) for pair in span.attributes},
                )


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
