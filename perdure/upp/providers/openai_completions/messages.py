"""A conversation as Chat Completions takes it.

What a server needs back of its own answers is kept in `metadata.<provider>` and sent as it came:
`reasoning_details` always; `reasoning_content` on the messages of turns in which tools were called, because DeepSeek
refuses such a turn without it, in all later requests too, and reads it nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from perdure.upp.content import AudioBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import JSONObject, JSONValue, dumps, well_formed
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import image_url
from perdure.upp.providers._tool_calls import arguments_object, sent_name
from perdure.upp.providers.openai_completions.dialect import Dialect
from perdure.upp.providers.openai_completions.media import text_part, to_part
from perdure.upp.tool_call import ToolCall, ToolResult


def to_messages(
    system: str | list[JSONValue] | None, messages: Sequence[Message], dialect: Dialect, max_call_id: int | None
) -> list[JSONValue]:
    """Returns the conversation, the system prompt first.

    Args:
        system: text, or the vendor's own text parts.
        messages: the conversation, oldest first.
        dialect: what the vendor takes.
        max_call_id: the longest id of a call that goes out as it is; longer ones are replaced by a digest.

    Raises:
        UPPError: INVALID_REQUEST if the vendor cannot take a block.
    """
    wire: list[JSONValue] = [{"role": "system", "content": system}] if system else []
    in_tool_turn = _in_tool_turn(messages)
    for message, with_tools in zip(messages, in_tool_turn, strict=True):
        wire.extend(_marked(message, _to_wire(message, with_tools, dialect, max_call_id), dialect))
    return wire


def _in_tool_turn(messages: Sequence[Message]) -> list[bool]:
    """Returns for each message whether tools were called between the user messages around it."""
    turn, turns, with_calls = 0, list[int](), set[int]()
    for message in messages:
        turn += isinstance(message, UserMessage)
        turns.append(turn)
        if isinstance(message, AssistantMessage) and message.has_tool_calls:
            with_calls.add(turn)
    return [number in with_calls for number in turns]


def _to_wire(message: Message, with_tools: bool, dialect: Dialect, max_call_id: int | None) -> list[JSONObject]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": _user_content(message, dialect)}]
        case AssistantMessage():
            return [_assistant(message, with_tools, dialect, max_call_id)]
        case ToolResultMessage():
            return [_result(result, max_call_id) for result in message.results]
        case _:
            raise refuse(f"unknown kind of message: {type(message).__name__}", dialect.provider)


def _user_content(message: UserMessage, dialect: Dialect) -> str | list[JSONValue]:
    blocks = [block for block in message.content if not isinstance(block, TextBlock) or block.text.strip()]
    if all(isinstance(block, TextBlock) for block in blocks) and len(blocks) <= 1:
        return message.text
    return [to_part(block, dialect) for block in blocks]


def _assistant(message: AssistantMessage, with_tools: bool, dialect: Dialect, max_call_id: int | None) -> JSONObject:
    text = message.text
    content = text if text.strip() or not message.has_tool_calls else None
    wire: JSONObject = {"role": "assistant", "content": content}
    if message.tool_calls:
        wire["tool_calls"] = [_call(call, max_call_id) for call in message.tool_calls]
    wire.update(_media(message, dialect))
    own = (message.metadata or {}).get(dialect.provider, {})
    if own.get("reasoning_details"):
        wire["reasoning_details"] = own["reasoning_details"]
    if with_tools and isinstance(own.get("reasoning_content"), str):
        wire["reasoning_content"] = own["reasoning_content"]
    return wire


def _media(message: AssistantMessage, dialect: Dialect) -> JSONObject:
    """Returns the fields for media that the model made; sound is sent as the text beside it, its transcript."""
    images: list[JSONValue] = []
    for block in message.content:
        if isinstance(block, ImageBlock) and dialect.sends_images_back:
            images.append({"type": "image_url", "image_url": {"url": image_url(block)}})
        elif isinstance(block, VideoBlock | ImageBlock) or (isinstance(block, AudioBlock) and not message.text):
            raise refuse(
                f"{dialect.provider} takes no {block.type} in an assistant message; put it into a user message",
                dialect.provider,
            )
    return {"images": images} if images else {}


def _call(call: ToolCall, max_call_id: int | None) -> JSONObject:
    # An object always: servers that render prompts from templates, vLLM among them, refuse anything else.
    arguments = dumps(well_formed(arguments_object(call.arguments))).decode()
    function: JSONObject = {"name": sent_name(call.tool_name), "arguments": arguments}
    return {"id": _call_id(call.tool_call_id, max_call_id), "type": "function", "function": function}


def _result(result: ToolResult, max_call_id: int | None) -> JSONObject:
    content = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "tool_call_id": _call_id(result.tool_call_id, max_call_id), "content": content}


def _call_id(given: str, longest: int | None) -> str:
    """Returns an id that fits; the same for a call and its result."""
    if longest is None or len(given) <= longest:
        return given
    return "call_" + hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[: longest - 5]


def _marked(message: Message, wire: list[JSONObject], dialect: Dialect) -> Iterator[JSONObject]:
    """Yields the message's wire forms; the last text part of the last one bears the message's cache mark."""
    mark = (message.metadata or {}).get(dialect.provider, {}).get("cache_control") if dialect.cache_control else None
    if mark is not None and wire:
        last = wire[-1]
        content = last["content"]
        parts = [text_part(content)] if isinstance(content, str) else content if isinstance(content, list) else []
        texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        if not texts:
            raise refuse("cache_control needs a message with text", dialect.provider)
        texts[-1]["cache_control"] = mark
        last["content"] = list[JSONValue](parts)
    yield from wire
