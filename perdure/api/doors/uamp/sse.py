"""A session's events as server-sent events: `id` is where the session's reader stands, so that it resumes at any process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi.sse import format_sse_event

from perdure.api.answers import Answer
from perdure.api.doors.uamp.teller import Told
from perdure.api.patience import Patience
from perdure.api.sse import FIRST, HEADERS, PADDING
from perdure.api.telling import StreamedBody, StreamedResponse


class ToldEvents(StreamedResponse):
    """Tells a reader a session's events; the last one is session.end. One that was cut off asks again with `Last-Event-ID`."""

    def __init__(self, pages: AsyncGenerator[list[Told], None], patience: Patience, *, session: str) -> None:
        """Respond to a reader.

        Args:
            pages: what it is told; closed when it leaves.
            patience: how long it waits.
            session: the session's id.
        """
        super().__init__(patience, {**HEADERS, "X-Session-ID": session})
        self._pages = pages

    async def tell(self, body: StreamedBody) -> None:
        async with aclosing(self._pages), aclosing(body.follow(self._pages)) as pages:
            await body.write(FIRST)
            async for page in pages:
                await (body.write(PADDING) if page is None else body.write_all(frame(told) for told in page))
        self.is_told = True


def frame(told: Told) -> bytes:
    """One event on the wire. It has no `event:` line: a browser hands it to `onmessage`."""
    text = Answer(told.event.to_json()).body
    return format_sse_event(data_str=bytes(text).decode(), id=str(told.cursor))
