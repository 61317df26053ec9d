"""Following sessions' event logs from any number on, across restarts of everything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from perdure.errors import ServerError, SessionGone, UnknownSession
from perdure.runtime.event_feed import EventFeed
from perdure.store.database import Database, is_away
from perdure.store.events import CHANNEL, END_MARK, Event, read_events, read_last_seqs
from perdure.uap.session_key import SessionKey

T = TypeVar("T")

_POLL_SECONDS = 5.0
_RECONNECT_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_PAGE_BYTES = 256 * 1024
_READS_AT_ONCE = 6


class Lagging(Exception):
    """A viewer takes events more slowly than they come.

    Attributes:
        after: the last number that it was given; it goes on from there by following anew.
    """

    def __init__(self, after: int) -> None:
        super().__init__(f"the viewer lags behind; it goes on after event {after}")
        self.after = after


class StreamClosed(ServerError):
    """This process is leaving and follows no events any more; another one goes on."""


class EventStream:
    """One listening connection for all viewers of a process, and one reading of each session for all who follow it.

    A notification only says where to look: events are read from rows past the last number, so none is missed or
    repeated. After a broken connection the stream listens first and reads then; besides, it polls. Each viewer takes
    events at its own pace; one that falls behind what is kept reads its own pages, so none makes memory grow.
    """

    def __init__(self, database: Database, channel: str = CHANNEL) -> None:
        """Follow the events in `database`, announced on `channel`; nothing is connected before the first viewer."""
        self._database = database
        self._channel = channel
        self._feeds: dict[SessionKey, EventFeed] = {}
        self._task: asyncio.Task[None] | None = None
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._closed = False

    @property
    def database(self) -> Database:
        """Where the events are."""
        return self._database

    @property
    def is_closed(self) -> bool:
        """Whether the process is leaving: nobody is told of events any more."""
        return self._closed

    async def follow(self, key: SessionKey, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Every event of a session with a number above `after`, as it comes, without end.

        Raises:
            UnknownSession: there is no such session.
            SessionGone: it was deleted meanwhile.
            StreamClosed: the stream was closed.
        """
        async with contextlib.aclosing(self.follow_pages(key, after=after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    async def follow_pages(
        self, key: SessionKey, *, after: int = 0, most_behind: int | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """As `follow`, several at once where they are there.

        Args:
            key: the session.
            after: a number.
            most_behind: how many events a viewer that had them all once may fall behind.

        Raises:
            Lagging: it fell further behind.
        """
        feed = await self._enter(key)
        had_all = False
        try:
            while True:
                had_all = had_all or after >= feed.last
                if had_all and most_behind is not None and feed.newest - after > most_behind:
                    raise Lagging(after)
                page = await self._next(feed, key, after)
                if page:
                    after = page[-1].seq
                    yield page
        finally:
            self._leave(feed, key)

    async def until(self, key: SessionKey, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a run of a session is over. Nothing of its log is read meanwhile.

        Args:
            key: the session.
            is_over: looks whether it is: when a run of the session has ended, and after other news now and then.

        Raises:
            UnknownSession: there is no such session.
            SessionGone: it was deleted meanwhile.
            StreamClosed: the stream was closed.
        """
        feed = await self._enter(key)
        try:
            with feed.ends() as end:
                while True:
                    end.clear()
                    told = feed.told
                    if await self.until_there(is_over):
                        return
                    self._check(feed, key)
                    self._keep_listening()
                    await _until_news(feed, end, told)
        finally:
            self._leave(feed, key)

    async def until_there(self, read: Callable[[], Awaitable[T]]) -> T:
        """Read as soon as the database is there; not so many at once that others find no connection."""
        async with self._reads:
            while True:
                try:
                    return await read()
                except Exception as error:
                    if not is_away(error):
                        raise
                    await asyncio.sleep(_RECONNECT_SECONDS)

    async def close(self) -> None:
        """Stop listening; who follows still is told so."""
        self._closed = True
        for feed in self._feeds.values():
            feed.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _enter(self, key: SessionKey) -> EventFeed:
        feed = self._feeds.get(key)
        if feed is None:
            last = (await self._last_seqs([key])).get(key)
            if last is None:
                raise UnknownSession(f"no session {key.session}; `perdure sessions list` lists them")
            feed = self._feeds.setdefault(key, EventFeed(key, self._read, last))
        feed.viewers += 1
        return feed

    def _leave(self, feed: EventFeed, key: SessionKey) -> None:
        feed.viewers -= 1
        if not feed.viewers and self._feeds.get(key) is feed:
            del self._feeds[key]

    def _check(self, feed: EventFeed, key: SessionKey) -> None:
        if self._closed:
            raise StreamClosed("the connection was closed")
        if feed.ended:
            raise SessionGone(f"session {key.session} was deleted")

    async def _next(self, feed: EventFeed, key: SessionKey, after: int) -> list[Event]:
        """The next events; none if the viewer is to look again."""
        self._check(feed, key)
        kept = feed.since(after)
        if kept is None:
            return await self._read(key, after)
        if kept:
            return kept
        self._keep_listening()
        await feed.advance(after, patience=2 * _POLL_SECONDS)
        return []

    def _keep_listening(self) -> None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="listen for events")

    async def _read(self, key: SessionKey, after: int) -> list[Event]:
        return await self.until_there(lambda: read_events(self._database, key, after=after, max_bytes=_PAGE_BYTES))

    async def _last_seqs(self, keys: list[SessionKey]) -> dict[SessionKey, int]:
        return await self.until_there(lambda: read_last_seqs(self._database, keys))

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                if not is_away(error):
                    raise
            await self._poll()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection = await self._database.connect_alone()
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(self._channel, self._heard)
            for feed in self._feeds.values():
                feed.tell()
                feed.tell_end()
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await ended.wait()
                await self._poll()
        finally:
            connection.terminate()

    async def _poll(self) -> None:
        """Look where news was lost, and which sessions are gone."""
        asked = dict(self._feeds)
        if not asked:
            return
        found = await self._last_seqs(list(asked))
        for key, feed in asked.items():
            if key not in found:
                feed.end()
            elif found[key] > feed.last:
                feed.tell(found[key])

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for line in str(payload).splitlines():
            tenant, _, session = line.partition("/")
            feed = self._feeds.get(SessionKey(tenant, session.removesuffix(END_MARK)))
            if feed is None:
                continue
            if session.endswith(END_MARK):
                feed.tell_end()
            else:
                feed.tell()


async def _until_news(feed: EventFeed, end: asyncio.Event, told: int) -> None:
    """Wait until a run has ended; or some time, if there was other news than what was told before."""
    loop = asyncio.get_running_loop()
    last = loop.time() + 2 * _POLL_SECONDS
    while not end.is_set() and loop.time() < last:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await end.wait()
        if feed.told != told:
            return
