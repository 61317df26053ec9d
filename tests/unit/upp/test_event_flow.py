"""Events between a producer and a reader who sets the pace."""

from __future__ import annotations

import asyncio

from perdure.upp.event_flow import EventFlow
from perdure.upp.stream import StreamEvent, text_delta

A, B, C = (text_delta(text) for text in "abc")


async def test_the_producer_waits_until_more_is_wanted() -> None:
    """Having taken the last event is not yet wanting another."""
    flow = EventFlow()
    sent: list[StreamEvent] = []

    async def produce() -> None:
        for event in (A, B):
            await flow.send([event])
            sent.append(event)
        flow.close()

    task = asyncio.create_task(produce())
    assert await flow.next() == A
    await asyncio.sleep(0)
    assert sent == []
    assert await flow.next() == B
    assert sent == [A]
    assert await flow.next() is None
    await task
    assert sent == [A, B]


async def test_the_producer_waits_for_a_first_reader() -> None:
    """Nothing goes on before anybody reads."""
    flow = EventFlow()
    task = asyncio.create_task(flow.send([]))
    await asyncio.sleep(0)
    assert not task.done()
    flow.drain()
    await task


async def test_posted_events_do_not_wait() -> None:
    """They come in order, before what is sent later."""
    flow = EventFlow()
    flow.post([A, B])
    task = asyncio.create_task(flow.send([C]))
    assert [await flow.next() for _ in range(3)] == [A, B, C]
    assert not task.done()
    flow.drain()
    await task


async def test_a_drained_flow_keeps_what_is_not_read() -> None:
    """The producer runs to its end, and a reader still gets everything."""
    flow = EventFlow()
    flow.drain()
    await flow.send([A])
    await flow.send([B])
    flow.close()
    assert [await flow.next() for _ in range(4)] == [A, B, None, None]


async def test_sending_nothing_asks_for_no_reader() -> None:
    """An event that was filtered out does not slow the producer down."""
    flow = EventFlow()
    reader = asyncio.create_task(flow.next())
    await asyncio.sleep(0)
    await flow.send([])
    await flow.send([])
    flow.post([A])
    assert await reader == A


async def test_closing_wakes_the_reader() -> None:
    """Who waits for an event learns that there is none."""
    flow = EventFlow()
    reader = asyncio.create_task(flow.next())
    await asyncio.sleep(0)
    flow.close()
    assert await reader is None
