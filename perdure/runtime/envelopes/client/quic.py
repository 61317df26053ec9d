"""One QUIC connection of a client with HTTP/3 on it: requests sent, and what comes back sorted by request."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

import certifi
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset
from aioquic.tls import AlertDescription

from perdure.errors import ServerUnavailable
from perdure.runtime.envelopes.client.connection import MAX_WAITING_BYTES
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UntrustedServer

_HANDSHAKE_SECONDS = 5.0
_REQUEST_CANCELLED = 0x010C  # RFC 9114, 8.1
_CRYPTO_ERRORS = range(0x0100, 0x0200)  # RFC 9000, 20.1: an alert of TLS

Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Exchange:
    """One request, and what has come of its response.

    Attributes:
        stream_id: of QUIC.
        headers: of the response, once they are there.
        parts: of its body as they come; None is the end, an error says that it was cut off.
        waiting_bytes: of those that nobody has taken yet.
    """

    stream_id: int
    headers: asyncio.Future[Headers]
    parts: asyncio.Queue[bytes | ServerUnavailable | None] = field(
        default_factory=asyncio.Queue["bytes | ServerUnavailable | None"]
    )

    waiting_bytes: int = 0

    async def part(self) -> bytes | ServerUnavailable | None:
        """The next part of the body, once it is there."""
        part = await self.parts.get()
        self.waiting_bytes -= len(part) if isinstance(part, bytes) else 0
        return part

    def add(self, data: bytes) -> bool:
        """A part has come; False if too much waits already."""
        self.waiting_bytes += len(data)
        self.parts.put_nowait(data)
        return self.waiting_bytes <= MAX_WAITING_BYTES

    def fail(self, error: ServerUnavailable) -> None:
        """Nothing more comes."""
        if not self.headers.done():
            self.headers.set_exception(error)
            self.headers.exception()  # whoever asked may have left
        self.parts.put_nowait(error)


class QuicClient(QuicConnectionProtocol):
    """A connection.

    Attributes:
        broken: why it can be used no more; None while it can.
    """

    def __init__(self, quic: QuicConnection) -> None:
        super().__init__(quic)
        self.broken: ServerUnavailable | None = None
        self._http = H3Connection(quic)
        self._exchanges: dict[int, Exchange] = {}

    def request(self, headers: Headers, body: bytes) -> Exchange:
        """Send a request.

        Raises:
            ServerUnavailable: the connection is broken.
        """
        if self.broken is not None:
            raise self.broken
        stream_id = self._quic.get_next_available_stream_id()
        made = Exchange(stream_id, asyncio.get_running_loop().create_future())
        self._exchanges[stream_id] = made
        self._http.send_headers(stream_id, headers, end_stream=not body)
        if body:
            self._http.send_data(stream_id, body, end_stream=True)
        self.transmit()
        return made

    def leave(self, exchange: Exchange) -> None:
        """Take no more of a response."""
        if self._exchanges.pop(exchange.stream_id, None) is not None and self.broken is None:
            self._quic.stop_stream(exchange.stream_id, _REQUEST_CANCELLED)
            self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Sort what comes by its request."""
        if isinstance(event, ConnectionTerminated):
            self._break(event)
        elif isinstance(event, StreamReset):
            exchange = self._exchanges.pop(event.stream_id, None)
            if exchange is not None:
                exchange.fail(ConnectionBroken("the server has reset the stream"))
        for http in self._http.handle_event(event):
            exchange = self._exchanges.get(getattr(http, "stream_id", -1))
            if exchange is None or not isinstance(http, HeadersReceived | DataReceived):
                continue
            if isinstance(http, DataReceived):
                if not exchange.add(http.data):
                    exchange.fail(ConnectionBroken("the server sends faster than its windows let it"))
                    self.leave(exchange)
                    continue
            elif not exchange.headers.done():
                exchange.headers.set_result(http.headers)
            if http.stream_ended:
                self._exchanges.pop(exchange.stream_id)
                exchange.parts.put_nowait(None)

    async def handshake(self) -> None:
        """Wait until the connection stands.

        Raises:
            ServerUnavailable: it could not be made.
        """
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await self.wait_connected()
        except (TimeoutError, ConnectionError):
            waiter, self._connected_waiter = self._connected_waiter, None
            if waiter is not None:
                waiter.cancel()
            raise self.broken or ConnectionBroken("no answer came by QUIC") from None

    def _break(self, event: ConnectionTerminated) -> None:
        reason = event.reason_phrase or f"error {event.error_code:#x}"
        if event.error_code in _CRYPTO_ERRORS:
            alert = event.error_code - _CRYPTO_ERRORS.start
            name = AlertDescription(alert).name if alert in tuple(AlertDescription) else str(alert)
            self.broken = UntrustedServer(f"TLS was refused ({name}): {reason}")
        else:
            self.broken = ConnectionBroken(f"the QUIC connection has ended: {reason}")
        for exchange in self._exchanges.values():
            exchange.fail(self.broken)
        self._exchanges.clear()


async def connect_quic(host: str, port: int, authorities: bytes | None) -> tuple[QuicClient, asyncio.BaseTransport]:
    """A connection that stands, and its socket.

    Args:
        host: of the server; its certificate must be of that name.
        port: for UDP.
        authorities: whose certificates are taken besides the usual ones, as PEM.

    Raises:
        ConnectionBroken: it could not be made.
        UntrustedServer: the certificate is not trusted.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise ConnectionBroken(f"{host} has no address: {error}") from error
    failed: ServerUnavailable = ConnectionBroken(f"{host} has no address")
    for family, _, _, _, address in sorted(found, key=lambda item: item[0] != socket.AF_INET):
        quic = QuicConnection(
            configuration=QuicConfiguration(
                is_client=True,
                alpn_protocols=H3_ALPN,
                server_name=host,
                cafile=certifi.where(),
                cadata=authorities,
            )
        )
        transport, client = await loop.create_datagram_endpoint(lambda quic=quic: QuicClient(quic), family=family)
        try:
            client.connect(address)
            await client.handshake()
        except ConnectionBroken as error:
            failed = error
            transport.close()
        except BaseException:
            transport.close()
            raise
        else:
            return client, transport
    raise failed
