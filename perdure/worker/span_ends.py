"""How the span of a call ends, by what the call came to."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Span, Status, StatusCode
from temporalio import activity

from perdure.activities.contracts import CallToolResult, GenerateResult, RunTaskResult


def finish(span: Span, result: object, ended_ns: int | None) -> None:
    """Send a call's span, unless nothing was called: what was stored before has been told, what is parked comes again.

    Args:
        span: the call's.
        result: what it came to.
        ended_ns: when it ended; None for now.
    """
    if isinstance(result, GenerateResult):
        if result.stored or result.kind not in ("answer", "cancelled"):
            return
        span.set_attributes(usage_of(result.usage))
        if result.stop:
            span.set_attribute("gen_ai.response.finish_reasons", [result.stop])
        if result.kind == "cancelled":
            span.set_attribute("perdure.outcome", "cancelled")
    elif isinstance(result, CallToolResult):
        if result.kind != "result" or result.attempt != activity.info().attempt:
            return
        if result.is_error:
            failed(span, "tool_error")
    elif isinstance(result, RunTaskResult):
        if not result.status:
            return
        if result.status == "error":
            failed(span, "task_error")
    span.end(ended_ns)


def usage_of(usage: dict[str, Any]) -> dict[str, int]:
    """Tokens by the conventions' names."""
    names = {"inputTokens": "gen_ai.usage.input_tokens", "outputTokens": "gen_ai.usage.output_tokens"}
    return {told: int(usage[name]) for name, told in names.items() if name in usage}


def failed(span: Span, kind: str) -> None:
    """Mark a span as failed, with the error's type and nothing of its text."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
