"""One session's events on their way from its rows to all who follow it in this process: read once, kept for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import TypeAlias

from perdure.store.events import Event
from perdure.uap.session_key import SessionKey

ReadPage: TypeAlias = Callable[[SessionKey, int], Awaitable[list[Event]]]

_MOST_EVENTS = 1000
_MOST_BYTES = 1024 * 1024


class EventFeed:
    """The end of a session's event log.

    Nobody reads on its own: of the viewers who wait for news one reads, the others find what was read. So there is no
    task to be left over, and a session that nobody follows is not read.

    Attributes:
        last: the number up to which rows were read.
        newest: the last number that is known to have been given.
        ended: the session was deleted, or the stream closed.
        told: how often there may have been news.
        viewers: how many follow, or wait for the end of a run.
    """

    def __init__(self, key: SessionKey, read: ReadPage, last: int) -> None:
        """Go on behind `last`; `read` gives rows behind a number."""
        self.last = self.newest = last
        self.ended = False
        self.told = 0
        self.viewers = 0
        self._ends: set[asyncio.Event] = set()
        self._key = key
        self._read = read
        self._floor = last
        self._kept: deque[Event] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._reading = asyncio.Lock()
        self._news.set()  # what came before anybody listened

    def tell(self, newest: int = 0) -> None:
        """There may be new rows."""
        self.newest = max(self.newest, newest)
        self.told += 1
        self._news.set()

    def tell_end(self) -> None:
        """A run may have ended."""
        for end in self._ends:
            end.set()

    def end(self) -> None:
        """There will be no more."""
        self.ended = True
        self._news.set()
        self.tell_end()

    @contextlib.contextmanager
    def ends(self) -> Generator[asyncio.Event]:
        """An event that is set whenever a run may have ended."""
        end = asyncio.Event()
        self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.remove(end)

    def since(self, after: int) -> list[Event] | None:
        """The kept events behind a number; None if they are not kept any more."""
        if after < self._floor:
            return None
        if after >= self.last:
            return []
        return [event for event in self._kept if event.seq > after]

    async def advance(self, after: int, *, patience: float) -> None:
        """Wait for news, and read it unless another viewer did; a number above `after` may be there then.

        Args:
            after: what the viewer has.
            patience: seconds to wait at most.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._news.wait()
        async with self._reading:
            if self.last > after or self.ended or not self._news.is_set():
                return
            self._news.clear()
            try:
                page = await self._read(self._key, self.last)
            except BaseException:
                self._news.set()  # the next viewer reads in this one's place
                raise
            if page:
                self._news.set()  # there may be more
                self._keep(page)

    def _keep(self, page: list[Event]) -> None:
        self._kept.extend(page)
        self._bytes += sum(event.size for event in page)
        self.last = page[-1].seq
        self.newest = max(self.newest, self.last)
        while len(self._kept) > _MOST_EVENTS or self._bytes > _MOST_BYTES:
            dropped = self._kept.popleft()
            self._bytes -= dropped.size
            self._floor = dropped.seq
