"""The neutral tool choice."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tool_choice import ToolChoiceMode, ToolChoiceSetting, read_tool_choice
from perdure.upp.tools import Tool


def nothing(_: object) -> None: ...


TOOLS = [Tool(name, "A tool.", {"type": "object", "properties": {}}, run=nothing) for name in ("look", "write")]
ASKED: list[Message] = [UserMessage("hello")]
ANSWERED: list[Message] = [
    *ASKED,
    AssistantMessage([], [ToolCall("1", "look", {})]),
    ToolResultMessage([ToolResult("1", "seen")]),
]


@pytest.mark.parametrize(
    ("choice", "setting"),
    [
        (None, None),
        ("auto", ToolChoiceSetting(ToolChoiceMode.AUTO)),
        ("none", ToolChoiceSetting(ToolChoiceMode.NONE)),
        ("required", ToolChoiceSetting(ToolChoiceMode.REQUIRED)),
        ({"name": "look"}, ToolChoiceSetting(ToolChoiceMode.NAMED, "look")),
    ],
)
def test_the_four_forms_are_read(choice: Any, setting: ToolChoiceSetting | None) -> None:
    assert read_tool_choice(choice, TOOLS, ASKED) == setting


@pytest.mark.parametrize("choice", ["required", {"name": "look"}])
def test_a_call_is_forced_once(choice: Any) -> None:
    """After tool results the model may end; with the next question it is forced again."""
    assert read_tool_choice(choice, TOOLS, ANSWERED) == ToolChoiceSetting(ToolChoiceMode.AUTO)
    again = read_tool_choice(choice, TOOLS, [*ANSWERED, AssistantMessage("so"), UserMessage("again")])
    assert again is not None
    assert again.mode is not ToolChoiceMode.AUTO


def test_no_tool_stays_no_tool() -> None:
    assert read_tool_choice("none", TOOLS, ANSWERED) == ToolChoiceSetting(ToolChoiceMode.NONE)


@pytest.mark.parametrize(
    ("choice", "tools", "said"),
    [
        ("any", TOOLS, 'must be "auto", "none", "required"'),
        ({"name": 7}, TOOLS, "must be"),
        ({"name": "look", "type": "function"}, TOOLS, "must be"),
        ({}, TOOLS, "must be"),
        (7, TOOLS, "must be"),
        ({"name": "sing"}, TOOLS, "'sing'; there are look, write"),
        ({"name": "sing"}, [], "there are none"),
        ("required", [], "needs at least one tool"),
    ],
)
def test_what_cannot_be_done_is_refused(choice: Any, tools: list[Tool], said: str) -> None:
    with pytest.raises(UPPError, match=said) as raised:
        read_tool_choice(choice, tools, ASKED)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
