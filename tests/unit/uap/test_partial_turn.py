"""The turn of an aborted run: valid, and all of what there is."""

from __future__ import annotations

from perdure.uap.partial_turn import (
    NO_RESULT,
    OUTCOME_UNKNOWN,
    cancelled_execution,
    partial_answer,
    partial_turn,
    results_so_far,
)
from perdure.uap.scaffold import prompt_message
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

GO = UserMessage("go")
CALLS = [ToolCall(name, "look", {}) for name in "ab"]
ABORTED = {"uap": {"aborted": True}}


def of(*messages: Message) -> Turn:
    return partial_turn(messages, [], empty_usage(), 1)


def test_without_an_answer_there_is_an_empty_one() -> None:
    turn = of(GO)
    assert [message.text for message in turn.messages] == ["go", ""]
    assert turn.response.metadata == ABORTED
    assert Turn.from_json(turn.to_json()) == turn


def test_an_answer_keeps_its_text_and_says_that_it_was_aborted() -> None:
    turn = of(GO, partial_answer("half an ans"))
    assert (turn.response.text, turn.response.metadata) == ("half an ans", ABORTED)


def test_a_whole_answer_keeps_its_metadata_and_is_not_changed_itself() -> None:
    answer = AssistantMessage("hi", metadata={"vendor": {"x": 1}, "uap": {"y": 2}})
    turn = of(GO, answer)
    assert turn.response.metadata == {"vendor": {"x": 1}, "uap": {"y": 2, "aborted": True}}
    assert (turn.response.id, turn.response.timestamp) == (answer.id, answer.timestamp)
    assert answer.metadata == {"vendor": {"x": 1}, "uap": {"y": 2}}


def test_open_calls_are_answered() -> None:
    """So that the turn can stand in a history."""
    turn = of(GO, AssistantMessage("", CALLS))
    last = turn.messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert last.results == [ToolResult(name, NO_RESULT, True) for name in "ab"]


def test_answered_calls_stay_as_they_are() -> None:
    results = ToolResultMessage([ToolResult("a", 1), ToolResult("b", 2)])
    assert of(GO, AssistantMessage("", CALLS), results).messages[-1] is results


def test_a_batch_has_a_result_for_each_call() -> None:
    """What came of it, that nobody knows, or that it was not run."""
    calls = [*CALLS, ToolCall("c", "look", {})]
    known = {0: ToolExecution("look", "a", {}, "seen", False, 5), 2: cancelled_execution(calls[2])}
    assert results_so_far(calls, known) == [
        ToolResult("a", "seen"),
        ToolResult("b", NO_RESULT, True),
        ToolResult("c", OUTCOME_UNKNOWN, True),
    ]


def test_the_strategys_own_messages_stand_in_for_an_answer_only() -> None:
    reasoning = partial_answer("I thi", "reason")
    assert [message.text for message in of(GO, prompt_message("Why?"), reasoning).messages] == ["go", "I thi"]
    turn = of(GO, AssistantMessage("", CALLS), ToolResultMessage([]), prompt_message("Why?"), reasoning)
    assert [message.type for message in turn.messages] == ["user", "assistant", "tool_result"]
    assert turn.response.metadata == ABORTED
