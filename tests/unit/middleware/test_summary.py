"""Summaries: made once, gone on from, and by a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import StrategyError
from perdure.uap.middlewares.summary import PART_CHARACTERS, PROMPT, REMEMBERED, Summarize, Summarizer, transcript
from perdure.upp.content import ImageBlock
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import Answer, scripted
from tests.unit.middleware.conversations import conversations, exchange, texts


class Counter:
    """Says how many messages it stands for: those it is given, and those that the earlier summary stands for."""

    def __init__(self) -> None:
        self.asked: list[list[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> str:
        self.asked.append(list(messages))
        first = messages[0]
        is_note = first.metadata == {"uap": {"memory": "summary"}}
        return str(int(first.text) + len(messages) - 1 if is_note else len(messages))


async def test_a_conversation_that_has_grown_is_summarized_from_its_summary_on() -> None:
    counter = Counter()
    summarizer = Summarizer(counter)
    first, second = exchange("a"), exchange("b")
    assert await summarizer.summary(first) == "2"
    assert await summarizer.summary([*first, *second]) == "4"
    assert [texts(asked) for asked in counter.asked] == [["a asks", "a answers"], ["2", "b asks", "b answers"]]


@given(conversations().filter(bool), st.data())
def test_a_summary_stands_for_all_messages_and_none_is_given_twice(
    messages: list[Message], data: st.DataObject
) -> None:
    counter = Counter()
    summarizer = Summarizer(counter)
    ends = sorted(data.draw(st.lists(st.integers(1, len(messages)), min_size=1, max_size=4)))
    for end in ends:
        assert asyncio.run(summarizer.summary(messages[:end])) == str(end)
    given_ = [message.id for asked in counter.asked for message in asked if not message.metadata]
    assert given_ == [message.id for message in messages[: ends[-1]]]


async def test_another_conversation_with_the_same_ids_has_a_summary_of_its_own() -> None:
    async def say(messages: Sequence[Message]) -> str:
        return messages[0].text

    summarizer = Summarizer(say)
    assert await summarizer.summary([UserMessage("mine", id="1")]) == "mine"
    assert await summarizer.summary([UserMessage("yours", id="1")]) == "yours"


async def test_summaries_are_not_remembered_for_ever() -> None:
    counter = Counter()
    summarizer = Summarizer(counter)
    first = UserMessage("first")
    await summarizer.summary([first])
    for number in range(REMEMBERED):
        await summarizer.summary([UserMessage(f"{number}")])
    await summarizer.summary([first])
    assert len(counter.asked) == REMEMBERED + 2


async def test_a_summary_must_be_text() -> None:
    with pytest.raises(StrategyError, match="summarize returned a NoneType; it must return text"):
        await Summarizer(cast(Summarize, lambda _: None)).summary(exchange("a"))  # pyright: ignore[reportUnknownLambdaType]


async def test_a_failed_summary_is_not_remembered() -> None:
    outcomes = [KeyError("x"), "fine"]

    def say(_: Sequence[Message]) -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, KeyError):
            raise outcome
        return str(outcome)

    summarizer, messages = Summarizer(say), exchange("a")
    with pytest.raises(KeyError):
        await summarizer.summary(messages)
    assert await summarizer.summary(messages) == "fine"


async def test_a_model_summarizes_the_conversation_as_text() -> None:
    """Not as messages: vendors refuse calls of tools that are not declared."""
    asked: list[LLMRequest] = []

    def answer(request: LLMRequest) -> Answer:
        asked.append(request)
        return Answer("in short")

    assert await Summarizer(scripted(answer)).summary(exchange("a", 1)) == "in short"
    assert asked[0].system == PROMPT
    assert asked[0].messages[0].text.split("\n\n") == [
        "user: a asks",
        'assistant: a calls [calls look with {"word":"a-0-0"}]',
        "tool_result: seen a-0-0",
        "assistant: a answers",
    ]
    assert len(asked[0].messages) == 1


def test_long_messages_are_cut_and_media_are_named() -> None:
    image = ImageBlock(UrlSource("https://x/y"), "image/png")
    assert transcript([UserMessage([image])]) == "user: [image]"
    assert len(transcript([UserMessage("x" * 9999)])) < PART_CHARACTERS + 50
