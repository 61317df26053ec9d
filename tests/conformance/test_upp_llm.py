"""Facts that UPP's own tests assert of `llm()`, by their numbers in the reference."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.upp.content import DocumentBlock, ImageBlock, UserContent
from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.llm import llm
from perdure.upp.media_source import Base64Source, TextSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.stream import StreamEventType
from perdure.upp.stream_result import StreamResult
from perdure.upp.thread import Thread
from perdure.upp.tool_use import AfterCallResult, BeforeCallResult, ToolUseStrategy
from perdure.upp.tools import Tool
from tests.unit.upp.models import FakeModel, calls, giving, says, tool_named

OBJECT: JSONObject = {"type": "object", "properties": {"a": {"type": "integer"}}}


def adder() -> Tool:
    def run(params: JSONObject) -> object:
        return params["a"]

    return Tool("add", "Adds.", OBJECT, run)


async def check_cancelled(stream: StreamResult) -> None:
    async with asyncio.timeout(90):
        with pytest.raises(UPPError) as caught:
            await stream.turn
    assert (caught.value.code, caught.value.modality) == (ErrorCode.CANCELLED, Modality.LLM)


async def test_fact_80_the_tool_loop_runs_the_tool_and_asks_again() -> None:
    """Two cycles, one execution, a result message, usage summed."""
    turn = await llm(model=scripted([call("add", a=7), "seven"]), tools=[adder()]).generate("add")
    assert turn.cycles == 2
    assert [(item.tool_name, item.result) for item in turn.tool_executions] == [("add", 7)]
    assert any(isinstance(message, ToolResultMessage) for message in turn.messages)
    cycles = turn.usage.cycles or []
    assert len(cycles) == 2
    assert turn.usage.input_tokens == sum(cycle.input_tokens for cycle in cycles)
    assert turn.usage.output_tokens == sum(cycle.output_tokens for cycle in cycles)


async def test_fact_81_data_is_returned_when_the_provider_gives_it() -> None:
    """For a structure that was asked for."""
    turn = await llm(model=scripted(['{"a": 1}']), structure=OBJECT).generate("one")
    assert turn.data == {"a": 1}


async def test_fact_82_the_limit_is_told_and_raised() -> None:
    """One round is allowed; the model never stops calling."""
    told: list[int] = []
    strategy = ToolUseStrategy(max_iterations=1, on_max_iterations=told.append)
    instance = llm(model=scripted(giving(call("add", a=1))), tools=[adder()], tool_strategy=strategy)
    with pytest.raises(UPPError, match=r"Tool execution exceeded maximum iterations \(1\)") as caught:
        await instance.generate("add")
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert told == [1]


@pytest.mark.parametrize("kind", [Thread, list])
async def test_fact_83_the_history_is_sent_as_it_is(kind: Any) -> None:
    """Its message is the very same object; the new input is a user message."""
    earlier: Message = UserMessage("earlier")
    model = FakeModel(says("ok"))
    await llm(model=model.reference()).generate(kind([earlier, AssistantMessage("yes")]), "now")
    sent = model.requests[0].messages
    assert sent[0] is earlier
    assert isinstance(sent[-1], UserMessage)
    assert sent[-1].text == "now"


@pytest.mark.parametrize(
    "block", [ImageBlock(Base64Source("aa=="), "image/png"), DocumentBlock(TextSource("text"), "text/plain")]
)
async def test_fact_84_media_without_capability_are_refused(block: UserContent) -> None:
    """Image and document, by generate and stream."""
    instance = llm(model=FakeModel(capabilities=LLMCapabilities()).reference())
    with pytest.raises(UPPError) as caught:
        await instance.generate(block)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(UPPError):
        instance.stream(block)


async def test_fact_85_a_provider_exception_propagates() -> None:
    """With its own type and message."""
    with pytest.raises(ZeroDivisionError, match="the provider's own"):
        await llm(model=scripted([ZeroDivisionError("the provider's own")])).generate("hi")


async def test_fact_86_a_stream_shows_text_and_tools() -> None:
    """And gives the turn of both cycles."""
    stream = llm(model=scripted([call("add", a=7), "seven"]), tools=[adder()]).stream("add")
    kinds = {event.type async for event in stream}
    assert kinds >= {
        StreamEventType.TEXT_DELTA,
        StreamEventType.TOOL_EXECUTION_START,
        StreamEventType.TOOL_EXECUTION_END,
    }
    assert (await stream.turn).cycles == 2


async def test_fact_87_abort_reaches_the_provider_the_iteration_and_the_turn() -> None:
    """The provider's stream ends, next raises CANCELLED, the turn rejects."""
    model = FakeModel(says("hello"))
    stream = llm(model=model.reference()).stream("hi")
    iterator = aiter(stream)
    await anext(iterator)
    assert model.open_streams == 1
    stream.abort()
    with pytest.raises(UPPError) as caught:
        await anext(iterator)
    assert (caught.value.code, caught.value.modality) == (ErrorCode.CANCELLED, Modality.LLM)
    await check_cancelled(stream)
    assert model.open_streams == 0


@pytest.mark.parametrize("answers", [["hello"], [call("add", a=7), "seven"]])
async def test_fact_88_breaking_out_aborts_and_rejects_the_turn(answers: Any) -> None:
    """A model that answers without ever waiting is aborted too."""
    stream = llm(model=scripted(answers), tools=[adder()]).stream("hi")
    async for _ in stream:
        break
    await check_cancelled(stream)


async def test_fact_89_awaiting_drains_the_stream_once() -> None:
    """Awaiting twice asks the model once."""
    model = FakeModel(calls("t"), says("ok"))
    stream = llm(model=model.reference(), tools=[tool_named("t")]).stream("hi")
    assert await stream is await stream.turn
    assert len(model.requests) == 2


async def test_fact_92_an_injected_parameter_is_visible_in_the_result() -> None:
    """The before-call hook adds it."""
    strategy = ToolUseStrategy(on_before_call=lambda _, params: BeforeCallResult(True, {**params, "a": 42}))
    instance = llm(model=scripted([call("add"), "done"]), tools=[adder()], tool_strategy=strategy)
    turn = await instance.generate("add")
    assert turn.tool_executions[0].result == 42
    assert turn.tool_executions[0].arguments == {"a": 42}


async def test_fact_92_a_transformed_result_is_recorded() -> None:
    """The model gets it, and the execution has it."""

    async def after(tool: Tool, params: JSONObject, result: Any) -> AfterCallResult:
        return AfterCallResult(f"{tool.name}: {result}")

    strategy = ToolUseStrategy(on_after_call=after)
    instance = llm(model=scripted([call("add", a=7), "done"]), tools=[adder()], tool_strategy=strategy)
    turn = await instance.generate("add")
    assert turn.tool_executions[0].result == "add: 7"
    assert turn.messages[2].text == "add: 7"


@pytest.mark.parametrize("decision", [False, BeforeCallResult(False)])
async def test_fact_92_a_skipped_call_still_leads_to_an_answer(decision: bool | BeforeCallResult) -> None:
    """The model is told, and says something."""
    strategy = ToolUseStrategy(on_before_call=giving(decision))
    instance = llm(model=scripted([call("add", a=7), "as you wish"]), tools=[adder()], tool_strategy=strategy)
    turn = await instance.generate("add")
    assert turn.response.text == "as you wish"
    assert (turn.tool_executions[0].result, turn.tool_executions[0].is_error) == ("Tool execution skipped", True)
