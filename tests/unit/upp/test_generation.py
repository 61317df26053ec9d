"""The tool loop: rounds and their limit, batches, and what ends it. Driven through `llm()`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.llm import LLMInstance, llm
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.retry import LinearBackoff
from perdure.upp.stream import StreamEvent, StreamEventType
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import ToolContext
from perdure.upp.turn import Turn
from perdure.upp.usage import CycleUsage, TokenUsage
from tests.unit.upp.models import FakeModel, calls, giving, never, says, tool_named

SCHEMA: JSONObject = {"type": "object"}
WAYS = pytest.mark.parametrize("way", ["generate", "stream"])


async def infer(instance: LLMInstance, way: str, *inputs: str) -> Turn:
    if way == "generate":
        return await instance.generate(*(inputs or ("go",)))  # pyright: ignore[reportArgumentType, reportCallIssue]
    return await instance.stream(*(inputs or ("go",))).turn  # pyright: ignore[reportArgumentType, reportCallIssue]


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


@WAYS
async def test_an_answer_without_calls_is_a_turn_of_two_messages(way: str) -> None:
    """One cycle, no executions."""
    model = FakeModel(says("hello", tokens=3))
    turn = await infer(llm(model=model.reference()), way, "hi")
    assert texts(turn.messages) == ["user: hi", "assistant: hello"]
    assert (turn.cycles, turn.tool_executions, turn.data) == (1, [], None)
    assert turn.usage == TokenUsage(3, 3, 6, cycles=[CycleUsage(3, 3)])


@WAYS
async def test_a_round_of_tools_is_followed_by_another_call(way: str) -> None:
    """The model gets its own message and the results; usage is summed over the cycles."""
    model = FakeModel(dataclasses.replace(calls("t"), usage=TokenUsage(5, 1, 6)), says("fine", tokens=7))
    turn = await infer(llm(model=model.reference(), tools=[tool_named("t")]), way, "hi")
    assert [type(message) for message in turn.messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert turn.messages[2].to_json()["results"] == [ToolResult("0", "done").to_json()]
    assert model.requests[1].messages == turn.messages[:3]
    assert (turn.cycles, turn.response.text) == (2, "fine")
    assert turn.usage == TokenUsage(12, 8, 20, cycles=[CycleUsage(5, 1), CycleUsage(7, 7)])


@WAYS
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_the_limit_counts_rounds_of_tools(way: str, limit: int) -> None:
    """So many rounds are run, and one more model call is made; the hook is awaited before the error."""
    ran: list[JSONObject] = []
    met: list[int] = []

    async def on_max_iterations(iterations: int) -> None:
        await asyncio.sleep(0)
        met.append(iterations)

    model = FakeModel(*[calls("t")] * (limit + 2))
    strategy = ToolUseStrategy(max_iterations=limit, on_max_iterations=on_max_iterations)
    instance = llm(model=model.reference(), tools=[tool_named("t", ran.append)], tool_strategy=strategy)
    with pytest.raises(UPPError) as caught:
        await infer(instance, way)
    assert caught.value.message == f"Tool execution exceeded maximum iterations ({limit})"
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "fake")
    assert (len(ran), len(model.requests), met) == (limit, limit + 1, [limit])


@WAYS
async def test_an_answer_at_the_limit_is_an_answer(way: str) -> None:
    """Only open calls exceed it."""
    model = FakeModel(calls("t"), says("fine"))
    strategy = ToolUseStrategy(max_iterations=1)
    instance = llm(model=model.reference(), tools=[tool_named("t")], tool_strategy=strategy)
    assert (await infer(instance, way)).response.text == "fine"


@WAYS
async def test_zero_rounds_return_the_calls_unexecuted(way: str) -> None:
    """The application carries them out itself."""
    model = FakeModel(calls("t"))
    strategy = ToolUseStrategy(max_iterations=0, on_max_iterations=never)
    turn = await infer(llm(model=model.reference(), tools=[tool_named("t")], tool_strategy=strategy), way)
    assert turn.response.has_tool_calls
    assert (turn.cycles, turn.tool_executions) == (1, [])


@WAYS
async def test_calls_without_tools_end_the_loop(way: str) -> None:
    """Nobody here could carry them out."""
    turn = await infer(llm(model=FakeModel(calls("t")).reference()), way)
    assert turn.response.has_tool_calls
    assert turn.cycles == 1


@WAYS
async def test_structured_data_ends_the_loop(way: str) -> None:
    """Also with calls beside it; they are not carried out."""
    model = FakeModel(says("{}", ToolCall("0", "t", {}), data={"a": 1}))
    tools = [tool_named("t", never)]
    turn = await infer(llm(model=model.reference(), tools=tools, structure=SCHEMA), way)
    assert (turn.data, turn.cycles, turn.tool_executions) == ({"a": 1}, 1, [])


@WAYS
async def test_data_that_nobody_asked_for_is_no_data(way: str) -> None:
    """It does not end the loop, and the turn has none."""
    model = FakeModel(says("42", ToolCall("0", "t", {}), data=42), says("43", data=43))
    turn = await infer(llm(model=model.reference(), tools=[tool_named("t")]), way)
    assert (turn.data, turn.cycles) == (None, 2)


@WAYS
async def test_calls_of_one_message_run_at_once_and_stand_in_call_order(way: str) -> None:
    """Results and executions, though the last ends first."""
    begun: list[str] = []
    ended: list[str] = []
    all_begun = asyncio.Event()
    turns = [asyncio.Event() for _ in range(4)]
    turns[3].set()

    def slow(number: int) -> Any:
        async def run(_: JSONObject) -> int:
            begun.append(str(number))
            if len(begun) == 3:
                all_begun.set()
            await all_begun.wait()
            await turns[number + 1].wait()
            ended.append(str(number))
            turns[number].set()
            return number

        return run

    tools = [tool_named(f"t{number}", slow(number)) for number in range(3)]
    turn = await infer(llm(model=FakeModel(calls("t0", "t1", "t2"), says("ok")).reference(), tools=tools), way)
    assert (begun, ended) == (["0", "1", "2"], ["2", "1", "0"])
    assert [item.tool_call_id for item in turn.tool_executions] == ["0", "1", "2"]
    assert turn.messages[2].to_json()["results"] == [ToolResult(str(number), number).to_json() for number in range(3)]


@WAYS
async def test_a_sequential_tool_is_a_barrier(way: str) -> None:
    """It runs alone, after those before it and before those after it."""
    log: list[str] = []

    def logging(name: str) -> Any:
        async def run(_: JSONObject) -> None:
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            log.append(f"{name} ends")

        return run

    tools = [tool_named("p", logging("p")), tool_named("s", logging("s"), sequential=True)]
    await infer(llm(model=FakeModel(calls("p", "s", "p"), says("ok")).reference(), tools=tools), way)
    assert log == ["p begins", "p ends", "s begins", "s ends", "p begins", "p ends"]


@WAYS
async def test_what_is_wrong_with_a_call_is_the_models_to_handle(way: str) -> None:
    """Failed, unknown and denied calls are error results, and are recorded."""

    def fail(_: JSONObject) -> None:
        raise ValueError("broken")

    tools = [tool_named("f", fail), tool_named("d", approval=giving(False))]
    turn = await infer(llm(model=FakeModel(calls("f", "u", "d"), says("sorry")).reference(), tools=tools), way)
    assert [(item.result, item.is_error, item.approved) for item in turn.tool_executions] == [
        ("broken", True, None),
        ("Tool 'u' not found", True, None),
        ("Tool execution denied by approval handler", True, False),
    ]
    assert turn.response.text == "sorry"


@WAYS
async def test_an_approval_that_fails_ends_the_inference_after_its_siblings(way: str) -> None:
    """What was started is awaited, not abandoned."""
    ended: list[str] = []

    async def slow(_: JSONObject) -> None:
        for _turn in range(5):
            await asyncio.sleep(0)
        ended.append("slow")

    def approval(_: JSONObject) -> bool:
        raise KeyError("nobody there")

    tools = [tool_named("a", approval=approval), tool_named("s", slow)]
    model = FakeModel(calls("a", "s"), says("never"))
    with pytest.raises(KeyError, match="nobody there"):
        await infer(llm(model=model.reference(), tools=tools), way)
    assert ended == ["slow"]
    assert len(model.requests) == 1


@WAYS
async def test_each_call_has_its_own_context(way: str) -> None:
    """The call's id, a key of no other call, the first attempt; the same call twice is two calls."""
    contexts: list[ToolContext] = []

    def run(_: JSONObject, context: ToolContext) -> None:
        contexts.append(context)

    call = ToolCall("c", "t", {})
    model = FakeModel(says("", call, call), says("", call), says("ok"))
    await infer(llm(model=model.reference(), tools=[tool_named("t", run, takes_context=True)]), way)
    assert [(context.call_id, context.attempt) for context in contexts] == [("c", 1)] * 3
    assert len({context.idempotency_key for context in contexts}) == 3


@WAYS
async def test_a_provider_error_propagates_as_it_is(way: str) -> None:
    """Also after a round of tools."""
    error = UPPError("gone", ErrorCode.QUOTA_EXCEEDED, "fake", status_code=402)
    model = FakeModel(calls("t"), error)
    with pytest.raises(UPPError) as caught:
        await infer(llm(model=model.reference(), tools=[tool_named("t")]), way)
    assert caught.value is error


@WAYS
async def test_failures_are_tried_again_as_the_config_says(way: str) -> None:
    """Each model call for itself; the turn shows nothing of it."""
    busy = UPPError("busy", ErrorCode.RATE_LIMITED, "fake")
    model = FakeModel(busy, calls("t"), busy, busy, says("fine"))
    config = ProviderConfig(retry=LinearBackoff(2, timedelta(0)))
    turn = await infer(llm(model=model.reference(), config=config, tools=[tool_named("t")]), way)
    assert (turn.cycles, len(model.requests), turn.response.text) == (2, 5, "fine")


async def test_cancelling_generate_cancels_the_tools() -> None:
    """They have ended before the caller goes on."""
    begun = asyncio.Event()
    ended: list[str] = []

    async def wait(_: JSONObject) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")

    instance = llm(model=FakeModel(calls("w"), says("never")).reference(), tools=[tool_named("w", wait)])
    task = asyncio.create_task(instance.generate("go"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["wait"]


async def test_aborting_a_stream_cancels_tools_and_skips_the_rest() -> None:
    """The running tool is cancelled, the one behind the barrier never begins, no model call follows."""
    begun = asyncio.Event()
    log: list[str] = []

    async def wait(_: JSONObject) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("wait ended")

    tools = [tool_named("w", wait), tool_named("s", never, sequential=True)]
    model = FakeModel(calls("w", "s"), says("never"))
    stream = llm(model=model.reference(), tools=tools).stream("go")
    turn = asyncio.ensure_future(stream.turn)
    await begun.wait()
    stream.abort()
    with pytest.raises(UPPError, match="aborted"):
        await turn
    assert log == ["wait ended"]
    assert len(model.requests) == 1


async def test_tool_events_come_when_they_happen() -> None:
    """A start is seen while the tool runs, an end before the slower sibling ends."""
    release = asyncio.Event()

    async def wait(_: JSONObject) -> str:
        await release.wait()
        return "slow"

    tools = [tool_named("w", wait), tool_named("q", giving("quick"))]
    seen: list[tuple[str, int]] = []
    ends: list[StreamEvent] = []
    async for event in llm(model=FakeModel(calls("w", "q"), says("ok")).reference(), tools=tools).stream("go"):
        if event.type.startswith("tool_execution"):
            seen.append((event.type, event.index))
        if event.type is StreamEventType.TOOL_EXECUTION_END:
            ends.append(event)
            release.set()
    start, end = StreamEventType.TOOL_EXECUTION_START, StreamEventType.TOOL_EXECUTION_END
    assert seen == [(start, 0), (start, 1), (end, 1), (end, 0)]
    assert [(event.delta.tool_call_id, event.delta.result, event.delta.is_error) for event in ends] == [
        ("1", "quick", False),
        ("0", "slow", False),
    ]


async def test_tool_events_say_what_the_model_is_told() -> None:
    """Of calls that could not be made too; times are milliseconds and do not go back."""
    tools = [tool_named("t")]
    stream = llm(model=FakeModel(calls("unknown"), says("ok")).reference(), tools=tools).stream("go")
    start, end = [event.delta async for event in stream if event.type.startswith("tool_execution")]
    assert (start.tool_call_id, start.tool_name) == (end.tool_call_id, end.tool_name) == ("0", "unknown")
    assert (end.result, end.is_error) == ("Tool 'unknown' not found", True)
    assert start.timestamp is not None
    assert end.timestamp is not None
    assert 1_600_000_000_000 < start.timestamp <= end.timestamp


async def test_tool_events_have_the_place_of_their_call() -> None:
    """Also if the very same call stands twice in a message."""
    call = ToolCall("c", "t", {})
    stream = llm(model=FakeModel(says("", call, call), says("ok")).reference(), tools=[tool_named("t")]).stream("go")
    places = [event.index async for event in stream if event.type is StreamEventType.TOOL_EXECUTION_START]
    assert places == [0, 1]
