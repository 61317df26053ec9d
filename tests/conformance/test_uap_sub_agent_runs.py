"""Runs of sub-agents: at once, in their parent's session, cancelled with it, and told in its stream; in process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from perdure import Session, agent, session
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, UAPEventType
from perdure.uap.ids import is_uuid4
from perdure.uap.lineage import current
from perdure.upp.provider import LLMRequest, ModelReference
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uap_agent_stage import delegating, helper, look, nested, results

# 8.5 and 4.30: concurrency, sessions


@dataclass
class Meeting:
    """Models that answer when so many are being asked at once."""

    expected: int
    asked: int = 0
    all_here: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: LLMRequest) -> str:
        self.asked += 1
        if self.asked == self.expected:
            self.all_here.set()
        await asyncio.wait_for(self.all_here.wait(), 60)
        return f"did {request.messages[-1].text}"


async def test_sub_agents_run_at_once_and_answer_in_call_order() -> None:
    meeting = Meeting(4)
    both = [agent(model=scripted(meeting.answer), name=name) for name in ("a", "b")]
    chat = session(delegating(*both, times=2))
    turn = await chat.run("go")
    assert results(turn.messages) == ["did do it"] * 4
    states = chat.checkpoints[0].sub_agent_states
    assert list(states) == [call.tool_call_id for call in turn.messages[1].tool_calls or ()]  # type: ignore[union-attr]


async def test_reading_4_30_each_call_has_a_session_in_the_parents_checkpoint() -> None:
    chat = session(nested(2))
    await chat.run("go")
    assert len(chat.checkpoints) == 2
    (first,) = chat.checkpoints[0].sub_agent_states.values()
    child = Session.from_json(first, agent(model=scripted([]), name="level1"))
    assert child.thread_tree.history()[0].text == "t"
    assert is_uuid4(child.id)
    assert chat.to_json()["checkpoints"][0]["subAgentStates"] == chat.checkpoints[0].sub_agent_states  # type: ignore[index, call-overload]
    ((deep,),) = [list(item.sub_agent_states.values()) for item in child.checkpoints[:1]]
    assert "bottom" in str(deep)
    again = Session.from_json(chat.to_json(), chat.agent)
    assert again.to_json() == chat.to_json()


async def test_reading_4_30_a_sub_agent_that_fails_leaves_its_session_too() -> None:
    child = agent(model=scripted([call("look", word="w"), ValueError("broken")]), name="c", tools=[look])
    chat = session(delegating(child))
    turn = await chat.run("go")
    assert turn.tool_executions[0].is_error
    (kept,) = chat.checkpoints[0].sub_agent_states.values()
    assert len(kept["checkpoints"]) == 1  # type: ignore[arg-type]


async def test_without_a_session_none_is_kept() -> None:
    turn = await delegating(helper()).run("go")
    assert results(turn.messages) == ["helped"]


# Cancelling


@dataclass
class Ends:
    """Two models that never answer; counts how they are stopped."""

    asked: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list[str])

    async def answer(self, _: LLMRequest) -> str:
        self.asked += 1
        if self.asked == 2:
            self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("stopped")
        raise AssertionError("unreachable")


def towering(low: ModelReference) -> Agent:
    lows = [agent(model=low, name=f"low{number}") for number in (1, 2)]
    return delegating(delegating(*lows, name="mid"), name="top")


async def test_cancelling_the_parent_cancels_all_levels_and_each_ends_once() -> None:
    ends = Ends()
    chat = session(towering(scripted(ends.answer)))
    running = asyncio.create_task(chat.run("go"))
    await asyncio.wait_for(ends.begun.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ends.ended == ["stopped"] * 2
    assert current() is None
    assert chat.thread_tree.history() == []


async def test_aborting_the_parents_stream_cancels_all_levels() -> None:
    ends = Ends()
    stream = towering(scripted(ends.answer)).stream("go", sub_agents=True)

    async def abort() -> None:
        await asyncio.wait_for(ends.begun.wait(), 60)
        stream.abort()

    aborting = asyncio.create_task(abort())
    read = [event async for event in stream]
    await aborting
    turn = await stream
    assert ends.ended == ["stopped"] * 2
    assert (turn.response.metadata or {})["uap"]["aborted"] is True
    assert not any(item.uap and item.uap.type is UAPEventType.STEP_END for item in read)


# 4.54: events


async def test_reading_4_54_events_of_sub_agents_are_not_forwarded_unless_wanted() -> None:
    made = delegating(helper(), name="parent")
    plain = [event async for event in made.stream("go")]
    assert {event.uap.agent_id for event in plain if event.uap} == {made.id}
    assert all(event.path == () and "path" not in event.to_json() for event in plain)
    wanted = [event async for event in made.stream("go", sub_agents=True)]
    assert [event.uap.type for event in wanted if event.uap and not event.path] == [
        event.uap.type for event in plain if event.uap
    ]


async def test_reading_4_54_forwarded_events_say_whose_they_are() -> None:
    child = helper()
    made = delegating(delegating(child, name="mid"), times=2, name="top")
    read = [event async for event in made.stream("go", sub_agents=True)]
    mids = [event for event in read if event.path == ("mid",)]
    lows = [event for event in read if event.path == ("mid", "helper")]
    assert len(mids) + len(lows) + sum(event.path == () for event in read) == len(read)
    assert len({event.call for event in mids}) == 2
    assert "".join(event.upp.delta.text or "" for event in lows if event.upp) == "helped" * 2
    starts = [event.uap for event in lows if event.uap and event.uap.type is UAPEventType.STEP_START]
    assert [event.agent_id for event in starts] == [child.id] * 2
    above = {str(event.uap.data["turnId"]) for event in mids if event.uap}
    assert {str(event.data["parentTurnId"]) for event in starts} == above
    for event in read:
        assert AgentStreamEvent.from_json(event.to_json()) == event


async def test_the_turn_is_the_same_whether_events_are_wanted_or_not() -> None:
    made = delegating(delegating(helper(), name="mid"), name="top")
    turns = [await made.run("go"), await made.stream("go"), await made.stream("go", sub_agents=True)]
    assert len({str([message.text for message in turn.messages]) for turn in turns}) == 1
    assert len({str(turn.usage) for turn in turns}) == 1
