"""What comes for a request waits for its app, and for nobody once the request is over."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from perdure.api.inbox import Inbox

PIECE = cast(Any, {"type": "http.request", "body": b"x", "more_body": True})
LEFT = cast(Any, {"type": "http.disconnect"})


async def test_a_full_inbox_has_its_sender_wait() -> None:
    inbox = Inbox(1)
    await inbox.put(PIECE)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await inbox.put(PIECE)
    assert await inbox.get() == PIECE
    await inbox.put(PIECE)


async def test_a_disconnect_waits_for_no_room_and_lets_who_waits_go() -> None:
    """Though the app receives nothing any more."""
    inbox = Inbox(1)
    await inbox.put(PIECE)
    waiting = asyncio.create_task(inbox.put(PIECE))
    await asyncio.sleep(0)
    await inbox.put(LEFT)
    assert await inbox.get() == LEFT
    await waiting


async def test_behind_a_disconnect_everything_is_dropped() -> None:
    inbox = Inbox(1)
    await inbox.put(LEFT)
    for _ in range(5):
        await inbox.put(PIECE)
    assert await inbox.get() == LEFT
    assert inbox.empty()
