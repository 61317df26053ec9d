"""Turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import dumps, loads
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from tests.unit.upp import strategies as upp


@given(upp.turns)
@settings(max_examples=30)
def test_a_turn_survives_json(turn: Turn) -> None:
    """Messages, executions, usage and data are read back equal."""
    assert Turn.from_json(loads(dumps(turn.to_json()))) == turn


def test_the_response_is_the_last_assistant_message() -> None:
    """Results after it do not hide it."""
    last = AssistantMessage("b")
    turn = Turn([UserMessage("q"), AssistantMessage("a"), last, ToolResultMessage([])], [], empty_usage(), 2)
    assert turn.response is last


@pytest.mark.parametrize("messages", [[], [UserMessage("q")]])
def test_a_turn_without_an_answer_is_refused(messages: list[Message]) -> None:
    """There is no turn without an assistant message."""
    with pytest.raises(UPPError, match="at least one assistant message") as caught:
        Turn(messages, [], empty_usage(), 1)
    assert caught.value.code is ErrorCode.INVALID_RESPONSE


def test_the_json_has_no_response() -> None:
    """The response is derived, and absent data is not written."""
    turn = Turn([AssistantMessage("a")], [], empty_usage(), 1)
    assert set(turn.to_json()) == {"messages", "toolExecutions", "usage", "cycles"}


def test_the_callers_lists_are_copied() -> None:
    """A turn does not change after it was made."""
    messages: list[Message] = [AssistantMessage("a")]
    turn = Turn(messages, [], empty_usage(), 1)
    messages.clear()
    assert len(turn.messages) == 1
