"""Reading an inference: by iterating, by awaiting, by both, and not to the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator

import pytest

from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.event_flow import EventFlow
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent, text_delta
from perdure.upp.stream_result import StreamResult
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

EVENTS = [text_delta(text) for text in "abc"]
TURN = Turn([AssistantMessage("abc")], [], empty_usage(), 1)
DEADLINE_S = 60


class Work:
    """Sends three events; can wait before its end, fail, or not heed its cancellation."""

    def __init__(self, *, error: Exception | None = None, waits: bool = False) -> None:
        self.error = error
        self.waits = waits
        self.begun = 0
        self.sent = 0
        self.waiting = asyncio.Event()
        self.ended: list[str] = []
        self.stubborn = False
        self.cleanup_error: Exception | None = None

    async def __call__(self, flow: EventFlow) -> Turn:
        self.begun += 1
        try:
            for event in EVENTS:
                self.sent += 1
                await flow.send([event])
            if self.waits:
                self.waiting.set()
                await asyncio.Event().wait()
            if self.error is not None:
                raise self.error
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.ended.append("cancelled")
            if self.cleanup_error is not None:
                raise self.cleanup_error from None
            if not self.stubborn:
                raise
        self.ended.append("done")
        return TURN

    def stream(self) -> StreamResult:
        return StreamResult(self, "fake")


async def check_cancelled(result: StreamResult) -> UPPError:
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(UPPError) as caught:
            await result.turn
    error = caught.value
    assert (error.code, error.modality, error.provider) == (ErrorCode.CANCELLED, Modality.LLM, "fake")
    return error


async def read_one(result: StreamResult) -> StreamEvent:
    async for event in result:
        return event
    raise AssertionError("no event")


async def test_events_come_in_order_and_then_the_turn() -> None:
    """The work is done once, whatever is asked for."""
    work = Work()
    result = work.stream()
    assert [event async for event in result] == EVENTS
    assert await result.turn is TURN
    assert work.begun == 1


async def test_nothing_begins_before_it_is_read() -> None:
    """Neither making the result nor looking at its turn or its iterator is reading."""
    work = Work()
    result = work.stream()
    iterator = aiter(result)
    turn = result.turn
    await asyncio.sleep(0)
    del iterator
    assert work.begun == 0
    assert await turn is TURN


async def test_the_turn_can_be_awaited_without_iterating() -> None:
    """As often as wanted, by several at once, in either spelling; the work is done once."""
    work = Work()
    result = work.stream()
    assert await asyncio.gather(result.turn, result.turn, result) == [TURN, TURN, TURN]
    assert await result is TURN
    assert work.begun == 1


async def test_events_can_be_read_after_the_turn() -> None:
    """Nothing is lost to those who come late; each event is given once."""
    result = Work().stream()
    await result
    assert [event async for event in result] == EVENTS
    assert [event async for event in result] == []


async def test_iterating_and_awaiting_at_once() -> None:
    """Both get everything."""
    work = Work()
    result = work.stream()

    async def events() -> list[StreamEvent]:
        return [event async for event in result]

    assert await asyncio.gather(events(), result.turn) == [EVENTS, TURN]
    assert work.begun == 1


async def test_the_reader_sets_the_pace() -> None:
    """The work does not run ahead of what is read."""
    work = Work()
    iterator = aiter(work.stream())
    for number in (1, 2, 3):
        await anext(iterator)
        await asyncio.sleep(0)
        assert work.sent == number
    await iterator.aclose()


async def test_a_failure_is_raised_to_the_iteration_and_the_turn() -> None:
    """After the events that came before it, and to everybody who asks."""
    result = Work(error=ValueError("broken")).stream()
    iterator = aiter(result)
    assert [await anext(iterator) for _ in EVENTS] == EVENTS
    with pytest.raises(ValueError, match="broken"):
        await anext(iterator)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            await result.turn


async def test_a_failure_that_nobody_asks_for_is_silent() -> None:
    """No warning of an exception that was never retrieved."""
    result = Work(error=ValueError("broken")).stream()
    task = asyncio.ensure_future(result)
    await asyncio.wait({task})
    assert task.exception() is not None
    del task, result
    gc.collect()


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_breaking_out_aborts(position: int) -> None:
    """Also at the last event: the end was not read."""
    work = Work()
    result = work.stream()
    async for event in result:
        if event is EVENTS[position]:
            break
    await check_cancelled(result)
    assert work.ended == ["cancelled"]


async def test_an_error_of_the_reader_aborts() -> None:
    """Whatever ends the loop early ends the inference."""
    work = Work()
    result = work.stream()

    async def read() -> None:
        async for _ in result:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await read()
    await check_cancelled(result)
    assert work.ended == ["cancelled"]


async def test_leaving_a_function_aborts() -> None:
    """Returning from within the loop is breaking out."""
    result = Work().stream()
    assert await read_one(result) == EVENTS[0]
    await check_cancelled(result)


async def test_closing_the_iteration_aborts() -> None:
    """For those who want to say it."""
    work = Work()
    result = work.stream()
    async with contextlib.aclosing(aiter(result)) as events:
        await anext(events)
    await check_cancelled(result)
    assert work.ended == ["cancelled"]


async def test_an_iteration_dropped_on_another_thread_aborts() -> None:
    """The garbage collector may run anywhere."""
    result = Work().stream()
    held: list[AsyncIterator[StreamEvent]] = [aiter(result)]
    await anext(held[0])
    await asyncio.to_thread(held.clear)
    await check_cancelled(result)


async def test_abort_ends_the_iteration_with_cancelled() -> None:
    """The next event is the error; the turn has it too."""
    work = Work()
    result = work.stream()
    iterator = aiter(result)
    await anext(iterator)
    result.abort()
    with pytest.raises(UPPError) as caught:
        await anext(iterator)
    assert (caught.value.code, caught.value.modality) == (ErrorCode.CANCELLED, Modality.LLM)
    assert work.ended == ["cancelled"]
    await check_cancelled(result)


async def test_abort_wakes_who_waits_for_the_next_event() -> None:
    """A reader in another task is told at once, when the work has stopped."""
    work = Work(waits=True)
    result = work.stream()

    async def read() -> list[StreamEvent]:
        return [event async for event in result]

    task = asyncio.create_task(read())
    await work.waiting.wait()
    result.abort()
    with pytest.raises(UPPError, match="aborted"):
        await task
    assert work.ended == ["cancelled"]


async def test_no_event_is_read_after_abort() -> None:
    """Not even one that was already on its way to a waiting reader."""
    flows: list[EventFlow] = []
    waiting = asyncio.Event()

    async def work(flow: EventFlow) -> Turn:
        flows.append(flow)
        waiting.set()
        await asyncio.Event().wait()
        return TURN

    result = StreamResult(work, "fake")
    reader = asyncio.ensure_future(read_one(result))
    await waiting.wait()
    flows[0].post([EVENTS[0]])
    result.abort()
    with pytest.raises(UPPError, match="aborted"):
        await reader


async def test_abort_before_reading_sends_nothing() -> None:
    """The work is never begun."""
    work = Work()
    result = work.stream()
    result.abort()
    with pytest.raises(UPPError, match="aborted"):
        await anext(aiter(result))
    await check_cancelled(result)
    assert work.begun == 0


async def test_abort_right_after_the_start() -> None:
    """A task that has not run yet is cancelled like others."""
    work = Work()
    result = work.stream()
    waiting = asyncio.ensure_future(result.turn)
    await asyncio.sleep(0)
    result.abort()
    result.abort()
    with pytest.raises(UPPError, match="aborted"):
        await waiting


async def test_abort_after_the_end_changes_nothing() -> None:
    """The turn is there."""
    result = Work().stream()
    await result
    result.abort()
    assert await result.turn is TURN
    assert [event async for event in result] == EVENTS


async def test_work_that_does_not_heed_its_cancellation_was_aborted() -> None:
    """What was aborted has no turn, though one was made."""
    work = Work(waits=True)
    work.stubborn = True
    result = work.stream()
    waiting = asyncio.ensure_future(result.turn)
    await work.waiting.wait()
    result.abort()
    with pytest.raises(UPPError, match="aborted"):
        await waiting
    assert work.ended == ["cancelled", "done"]


async def test_a_failure_while_stopping_is_the_cause() -> None:
    """It does not hide that the stream was aborted."""
    work = Work(waits=True)
    work.cleanup_error = ValueError("lost")
    result = work.stream()
    waiting = asyncio.ensure_future(result.turn)
    await work.waiting.wait()
    result.abort()
    await asyncio.wait({waiting})
    assert (await check_cancelled(result)).cause is work.cleanup_error
    waiting.exception()


@pytest.mark.parametrize("how", ["iterates", "awaits"])
async def test_cancelling_the_reader_cancels_the_work(how: str) -> None:
    """Nothing runs on that nobody reads."""
    work = Work(waits=True)
    result = work.stream()

    async def iterate() -> None:
        async for _ in result:
            pass

    async def wait() -> None:
        await result.turn

    task = asyncio.create_task(iterate() if how == "iterates" else wait())
    await work.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await check_cancelled(result)
    assert work.ended == ["cancelled"]


async def test_cancelling_one_of_two_readers_leaves_the_other() -> None:
    """A time limit on one of them is its own."""
    work = Work(waits=True)
    result = work.stream()
    first, second = (asyncio.ensure_future(result.turn) for _ in range(2))
    await work.waiting.wait()
    first.cancel()
    await asyncio.wait({first})
    assert work.ended == []
    second.cancel()
    await asyncio.wait({second})
    await check_cancelled(result)


async def test_work_that_is_cancelled_from_within_was_cancelled() -> None:
    """Its readers get UPP's error; nobody cancelled them."""

    async def work(flow: EventFlow) -> Turn:
        await flow.send([EVENTS[0]])
        raise asyncio.CancelledError

    result = StreamResult(work, "fake")
    with pytest.raises(UPPError, match="aborted"):
        [event async for event in result]
    await check_cancelled(result)
