"""Whether and which tools a model must call: the neutral form that every adapter reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, ToolResultMessage
from perdure.upp.tools import Tool

ToolChoice: TypeAlias = str | JSONObject
"""Whether the model calls tools: "auto", "none", "required", or `{"name": "<tool>"}` for that tool."""


class ToolChoiceMode(StrEnum):
    """The kinds of a tool choice."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolChoiceSetting:
    """A tool choice that was read and checked.

    Attributes:
        name: the tool that must be called; empty unless the mode is NAMED.
    """

    mode: ToolChoiceMode
    name: str = ""


def read_tool_choice(
    choice: ToolChoice | None, tools: Sequence[Tool], messages: Sequence[Message]
) -> ToolChoiceSetting | None:
    """Returns what a request asks for, or None if it leaves the choice to the vendor's default.

    A forced call is forced once: after tool results it is "auto", else the model could never end.

    Raises:
        UPPError: INVALID_REQUEST if the choice is none of the four, or asks for a tool that is not there.
    """
    match choice:
        case None:
            return None
        case "auto" | "none":
            return ToolChoiceSetting(ToolChoiceMode(choice))
        case "required":
            wanted = ToolChoiceSetting(ToolChoiceMode.REQUIRED)
        case {"name": str(name)} if len(choice) == 1:
            wanted = ToolChoiceSetting(ToolChoiceMode.NAMED, name)
        case _:
            raise _invalid(f'tool_choice {choice!r} must be "auto", "none", "required" or {{"name": "<tool>"}}')
    names = [tool.name for tool in tools]
    if wanted.mode is ToolChoiceMode.NAMED and wanted.name not in names:
        raise _invalid(f"tool_choice names the tool {wanted.name!r}; there are {', '.join(names) or 'none'}")
    if not names:
        raise _invalid('tool_choice "required" needs at least one tool')
    if messages and isinstance(messages[-1], ToolResultMessage):
        return ToolChoiceSetting(ToolChoiceMode.AUTO)
    return wanted


def _invalid(problem: str) -> UPPError:
    return UPPError(problem, ErrorCode.INVALID_REQUEST)
