"""A client of UAMP that knows nothing of ours but the wire: one script, over a WebSocket or over HTTP with server-sent events.

A `Line` is a connection; a `Talk` is a session on it. Whatever comes is checked as it comes: each server event has a type of
the specification, a UUID of its own and a time in milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator

import httpx
import websockets
from httpx_sse import aconnect_sse

from tests.conformance.uamp_line import Line as Line
from tests.conformance.uamp_talk import Answer as Answer
from tests.conformance.uamp_talk import Talk as Talk
from tests.conformance.uamp_wire import PATIENCE, refusal_by
from tests.conformance.uamp_wire import TERMINAL as TERMINAL
from tests.conformance.uamp_wire import Event as Event
from tests.conformance.uamp_wire import Refusal as Refusal
from tests.conformance.uamp_wire import new_id as new_id
from tests.conformance.uamp_wire import text_of as text_of

WS, HTTP = "ws", "http"
TRANSPORTS = (WS, HTTP)
_SESSION = "X-Session-ID"


class SocketLine(Line):
    """By a WebSocket: one event a text frame, all sessions on one connection."""

    kind = WS
    _socket: websockets.ClientConnection
    _reading: asyncio.Task[None]

    async def connect(self) -> None:
        self._left = None
        address = self.url.replace("http", "ws", 1) + "/ws"
        self._socket = await websockets.connect(address, compression=None, max_size=None, **PATIENCE)
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        await self._socket.close()
        await self._reading

    async def abort(self) -> None:
        self._socket.transport.abort()
        await self._reading

    async def send(self, event: Event, *, session: str | None = None) -> None:
        named = event if session is None else {**event, "session_id": session}
        await self._socket.send(json.dumps(named))

    async def refusal_of_raw(self, text: str | bytes, *, session: str | None = None) -> Refusal:
        before = len(self.heard)
        await self._socket.send(text)
        return refusal_by(
            await self.wait(lambda event: event["type"] in ("response.error", "session.error"), after=before)
        )

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                assert isinstance(frame, str), "events are text"
                await self._hear(frame)
        except websockets.ConnectionClosed:
            pass
        finally:
            await self._leave(f"closed {self._socket.close_code} {self._socket.close_reason}")


class HttpLine(Line):
    """By POST /events and a stream for each session, which is taken up again wherever it breaks off.

    Attributes:
        last: by session the `id` of the last event that came.
        credentials: by session what its requests show; it was opened with the same.
    """

    kind = HTTP

    async def connect(self) -> None:
        self._left = None
        self.last: dict[str, str] = {}
        self.credentials: dict[str, str] = {}
        self._http = httpx.AsyncClient(
            base_url=self.url, timeout=httpx.Timeout(60, read=None), limits=httpx.Limits(max_connections=1000)
        )
        self._streams: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for session in list(self._streams):
            await self.cut(session)
        await self._http.aclose()

    async def abort(self) -> None:
        await self.close()

    async def create(self, event: Event) -> None:
        response = await self.post(event)
        if response.is_success:
            session = response.headers[_SESSION]
            if "token" in event:
                self.credentials[session] = event["token"]
            self.listen(session)

    async def send(self, event: Event, *, session: str | None = None) -> None:
        await self.post(event, session=session)

    async def post(self, event: Event, *, session: str | None = None) -> httpx.Response:
        """POST an event; a refusal is kept under its id."""
        response = await self._post(json.dumps(event), session)
        if response.is_error:
            async with self._news:
                self.refused[event.get("event_id", "")] = _told(response)
                self._news.notify_all()
        return response

    async def refusal_of_raw(self, text: str | bytes, *, session: str | None = None) -> Refusal:
        response = await self._post(text, session)
        assert response.is_error, f"{response.status_code}: {response.text}"
        return _told(response)

    def listen(self, session: str, *, last: str | None = None) -> None:
        """Read a session's stream from now on, behind an event, else behind what came."""
        if session not in self._streams:
            if last is not None:
                self.last[session] = last
            self._streams[session] = asyncio.create_task(self._follow(session))

    async def cut(self, session: str) -> None:
        """Read it no more."""
        task = self._streams.pop(session)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _post(self, text: str | bytes, session: str | None) -> httpx.Response:
        headers = {"content-type": "application/json", **self._headers(session)}
        return await self._http.post("/events", content=text, headers=headers)

    def _headers(self, session: str | None) -> dict[str, str]:
        """Of a request for a session, or for none: then an event itself shows a credential, if any."""
        if session is None:
            return {}
        shown = self.credentials.get(session, self.token)
        return {_SESSION: session, **({} if shown is None else {"Authorization": f"Bearer {shown}"})}

    async def _follow(self, session: str) -> None:
        try:
            await self._read(session)
        except Exception as error:
            await self._leave(f"what came is wrong: {error!r}")
            raise

    async def _read(self, session: str) -> None:
        """As browsers do: again and again, until the server says that there is no more."""
        while True:
            with contextlib.suppress(httpx.TransportError):
                headers = self._headers(session)
                if session in self.last:
                    headers["Last-Event-ID"] = self.last[session]
                async with aconnect_sse(self._http, "GET", "/events/stream", headers=headers) as source:
                    if source.response.status_code != 200:
                        return
                    async for message in source.aiter_sse():
                        if message.data:
                            assert message.event == "message", "no `event:` line"
                            self.last[session] = message.id
                            await self._hear(message.data)
                            assert self.heard[-1]["session_id"] == session
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def line_to(url: str, kind: str, token: str | None = None) -> AsyncGenerator[Line]:
    """A connection to a server, by a transport."""
    line = (SocketLine if kind == WS else HttpLine)(url, token)
    await line.connect()
    try:
        yield line
    finally:
        await line.close()


def _told(response: httpx.Response) -> Refusal:
    error = response.json()["error"]
    return Refusal(error["code"], error["message"], status=response.status_code)
