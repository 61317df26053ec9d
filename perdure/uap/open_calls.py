"""Tool calls in a history that nobody answered. Vendors refuse such a history, so it is sent with errors in their place.

The history itself stays as it is: what is added depends on it alone and is the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uap.ids import derive_id
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolResult

NOT_CARRIED_OUT = "the call was not carried out: the run ended before"


def sendable_history(history: Sequence[Message], message: Message) -> list[Message]:
    """The history before a message, every tool call in it answered, by an error if by nothing else.

    Args:
        history: oldest first; it is not changed.
        message: what comes after it, which may be the missing results.
    """
    whole = [*history, message]
    sent: list[Message] = []
    for place, item in enumerate(history):
        sent.append(item)
        if isinstance(item, AssistantMessage) and item.tool_calls:
            sent.extend(_missing(item, _answered(whole, place + 1)))
    return sent


def answered(messages: Sequence[Message]) -> list[Message]:
    """The messages, every tool call in them answered, by an error if by nothing else.

    Args:
        messages: oldest first.
    """
    return [
        item for place, message in enumerate(messages) for item in (message, *_missing_of(message, messages, place + 1))
    ]


def _missing_of(message: Message, messages: Sequence[Message], place: int) -> list[Message]:
    return _missing(message, _answered(messages, place)) if isinstance(message, AssistantMessage) else []


def _answered(messages: Sequence[Message], first: int) -> set[str]:
    """The calls that the results from a place on belong to, right behind an answer."""
    ids: set[str] = set()
    for place in range(first, len(messages)):
        item = messages[place]
        if not isinstance(item, ToolResultMessage):
            break
        ids.update(result.tool_call_id for result in item.results)
    return ids


def _missing(answer: AssistantMessage, answered: set[str]) -> list[Message]:
    calls = [call for call in answer.tool_calls or () if call.tool_call_id not in answered]
    if not calls:
        return []
    results = [ToolResult(call.tool_call_id, NOT_CARRIED_OUT, is_error=True) for call in calls]
    return [ToolResultMessage(results, id=derive_id(answer.id, "not_carried_out"), timestamp=answer.timestamp)]
