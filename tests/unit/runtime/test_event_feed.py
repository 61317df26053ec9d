"""One session's events, read by whoever of its viewers waits."""

from __future__ import annotations

import asyncio

import pytest

from perdure.runtime.event_feed import EventFeed
from perdure.store.events import Event
from perdure.uap.session_key import SessionKey


async def nothing(key: SessionKey, after: int) -> list[Event]:
    return []


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_viewer_that_leaves_as_news_come_has_left() -> None:
    """The cancel is not lost, however close the two are."""
    feed = EventFeed(SessionKey("t", "s"), nothing, 0)
    await feed.advance(0, patience=1)
    viewer = asyncio.create_task(feed.advance(0, patience=60))
    await settle()
    feed.tell()
    viewer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await viewer


async def test_one_that_waits_finds_what_another_read() -> None:
    feed = EventFeed(SessionKey("t", "s"), nothing, 0)
    await feed.advance(0, patience=1)
    viewer = asyncio.create_task(feed.advance(0, patience=60))
    await settle()
    assert not viewer.done()
    feed.end()
    await viewer
    assert feed.ended
