"""The rows of a session's event log, taken at the reader's own pace: one page is at hand, and none is read before it is used up."""

from __future__ import annotations

import asyncio
from collections import deque

from perdure.runtime.event_stream import EventStream
from perdure.store.events import Event
from perdure.uap.session_key import SessionKey


class LogReader:
    """Reads one log. To be closed."""

    def __init__(self, stream: EventStream, key: SessionKey, after: int) -> None:
        """Read the rows of a session behind a number; nothing is read yet."""
        self._pages = stream.follow_pages(key, after=after)
        self._page: deque[Event] = deque()
        self._reading: asyncio.Task[list[Event]] | None = None

    def take(self) -> Event | None:
        """The next row that is at hand.

        Raises:
            UnknownSession: there is no such session.
            SessionGone: it was deleted.
            ServerError: the process is leaving.
        """
        if not self._page and self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            self._page.extend(reading.result())
        return self._page.popleft() if self._page else None

    def reading(self) -> asyncio.Task[list[Event]]:
        """What is done as soon as there is a row at hand, or none will be; not to be cancelled."""
        if self._reading is None:
            self._reading = asyncio.create_task(anext(self._pages), name="read a log for a stream")
        return self._reading

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._pages.aclose()
