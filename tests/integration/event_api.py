"""The HTTP server in this process for tests of event streams, and clients that resume: as browsers do, and by a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import websockets
from httpx_sse import ServerSentEvent, aconnect_sse
from hypercorn.asyncio import serve as serve_asgi  # pyright: ignore[reportUnknownVariableType]

from perdure.api.app import create_app
from perdure.api.backend import Backend
from perdure.api.listener import bound, url_of
from perdure.api.patience import Patience
from perdure.api.serve import server_config
from perdure.config import load_settings
from perdure.runtime.addresses import ServerAddresses
from perdure.uap.events import RUN_TERMINAL
from tests.integration.stack import Stack

RUNS_ON = httpx.Timeout(30.0, read=60.0)


@asynccontextmanager
async def serving(
    stack: Stack, patience: Patience | None = None, *, tenant: str | None = None
) -> AsyncGenerator[tuple[str, Backend], None]:
    """A server in this process: its address, and what it shares. Strangers are of the tenant of the settings, or of another."""
    backend = Backend(ServerAddresses(stack.addresses.temporal, stack.addresses.database_url))
    if patience is not None:
        backend.patience = patience
    stop = asyncio.Event()
    await backend.open()
    with bound("127.0.0.1", 0) as listener:
        settings = load_settings(shutdown_grace=0.5, tenant=tenant)
        config = server_config(listener, settings)
        app = create_app(backend, settings)
        task = asyncio.create_task(serve_asgi(cast(Any, app), config, shutdown_trigger=cast(Any, stop.wait)))
        try:
            yield url_of(listener), backend
        finally:
            stop.set()
            await task


@dataclass
class Viewer:
    """A client that resumes by itself.

    Attributes:
        path: what it reads.
        events: what it was told, in order.
        last: the number from which it resumes.
        size: bytes of the events that it was told.
        received: bytes of all bodies.
        connects: how often it has connected.
        leaves: at the end of a run; else it stays as long as the server lets it, as at a session.
    """

    path: str
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    last: str = ""
    size: int = 0
    received: int = 0
    connects: int = 0
    leaves: bool = False

    @property
    def seqs(self) -> list[int]:
        """Numbers of the events."""
        return [event["seq"] for event in self.events]

    @property
    def ended(self) -> bool:
        """Whether the last event is a terminal one."""
        return bool(self.events) and self.events[-1]["type"] in RUN_TERMINAL

    async def read(
        self, client: httpx.AsyncClient, url: str, *, most: int | None = None, seconds: float | None = None
    ) -> bool:
        """Connect once and read to the end, or `most` events, or for so long; whether the response came to its proper end."""
        self.connects += 1
        headers = {"Last-Event-ID": self.last} if self.last else {}
        count = 0
        try:
            async with (
                asyncio.timeout(seconds),
                aconnect_sse(client, "GET", url + self.path, headers=headers, timeout=RUNS_ON) as source,
            ):
                response = source.response.raise_for_status()
                if response.status_code == 204:
                    return True
                try:
                    async for message in source.aiter_sse():
                        count += self._take(message)
                        if self.leaves and self.ended:
                            return True
                        if most is not None and count >= most:
                            return False
                finally:
                    self.received += response.num_bytes_downloaded
        except (httpx.TransportError, TimeoutError):
            return False
        return True

    async def read_all(self, client: httpx.AsyncClient, *urls: str) -> None:
        """Read up to the terminal event, each time from the next server."""
        turn = 0
        while not self.ended:
            await self.read(client, urls[turn % len(urls)])
            turn += 1

    def _take(self, message: ServerSentEvent) -> int:
        self.last = message.id or self.last
        if not message.data:
            return 0
        event = json.loads(message.data)
        if "seq" not in event:
            return 0
        assert (message.event, message.id) == (event["type"], str(event["seq"]))
        self.events.append(event)
        self.size += len(f"event: {message.event}\ndata: {message.data}\nid: {message.id}\n\n".encode())
        return 1


@dataclass
class SocketViewer(Viewer):
    """The same over a WebSocket: it names the last number that it has."""

    async def read(
        self, client: httpx.AsyncClient, url: str, *, most: int | None = None, seconds: float | None = None
    ) -> bool:
        """Connect once and read to the end, or `most` events, or for so long; whether the run's end came."""
        self.connects += 1
        address = f"{url.replace('http', 'ws', 1)}{self.path}/ws?after={self.last or 0}"
        count = 0
        try:
            async with asyncio.timeout(seconds), websockets.connect(address, compression=None) as connection:
                while not self.ended and (most is None or count < most):
                    count += self._hear(await connection.recv())
        except (OSError, TimeoutError, websockets.WebSocketException):
            return False
        return self.ended

    def _hear(self, text: str | bytes) -> int:
        event = json.loads(text)
        self.last = str(event.get("seq", event.get("after", self.last)))
        if "seq" not in event:
            return 0
        self.events.append(event)
        self.size += len(text)
        self.received += len(text)
        return 1
