"""The turn of a run that was aborted, out of what there is of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from perdure.uap.run_turn import run_turn
from perdure.uap.scaffold import NAMESPACE, as_scaffold
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage

NO_RESULT = "This tool has no result: the run was cancelled before it had one."
OUTCOME_UNKNOWN = "The run was cancelled while this tool was running; whether it had its effect is not known."


def partial_answer(text: str, scaffold: str = "") -> AssistantMessage:
    """An answer that was cancelled while it came. Calls that never became whole are not in it.

    Args:
        text: as far as it came.
        scaffold: "reason" or "plan" if it is the strategy's own.
    """
    answer = AssistantMessage(text or [], metadata={NAMESPACE: {"aborted": True}})
    return as_scaffold(answer, scaffold) if scaffold else answer


def cancelled_execution(call: ToolCall) -> ToolExecution:
    """The record of a call that was cancelled while it ran."""
    return ToolExecution(call.tool_name, call.tool_call_id, call.arguments, OUTCOME_UNKNOWN, True, 0)


def results_so_far(calls: Sequence[ToolCall], known: Mapping[int, ToolExecution]) -> list[ToolResult]:
    """One result per call of a batch that was cancelled, so that the conversation can go on.

    Args:
        calls: in order.
        known: the records of those that were run, by their place.
    """
    return [
        known[place].to_result() if place in known else ToolResult(call.tool_call_id, NO_RESULT, is_error=True)
        for place, call in enumerate(calls)
    ]


def partial_turn(
    messages: Sequence[Message], executions: Sequence[ToolExecution], usage: TokenUsage, cycles: int
) -> Turn:
    """A valid turn whose response says that it was aborted: open calls are answered, no answer is an empty one.

    Args:
        messages: the run's, oldest first, the input first.
        executions: one per executed call, in call order.
        usage: of the model calls that ended.
        cycles: model calls that ended.
    """
    last = messages[-1] if messages else None
    kept = list(messages)
    if isinstance(last, AssistantMessage) and last.tool_calls:
        kept.append(ToolResultMessage(results_so_far(last.tool_calls, {})))
    if not any(isinstance(message, AssistantMessage) for message in kept):
        kept.append(partial_answer(""))
    turn = run_turn(kept, executions, usage, cycles)
    response = turn.response
    marked = dataclasses.replace(response, metadata=_aborted(response))
    return dataclasses.replace(turn, messages=[marked if item is response else item for item in turn.messages])


def _aborted(message: Message) -> dict[str, JSONObject]:
    metadata = dict(message.metadata or {})
    return {**metadata, NAMESPACE: {**metadata.get(NAMESPACE, {}), "aborted": True}}
