"""An event log as server-sent events: `id` is the event's number, so a reader resumes anywhere, at any process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping

from fastapi.sse import format_sse_event
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.api.patience import Patience
from perdure.api.viewing import Viewing
from perdure.errors import ServerError, SessionGone
from perdure.runtime.event_stream import Lagging
from perdure.store.events import Event
from perdure.upp.json_value import dumps

LAGGING = "stream.lagging"
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

_PADDING = b":" + b" " * 2048 + b"\n\n"
"""Sent first, and with each keep-alive: a proxy that buffers 2 KB hands on what came before."""

_FIRST = b"retry: 1000\n" + _PADDING
_CHUNK_BYTES = 32 * 1024
_UNTOLD = 500
"""After so many events that are not told, the viewer is told where it stands."""


class EventStreamResponse(Response):
    """Tells a viewer events as they come, until a run has ended or the viewer leaves.

    The response comes to its proper end only behind a run's terminal event. In any other case the connection is broken
    off, which no client and no proxy takes for the end: it resumes. (HTTP/2 has no such thing; there the stream ends,
    and the missing terminal event says the same.)
    """

    media_type = "text/event-stream"

    def __init__(
        self, viewing: Viewing, *, after: int, patience: Patience, headers: Mapping[str, str] | None = None
    ) -> None:
        """Respond to a viewer.

        Args:
            viewing: what it is told.
            after: the number from which it resumes.
            patience: how long it waits.
            headers: more of the response's.
        """
        super().__init__(None, headers={**HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._viewing = viewing
        self._stands = self._said = after
        self._patience = patience
        self._sent_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        telling = asyncio.create_task(self._tell(send), name="tell events")
        leaving = asyncio.create_task(_left(receive), name="wait for a viewer to leave")
        try:
            await asyncio.wait([telling, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            telling.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)
        if telling.cancelled():
            return
        with contextlib.suppress(TimeoutError, Lagging, SessionGone, ServerError, OSError):
            telling.result()
        if self._viewing.ended or scope["http_version"] == "2":
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        try:
            async with contextlib.aclosing(self._viewing.pages):
                await self._tell_pages(send)
        except Lagging as lagging:
            await self._send(send, _note(LAGGING, lagging.after))
            raise

    async def _tell_pages(self, send: Send) -> None:
        await self._send(send, _FIRST)
        upcoming: asyncio.Task[list[Event]] | None = None
        try:
            while not self._viewing.ended:
                upcoming = upcoming or asyncio.create_task(_next(self._viewing), name="wait for events")
                left = self._sent_at + self._patience.silence_s - time.monotonic()
                await asyncio.wait([upcoming], timeout=max(0.0, left))
                if not upcoming.done():
                    await self._send(send, self._where() + _PADDING)
                    continue
                page, upcoming = upcoming.result(), None
                await self._send_page(send, page)
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)

    async def _send_page(self, send: Send, page: list[Event]) -> None:
        told = self._viewing.told(page)
        for chunk in _chunks(told):
            await self._send(send, chunk)
        if told:
            self._said = told[-1].seq
        self._stands = page[-1].seq
        if self._stands - self._said >= _UNTOLD or time.monotonic() >= self._sent_at + self._patience.silence_s:
            await self._send(send, self._where() + _PADDING)

    def _where(self) -> bytes:
        """A frame without data that moves the number from which the viewer resumes."""
        if self._stands == self._said:
            return b""
        self._said = self._stands
        return f"id: {self._said}\n\n".encode()

    async def _send(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._patience.stalled_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sent_at = time.monotonic()


async def _next(viewing: Viewing) -> list[Event]:
    return await anext(viewing.pages)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _chunks(events: list[Event]) -> Iterator[bytes]:
    chunk = bytearray()
    for event in events:
        chunk += frame(event)
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def frame(event: Event) -> bytes:
    """One event on the wire."""
    return format_sse_event(data_str=event_text(event), event=event.type, id=str(event.seq))


def event_text(event: Event) -> str:
    """An event's JSON; a lone surrogate, which UTF-8 has not, as JSON's escape of it."""
    text = dumps(event.to_json()).decode("utf-8", "surrogatepass")
    return text.encode("utf-8", "backslashreplace").decode()


def _note(kind: str, after: int) -> bytes:
    return format_sse_event(data_str=f'{{"type":"{kind}","after":{after}}}', event=kind)
