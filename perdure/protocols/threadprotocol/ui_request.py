"""What a request of the AI SDK's `useChat` brings: a user's message, answers in an assistant's, or a conversation.

Source: AI SDK 7, UIMessage and HttpChatTransport.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdure.protocols.threadprotocol.content import media_part, text_part
from perdure.protocols.threadprotocol.problem import refuse
from perdure.protocols.threadprotocol.upp_content import write_assistant
from perdure.protocols.uamp_events.content_items import ContentItem, FileItem, TextItem
from perdure.protocols.uamp_events.media import MediaUrl
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolCall, ToolResult

UNANSWERED = "This call has no result."
DENIED = "The call was denied."
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Given:
    """What a client has said about one tool call.

    Attributes:
        call: what the call is named in the stream.
        approval: id of the approval that is answered; None if this is the result of a tool that the client runs.
        answer: as the wait takes it.
    """

    call: str
    approval: str | None
    answer: JSONObject


def parts_in(message: JSONObject) -> list[JSONObject]:
    """The parts of a UI message.

    Raises:
        InvalidThread: it has none.
    """
    parts = message.get("parts")
    if not isinstance(parts, list):
        raise refuse("message.parts", "ui_message", "it is no list", "send a UI message of the AI SDK, with parts")
    return [part for part in parts if isinstance(part, dict)]


def user_items(message: JSONObject, name: str) -> list[ContentItem]:
    """The texts and files of a user's message; other parts say nothing to an agent.

    Args:
        message: the UI message.
        name: what ids of its files derive from: the same for the same message.

    Raises:
        InvalidThread: it says nothing.
    """
    items: list[ContentItem] = []
    for place, part in enumerate(parts_in(message)):
        if part.get("type") == "text":
            items.append(TextItem(text=str(part.get("text") or "")))
        elif part.get("type") == "file":
            kind, filename = str(part.get("mediaType") or _BYTES), part.get("filename")
            named = filename if isinstance(filename, str) and filename else f"file-{place}"
            url = MediaUrl(url=str(part.get("url") or ""))
            items.append(FileItem(file=url, filename=named, mime_type=kind, content_id=derive_id(name, "file", place)))
    if not items:
        raise refuse("message.parts", "ui_message", "it has no text and no file", "send at least one of these")
    return items


def given_in(message: JSONObject) -> list[Given]:
    """What an assistant's message says about its tool calls: decisions, and results of the client's tools."""
    found: list[Given] = []
    for part in parts_in(message):
        call, state = part.get("toolCallId"), part.get("state")
        if not _is_tool(part) or not isinstance(call, str):
            continue
        approval = part.get("approval")
        if state == "approval-responded" and isinstance(approval, dict):
            found.append(Given(call, str(approval.get("id")), _decision(approval)))
        elif state == "output-available":
            found.append(Given(call, None, {"result": part.get("output"), "isError": False}))
        elif state == "output-error":
            found.append(Given(call, None, {"result": str(part.get("errorText") or "error"), "isError": True}))
    return found


def assistant_messages(message: JSONObject, name: str) -> list[Message]:
    """What an assistant's UI message stands for: an answer for each step, each with the results of its calls.

    Reasoning is left out: its signatures, without which no provider takes it, are not the client's to say.

    Args:
        message: the UI message.
        name: what the ids of the messages derive from.
    """
    made: list[Message] = []
    for place, step in enumerate(_steps(parts_in(message))):
        content = [part for part in (_said(part) for part in step) if part is not None]
        tools = [part for part in step if _is_tool(part) and isinstance(part.get("toolCallId"), str)]
        calls = [ToolCall(str(part["toolCallId"]), _tool_of(part), part.get("input")) for part in tools]
        if content or calls:
            said = write_assistant(content)
            made.append(AssistantMessage(said, calls or None, id=derive_id(name, "answer", place)))
        if calls:
            made.append(ToolResultMessage([_result(part) for part in tools], id=derive_id(name, "results", place)))
    return made


def _steps(parts: Sequence[JSONObject]) -> Iterable[list[JSONObject]]:
    step: list[JSONObject] = []
    for part in parts:
        if part.get("type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    yield step


def _said(part: JSONObject) -> JSONObject | None:
    if part.get("type") == "text":
        return text_part(str(part.get("text") or ""))
    if part.get("type") == "file":
        return media_part(str(part.get("mediaType") or _BYTES), url=str(part.get("url") or ""))
    return None


def _is_tool(part: JSONObject) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and (kind.startswith("tool-") or kind == "dynamic-tool")


def _tool_of(part: JSONObject) -> str:
    name = part.get("toolName")
    return name if isinstance(name, str) else str(part["type"]).removeprefix("tool-")


def _decision(approval: JSONObject) -> JSONObject:
    if approval.get("approved") is True:
        return {"decision": "approve"}
    decided: JSONObject = {"decision": "reject"}
    reason = approval.get("reason")
    return decided | {"reason": reason} if isinstance(reason, str) and reason else decided


def _result(part: JSONObject) -> ToolResult:
    call, state = str(part["toolCallId"]), part.get("state")
    if state == "output-available":
        return ToolResult(call, part.get("output"))
    told: JSONValue = part.get("errorText") if state == "output-error" else None
    return ToolResult(call, told or (DENIED if state == "output-denied" else UNANSWERED), True)
