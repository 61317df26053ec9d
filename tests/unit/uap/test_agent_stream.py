"""Events of an agent's stream as values, and reading a stream: to its end, not to its end, and not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, UAPEvent, UAPEventType, is_aborted, of_step
from perdure.uap.ids import is_uuid4
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.stream import text_delta
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from tests.unit.upp.strategies import json_objects, stream_events, texts

EVENTS = [
    of_step(UAPEventType.STEP_START, "run", 1, "agent", {"stepNumber": 1}),
    *(AgentStreamEvent(upp=text_delta(text)) for text in "ab"),
]
TURN = Turn([AssistantMessage("ab")], [], empty_usage(), 1)
PARTIAL = Turn([AssistantMessage("a")], [], empty_usage(), 0)
GO = UserMessage("go")

uap_events = st.builds(UAPEvent, st.sampled_from(UAPEventType), st.integers(0, 50), texts(), json_objects())
agent_stream_events = st.builds(AgentStreamEvent, uap=uap_events) | st.builds(AgentStreamEvent, upp=stream_events)


class Work:
    """Sends three events; may wait, fail, make a partial turn, or end as cancelled from within."""

    def __init__(self, *, error: BaseException | None = None, partial: Turn | None = None) -> None:
        self.error = error
        self.partial = partial
        self.sent = 0
        self.aborted: bool | None = None

    async def __call__(self, flow: Flow[AgentStreamEvent]) -> Turn:
        try:
            for event in EVENTS:
                self.sent += 1
                await flow.send([event])
            if self.error is not None:
                raise self.error
        except asyncio.CancelledError:
            self.aborted = is_aborted()
            if self.partial is None:
                raise
            await flow.send([EVENTS[0]])  # nobody reads on, so this must not wait
            return self.partial
        return TURN

    def stream(self) -> AgentStreamResult:
        return AgentStreamResult(self, [GO])


@given(agent_stream_events)
def test_an_event_is_the_same_after_json(event: AgentStreamEvent) -> None:
    assert AgentStreamEvent.from_json(event.to_json()) == event


@given(agent_stream_events)
def test_json_has_the_key_of_its_source_only(event: AgentStreamEvent) -> None:
    """Source: UAP-1.0 section 12.2."""
    assert set(event.to_json()) == {"source", event.source}


@given(stream_events.map(lambda event: AgentStreamEvent(upp=event)))
def test_a_upp_event_is_within_as_it_is(event: AgentStreamEvent) -> None:
    assert event.upp is not None
    assert event.to_json()["upp"] == event.upp.to_json()


def test_a_uap_event_has_the_specifications_keys() -> None:
    event = UAPEvent(UAPEventType.REASONING, 2, "agent", {"text": "hm"})
    assert event.to_json() == {"type": "reasoning", "step": 2, "agentId": "agent", "data": {"text": "hm"}}


def test_the_types_are_the_specifications_and_reset() -> None:
    named = {"step_start", "step_end", "reasoning", "action", "observation", "checkpoint"}
    assert {str(kind) for kind in UAPEventType} == named | {"reset"}


def test_a_step_has_an_id_of_its_own() -> None:
    """The same in all its events; another step's and another run's are others."""
    pairs = [("a", 1), ("a", 1), ("a", 2), ("b", 1)]
    events = [of_step(UAPEventType.STEP_START, run, step, "agent", {}) for run, step in pairs]
    ids = [str(event.uap.data["stepId"]) for event in events if event.uap is not None]
    assert all(is_uuid4(id_) for id_ in ids)
    assert (ids[0] == ids[1], len(set(ids))) == (True, 3)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("x", "expected a JSON object"),
        ({}, "field 'source' must be a string"),
        ({"source": "mcp"}, "unknown source 'mcp'"),
        ({"source": "uap"}, "UAP event: expected a JSON object"),
        ({"source": "uap", "upp": {"type": "text_delta"}}, "UAP event: expected a JSON object"),
        ({"source": "upp", "upp": {"type": "word"}}, "unknown type 'word'"),
        ({"source": "uap", "uap": {"type": "word", "agentId": "a"}}, "unknown type 'word'; known are step_start"),
        ({"source": "uap", "uap": {"type": "action"}}, "field 'agentId' must be a string"),
        ({"source": "uap", "uap": {"type": "action", "agentId": "a", "data": 1}}, "field 'data' must be an object"),
    ],
)
def test_other_json_is_refused(value: JSONValue, problem: str) -> None:
    with pytest.raises(UPPError, match=problem) as raised:
        AgentStreamEvent.from_json(value)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("given_", [{}, {"uap": UAPEvent(UAPEventType.ACTION, 1, "a"), "upp": text_delta("a")}])
def test_an_event_has_one_source(given_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="give one of uap and upp"):
        AgentStreamEvent(**given_)


async def test_a_stream_gives_its_events_and_its_turn() -> None:
    result = Work().stream()
    assert [event async for event in result] == EVENTS
    assert await result.turn is await result is TURN


async def test_abort_ends_the_iteration_quietly() -> None:
    """And the turn is what the work makes of it."""
    work = Work(partial=PARTIAL)
    result = work.stream()
    read: list[AgentStreamEvent] = []
    async for event in result:
        read.append(event)
        result.abort()
    assert read == EVENTS[:1]
    assert await result.turn is PARTIAL
    assert (work.sent, work.aborted) == (1, True)


async def test_leaving_the_loop_is_aborting() -> None:
    work = Work(partial=PARTIAL)
    result = work.stream()
    async for _ in result:
        break
    assert await result.turn is PARTIAL
    assert [event async for event in result] == []
    assert work.aborted


async def test_work_that_makes_no_partial_turn_has_an_empty_one() -> None:
    """As a strategy's own may."""
    result = Work().stream()
    await anext(aiter(result))
    result.abort()
    turn = await result.turn
    assert (turn.messages[0], turn.response.text) == (GO, "")
    assert turn.response.metadata == {"uap": {"aborted": True}}


async def test_abort_before_reading_begins_nothing() -> None:
    work = Work()
    result = work.stream()
    result.abort()
    assert [event async for event in result] == []
    assert (await result.turn).messages[0] is GO
    assert work.sent == 0


async def test_abort_after_the_end_changes_nothing() -> None:
    result = Work(partial=PARTIAL).stream()
    await result
    result.abort()
    assert await result.turn is TURN


async def test_work_that_ends_in_spite_of_abort_has_its_turn() -> None:
    """It was too late; the whole turn is worth more than a part."""
    result = Work(partial=TURN).stream()
    await anext(aiter(result))
    result.abort()
    assert await result.turn is TURN


@pytest.mark.parametrize("drained", [True, False])
async def test_an_error_is_raised_to_all(drained: bool) -> None:
    result = Work(error=ValueError("broken")).stream()
    if not drained:
        with pytest.raises(ValueError, match="broken"):
            [event async for event in result]
    with pytest.raises(ValueError, match="broken"):
        await result.turn


async def test_work_can_tell_that_it_was_cancelled_from_within() -> None:
    work = Work(error=asyncio.CancelledError())
    await work.stream()
    assert work.aborted is False
