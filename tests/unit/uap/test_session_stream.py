"""A session's run as a stream, in process."""

from __future__ import annotations

import asyncio

import pytest

from perdure.errors import InvalidInput
from perdure.uap.agent import agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult
from perdure.uap.partial_turn import partial_turn
from perdure.uap.session import Session, session
from perdure.uap.session_stream import says_something
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.providers.scripted import scripted
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import empty_usage
from tests.conformance.uap_session_stage import LOOKED, Talker, said, texts


def kinds(events: list[AgentStreamEvent]) -> list[str]:
    return [str(event.uap.type) for event in events if event.uap is not None]


async def read(stream: AgentStreamResult) -> list[AgentStreamEvent]:
    return [event async for event in stream]


async def aborted_after_the_first_text(made: Session) -> AgentStreamResult:
    stream = made.stream("one")
    async for event in stream:
        if event.upp is not None and event.upp.type is StreamEventType.TEXT_DELTA:
            stream.abort()
    return stream


async def test_a_streams_turn_is_in_the_thread_when_it_is_there() -> None:
    made = session(Talker().agent())
    stream = made.stream("look")
    await read(stream)
    turn = await stream.turn
    assert said(made) == LOOKED
    assert made.thread_tree.current.thread.messages == turn.messages
    assert [item.step for item in made.checkpoints] == [1, 2]
    assert made.checkpoints[-1].state.done


async def test_a_stream_that_is_only_awaited_runs_to_its_end() -> None:
    talker = Talker()
    made = session(talker.agent())
    await made.stream("one")
    await made.stream("two").turn
    assert talker.told[-1] == ["one", "re: one", "two"]
    assert said(made) == ["one", "re: one", "two", "re: two"]


async def test_each_checkpoint_is_told_behind_the_end_of_its_step() -> None:
    """With the id under which the session has it. Source: UAP-1.0 section 12.2, checkpoint."""
    made = session(Talker().agent())
    events = await read(made.stream("look"))
    assert kinds(events) == [
        "step_start", "action", "observation", "step_end", "checkpoint", "step_start", "step_end", "checkpoint",
    ]  # fmt: skip
    told = [event.uap for event in events if event.uap is not None and event.uap.type == "checkpoint"]
    assert [(item.step, item.data["checkpointId"]) for item in told] == [
        (item.step, item.id) for item in made.checkpoints
    ]
    assert [item.data["stepId"] for item in told] == [item.metadata["stepId"] for item in made.checkpoints]


async def test_a_checkpoint_per_turn_is_told_at_the_end() -> None:
    made = session(Talker().agent(), checkpoint_interval="turn")
    events = await read(made.stream("look"))
    assert kinds(events)[-2:] == ["step_end", "checkpoint"]
    assert kinds(events).count("checkpoint") == len(made.checkpoints) == 1


async def test_without_checkpoints_none_is_told() -> None:
    made = session(Talker().agent(), checkpoints=False)
    assert "checkpoint" not in kinds(await read(made.stream("look")))
    assert said(made) == LOOKED


async def test_an_aborted_stream_leaves_what_was_answered_in_the_thread() -> None:
    """Reading 4.50 of UAP-1.0 section 12.5."""
    made = session(agent(model=scripted(["a long answer", "another"], chunk_size=3)))
    stream = await aborted_after_the_first_text(made)
    turn = await stream
    assert said(made) == ["one", turn.response.text]
    assert 0 < len(turn.response.text) < len("a long answer")
    assert made.checkpoints == []
    await made.run("two")
    assert said(made)[2] == "two"


async def test_an_aborted_stream_that_answered_nothing_leaves_the_thread_as_it_was() -> None:
    started = asyncio.Event()

    async def answer(_: object) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    made = session(agent(model=scripted(answer)))
    stream = made.stream("one")
    reading = asyncio.create_task(read(stream))
    await started.wait()
    stream.abort()
    assert await reading is not None
    assert (await stream).response.text == ""
    assert said(made) == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (AssistantMessage(" "), False),
        (AssistantMessage("yes"), True),
        (AssistantMessage("", [ToolCall("c", "look", {})]), True),
    ],
    ids=["nothing", "text", "calls"],
)
def test_an_answer_says_something_by_text_or_by_calls(answer: AssistantMessage, says: bool) -> None:
    assert says_something(partial_turn([UserMessage("x"), answer], [], empty_usage(), 0)) == says


async def test_a_stream_that_fails_leaves_the_thread_and_keeps_its_checkpoints() -> None:
    made = session(Talker().agent())
    with pytest.raises(UPPError, match="broken"):
        await read(made.stream("break"))
    assert said(made) == []
    assert [item.step for item in made.checkpoints] == [1]


async def test_streams_and_runs_come_one_after_another() -> None:
    made, waiting = session(Talker().agent()), list[asyncio.Task[object]]()
    async for _ in made.stream("one"):
        waiting = waiting or [asyncio.create_task(made.run("two"))]
    await waiting[0]
    assert said(made) == ["one", "re: one", "two", "re: two"]
    assert said(made) == ["one", "re: one", "two", "re: two"]


async def test_a_run_of_a_session_cannot_stream_it() -> None:
    """It would wait for itself."""
    refused: list[str] = []

    @tool
    async def nested(word: str) -> str:
        """Try it."""
        try:
            await made.stream(word)
        except InvalidInput as error:
            refused.append(str(error))
        return "tried"

    made = session(Talker(tool_name="nested").agent(tools=[nested]))
    await made.run("look")
    assert len(refused) == 1
    assert texts(made.thread_tree.history())[-1] == "re: look"


async def test_usage_is_that_of_all_runs() -> None:
    made = session(Talker().agent())
    assert made.usage.total_tokens == 0
    one, two = await made.run("one"), await made.run("look")
    assert made.usage.input_tokens == one.usage.input_tokens + two.usage.input_tokens
    assert sum(item.total_tokens for item in made.usage_by_agent.values()) == made.usage.total_tokens
