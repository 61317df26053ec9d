"""Asking a model for an answer as it comes. Driven through `llm()`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.llm import llm
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.scripted import cut_after, scripted
from perdure.upp.retry import LinearBackoff
from perdure.upp.stream import StreamEventType as Type
from tests.unit.upp.models import FakeModel, calls, says, tool_named

SCHEMA: JSONObject = {"type": "object"}
RETRY = ProviderConfig(retry=LinearBackoff(2, timedelta(0)))


async def test_each_model_call_is_one_message_in_the_stream() -> None:
    """Tool events stand between them."""
    model = FakeModel(calls("t", "t"), says("ok"))
    kinds = [event.type async for event in llm(model=model.reference(), tools=[tool_named("t")]).stream("go")]
    marks = [kind for kind in kinds if kind.startswith(("message", "tool_execution"))]
    start, end = Type.TOOL_EXECUTION_START, Type.TOOL_EXECUTION_END
    message = [Type.MESSAGE_START, Type.MESSAGE_STOP]
    assert marks == [*message, start, start, end, end, *message]
    assert kinds.index(Type.TEXT_DELTA) > kinds.index(end)


async def test_text_of_a_structured_answer_is_an_object_too() -> None:
    """Each piece comes as text, then as a piece of the object, under the same index."""
    model = FakeModel(says("{}", data={}))
    stream = llm(model=model.reference(), structure=SCHEMA).stream("go")
    deltas = [(event.type, event.delta.text, event.index) async for event in stream if event.delta.text is not None]
    assert deltas == [
        (Type.TEXT_DELTA, "{", 0),
        (Type.OBJECT_DELTA, "{", 0),
        (Type.TEXT_DELTA, "}", 0),
        (Type.OBJECT_DELTA, "}", 0),
    ]


async def test_other_text_is_no_object() -> None:
    """Without a structure there is none."""
    stream = llm(model=FakeModel(says("{}")).reference()).stream("go")
    assert Type.OBJECT_DELTA not in [event.type async for event in stream]


async def test_a_failure_before_the_first_event_is_tried_again() -> None:
    """The reader sees one message."""
    model = FakeModel(UPPError("busy", ErrorCode.RATE_LIMITED, "fake"), says("ok"))
    kinds = [event.type async for event in llm(model=model.reference(), config=RETRY).stream("go")]
    assert kinds.count(Type.MESSAGE_START) == kinds.count(Type.MESSAGE_STOP) == 1


async def test_a_failure_after_it_is_raised() -> None:
    """What was read cannot be taken back."""
    stream = llm(model=scripted(["hello"], chunk_size=1, failures=[cut_after(2)]), config=RETRY).stream("go")
    iterator = aiter(stream)
    seen = [(await anext(iterator)).delta.text for _ in range(4)]
    assert [text for text in seen if text] == ["h", "e"]
    with pytest.raises(UPPError, match="cut after 2"):
        await anext(iterator)


@pytest.mark.parametrize("how", ["breaks", "aborts", "is cancelled"])
async def test_a_reader_who_leaves_closes_the_connection(how: str) -> None:
    """In the middle of an answer that has no end."""
    model = FakeModel(says("hello"))
    model.hold()
    stream = llm(model=model.reference()).stream("go")

    async def read() -> None:
        async for event in stream:
            if how == "breaks" and event.type is Type.TEXT_DELTA:
                break

    task = asyncio.create_task(read())
    await model.held.wait()
    if how == "aborts":
        stream.abort()
    if how == "is cancelled":
        task.cancel()
    await asyncio.wait({task})
    with pytest.raises(UPPError, match="aborted"):
        await stream.turn
    assert (model.open_streams, model.closed_early) == (0, 1)
    assert task.cancelled() or how == "breaks" or isinstance(task.exception(), UPPError)


async def test_a_stream_is_closed_at_its_end() -> None:
    """The ordinary case."""
    model = FakeModel(calls("t"), says("ok"))
    await llm(model=model.reference(), tools=[tool_named("t")]).stream("go")
    assert (model.open_streams, model.closed_early) == (0, 0)
