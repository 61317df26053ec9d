"""Events that are held until the answer was checked."""

from __future__ import annotations

import pytest

from perdure.uap.agent_stream import AgentStreamEvent, UAPEvent, UAPEventType
from perdure.uap.held_flow import HeldFlow
from perdure.upp.event_flow import Flow
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import EventDelta, StreamEvent, StreamEventType, text_delta
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage


def turn(text: str) -> Turn:
    return Turn([AssistantMessage(text, id="m")], [], empty_usage(), 1)


def upp(kind: StreamEventType, **delta: str) -> AgentStreamEvent:
    return AgentStreamEvent(upp=StreamEvent(kind, 0, EventDelta(text=delta.get("text"))))


START, STOP = upp(StreamEventType.MESSAGE_START), upp(StreamEventType.MESSAGE_STOP)
STEP = AgentStreamEvent(UAPEvent(UAPEventType.STEP_START, 1, "a"))
REASON = upp(StreamEventType.REASONING_DELTA, text="secret")


def said(*texts: str) -> list[AgentStreamEvent]:
    return [START, *(AgentStreamEvent(upp=text_delta(text)) for text in texts), STOP]


async def released(events: list[AgentStreamEvent], made: Turn, checked: Turn) -> list[AgentStreamEvent]:
    flow: Flow[AgentStreamEvent] = Flow()
    held = HeldFlow(flow)
    await held.send(events[:1])
    held.post(events[1:])
    held.release(made, checked)
    flow.close()
    read: list[AgentStreamEvent] = []
    while (event := await flow.next()) is not None:
        read.append(event)
    return read


async def test_nothing_is_seen_before_it_is_released() -> None:
    flow: Flow[AgentStreamEvent] = Flow()
    await HeldFlow(flow).send([STEP, *said("secret")])
    flow.close()
    assert await flow.next() is None


async def test_events_of_an_answer_that_stays_are_seen_as_they_were() -> None:
    """Whichever object says it."""
    events, made = [STEP, *said("hi ", "there")], turn("hi there")
    assert await released(events, made, Turn.from_json(made.to_json())) == events


async def test_events_of_another_answer_tell_that_one() -> None:
    events = [STEP, *said("first"), STEP, START, REASON, *said("sec", "ret")[1:]]
    expected = [STEP, *said("first"), STEP, *said("[gone]")]
    assert await released(events, turn("secret"), turn("[gone]")) == expected


@pytest.mark.parametrize("checked", ["", "[gone]"])
async def test_no_event_says_what_was_taken_out(checked: str) -> None:
    read = await released([STEP, START, REASON, *said("secret")[1:]], turn("secret"), turn(checked))
    assert not any("secret" in str(event.to_json()) for event in read)


async def test_of_a_model_that_does_not_stream_there_is_nothing_to_tell() -> None:
    assert await released([STEP], turn("secret"), turn("[gone]")) == [STEP]


async def test_what_was_released_is_not_released_again() -> None:
    flow: Flow[AgentStreamEvent] = Flow()
    held = HeldFlow(flow)
    held.post([STEP])
    held.release(turn("a"), turn("a"))
    held.release(turn("a"), turn("a"))
    flow.close()
    assert [await flow.next(), await flow.next()] == [STEP, None]
