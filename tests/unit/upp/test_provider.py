"""The port to a model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMResponse, LLMStreamResult
from perdure.upp.stream import StreamEvent, message_start, message_stop, text_delta
from perdure.upp.usage import empty_usage

RESPONSE = LLMResponse(AssistantMessage("hi"), empty_usage())
EVENTS = [message_start(), text_delta("hi"), message_stop()]


async def yielding(*parts: StreamEvent | LLMResponse | Exception) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
    for part in parts:
        if isinstance(part, Exception):
            raise part
        yield part


async def test_events_come_before_the_response() -> None:
    """The response is no event."""
    result = LLMStreamResult(yielding(*EVENTS, RESPONSE))
    assert [event async for event in result] == EVENTS
    assert await result.response() is RESPONSE
    assert await result.response() is RESPONSE


async def test_the_response_can_be_had_without_iterating() -> None:
    """Whoever wants no events just waits for the end."""
    assert await LLMStreamResult(yielding(*EVENTS, RESPONSE)).response() is RESPONSE


async def test_the_response_can_be_had_after_a_part() -> None:
    """Breaking out of the iteration loses nothing."""
    result = LLMStreamResult(yielding(*EVENTS, RESPONSE))
    assert await anext(aiter(result)) == EVENTS[0]
    assert await result.response() is RESPONSE


async def test_an_error_is_raised_to_both() -> None:
    """A stream that broke has no response, and says why."""
    error = UPPError("reset", ErrorCode.NETWORK_ERROR)
    result = LLMStreamResult(yielding(EVENTS[0], error))
    with pytest.raises(UPPError, match="reset"):
        [event async for event in result]
    with pytest.raises(UPPError, match="reset"):
        await result.response()


async def test_a_stream_without_a_response_is_invalid() -> None:
    """A provider that forgets it is found out."""
    with pytest.raises(UPPError) as caught:
        await LLMStreamResult(yielding(*EVENTS)).response()
    assert caught.value.code is ErrorCode.INVALID_RESPONSE


async def test_closing_ends_the_call() -> None:
    """The provider's own cleanup runs."""
    closed: list[bool] = []

    async def parts() -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        try:
            yield EVENTS[0]
            yield RESPONSE
        finally:
            closed.append(True)

    async with contextlib.aclosing(LLMStreamResult(parts())) as result:
        await anext(aiter(result))
    assert closed == [True]
