"""The step in hand: what it has used and made so far."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from perdure.activities.contracts import CallToolResult
from perdure.uap.checkpoint import CheckpointRecord, MessageMark
from perdure.uap.ids import answer_id, results_id, scaffold_id
from perdure.uap.recorded_usage import plain_usage
from perdure.uap.stage_place import StagePlace
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.usage import TokenUsage, empty_usage

_MOST_CALLS = 100_000
_LEFT_OUT = ("reasoning", "plan", "sub_agents", "usage_by_agent")  # where a strategy has none of it


@dataclass(slots=True)
class Step:
    """One step of a run.

    Attributes:
        number: from 1.
        usage: tokens of this step.
        marks: messages it has made.
        args: sha256 of the arguments of each of its tool calls.
        stored: its answer had been stored before, by another execution or attempt, so its calls may have run.
        position: messages of the node before it.
        answers: how many answers it has so far.
        scaffolds: how many of its strategy's own it has so far.
        message: id of the answer in hand, and
        results: of its tool-result message.
        scaffold: id of the last answer of the strategy's own.
        stage: where the stage session was when the answer in hand was asked for.
        ahead: results of its tool calls that came with it; None of those that have been used, or have none.
    """

    number: int
    usage: TokenUsage = field(default_factory=empty_usage)
    marks: list[MessageMark] = field(default_factory=list[MessageMark])
    args: list[str] = field(default_factory=list[str])
    stored: bool = False
    position: int = 0
    answers: int = 0
    scaffolds: int = 0
    message: str = ""
    results: str = ""
    scaffold: str = ""
    stage: StagePlace | None = None
    ahead: list[CallToolResult | None] = field(default_factory=list["CallToolResult | None"])

    def next_answer(self, run: str) -> str:
        """Go on to the next answer, and return its id."""
        self.message = answer_id(run, self.number, self.answers)
        self.results = results_id(run, self.number, self.answers)
        self.answers += 1
        return self.message

    def next_scaffold(self, run: str) -> str:
        """Go on to the next answer of the strategy's own, and return its id."""
        self.scaffold = scaffold_id(run, self.number, self.scaffolds)
        self.scaffolds += 1
        return self.scaffold

    def take_ahead(self, index: int) -> CallToolResult | None:
        """The result of a tool call that came with the answer, once; None if the call is to be made."""
        if index >= len(self.ahead):
            return None
        result, self.ahead[index] = self.ahead[index], None
        return result

    def call_place(self, index: int) -> int:
        """A tool call's place among all of the step."""
        return (self.answers - 1) * _MOST_CALLS + index


def totals(usage: TokenUsage) -> dict[str, Any]:
    """Usage as records carry it."""
    return plain_usage(usage)


def record_json(record: CheckpointRecord) -> dict[str, Any]:
    """A checkpoint's record as it travels and is stored."""
    made = dataclasses.asdict(record)
    return {name: value for name, value in made.items() if value or name not in _LEFT_OUT}


def tool_execution(call: ToolCall, result: CallToolResult) -> ToolExecution:
    """UPP's record of a call, as a workflow knows it."""
    return ToolExecution(
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        arguments=result.arguments if result.args_sha256 else call.arguments,
        result=result.result,
        is_error=result.is_error,
        duration_ms=result.duration_ms,
        approved=result.approved,
    )
