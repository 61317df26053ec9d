"""Messages of a strategy's own and of the store, told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.errors import StrategyError
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.workflows.known_messages import MOST_BYTES, KnownMessages

BEFORE = [UserMessage("one"), AssistantMessage("two"), UserMessage("three")]
ANSWER = AssistantMessage("four", [ToolCall("c", "look", {})], id="same")
OTHER = AssistantMessage("five", id="same")
RESULTS = ToolResultMessage([ToolResult("c", 1)])


def known() -> KnownMessages:
    made = KnownMessages()
    made.add_history(BEFORE)
    made.add_row(OTHER, "row 6", 6)
    made.add_row(ANSWER, "row 4", 4)
    made.add_row(RESULTS, "row 5", 5)
    return made


def test_what_is_stored_is_named() -> None:
    """Neighbours of the history as one range, rows by id even if a vendor used an id twice."""
    own = UserMessage("own")
    assert known().items([*BEFORE[:2], own, BEFORE[2], ANSWER, OTHER, BEFORE[1], BEFORE[2]]) == [
        {"before": [0, 2]}, {"message": own.to_json()}, {"before": [2, 3]}, {"id": "row 4"}, {"id": "row 6"},
        {"before": [1, 3]},
    ]  # fmt: skip
    assert known().rows == ["row 4", "row 5", "row 6"]


def test_a_message_that_was_changed_is_the_strategys_own() -> None:
    """Though it has its id still; a copy of it is not."""
    changed, copied = replace_text(BEFORE[0], "other"), replace_text(BEFORE[0], "one")
    assert known().items([changed, copied]) == [{"message": changed.to_json()}, {"before": [0, 1]}]


def replace_text(message: UserMessage | AssistantMessage, text: str) -> UserMessage:
    return UserMessage(text, id=message.id, timestamp=message.timestamp)


def test_a_message_of_its_own_is_not_too_long() -> None:
    """It travels with each call."""
    assert known().items([UserMessage("x" * 60_000)])
    with pytest.raises(StrategyError, match=str(MOST_BYTES)):
        known().items([UserMessage("x" * MOST_BYTES)])


def test_what_hooks_are_told_is_named_where_it_can_be() -> None:
    """Texts, calls and results of messages of the run."""
    assert known().text("four") == {"id": "row 4"}
    assert known().text("else") == {"text": "else"}
    assert known().part([ToolCall("c", "look", {}).to_json()]) == {"id": "row 4"}
    assert known().part([ToolResult("c", 1).to_json()]) == {"id": "row 5"}
    other = replace(ToolCall("c", "look", {}), tool_name="other").to_json()
    assert known().part([other]) == {"items": [other]}
    assert known().part([]) is None
