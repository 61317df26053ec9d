"""An event log as server-sent events: `id` is the event's number, so a reader resumes anywhere, at any process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from fastapi.sse import format_sse_event

from perdure.api.patience import Patience
from perdure.api.telling import ENDS, StreamedBody, StreamedResponse
from perdure.api.viewing import Viewing
from perdure.runtime.event_stream import Lagging
from perdure.store.events import Event
from perdure.upp.json_value import dumps

LAGGING = "stream.lagging"
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

PADDING = b":" + b" " * 2048 + b"\n\n"
"""Sent first, and with each keep-alive: a proxy that buffers 2 KB hands on what came before."""

FIRST = b"retry: 1000\n" + PADDING
"""What a stream begins with."""

_FORM = "sse"

_UNTOLD = 500
"""After so many events that are not told, the viewer is told where it stands."""


class EventStreamResponse(StreamedResponse):
    """Tells a viewer events as they come; all is told behind a run's terminal event. One that was cut off resumes."""

    ends = (*ENDS, Lagging)

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
        super().__init__(patience, {**HEADERS, **(headers or {})})
        self._viewing = viewing
        self._stands = self._said = after

    async def tell(self, body: StreamedBody) -> None:
        try:
            async with aclosing(self._viewing.pages), aclosing(body.follow(self._viewing.pages)) as pages:
                await body.write(FIRST)
                async for page in pages:
                    await (body.write(self._where() + PADDING) if page is None else self._tell_page(body, page))
                    self.is_told = self._viewing.ended
                    if self.is_told:
                        return
        except Lagging as lagging:
            await body.write(_note(LAGGING, lagging.after))
            raise

    async def _tell_page(self, body: StreamedBody, page: list[Event]) -> None:
        told = self._viewing.told(page)
        await body.write_all(frame(event) for event in told)
        if told:
            self._said = told[-1].seq
        self._stands = page[-1].seq
        if self._stands - self._said >= _UNTOLD or body.silent_in <= 0:
            await body.write(self._where() + PADDING)

    def _where(self) -> bytes:
        """A frame without data that moves the number from which the viewer resumes."""
        if self._stands == self._said:
            return b""
        self._said = self._stands
        return f"id: {self._said}\n\n".encode()


def frame(event: Event) -> bytes:
    """One event on the wire; made once for all who follow it."""
    made = event.made.get(_FORM)
    if made is None:
        made = event.made[_FORM] = format_sse_event(data_str=event_text(event), event=event.type, id=str(event.seq))
    return made


def event_text(event: Event) -> str:
    """An event's JSON; a lone surrogate, which UTF-8 has not, as JSON's escape of it."""
    text = dumps(event.to_json()).decode("utf-8", "surrogatepass")
    return text.encode("utf-8", "backslashreplace").decode()


def _note(kind: str, after: int) -> bytes:
    return format_sse_event(data_str=f'{{"type":"{kind}","after":{after}}}', event=kind)
