"""The step in hand: what it has used and made so far."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from perdure.activities.contracts import CallToolResult
from perdure.uap.checkpoint import CheckpointRecord, MessageMark
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.usage import TokenUsage, empty_usage


@dataclass(slots=True)
class Step:
    """One step of a run.

    Attributes:
        number: from 1.
        usage: tokens of this step.
        marks: messages it has made.
        args: sha256 of the arguments of each of its tool calls.
        stored: its answer had been stored before, by another execution or attempt, so its calls may have run.
    """

    number: int
    usage: TokenUsage = field(default_factory=empty_usage)
    marks: list[MessageMark] = field(default_factory=list[MessageMark])
    args: list[str] = field(default_factory=list[str])
    stored: bool = False


def totals(usage: TokenUsage) -> dict[str, Any]:
    """Usage as records carry it: without its cycles, whose number grows, and without zeros."""
    return {name: value for name, value in usage.to_json().items() if name != "cycles" and value}


def record_json(record: CheckpointRecord) -> dict[str, Any]:
    """A checkpoint's record as it travels and is stored."""
    return dataclasses.asdict(record)


def tool_execution(call: ToolCall, result: CallToolResult) -> ToolExecution:
    """UPP's record of a call, as a workflow knows it."""
    return ToolExecution(
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        arguments=call.arguments,
        result=result.result,
        is_error=result.is_error,
        duration_ms=result.duration_ms,
    )
