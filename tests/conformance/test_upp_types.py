"""Facts 90, 93 and 94 of the reference, part 3.11: threads, results as text, and calls that are none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.messages import AssistantMessage, MessageRole, ToolResultMessage, UserMessage
from perdure.upp.thread import Thread
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

EARLY = datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def texts(thread: Thread) -> list[str]:
    return [message.text for message in thread]


def test_fact_90_a_thread_grows_by_each_of_its_ways() -> None:
    turn = Turn([UserMessage("c"), AssistantMessage("d")], [], empty_usage(), 1)
    thread = Thread([UserMessage("a")]).push(AssistantMessage("b")).append(turn).user("e").assistant("f")
    assert texts(thread) == list("abcdef")
    assert [message.type for message in thread] == ["user", "assistant"] * 3
    assert len(thread) == thread.length == 6


def test_fact_90_parts_of_a_thread() -> None:
    """A tail of 0 is empty, and a slice is another thread."""
    thread = Thread([UserMessage("a"), AssistantMessage("b"), UserMessage("c")])
    assert [message.text for message in thread.filter(MessageRole.USER)] == ["a", "c"]
    assert [[message.text for message in thread.tail(count)] for count in (0, 2, 9)] == [
        [],
        ["b", "c"],
        ["a", "b", "c"],
    ]
    part = thread.slice(1, 3)
    assert (texts(part), texts(thread)) == (["b", "c"], ["a", "b", "c"])
    assert part.id != thread.id


def test_fact_90_a_list_of_messages_is_a_copy() -> None:
    thread = Thread([UserMessage("a")])
    thread.to_messages().clear()
    assert texts(thread) == ["a"]
    assert texts(thread.clear()) == []


def test_fact_90_a_round_trip_keeps_timestamps() -> None:
    """Of the thread and of each message, to the millisecond."""
    thread = Thread(
        [UserMessage("a", id="u", timestamp=EARLY), AssistantMessage("b", id="a", timestamp=EARLY)],
        id="t",
        created_at=EARLY,
        updated_at=EARLY,
    )
    read = Thread.from_json(loads(dumps(thread.to_json())))
    assert [(message.id, message.timestamp) for message in read] == [("u", EARLY), ("a", EARLY)]
    assert (read.id, read.created_at, read.updated_at) == ("t", EARLY, EARLY)


@pytest.mark.parametrize(
    ("result", "text"),
    [("20 °C", "20 °C"), ({"celsius": 20}, '{"celsius":20}'), ([1, None], "[1,null]"), (None, "null"), (True, "true")],
)
def test_fact_93_the_text_of_an_object_is_json(result: JSONValue, text: str) -> None:
    assert ToolResultMessage([ToolResult("c", result)]).text == text


def test_fact_93_several_results_are_parted_by_a_blank_line() -> None:
    assert ToolResultMessage([ToolResult("c", {"a": 1}), ToolResult("d", "b")]).text == '{"a":1}\n\nb'


@pytest.mark.parametrize(("calls", "has"), [([], False), (None, False), ([ToolCall("c", "t", {})], True)])
def test_fact_94_an_empty_list_of_calls_is_none(calls: list[ToolCall] | None, has: bool) -> None:
    message = AssistantMessage("x", calls)
    assert message.has_tool_calls is has
    assert message.tool_calls == calls
