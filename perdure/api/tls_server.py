"""The server below the app: one port for HTTP/1.1, HTTP/2 and, over TLS, HTTP/3; hypercorn's protocols in a loop of ours.

Ours is what hypercorn has not: TLS is 1.3 or nothing, the certificate that a peer has shown stands in the ASGI scope, QUIC
ends when the server does, and data that comes for a request which has been answered ends no connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import h2.events
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.typing import AppWrapper, ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr  # pyright: ignore[reportUnknownVariableType]

from perdure.api.inbox import Requests
from perdure.api.quic_server import QuicServer
from perdure.api.websocket_stream import install

PEER_CERTIFICATE = "perdure.peer_certificate"
"""Where the DER of a verified client certificate stands in `scope["state"]`. HTTP/3 has none: its server asks for none."""

_TLS_WAITS: dict[str, Any] = {"ssl_handshake_timeout": 10.0, "ssl_shutdown_timeout": 1.0}
"""Seconds for a client to say who it is, and to say goodbye; one that does not is let go of."""


class ServerConfig(Config):
    """hypercorn's settings, and which client certificates are taken.

    Attributes:
        client_ca: a PEM file with the authorities of client certificates; None asks no client for one.
    """

    client_ca: Path | None = None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        """TLS 1.3, with a client certificate if the client has one and its authority is known."""
        context = super().create_ssl_context()
        if context is None:
            return None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.client_ca is not None:
            context.load_verify_locations(cafile=self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


class Connection(TCPServer):
    """One TCP connection."""

    async def run(self) -> None:
        """Serve it until either side closes it."""
        socket = self.writer.get_extra_info("socket")
        secured = cast("ssl.SSLObject | None", self.writer.get_extra_info("ssl_object"))
        try:
            async with Requests(self.loop) as tasks:
                self._task_group = tasks
                self.protocol = Protocols(
                    self.app,
                    self.config,
                    self.context,
                    tasks,
                    self._connection_state(secured),
                    secured is not None,
                    parse_socket_addr(socket.family, socket.getpeername()),
                    parse_socket_addr(socket.family, socket.getsockname()),
                    self.protocol_send,
                    "http/1.1" if secured is None else secured.selected_alpn_protocol(),
                )
                await self.protocol.initiate()
                await self.idle_task.restart(tasks, self._idle_timeout)  # pyright: ignore[reportUnknownMemberType]
                await self._read_data()
        except OSError:
            return
        finally:
            await self._close()

    def _connection_state(self, secured: ssl.SSLObject | None) -> ConnectionState:
        state: dict[str, Any] = {**self.state}
        if secured is not None and secured.context.verify_mode != ssl.CERT_NONE:
            certificate = secured.getpeercert(binary_form=True)
            if certificate is not None:
                state[PEER_CERTIFICATE] = certificate
        return ConnectionState(state)


class Protocols(ProtocolWrapper):
    """The protocol of a connection, as its client has chosen by ALPN."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if isinstance(self.protocol, H2Protocol):
            self.protocol = HTTP2(*arguments[:-1])


class HTTP2(H2Protocol):
    """hypercorn's HTTP/2, in which data for a request that has been answered is dropped. Source: hypercorn issue 329."""

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                self.connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                await self._flush()
            else:
                await super()._handle_events([event])


async def serve_asgi(app: Any, config: ServerConfig, stopped: Callable[[], Awaitable[None]]) -> None:
    """Serve an ASGI app at the sockets of `config` until `stopped` returns; what goes on then has the grace time.

    `stopped` is called once everything is open, the app's lifespan too.

    Raises:
        LifespanFailureError: the app's lifespan could not be entered.
    """
    install()
    loop = asyncio.get_running_loop()
    wrapped = cast(AppWrapper, ASGIWrapper(app))
    state: LifespanState = {}
    lifespan = Lifespan(wrapped, config, loop, state)
    living = loop.create_task(lifespan.handle_lifespan(), name="the app's lifespan")
    await lifespan.wait_for_startup()
    if living.done() and not living.cancelled():
        living.result()
    connections = _Connections(wrapped, config, state)
    try:
        await connections.open()
        await stopped()
    finally:
        await connections.close()
        await lifespan.wait_for_shutdown()
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)


class _Connections:
    """Everything that is open at the server's sockets."""

    def __init__(self, app: AppWrapper, config: ServerConfig, state: LifespanState) -> None:
        self._app = app
        self._config = config
        self._state = state
        self._context = WorkerContext(None)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: list[asyncio.Server] = []
        self._transports: list[asyncio.DatagramTransport] = []

    async def open(self) -> None:
        """Begin to serve."""
        loop = asyncio.get_running_loop()
        config = self._config
        sockets = config.create_sockets()
        secured = config.create_ssl_context()
        for socket in (*sockets.secure_sockets, *sockets.insecure_sockets):
            waits = {} if secured is None else _TLS_WAITS
            self._servers.append(
                await asyncio.start_server(self._begin, sock=socket, backlog=config.backlog, ssl=secured, **waits)
            )
        for socket in sockets.quic_sockets:
            transport, server = await loop.create_datagram_endpoint(
                lambda: QuicServer(self._app, loop, config, self._context, self._state), sock=socket
            )
            self._transports.append(transport)
            self._keep(loop.create_task(server.run(), name="serve HTTP/3"))

    async def close(self) -> None:
        """Take nothing new in, let what goes on end within the grace time, and then end it."""
        await self._context.terminated.set()
        for server in self._servers:
            server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._config.graceful_timeout)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in self._transports:
            transport.close()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, in a task of ours: asyncio would report one of its own as failed when it is cancelled."""
        loop = asyncio.get_running_loop()
        connection = Connection(self._app, loop, self._config, self._context, self._state, reader, writer)
        self._keep(loop.create_task(connection.run(), name="serve a connection"))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
