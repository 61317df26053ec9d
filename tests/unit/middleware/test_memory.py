"""`memory`: what the model sees of a long history, in real runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.middleware import memory
from perdure.uap.agent import agent
from perdure.uap.host import connected
from perdure.uap.middleware import Middleware
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import Answer, scripted
from perdure.upp.thread import Thread
from tests.unit.middleware.conversations import exchange, texts
from tests.unit.middleware.pipeline_host import PipelineHost

OLD = [*exchange("a", 1), *exchange("b")]
SUMMARY = "Summary of the conversation so far:\n\n"
FOUND = "From memory, perhaps of use for what comes next:\n\n"


async def seen(*middleware: Middleware, history: Sequence[Message] | Thread = OLD, said: str = "go") -> list[str]:
    """What the model is shown."""
    asked: list[LLMRequest] = []

    def answer(request: LLMRequest) -> Answer:
        asked.append(request)
        return Answer("done")

    with connected(PipelineHost(*middleware)):
        await agent(model=scripted(answer)).run(history, said)
    return texts(list(asked[0].messages))


def count(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


class Shelf:
    """A retriever that gives what it was told to."""

    def __init__(self, *finds: str | Message) -> None:
        self.finds = finds
        self.asked: list[tuple[str, int]] = []

    async def retrieve(self, query: str, k: int) -> Sequence[str | Message]:
        self.asked.append((query, k))
        return self.finds


async def test_the_model_sees_the_end_of_the_history_and_the_input() -> None:
    assert await seen(memory(max_messages=3)) == ["b asks", "b answers", "go"]


async def test_a_window_may_be_of_tokens() -> None:
    assert await seen(memory(max_tokens=5)) == ["b asks", "b answers", "go"]
    assert await seen(memory(max_tokens=2, count_tokens=lambda _: 1)) == ["b asks", "b answers", "go"]


async def test_what_fits_is_seen_as_it_is() -> None:
    assert await seen(memory(max_messages=6)) == [*texts(OLD), "go"]


async def test_the_original_stays() -> None:
    """The caller's thread and list hold every message afterwards, and the turn holds none of them."""
    thread, history = Thread(OLD), list(OLD)
    await seen(memory(max_messages=2), history=thread)
    await seen(memory(max_messages=2), history=history)
    assert thread.messages == history == OLD


async def test_what_memory_tells_the_model_is_no_part_of_the_turn() -> None:
    with connected(PipelineHost(memory(max_messages=2, summarize=count, retriever=Shelf("x")))):
        turn = await agent(model=scripted(lambda _: Answer("done"))).run(OLD, "go")
    assert texts(list(turn.messages)) == ["go", "done"]


async def test_a_summary_stands_for_what_is_left_out() -> None:
    assert await seen(memory(max_messages=2, summarize=count)) == [
        f"{SUMMARY}4 messages",
        *("b asks", "b answers", "go"),
    ]


async def test_nothing_is_summarized_that_is_seen() -> None:
    assert await seen(memory(max_messages=6, summarize=count)) == [*texts(OLD), "go"]


async def test_a_blank_summary_is_none() -> None:
    assert await seen(memory(max_messages=2, summarize=lambda _: " ")) == ["b asks", "b answers", "go"]


async def test_a_model_may_summarize() -> None:
    summarize = scripted(lambda _: Answer("in short"))
    assert (await seen(memory(max_messages=2, summarize=summarize)))[0] == f"{SUMMARY}in short"


async def test_a_window_within_an_exchange_says_that_something_is_missing() -> None:
    """A conversation has to begin with the user; a summary does so too."""
    long = exchange("a", 2)
    kept = ["a calls", "seen a-1-0", "a answers", "go"]
    assert await seen(memory(max_messages=4), history=long) == ["(Earlier messages are left out.)", *kept]
    assert await seen(memory(max_messages=4, summarize=count), history=long) == [f"{SUMMARY}3 messages", *kept]


async def test_finds_come_right_before_the_input() -> None:
    shelf = Shelf("one", "two", "three")
    assert await seen(memory(retriever=shelf, top_k=2)) == [*texts(OLD), f"{FOUND}one\n\ntwo", "go"]
    assert shelf.asked == [("go", 2)]


async def test_found_messages_are_told_as_text_and_not_twice() -> None:
    """A message may be half of a pair; one that is in the window needs no telling."""
    shelf = Shelf(OLD[1], OLD[2], OLD[4])
    assert await seen(memory(max_messages=2, retriever=shelf)) == [
        *("b asks", "b answers"),
        f'{FOUND}assistant: a calls [calls look with {{"word":"a-0-0"}}]\n\ntool_result: seen a-0-0',
        "go",
    ]


async def test_where_nothing_is_found_nothing_is_told() -> None:
    assert await seen(memory(retriever=Shelf()), history=[]) == ["go"]


async def test_without_words_nothing_is_looked_up() -> None:
    shelf = Shelf("one")
    assert await seen(memory(retriever=shelf), history=[], said=" ") == [" "]
    assert shelf.asked == []


async def test_one_memory_may_follow_another() -> None:
    assert await seen(memory(max_messages=2), memory(retriever=Shelf("x"))) == [
        "b asks",
        "b answers",
        f"{FOUND}x",
        "go",
    ]


async def test_a_summary_that_fails_makes_the_run_fail() -> None:
    def fail(_: Sequence[Message]) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await seen(memory(max_messages=2, summarize=fail))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_messages": 0},
        {"max_tokens": 1.5},
        {"max_messages": True},
        {"summarize": count},
        {"summarize": count, "retriever": Shelf()},
        {"retriever": Shelf(), "top_k": 0},
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"nothing to do|must be|needs"):
        memory(**options)


async def test_the_notes_say_what_they_are() -> None:
    host = PipelineHost(memory(max_messages=2, summarize=count, retriever=Shelf("x")))
    with connected(host):
        await agent(model=scripted(["", "", "", "", "done"])).run(OLD, "go")
    notes = [message for message in host.contexts[0].history if message.metadata]
    assert [(type(note), note.metadata) for note in notes] == [
        (UserMessage, {"uap": {"memory": "summary"}}),
        (UserMessage, {"uap": {"memory": "retrieved"}}),
    ]
