"""The trace under which an input is handed in, as W3C's `traceparent`. Nothing of OpenTelemetry is imported here.

A run outlives the process that asked for it, so its trace is stored with its input. Where the process itself is traced, by
us or by the user's own set-up, the span that is current counts; else what an HTTP request brought along.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_API = "opentelemetry.trace"

_brought: ContextVar[str | None] = ContextVar("traceparent", default=None)


def is_traceparent(text: str) -> bool:
    """Whether a text names a span. Source: W3C Trace Context, section 3.2, version 00."""
    return _FORM.fullmatch(text) is not None


@contextmanager
def under(traceparent: str | None) -> Generator[None]:
    """Have what is handed in inside the block belong to a span of another process; what is no `traceparent` is ignored."""
    token = _brought.set(traceparent if traceparent is not None and is_traceparent(traceparent) else None)
    try:
        yield
    finally:
        _brought.reset(token)


@contextmanager
def submitting(agent: str) -> Generator[str | None]:
    """The `traceparent` to store with an input: of a span for the submit, if this process is traced."""
    api: Any = sys.modules.get(_API)
    if api is None:
        yield _brought.get()
        return
    kind = api.SpanKind.PRODUCER
    with api.get_tracer("perdure").start_as_current_span(f"submit {agent}", kind=kind) as span:
        context = span.get_span_context()
        yield _text_of(context) if context.is_valid else _brought.get()


def _text_of(context: Any) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
