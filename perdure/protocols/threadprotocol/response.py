"""What one model response says, as one assistant message: the rule that all mappings into ThreadProtocol share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.protocols.threadprotocol.content import MessageContent, joined
from perdure.protocols.threadprotocol.recording import Recording
from perdure.upp.json_value import JSONObject, JSONValue

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.\-]")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a response says.

    Attributes:
        content: all texts and files in order, adjacent texts joined with nothing between.
        place: the index of the first part that says something; None if nothing is said.
    """

    content: MessageContent
    place: int | None


def shown_parts(said: Sequence[Sequence[JSONObject] | None]) -> Shown:
    """What the parts of a response say together.

    Args:
        said: one per part of the response: its parts of content, or None for thinking, calls and the like.
    """
    place = next((index for index, parts in enumerate(said) if parts is not None), None)
    content = joined([part for parts in said for part in parts or ()])
    if content == "" and any(parts is None for parts in said):
        return Shown("", None)  # an empty text says nothing beside a call or thinking
    return Shown(content, place)


def add_message(
    recording: Recording,
    agent_id: str,
    content: MessageContent,
    at: str | None,
    finish_reason: JSONValue = None,
    usage: JSONObject | None = None,
    more: JSONObject | None = None,
) -> None:
    """Records what a response says.

    Args:
        recording: to record it in.
        agent_id: who says it.
        content: what.
        at: when; the last action's time if None.
        finish_reason: in the specification's words, if known.
        usage: the response's, if known.
        more: extension members.
    """
    given: JSONValue = content if isinstance(content, str) else [*content]
    fields: JSONObject = {"agent_id": agent_id, "content": given, "finish_reason": finish_reason, "usage": usage}
    recording.add("assistant_message", fields | (more or {}), at)


def system_type(name: str) -> str:
    """The type of the system action for a name of another protocol: hyphens become underscores."""
    return "system." + (_NOT_IN_A_NAME.sub("_", name).replace("-", "_") or "unnamed")
