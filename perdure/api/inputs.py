"""Messages as requests give them: text, or UPP's form in which id, time and type may be left out."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import InvalidInput
from perdure.uap.ids import new_id
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage, message_from_json
from perdure.upp.timestamp import format_timestamp, now


def to_message(given: str | JSONObject) -> UserMessage:
    """The user's message of an input.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(given, str):
        return UserMessage(given)
    content = given.get("content")
    if isinstance(content, str):
        given = {**given, "content": [{"type": "text", "text": content}]}
    message = _message(given, "#/input")
    if not isinstance(message, UserMessage):
        raise InvalidInput(f"#/input: its type is {message.type!s}; an input must be a user's message")
    return message


def to_history(given: Sequence[JSONObject] | None) -> list[Message]:
    """The messages of an uploaded history. Raises InvalidInput."""
    return [_message(item, f"#/history/{place}") for place, item in enumerate(given or ())]


def _message(given: JSONObject, pointer: str) -> Message:
    known: JSONObject = {"id": new_id(), "timestamp": format_timestamp(now()), "type": "user"}
    try:
        return message_from_json({**known, **given})
    except UPPError as error:
        raise InvalidInput(f"{pointer}: {error}") from error
