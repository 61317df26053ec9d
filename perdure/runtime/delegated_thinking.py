"""What the sub-agents of a tool call think, as it comes: their logs are followed from the parent's `child.started` on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime

from perdure.errors import SessionGone
from perdure.runtime.event_stream import EventStream
from perdure.runtime.followed_run import CHILD_STARTED
from perdure.runtime.unfolding import Unfolding
from perdure.store.events import Event
from perdure.uap.events import RUN_TERMINAL
from perdure.uap.session_key import SessionKey
from perdure.upp.stream import StreamEventType

_AHEAD = 64
"""Rows that are read before they are taken; then reading waits."""


@dataclass(frozen=True, slots=True)
class ChildThought:
    """One row of reasoning.

    Attributes:
        call: the tool call of the run that is told, also of what a sub-agent's own sub-agents think.
        row: of the log of the session in it.
    """

    call: str
    row: Event


async def follow_thinking(
    stream: EventStream, tenant: str, started: Event, *, since: datetime | None = None
) -> AsyncGenerator[ChildThought]:
    """The reasoning of a sub-agent and of all below it, until its run has ended; in each session's own order.

    Args:
        stream: of the process.
        tenant: whose sessions they are.
        started: the parent's `child.started`.
        since: what was thought up to then is left out; None for all.
    """
    source = _Source(stream, tenant, since, asyncio.Queue(), asyncio.Semaphore(_AHEAD))
    following = asyncio.create_task(_follow(source, started), name="follow thinking")
    following.add_done_callback(lambda _: source.rows.put_nowait(None))
    try:
        while (row := await source.rows.get()) is not None:
            source.room.release()
            yield ChildThought(str(started.data["call"]), row)
        with suppress(SessionGone):
            await following
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Source:
    """What is read, and where it goes. `room`: so many rows may lie there until they are taken."""

    stream: EventStream
    tenant: str
    since: datetime | None
    rows: asyncio.Queue[Event | None]
    room: asyncio.Semaphore

    async def give(self, row: Event) -> None:
        """Hand a row on, once there is room."""
        await self.room.acquire()
        self.rows.put_nowait(row)


async def _follow(source: _Source, started: Event) -> None:
    below: list[asyncio.Task[None]] = []
    key, run = SessionKey(source.tenant, str(started.data["session"])), str(started.data["run"])
    unfolding = Unfolding()
    try:
        async with aclosing(source.stream.follow(key)) as log:
            async for row in log:
                if row.run != run:
                    continue
                if row.source == "upp":
                    shown = unfolding.new_in(row)
                    is_new = source.since is None or row.at > source.since
                    if row.type == StreamEventType.REASONING_DELTA and is_new:
                        await source.give(shown)
                elif row.type == CHILD_STARTED:
                    below.append(asyncio.create_task(_follow(source, row), name="follow a sub-agent"))
                elif row.type in RUN_TERMINAL:
                    break
        await asyncio.gather(*below)
    finally:
        for task in below:
            task.cancel()
        await asyncio.gather(*below, return_exceptions=True)
