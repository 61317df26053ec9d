"""The event log of a session by WebSocket: the same events, numbers and filters as by server-sent events.

Each message is one event's JSON. A message without `seq` is about the stream: `stream.alive` after a silence,
`stream.lagging` before it is closed on a slow reader, each with the number (`after`) from which to go on. The client may
send `{"after": n}` to begin anew behind n, and `{"types": [...], "sources": [...]}` to choose.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from typing import Any, cast

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from perdure.api.backend import Backend
from perdure.api.event_choice import EventChoice, read_after, read_choice
from perdure.api.patience import Patience
from perdure.api.principal import Scope
from perdure.api.problems import Refused, fault_of, problem
from perdure.api.requirement import requires
from perdure.api.sse import LAGGING, event_text
from perdure.api.viewing import Viewing
from perdure.errors import InvalidInput, PerdureError, ServerError, SessionGone
from perdure.runtime.event_stream import EventStream, Lagging
from perdure.store.events import Event, read_last_seqs
from perdure.store.sessions import read_session
from perdure.uap.session_key import SessionKey

ALIVE = "stream.alive"
LARGEST_MESSAGE = 16 * 1024
_MOST_MESSAGES = 20
_PER_SECONDS = 5.0
_GONE, _GOING_AWAY, _UNUSABLE, _ABUSE, _TOO_BIG, _TRY_LATER = 4410, 1001, 1007, 1008, 1009, 1013

router = APIRouter(tags=["events"])


class _Closed(Exception):
    """The socket is to be closed with a code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@router.websocket("/api/sessions/{session}/events/ws")
async def of_session(
    socket: WebSocket, session: str, after: str | None = None, types: str | None = None, sources: str | None = None
) -> None:
    """Follow a session's events; see the module."""
    try:
        principal = await requires(Scope.READ)(socket)
        backend = cast(Backend, socket.app.state.backend)
        sessions = backend.sessions(principal.tenant)
        key = sessions.key_of(session)
        row = await read_session(sessions.database, key)
        start, choice = read_after(after, row.last_seq), read_choice(types, sources)
    except (Refused, PerdureError) as error:
        await socket.send_denial_response(problem(fault_of(error)))
        return
    await socket.accept()
    await _SocketViewer(socket, sessions.stream, key, backend.patience).serve(start, choice)


class _SocketViewer:
    """One socket."""

    def __init__(self, socket: WebSocket, stream: EventStream, key: SessionKey, patience: Patience) -> None:
        self._socket = socket
        self._stream = stream
        self._key = key
        self._patience = patience
        self._asked: deque[float] = deque(maxlen=_MOST_MESSAGES)
        self._after = 0
        self._choice = EventChoice()
        self._chosen = asyncio.Event()
        self._sent_at = time.monotonic()

    async def serve(self, after: int, choice: EventChoice) -> None:
        """Tell events until the client leaves, or must."""
        self._after, self._choice = after, choice
        tasks = [
            asyncio.create_task(self._hear(), name="hear a viewer"),
            asyncio.create_task(self._tell(), name="tell events"),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._close(ended)

    async def _close(self, ended: set[asyncio.Task[None]]) -> None:
        try:
            for task in ended:
                task.result()
        except _Closed as closed:
            code, reason = closed.code, closed.reason
        except Lagging as lagging:
            code, reason = _TRY_LATER, f"too slow; go on after {lagging.after}"
        except SessionGone as error:
            code, reason = _GONE, str(error)
        except ServerError as error:
            code, reason = _GOING_AWAY, str(error)
        except (WebSocketDisconnect, TimeoutError, OSError):
            return
        else:
            return
        with contextlib.suppress(TimeoutError, OSError, RuntimeError):
            async with asyncio.timeout(self._patience.stalled_s):
                await self._socket.close(code, reason[:120])

    async def _hear(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            given = cast("str | bytes", message.get("text") or message.get("bytes") or "")
            if len(given) > LARGEST_MESSAGE:
                raise _Closed(_TOO_BIG, f"a message may have {LARGEST_MESSAGE} bytes")
            now = time.monotonic()
            if len(self._asked) == _MOST_MESSAGES and now - self._asked[0] < _PER_SECONDS:
                raise _Closed(_ABUSE, f"more than {_MOST_MESSAGES} messages in {_PER_SECONDS:g} s")
            self._asked.append(now)
            try:
                await self._choose(json.loads(given))
            except (ValueError, RecursionError, InvalidInput) as error:
                raise _Closed(_UNUSABLE, f"cannot be used: {error}") from error
            self._chosen.set()

    async def _choose(self, wanted: Any) -> None:
        fields = cast("dict[str, Any]", wanted)
        if not isinstance(wanted, dict) or not fields or not fields.keys() <= {"after", "types", "sources"}:
            raise InvalidInput('send {"after": n}, {"types": [...]} or {"sources": [...]}')
        if "after" in fields:
            newest = (await read_last_seqs(self._stream.database, [self._key])).get(self._key, 0)
            self._after = read_after(fields["after"], newest)
        if "types" in fields or "sources" in fields:
            types, sources = self._choice.types, self._choice.sources
            given = (_names(fields.get("types", list(types))), _names(fields.get("sources", list(sources))))
            self._choice = read_choice(*given)

    async def _tell(self) -> None:
        try:
            while True:
                self._chosen.clear()
                pages = self._stream.follow_pages(self._key, after=self._after, most_behind=self._patience.most_behind)
                async with contextlib.aclosing(pages):
                    await self._tell_pages(Viewing(pages, self._choice))
        except Lagging as lagging:
            await self._send(json.dumps({"type": LAGGING, "after": lagging.after}))
            raise

    async def _tell_pages(self, viewing: Viewing) -> None:
        """Tell events until the client chooses anew."""
        upcoming = asyncio.create_task(_next(viewing), name="wait for events")
        choosing = asyncio.create_task(self._chosen.wait(), name="wait for a choice")
        try:
            while not self._chosen.is_set():
                left = max(0.0, self._sent_at + self._patience.silence_s - time.monotonic())
                await asyncio.wait([upcoming, choosing], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    await self._tell_page(viewing, upcoming.result())
                    upcoming = asyncio.create_task(_next(viewing), name="wait for events")
                if time.monotonic() >= self._sent_at + self._patience.silence_s:
                    await self._send(json.dumps({"type": ALIVE, "after": self._after}))
        finally:
            upcoming.cancel()
            choosing.cancel()
            await asyncio.gather(upcoming, choosing, return_exceptions=True)

    async def _tell_page(self, viewing: Viewing, page: list[Event]) -> None:
        for event in viewing.told(page):
            if self._chosen.is_set():
                return
            self._after = event.seq
            await self._send(event_text(event))
        if not self._chosen.is_set():
            self._after = page[-1].seq

    async def _send(self, text: str) -> None:
        async with asyncio.timeout(self._patience.stalled_s):
            await self._socket.send_text(text)
        self._sent_at = time.monotonic()


async def _next(viewing: Viewing) -> list[Event]:
    return await anext(viewing.pages)


def _names(value: Any) -> str:
    names = cast("list[Any]", value)
    if not isinstance(value, list) or not all(isinstance(name, str) and "," not in name for name in names):
        raise InvalidInput("types and sources are lists of names")
    return ",".join(names)
