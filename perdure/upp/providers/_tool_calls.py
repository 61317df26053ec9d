"""Tool calls on their way from and to vendors, whose models write arguments that are not always JSON."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace

from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.tool_call import ToolCall

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def read_arguments(text: str) -> JSONValue:
    """Returns what a model wrote as arguments: an object for no text at all, the text itself if it is no JSON."""
    if not text.strip():
        return {}
    try:
        return well_formed(loads(text.encode("utf-8", "surrogatepass")))
    except ValueError:
        return well_formed(text)


def arguments_object(arguments: JSONValue) -> JSONObject:
    """Returns arguments as vendors want them back: an object; what a model wrote that is none stands inside one."""
    return arguments if isinstance(arguments, dict) else {"invalid_arguments": arguments}


def sent_name(name: str) -> str:
    """Returns a tool's name as every vendor takes it back.

    Models call tools that do not exist, by names that no vendor would accept in the next request.
    """
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "_"


def new_call_id(provider: str) -> str:
    """Returns an id for a call of a vendor that gives none; unique over all messages."""
    return f"{provider}_{uuid.uuid4().hex}"


def with_own_ids(calls: Sequence[ToolCall], provider: str) -> list[ToolCall]:
    """Returns the calls, each with an id of its own: a missing or repeated one is replaced."""
    seen: set[str] = set()
    result: list[ToolCall] = []
    for call in calls:
        own = replace(call, tool_call_id=new_call_id(provider)) if call.tool_call_id in {"", *seen} else call
        seen.add(own.tool_call_id)
        result.append(own)
    return result


def names_of_calls(messages: Sequence[Message]) -> dict[str, str]:
    """Returns the tool's name by call id, for vendors whose results carry the name."""
    return {
        call.tool_call_id: call.tool_name
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or ()
    }
