"""Answers of a script as responses and events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, loads
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import Answer, GivenAnswer, call, respond, to_events
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.unit.upp import strategies as upp

REQUEST = LLMRequest([UserMessage("hi")])


@pytest.mark.parametrize(
    ("given_answer", "content", "calls", "stop_reason"),
    [
        ("hello", [TextBlock("hello")], None, "end_turn"),
        ("", [TextBlock("")], None, "end_turn"),
        (call("t", name="x"), [], [ToolCall("call_scripted_3_0", "t", {"name": "x"})], "tool_use"),
        (
            [call("t"), ToolCall("own", "u", "raw"), call("t")],
            [],
            [
                ToolCall("call_scripted_3_0", "t", {}),
                ToolCall("own", "u", "raw"),
                ToolCall("call_scripted_3_2", "t", {}),
            ],
            "tool_use",
        ),
        (AssistantMessage("a", id="other"), [TextBlock("a")], None, "end_turn"),
        (
            Answer("a", [call("t")], reasoning="why"),
            [ReasoningBlock("why"), TextBlock("a")],
            [ToolCall("call_scripted_3_0", "t", {})],
            "tool_use",
        ),
        (Answer("a", stop_reason="max_tokens"), [TextBlock("a")], None, "max_tokens"),
        (Answer(), [], None, "end_turn"),
    ],
)
def test_each_kind_of_answer(given_answer: GivenAnswer, content: Any, calls: Any, stop_reason: str) -> None:
    """Strings, calls, messages and full answers; ids come from the position."""
    response = respond(REQUEST, given_answer, 3)
    assert response.message.id == "msg_scripted_3"
    assert (response.message.content, response.message.tool_calls) == (content, calls)
    assert response.stop_reason == stop_reason


def test_usage_is_counted_from_the_text() -> None:
    """A token is four characters, rounded up, of everything that is text."""
    messages = [
        UserMessage("12345678"),
        AssistantMessage("1", [ToolCall("c", "t", {})]),
        ToolResultMessage([ToolResult("c", "12")]),
    ]
    response = respond(LLMRequest(messages, system="12"), "12345", 1)
    assert response.usage == TokenUsage(4, 2, 6)


def test_given_usage_is_kept() -> None:
    """A script may say what its answer costs."""
    assert respond(REQUEST, Answer("a", usage=TokenUsage(1, 2, 3)), 0).usage == TokenUsage(1, 2, 3)


def test_structured_data_only_when_asked_for() -> None:
    """Text that looks like JSON is data only with a structure."""
    structure: JSONObject = {"type": "object"}
    assert respond(REQUEST, '{"x":1}', 0).data is None
    assert respond(LLMRequest([], structure=structure), '{"x":1}', 0).data == {"x": 1}
    assert respond(LLMRequest([], structure=structure), "no json", 0).data is None


@given(upp.assistant_messages, st.none() | st.integers(1, 5))
def test_the_deltas_make_up_the_message(message: AssistantMessage, chunk_size: int | None) -> None:
    """Joined by block, deltas are the texts and the arguments."""
    events = list(to_events(message, chunk_size))
    joined: dict[int, str] = {}
    for event in events:
        piece = event.delta.text if event.delta.text is not None else event.delta.arguments_json
        joined[event.index] = joined.get(event.index, "") + (piece or "")
    for index, block in enumerate(message.content):
        if isinstance(block, TextBlock | ReasoningBlock):
            assert joined[index] == block.text
    for index, tool_call in enumerate(message.tool_calls or (), start=len(message.content)):
        if not isinstance(tool_call.arguments, str):
            assert loads(joined[index].encode("utf-8", "surrogatepass")) == tool_call.arguments


@given(upp.assistant_messages, st.none() | st.integers(1, 5))
def test_blocks_are_opened_and_closed_in_order(message: AssistantMessage, chunk_size: int | None) -> None:
    """One message, blocks one after another, deltas inside their block."""
    first, *inner, last = to_events(message, chunk_size)
    assert (first.type, last.type) == (StreamEventType.MESSAGE_START, StreamEventType.MESSAGE_STOP)
    open_block: int | None = None
    opened = 0
    for event in inner:
        if event.type == StreamEventType.CONTENT_BLOCK_START:
            assert (open_block, event.index) == (None, opened)
            open_block, opened = event.index, opened + 1
        else:
            assert event.index == open_block
            if event.type == StreamEventType.CONTENT_BLOCK_STOP:
                open_block = None
    assert opened == len(message.content) + len(message.tool_calls or ())
