"""Telling one client what happens until it leaves or there is no more: what all streams of events over HTTP share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.api.patience import Patience
from perdure.errors import ServerError, SessionGone

T = TypeVar("T")

ENDS: tuple[type[Exception], ...] = (TimeoutError, SessionGone, ServerError, OSError)
"""What ends a stream without an error of ours: its client asks again."""

_PIECE_BYTES = 32 * 1024


class StreamedBody:
    """The body of a response that is sent in pieces, with a sign of life after each silence."""

    def __init__(self, send: Send, patience: Patience) -> None:
        """Send what the response's beginning is followed by."""
        self._send = send
        self._patience = patience
        self._sent_at = time.monotonic()

    @property
    def silent_in(self) -> float:
        """Seconds until a client has been left without a sign of life for too long; not above 0 once it has."""
        return self._sent_at + self._patience.silence_s - time.monotonic()

    async def write(self, piece: bytes) -> None:
        """Send a piece. Raises TimeoutError if the client takes nothing."""
        async with asyncio.timeout(self._patience.stalled_s):
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self._sent_at = time.monotonic()

    async def write_all(self, frames: Iterable[bytes]) -> None:
        """Send frames, several in a piece."""
        piece = bytearray()
        for frame in frames:
            piece += frame
            if len(piece) >= _PIECE_BYTES:
                await self.write(bytes(piece))
                piece.clear()
        if piece:
            await self.write(bytes(piece))

    async def end(self) -> None:
        """Say that this was all."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def follow(self, source: AsyncGenerator[T, None]) -> AsyncGenerator[T | None, None]:
        """What comes from a source; None after each silence, in which the caller shows that the stream lives."""
        upcoming: asyncio.Task[T | None] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.create_task(_next(source), name="wait for what is to be told")
                await asyncio.wait([upcoming], timeout=max(0.0, self.silent_in))
                if not upcoming.done():
                    yield None
                    continue
                told, upcoming = upcoming.result(), None
                if told is None:
                    return
                yield told
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)


class StreamedResponse(Response):
    """A response that tells a client events as they come, until there are no more or the client leaves.

    It comes to its proper end only once all is told. In any other case the connection is broken off, which no client and
    no proxy takes for the end. (HTTP/2 and 3 have no such thing here; there the stream ends, and the last event is missing.)
    """

    media_type = "text/event-stream"
    ends: ClassVar[tuple[type[Exception], ...]] = ENDS

    def __init__(self, patience: Patience, headers: Mapping[str, str]) -> None:
        """Respond with these headers, and wait for so long."""
        super().__init__(None, headers=headers)
        del self.headers["content-length"]
        self.is_told = False
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = StreamedBody(send, self._patience)
        if not await tell_until_left(self.tell(body), receive, ends=self.ends):
            return
        if self.is_told or scope["http_version"] in ("2", "3"):
            await body.end()

    @abstractmethod
    async def tell(self, body: StreamedBody) -> None:
        """Send all that there is to tell, and set `is_told` once that is done."""


async def tell_until_left(
    tell: Coroutine[Any, Any, None], receive: Receive, *, ends: tuple[type[Exception], ...]
) -> bool:
    """Tell a client what happens.

    Args:
        tell: sends what there is to send.
        receive: says when the client leaves.
        ends: errors of the telling that are its end, for the client asks again; others are raised.

    Returns:
        Whether the telling came to its end; the client left before otherwise.
    """
    telling = asyncio.create_task(tell, name="tell events")
    leaving = asyncio.create_task(_left(receive), name="wait for a client to leave")
    try:
        await asyncio.wait([telling, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        telling.cancel()
        await asyncio.gather(telling, leaving, return_exceptions=True)
    if telling.cancelled():
        return False
    with contextlib.suppress(*ends):
        telling.result()
    return True


async def _next(source: AsyncGenerator[T, None]) -> T | None:
    return await anext(source, None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
