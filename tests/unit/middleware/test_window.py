"""Which messages fit into a window."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.uap.middlewares.window import MEDIA_TOKENS, estimate_tokens, window_start
from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from tests.unit.middleware.conversations import conversations, exchange

limits = st.one_of(st.none(), st.integers(1, 12))


def one(_: Message) -> int:
    return 1


def called(messages: Sequence[Message]) -> set[str]:
    return {
        call.tool_call_id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or []
    }


def answered(messages: Sequence[Message]) -> set[str]:
    return {
        result.tool_call_id
        for message in messages
        if isinstance(message, ToolResultMessage)
        for result in message.results
    }


@given(conversations(), limits, st.one_of(st.none(), st.integers(1, 60)))
def test_a_window_fits_and_tears_no_call_from_its_result(
    messages: list[Message], max_messages: int | None, max_tokens: int | None
) -> None:
    start = window_start(messages, max_messages=max_messages, max_tokens=max_tokens)
    kept, older = messages[start:], messages[:start]
    assert max_messages is None or len(kept) <= max_messages
    assert max_tokens is None or sum(map(estimate_tokens, kept)) <= max_tokens
    assert answered(kept) <= called(kept)
    assert not called(older) & answered(kept)


@given(conversations(), st.integers(1, 12))
def test_a_window_is_as_long_as_it_can_be(messages: list[Message], most: int) -> None:
    """No user's message before it begins one that fits; nor, if it holds none, does a call or an answer."""
    start = window_start(messages, max_messages=most, max_tokens=None)
    earlier = messages[max(0, len(messages) - most) : start]
    assert not any(isinstance(message, UserMessage) for message in earlier)
    if start < len(messages) and not isinstance(messages[start], UserMessage):
        assert all(isinstance(message, ToolResultMessage) for message in earlier)
        assert not any(isinstance(message, UserMessage) for message in messages[start:])
    if start == len(messages):
        assert all(isinstance(message, ToolResultMessage) for message in earlier)


@given(conversations())
def test_what_fits_stays_whole(messages: list[Message]) -> None:
    count = len(messages)
    assert window_start(messages, max_messages=max(count, 1), max_tokens=max(count, 1), count=one) == 0
    assert window_start(messages, max_messages=None, max_tokens=None) == 0


@pytest.mark.parametrize(("most", "start"), [(6, 0), (5, 4), (2, 4), (1, 5)])
def test_a_window_begins_with_the_user_if_it_can(most: int, start: int) -> None:
    messages = [*exchange("a", 1), *exchange("b")]
    assert window_start(messages, max_messages=most, max_tokens=None) == start


@pytest.mark.parametrize(("most", "start"), [(5, 1), (4, 3), (3, 3), (2, 5), (1, 5)])
def test_within_one_long_exchange_it_begins_with_a_call_or_an_answer(most: int, start: int) -> None:
    assert window_start(exchange("a", 2), max_messages=most, max_tokens=None) == start


def test_a_message_between_a_call_and_its_result_is_no_beginning() -> None:
    call, *rest = exchange("a", 1)[1:]
    assert window_start([UserMessage("x"), call, UserMessage("wait"), *rest], max_messages=3, max_tokens=None) == 4


def test_the_stricter_limit_counts() -> None:
    messages = [*exchange("a"), *exchange("b"), *exchange("c")]
    assert window_start(messages, max_messages=4, max_tokens=2, count=one) == 4
    assert window_start(messages, max_messages=2, max_tokens=4, count=one) == 4


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(""), 0),
        (UserMessage("a"), 1),
        (UserMessage("a" * 4), 1),
        (UserMessage("a" * 5), 2),
        (UserMessage([TextBlock("a" * 4), ImageBlock(UrlSource("https://x/y"), "image/png")]), 1 + MEDIA_TOKENS),
        (AssistantMessage([ReasoningBlock("a" * 8), TextBlock("a" * 4)]), 3),
        (AssistantMessage("", [ToolCall("t", "look", {})]), 2),
        (ToolResultMessage([ToolResult("t", "a" * 8), ToolResult("u", {"a": 1})]), 4),
    ],
)
def test_a_token_is_about_four_characters(message: Message, tokens: int) -> None:
    assert estimate_tokens(message) == tokens
