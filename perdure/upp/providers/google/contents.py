"""A conversation as Gemini's `contents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.upp.content import ContentBlock, DocumentBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.layout import assistant_parts, native_ids, sent_names
from perdure.upp.providers.google.media import bytes_part, document_parts, image_part
from perdure.upp.tool_call import ToolResult

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What Google's documentation of thought signatures gives for calls that no Gemini 3 model made: another vendor's, or
an older model's. Without a signature Gemini 3 refuses the first call of a message."""


def contents_of(messages: Sequence[Message], needs_signatures: bool) -> list[JSONValue]:
    """Returns the conversation; messages with nothing to send, such as reasoning alone, are left out.

    Args:
        messages: oldest first.
        needs_signatures: whether the model refuses calls without a thought signature.

    Raises:
        UPPError: INVALID_REQUEST for media that Gemini cannot take, a result without its call, or no content at all.
    """
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    names = {own: name for answer in answers for own, name in sent_names(answer)}
    ids = {own: id_ for answer in answers for own, id_ in native_ids(answer)}
    contents: list[JSONValue] = []
    for message in messages:
        role, parts = _role_and_parts(message, names, ids)
        if needs_signatures:
            _sign_first_call(parts)
        if parts:
            contents.append({"role": role, "parts": [*parts]})
    if not contents:
        raise refuse("there is no message with content to send; give at least one user message", PROVIDER)
    return contents


def _role_and_parts(message: Message, names: Mapping[str, str], ids: Mapping[str, str]) -> tuple[str, list[JSONObject]]:
    if isinstance(message, AssistantMessage):
        return "model", assistant_parts(message)
    if isinstance(message, ToolResultMessage):
        return "user", [_result_part(result, names, ids) for result in message.results]
    assert isinstance(message, UserMessage)
    parts = [part for block in message.content for part in _user_parts(block)]
    return "user", [part for part in parts if part != {"text": ""}] or [{"text": ""}]


def _user_parts(block: ContentBlock) -> list[JSONObject]:
    match block:
        case TextBlock(text) | ReasoningBlock(text):
            return [{"text": text}]
        case ImageBlock():
            return [image_part(block)]
        case DocumentBlock():
            return document_parts(block)
        case _:
            return [bytes_part(block)]


def _result_part(result: ToolResult, names: Mapping[str, str], ids: Mapping[str, str]) -> JSONObject:
    name = names.get(result.tool_call_id)
    if name is None:
        raise refuse(
            f"the tool result {result.tool_call_id!r} has no call before it; keep the assistant message that made it",
            PROVIDER,
        )
    response: JSONObject = {"name": name, "response": _response(result)}
    if result.tool_call_id in ids:
        response["id"] = ids[result.tool_call_id]
    return {"functionResponse": response}


def _response(result: ToolResult) -> JSONObject:
    if result.is_error:
        return {"error": result.result}
    return result.result if isinstance(result.result, dict) else {"result": result.result}


def _sign_first_call(parts: list[JSONObject]) -> None:
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in parts[first]:
        parts[first] = parts[first] | {"thoughtSignature": FOREIGN_SIGNATURE}
