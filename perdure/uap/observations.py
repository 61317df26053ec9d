"""Tool results as react tells them to the model once more, before it reasons on. Source: UAP-1.0 section 5.3."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolResult

MARKDOWN, JSON, TEXT = "markdown", "json", "text"
FORMATS = (MARKDOWN, JSON, TEXT)


def observations(messages: Sequence[Message], form: str) -> str:
    """The results that end a conversation, in one of `FORMATS`; empty if it does not end with results."""
    last = messages[-1] if messages else None
    if not isinstance(last, ToolResultMessage):
        return ""
    names = _names(messages)
    if form == JSON:
        told: list[JSONValue] = [_as_json(result, names) for result in last.results]
        return dumps(told).decode("utf-8", "surrogatepass")
    if form == TEXT:
        return "\n\n".join(f"{_head(result, names)}: {result.text}" for result in last.results)
    return "\n\n".join(f"### {_head(result, names)}\n\n{result.text}" for result in last.results)


def _names(messages: Sequence[Message]) -> dict[str, str]:
    """The tools' names by call id, from the answer that the last results belong to."""
    answer = next((message for message in reversed(messages) if isinstance(message, AssistantMessage)), None)
    return {call.tool_call_id: call.tool_name for call in (answer.tool_calls or () if answer else ())}


def _head(result: ToolResult, names: dict[str, str]) -> str:
    return names.get(result.tool_call_id, result.tool_call_id) + (" (error)" if result.is_error else "")


def _as_json(result: ToolResult, names: dict[str, str]) -> JSONObject:
    return {"tool": names.get(result.tool_call_id), "isError": result.is_error, "result": result.result}
