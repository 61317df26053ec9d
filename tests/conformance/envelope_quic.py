"""A peer's connection by HTTP/3, on aioquic alone."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aioquic.asyncio.client import connect  # pyright: ignore[reportUnknownVariableType]
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent


@dataclass
class QuicAnswer:
    """A response over HTTP/3."""

    stream: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events of a stream: id and data."""
        found: list[tuple[str, dict[str, Any]]] = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in lines:
                found.append((lines["id"], json.loads(lines["data"])))
        return found


class QuicLine(QuicConnectionProtocol):
    """One connection."""

    authority = ""
    bearer: str | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self._events = defaultdict[int, asyncio.Queue[H3Event]](asyncio.Queue)

    def quic_event_received(self, event: QuicEvent) -> None:
        for told in self.http.handle_event(event):
            if isinstance(told, HeadersReceived | DataReceived):
                self._events[told.stream_id].put_nowait(told)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        until: int | None = None,
        seconds: float = 60,
        **headers: str,
    ) -> QuicAnswer:
        """The response to a request.

        Args:
            method: of it.
            path: of it.
            body: of it.
            until: return what there is of the response once it has so many events.
            seconds: to wait at most.
            headers: of the request; `_` in a name is `-`.
        """
        stream = self._quic.get_next_available_stream_id()
        sent = [(":method", method), (":scheme", "https"), (":authority", self.authority), (":path", path)]
        sent += [(name.replace("_", "-"), value) for name, value in headers.items()]
        if self.bearer is not None:
            sent.append(("authorization", f"Bearer {self.bearer}"))
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in sent], end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        answer = QuicAnswer(stream)
        async with asyncio.timeout(seconds):
            while True:
                event = await self._events[stream].get()
                if isinstance(event, HeadersReceived):
                    answer.headers |= {name.decode(): value.decode() for name, value in event.headers}
                else:
                    answer.body += cast(DataReceived, event).data
                if cast(DataReceived, event).stream_ended or (until is not None and len(answer.events) >= until):
                    return answer

    def leave(self, stream: int) -> None:
        """Want no more of a response."""
        self._quic.stop_stream(stream, 0x10C)
        self.transmit()


@asynccontextmanager
async def quic_line(url: str, authority: Path, bearer: str | None) -> AsyncGenerator[QuicLine]:
    """A connection to a server, which has its certificate from `authority`."""
    host, port = url.removeprefix("https://").split(":")
    settings = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name=host)
    settings.load_verify_locations(str(authority))
    async with connect("127.0.0.1", int(port), configuration=settings, create_protocol=QuicLine) as line:
        assert isinstance(line, QuicLine)
        line.authority, line.bearer = f"{host}:{port}", bearer
        yield line
