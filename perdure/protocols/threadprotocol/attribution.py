"""Other agents' words and tools as one agent reads them. Source: ThreadProtocol 1.0.0, ThreadProtocol → ModelMessages."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.protocols.threadprotocol.content import MessageContent, text_part
from perdure.protocols.threadprotocol.models import AnyAction, ToolCallAction, ToolReturnAction
from perdure.protocols.threadprotocol.rules import safe_name
from perdure.upp.json_value import JSONValue, dumps

MAX_SUMMARY_CHARS = 200
"""Of the arguments, and of the result, in the line that stands for another agent's call."""


def attributed(name: str, content: MessageContent) -> MessageContent:
    """Another agent's words with `{agent:Name}: ` before the first text; a text is put first if there is none.

    A text that begins so already gets the prefix all the same: anybody can write it.
    """
    prefix = f"{{agent:{safe_name(name)}}}: "
    if isinstance(content, str):
        return prefix + content
    first = next((index for index, part in enumerate(content) if part["type"] == "text"), None)
    if first is None:
        return [text_part(prefix), *content]
    named = content[first] | {"text": f"{prefix}{content[first]['text']}"}
    return [*content[:first], named, *content[first + 1 :]]


def tool_line(
    action: AnyAction,
    calls: Mapping[str, ToolCallAction],
    returns: Mapping[str, ToolReturnAction],
    *,
    in_full: bool,
) -> str | None:
    """What is said of another agent's call or return; None if its counterpart says it.

    Args:
        action: the call or return.
        calls: of the thread, by id.
        returns: of the thread, by call id.
        in_full: a line for each of both with all of it; else one short line for both, where the return stands.
    """
    if isinstance(action, ToolReturnAction):
        call = calls.get(action.tool_call_id)
        if in_full or call is None:
            return f"tool {action.tool_name} returned ({action.status}) {_text(action.content)}"
        return f"used tool {action.tool_name}({_short(call.args)}) → {_short(action.content)}"
    if isinstance(action, ToolCallAction):
        if in_full:
            return f"called tool {action.tool_name} with {_text(action.args)}"
        return None if action.tool_call_id in returns else f"used tool {action.tool_name}({_short(action.args)})"
    return None


def _short(value: JSONValue) -> str:
    text = _text(value)
    return text if len(text) <= MAX_SUMMARY_CHARS else text[:MAX_SUMMARY_CHARS] + "…"


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else dumps(value).decode("utf-8", "surrogatepass")
