"""HTTP/3 over QUIC: hypercorn's, made to end, to bear what strangers send, and to wait for slow clients.

No client certificates: aioquic's server asks for none, so whoever comes by HTTP/3 shows a bearer token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    ProtocolNegotiated,
    QuicEvent,
    StopSendingReceived,
    StreamReset,
)
from hypercorn.asyncio.udp_server import UDPServer
from hypercorn.events import RawData
from hypercorn.protocol.events import Body, Data, EndBody, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h3 import H3Protocol
from hypercorn.protocol.quic import QuicProtocol
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr  # pyright: ignore[reportUnknownVariableType]

from perdure.api.inbox import Requests

logger = logging.getLogger(__name__)

_QUEUED_DATAGRAMS = 512
_UNSENT_BYTES = 64 * 1024
_PROTOCOL_ERROR = 0x0101  # H3_GENERAL_PROTOCOL_ERROR


class QuicServer(UDPServer):
    """All QUIC connections of one UDP socket."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.protocol_queue = self._datagrams = asyncio.Queue[RawData](_QUEUED_DATAGRAMS)

    async def run(self) -> None:
        """Serve until the server ends and its requests are answered."""
        assert self.transport is not None
        socket = self.transport.get_extra_info("socket")
        server = parse_socket_addr(socket.family, socket.getsockname())
        async with Requests(self.loop) as tasks:
            state = ConnectionState({**self.state})
            quic = QuicConnections(self.app, self.config, self.context, tasks, state, server, self.protocol_send)
            reading = self.loop.create_task(self._read(quic), name="read datagrams")
            try:
                await self.context.terminated.wait()
                await quic.answered.wait()
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                await quic.close()

    async def _read(self, quic: QuicConnections) -> None:
        while True:
            datagram = await self._datagrams.get()
            try:
                await quic.handle(datagram)
            except Exception:  # whoever sent it must not end the connections of others
                logger.warning("quic.datagram_refused", exc_info=True)


@dataclass(frozen=True, slots=True)
class _Served:
    """Who handles what happens on a connection, and how it is told that something has."""

    task: asyncio.Task[None]
    news: asyncio.Event


class QuicConnections(QuicProtocol):
    """The connections of a server.

    Attributes:
        answered: set while no request is being answered.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.answered = asyncio.Event()
        self.answered.set()
        self._open = 0
        self._served: dict[int, _Served] = {}

    async def close(self) -> None:
        """Say goodbye to every client."""
        serving = [served.task for served in self._served.values()]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for connection in {id(known): known for known in self.connections.values()}.values():
            await connection.task.stop()
            connection.quic.close()
            for data, address in connection.quic.datagrams_to_send(now=self.context.time()):
                await self.send(RawData(data=data, address=address))
        self.connections.clear()

    def count(self, change: int) -> None:
        """A request has come, or is over."""
        self._open += change
        (self.answered.clear if self._open else self.answered.set)()

    async def _handle_events(self, connection: Any, client: tuple[str, int] | None = None) -> None:
        """Have a connection's own task handle what has happened on it: one that waits for its app holds up no other."""
        served = self._served.get(id(connection))
        if served is None:
            news = asyncio.Event()
            task = asyncio.create_task(self._serve(connection, news, client), name="serve a QUIC connection")
            served = self._served[id(connection)] = _Served(task, news)
            task.add_done_callback(lambda _: self._served.pop(id(connection), None))
        served.news.set()
        if isinstance(connection.h3, HTTP3):
            connection.h3.sent.set()

    async def _serve(self, connection: Any, news: asyncio.Event, client: tuple[str, int] | None) -> None:
        quic = cast(QuicConnection, connection.quic)
        is_over = False
        while not is_over:
            await news.wait()
            news.clear()
            while (event := quic.next_event()) is not None:
                is_over = is_over or isinstance(event, ConnectionTerminated)
                try:
                    await self._handle_event(connection, event, client)
                except Exception:
                    logger.warning("quic.connection_refused", exc_info=True)
                    quic.close(error_code=_PROTOCOL_ERROR)
            await self.send_all(connection)
            if isinstance(connection.h3, HTTP3):
                connection.h3.sent.set()

    async def _handle_event(self, connection: Any, event: QuicEvent, client: tuple[str, int] | None) -> None:
        match event:
            case ConnectionTerminated():
                for cid in connection.cids:
                    self.connections.pop(cid, None)
                connection.cids = set()
                await connection.task.stop()
            case ProtocolNegotiated():
                connection.h3 = HTTP3(
                    self.app,
                    self.config,
                    self.context,
                    self.task_group,
                    self.state,
                    client,
                    self.server,
                    connection.quic,
                    partial(self.send_all, connection),
                    self.count,
                )
            case ConnectionIdIssued():
                connection.cids.add(event.connection_id)
                self.connections[event.connection_id] = connection
            case ConnectionIdRetired():
                connection.cids.discard(event.connection_id)
                self.connections.pop(event.connection_id, None)
            case _:
                pass
        if connection.h3 is not None:
            await connection.h3.handle(event)


class HTTP3(H3Protocol):
    """The requests of one connection.

    Attributes:
        sent: set whenever something may have been sent or has been acknowledged.
    """

    def __init__(self, *arguments: Any) -> None:
        *rest, count = arguments
        super().__init__(*rest)
        self.sent = asyncio.Event()
        self._quic = cast(QuicConnection, rest[7])
        self._count = cast(Callable[[int], None], count)
        self._is_over = False

    async def handle(self, quic_event: QuicEvent) -> None:
        """Take what has happened on the connection. A client that leaves, or wants no more of an answer, is noticed."""
        if isinstance(quic_event, ConnectionTerminated):
            self._is_over = True
            self.sent.set()
            for stream_id in [*self.streams]:
                await self._leave(stream_id)
        elif isinstance(quic_event, StreamReset | StopSendingReceived):
            await self._leave(quic_event.stream_id)
        for event in self.connection.handle_event(quic_event):
            if isinstance(event, HeadersReceived):
                if event.stream_id not in self.streams and not self.context.terminated.is_set():
                    self._count(1)
                    await self._create_stream(event)
            elif isinstance(event, DataReceived):
                await self._feed(event.stream_id, Body(stream_id=event.stream_id, data=event.data))
            else:
                continue
            if event.stream_ended:
                await self._feed(event.stream_id, EndBody(stream_id=event.stream_id))

    async def stream_send(self, event: StreamEvent) -> None:
        """Send a part of an answer; its body waits while much of it has not been sent."""
        if isinstance(event, StreamClosed):
            await self._leave(event.stream_id)
        elif not self._is_over:
            await super().stream_send(event)
            if isinstance(event, Body | Data):
                await self._wait_for_room(event.stream_id)

    async def _feed(self, stream_id: int, event: StreamEvent) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None:  # else its answer was complete before its body
            await stream.handle(event)

    async def _leave(self, stream_id: int) -> None:
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            self._count(-1)
            await stream.handle(StreamClosed(stream_id=stream_id))

    async def _wait_for_room(self, stream_id: int) -> None:
        while not self._is_over and stream_id in self.streams and self._unsent(stream_id) > _UNSENT_BYTES:
            self.sent.clear()
            await self.sent.wait()

    def _unsent(self, stream_id: int) -> int:
        """Bytes of a stream that its client has not acknowledged."""
        stream = self._quic._streams.get(stream_id)  # pyright: ignore[reportPrivateUsage]
        return 0 if stream is None else len(stream.sender._buffer)  # pyright: ignore[reportPrivateUsage]
