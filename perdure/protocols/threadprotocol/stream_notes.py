"""`data-tp-action` chunks: what a client of a stream cannot know of an action, told by the server.

A plain stream lacks numbers, times, agents, statuses, usage and providers' names. With one such chunk for each completed
action, a client makes the same canonical bytes as the server. The chunk is transient: no chat history keeps it. A
`data-tp-drop` chunk names what is shown to people and is no action: a strategy's own thoughts, or an answer that was replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perdure.protocols.threadprotocol.content import is_streamed
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    ThinkingAction,
    ToolCallAction,
    ToolReturnAction,
)
from perdure.protocols.threadprotocol.problem import refuse
from perdure.protocols.threadprotocol.recording import json_args
from perdure.upp.json_value import JSONObject, JSONValue

NOTE_TYPE = "data-tp-action"
DROP_TYPE = "data-tp-drop"
STATUS_TYPE = "data-tp-status"
"""Tells how the run stands: that it waits, and for what. No action is made of it."""
RESERVED = "data-tp-"
STREAMED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "user_message": ("content", "attachments"),
        "assistant_message": ("content",),
        "thinking": ("content", "signature"),
        "tool_call": ("tool_name", "tool_call_id", "args"),
        "tool_return": ("tool_name", "tool_call_id", "content"),
    }
)
"""What the other chunks tell of an action; of a system action they tell `data`."""
_HEAD = ("action_type", "timestamp", "sequence", "agent_id")


def streamed(action_type: str) -> tuple[str, ...]:
    """The members of an action that the other chunks tell."""
    return STREAMED.get(action_type, ("data",))


@dataclass(frozen=True, slots=True)
class Note:
    """What a `data-tp-action` chunk tells.

    Attributes:
        sequence: the action's number.
        timestamp: when it was complete.
        agent_id: whose it is; None if it is nobody's.
        fields: all members that no other chunk tells.
        whole: other chunks tell none of its members, whatever they say.
    """

    sequence: int
    timestamp: str
    agent_id: str | None
    fields: JSONObject
    whole: bool = False


def note_chunk(action: AnyAction, ref: str, *, untold: Collection[str] = (), whole: bool = False) -> JSONObject:
    """The `data-tp-action` chunk of an action.

    Args:
        action: as it is in the thread.
        ref: what the action is called in the stream: the id of its (first) text or reasoning block, the tool call's id,
            the `id` of its data chunk, the id of the user's UI message.
        untold: members that the other chunks do not tell, or tell otherwise.
        whole: the other chunks tell none of them.
    """
    value = action.to_json()
    names = () if whole else streamed(action.action_type)
    told = [name for name in names if name not in untold and _is_told(action, name, ref)]
    data: JSONObject = {
        "action_type": action.action_type,
        "ref": ref,
        "sequence": action.sequence,
        "timestamp": action.timestamp,
    }
    if "agent_id" in value:
        data["agent_id"] = value["agent_id"]
    fields = {name: item for name, item in value.items() if name not in _HEAD and name not in told}
    if fields:
        data["fields"] = fields
    if whole:
        data["whole"] = True
    return {"type": NOTE_TYPE, "data": data, "transient": True}


def drop_chunk(action_type: str, ref: str) -> JSONObject:
    """The chunk that says that no action is made of something that was shown.

    Args:
        action_type: of the action that a reader would make.
        ref: what it is called in the stream.
    """
    return {"type": DROP_TYPE, "data": {"action_type": action_type, "ref": ref}, "transient": True}


def status_chunk(data: JSONObject) -> JSONObject:
    """The chunk that tells how the run stands."""
    return {"type": STATUS_TYPE, "data": data, "transient": True}


def _is_told(action: AnyAction, name: str, ref: str) -> bool:
    """Whether a reader makes the very same member of the other chunks."""
    match action:
        case AssistantMessageAction() if name == "content":
            return is_streamed(action.content)
        case ThinkingAction() if name == "content":
            return action.content != ""
        case ToolCallAction() if name == "args":
            return action.args is not None and (
                not isinstance(action.args, str) or json_args(action.args) == action.args
            )
        case ToolCallAction() | ToolReturnAction() if name == "tool_call_id":
            return action.tool_call_id == ref
        case ToolReturnAction() if name == "content" and action.status != "success":
            return isinstance(action.content, str) and action.extensions.get("outcome") != "denied"
        case _:
            return True


def read_note(data: JSONValue) -> tuple[tuple[str, str], Note]:
    """The note of a `data-tp-action` chunk's data, and the type and ref of its action.

    Raises:
        InvalidThread: it is none.
    """
    source = data if isinstance(data, dict) else {}
    kind, ref, sequence, at = (source.get(name) for name in ("action_type", "ref", "sequence", "timestamp"))
    if not (isinstance(kind, str) and isinstance(ref, str) and isinstance(sequence, int) and isinstance(at, str)):
        needs = "give action_type, ref, sequence and timestamp"
        raise refuse("chunk.data", "stream", f"a {NOTE_TYPE} chunk lacks a member or has a wrong one", needs)
    agent, fields = source.get("agent_id"), source.get("fields")
    return (kind, ref), Note(
        sequence,
        at,
        agent if isinstance(agent, str) else None,
        fields if isinstance(fields, dict) else {},
        source.get("whole") is True,
    )


def read_drop(data: JSONValue) -> tuple[str, str] | None:
    """The type and ref that a `data-tp-drop` chunk names; None if it names none."""
    source = data if isinstance(data, dict) else {}
    kind, ref = source.get("action_type"), source.get("ref")
    return (kind, ref) if isinstance(kind, str) and isinstance(ref, str) else None
