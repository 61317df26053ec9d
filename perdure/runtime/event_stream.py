"""Following a session's event log from any number on, across restarts of everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import asyncpg

from perdure.store.database import Database, is_away
from perdure.store.events import CHANNEL, Event, read_events
from perdure.uap.session_key import SessionKey

_POLL_SECONDS = 5.0
_RECONNECT_SECONDS = 0.5


class EventStream:
    """One listening connection for all viewers of a process.

    A notification only says where to look: events are read from rows past the last number a viewer has, so none is
    missed or repeated. After a broken connection the stream listens first and reads then; besides, it polls.
    """

    def __init__(self, database: Database) -> None:
        """Follow the events in `database`; nothing is connected before the first viewer."""
        self._database = database
        self._viewers: dict[SessionKey, list[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    async def follow(self, key: SessionKey, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Every event of a session with a number above `after`, as it comes, without end."""
        news = asyncio.Event()
        self._viewers.setdefault(key, []).append(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="listen for events")
        try:
            while True:
                news.clear()
                for event in await self._read(key, after):
                    after = event.seq
                    news.set()
                    yield event
                if not news.is_set():
                    await _wait(news)
        finally:
            self._leave(key, news)

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _leave(self, key: SessionKey, news: asyncio.Event) -> None:
        viewers = self._viewers[key]
        viewers.remove(news)
        if not viewers:
            del self._viewers[key]

    async def _read(self, key: SessionKey, after: int) -> list[Event]:
        while True:
            try:
                return await read_events(self._database, key, after=after)
            except Exception as error:
                if not is_away(error):
                    raise
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                if not is_away(error):
                    raise
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(self._database.dsn(), timeout=3)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            for viewers in self._viewers.values():
                for news in viewers:
                    news.set()
            await ended.wait()
        finally:
            connection.terminate()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for line in str(payload).splitlines():
            tenant, _, session = line.partition("/")
            for news in self._viewers.get(SessionKey(tenant, session), []):
                news.set()


async def _wait(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_POLL_SECONDS):
            await news.wait()
    except TimeoutError:
        return
