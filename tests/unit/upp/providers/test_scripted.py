"""The scripted model."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest, LLMStreamResult, ModelReference
from perdure.upp.providers.scripted import StreamCut, call, cut_after, scripted
from perdure.upp.stream import StreamEvent


def request(answers: int = 0) -> LLMRequest:
    """A request whose conversation has so many answers already."""
    messages: list[Message] = [UserMessage("q")]
    for _ in range(answers):
        messages += [AssistantMessage("a"), UserMessage("q")]
    return LLMRequest(messages)


async def text_of(model: BoundLLMModel, answers: int = 0) -> str:
    return (await model.complete(request(answers))).message.text


async def events_of(model: BoundLLMModel) -> list[StreamEvent]:
    return [event async for event in model.stream(request())]


async def collect(result: LLMStreamResult, texts: list[str]) -> None:
    async for event in result:
        texts += [event.delta.text] if event.delta.text else []


async def test_the_conversation_chooses_the_answer() -> None:
    """A new process gives the same answer, since nothing is counted but messages."""
    script = ["first", "second"]
    assert await text_of(scripted(script).bind(), 1) == "second"
    assert await text_of(scripted(script).bind(), 1) == "second"
    assert await text_of(scripted(script).bind(), 0) == "first"


@pytest.mark.parametrize("answers", [1, 5])
async def test_a_script_that_is_over_says_so(answers: int) -> None:
    """The error names the missing answer and is not retried."""
    with pytest.raises(UPPError, match=f"script has no answer number {answers}") as caught:
        await text_of(scripted(["only"]).bind(), answers)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not caught.value.retryable


async def test_a_function_sees_the_request() -> None:
    """Sync and async functions may compute the answer."""

    async def later(req: LLMRequest) -> str:
        await asyncio.sleep(0)
        return f"{len(req.messages)} messages"

    assert await text_of(scripted(lambda req: req.messages[-1].text).bind()) == "q"
    assert await text_of(scripted(later).bind(), 1) == "3 messages"


async def test_an_exception_in_the_script_is_raised() -> None:
    """The model fails as the script says, streamed or not."""
    model = scripted([UPPError("too long", ErrorCode.CONTEXT_LENGTH_EXCEEDED)]).bind()
    with pytest.raises(UPPError, match="too long"):
        await model.complete(request())
    with pytest.raises(UPPError, match="too long"):
        await events_of(model)


async def test_a_stream_ends_with_the_same_response() -> None:
    """Streamed or not, the answer is one."""
    model = scripted([[call("t", x=1)]], chunk_size=2).bind()
    whole = await model.complete(request())
    streamed = await model.stream(request()).response()
    assert streamed.message.to_json() | {"timestamp": ""} == whole.message.to_json() | {"timestamp": ""}
    assert (streamed.usage, streamed.stop_reason) == (whole.usage, whole.stop_reason)


async def test_text_is_cut_into_chunks() -> None:
    """chunk_size is in characters."""
    events = await events_of(scripted(["hello"], chunk_size=2).bind())
    assert [event.delta.text for event in events if event.delta.text] == ["he", "ll", "o"]


async def test_failures_come_before_answers() -> None:
    """A list is used up by calls of this process, bound twice or not; then the script answers."""
    limit = UPPError("slow down", ErrorCode.RATE_LIMITED)
    reference = scripted(["answer"], failures=[limit, None, limit])
    with pytest.raises(UPPError, match="slow down"):
        await text_of(reference.bind())
    assert await text_of(reference.bind()) == "answer"
    with pytest.raises(UPPError, match="slow down"):
        await events_of(reference.bind())
    assert await text_of(reference.bind()) == "answer"


async def test_failures_may_be_a_function() -> None:
    """It sees the request and the call's number."""
    seen: list[int] = []

    def fail(req: LLMRequest, number: int) -> Exception | None:
        seen.append(number)
        return OSError("down") if number == 0 else None

    model = scripted(["answer"], failures=fail).bind()
    with pytest.raises(OSError, match="down"):
        await text_of(model)
    assert await text_of(model) == "answer"
    assert seen == [0, 1]


@pytest.mark.parametrize(("chunks", "expected"), [(0, []), (1, ["he"]), (2, ["he", "ll"]), (9, ["he", "ll", "o"])])
async def test_a_stream_can_be_cut(chunks: int, expected: list[str]) -> None:
    """So many deltas come, then a retryable network error; also if there are fewer."""
    result = scripted(["hello"], chunk_size=2, failures=[cut_after(chunks)]).bind().stream(request())
    texts: list[str] = []
    with pytest.raises(UPPError) as caught:
        await collect(result, texts)
    assert texts == expected
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.NETWORK_ERROR, True)
    with pytest.raises(StreamCut):
        await result.response()


async def test_a_cut_also_fails_a_whole_answer() -> None:
    """Without a stream there is nothing to keep."""
    with pytest.raises(StreamCut):
        await text_of(scripted(["hello"], failures=[cut_after(1)]).bind())


def test_a_cut_can_be_pickled() -> None:
    """It crosses process borders like other errors."""
    assert pickle.loads(pickle.dumps(cut_after(3))).chunks == 3  # noqa: S301  # our own bytes


async def test_nothing_happens_before_a_stream_is_read() -> None:
    """Calling stream() is no call yet."""
    numbers: list[int] = []
    model = scripted(["a"], failures=lambda _, number: numbers.append(number)).bind()
    result = model.stream(request())
    assert numbers == []
    await result.response()
    assert numbers == [0]


async def test_time_passes_as_asked() -> None:
    """Latency comes before the first event, the delay between deltas, and neither after the last."""
    clock = asyncio.get_running_loop().time
    started = clock()
    model = scripted(["hello"], latency=0.02, chunk_size=2, chunk_delay=0.01).bind()
    times = [clock() - started async for _ in model.stream(request())]
    assert times[0] >= 0.02
    assert times[-1] >= 0.04


def test_the_reference_names_model_and_provider() -> None:
    """What a session stores of a model is there."""
    reference: ModelReference = scripted(["a"], name="demo")
    model: Any = reference.bind()
    assert (reference.model_id, reference.provider.name) == ("demo", "scripted")
    assert (model.model_id, model.provider, model.capabilities.tools) == ("demo", "scripted", True)
