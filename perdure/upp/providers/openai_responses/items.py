"""The conversation as the Responses API takes it: one list of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._tool_calls import sent_name
from perdure.upp.providers.openai_responses.content import user_content
from perdure.upp.providers.openai_responses.dialect import Dialect
from perdure.upp.providers.openai_responses.kept import without
from perdure.upp.providers.openai_responses.replay import arguments_text, replay_items, texts_of, wire_call_id
from perdure.upp.tool_call import ToolCall, ToolResult

OUTPUT = "output"
"""Where a message's metadata has the items that it came from."""


def to_items(messages: Sequence[Message], dialect: Dialect, *, stored: bool) -> list[JSONValue]:
    """Returns the messages as input items, in order.

    Args:
        messages: oldest first.
        dialect: the service that they are for.
        stored: whether the vendor has its own earlier answers.

    Raises:
        UPPError: INVALID_REQUEST if a message holds what the service does not take.
    """
    items: list[JSONValue] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            items.extend(_assistant(message, dialect, stored=stored))
        elif isinstance(message, ToolResultMessage):
            items.extend(_result(result, dialect) for result in message.results)
        else:
            items.append({"type": "message", "role": "user", "content": user_content(message.blocks(), dialect)})
    return items


def system_item(system: str | list[JSONValue], provider: str) -> JSONObject:
    """Returns the system prompt as the first item; blocks are joined by blank lines unless they say more than text.

    Raises:
        UPPError: INVALID_REQUEST if a block is no text block.
    """
    if isinstance(system, str):
        return {"type": "message", "role": "system", "content": system}
    texts: list[str] = []
    plain = True
    for block in system:
        match block:
            case str(text):
                pass
            case {"text": str(text), **rest}:
                plain = plain and not without(rest, "type")
            case _:
                raise refuse("a block of the system prompt must be a string or an object with text", provider)
        texts.append(text)
    if plain:
        return {"type": "message", "role": "system", "content": "\n\n".join(texts)}
    parts: list[JSONValue] = [
        {"type": "input_text", "text": block} if isinstance(block, str) else cast(JSONObject, block) for block in system
    ]
    return {"type": "message", "role": "system", "content": parts}


def _assistant(message: AssistantMessage, dialect: Dialect, *, stored: bool) -> list[JSONObject]:
    kept = (message.metadata or {}).get(dialect.provider, {}).get(OUTPUT)
    items = replay_items(message, kept, stored=stored)
    if items is None:
        items = _rebuilt(message, dialect)
    return (
        [_identified(item, f"{message.id}_{index}") for index, item in enumerate(items)] if dialect.item_ids else items
    )


def _rebuilt(message: AssistantMessage, dialect: Dialect) -> list[JSONObject]:
    """Returns an answer as items when nothing is known of its own; another vendor's reasoning means nothing here."""
    for block in message.blocks():
        if not isinstance(block, TextBlock | ReasoningBlock):
            raise refuse(
                f"an assistant message holds {block.type} content, which {dialect.provider} does not take back; "
                "leave it out, or put it into a user message",
                dialect.provider,
            )
    text = "\n\n".join(texts_of(message))
    items: list[JSONObject] = [{"type": "message", "role": "assistant", "content": text}] if text else []
    return items + [_call(call) for call in message.tool_calls or ()]


def _call(call: ToolCall) -> JSONObject:
    return {
        "type": "function_call",
        "call_id": wire_call_id(call.tool_call_id),
        "name": sent_name(call.tool_name),
        "arguments": arguments_text(call),
    }


def _result(result: ToolResult, dialect: Dialect) -> JSONObject:
    """Returns a tool's result; the vendor has no field for errors, so an error's text says that it is one."""
    item: JSONObject = {
        "type": "function_call_output",
        "call_id": wire_call_id(result.tool_call_id),
        "output": f"Error: {result.text}" if result.is_error else result.text,
    }
    return {**item, "id": f"fco_{item['call_id']}", "status": "completed"} if dialect.item_ids else item


def _identified(item: JSONObject, own: str) -> JSONObject:
    """Returns an item with id and status, for a service that wants them on everything that the assistant said."""
    match item:
        case {"type": "message", "content": str(text)}:
            part: JSONObject = {"type": "output_text", "text": text, "annotations": []}
            return {"id": f"msg_{own}", "status": "completed", **item, "content": [part]}
        case {"type": "function_call", "call_id": str(call_id)}:
            return {"id": f"fc_{call_id}", "status": "completed", **item}
        case _:
            return item
