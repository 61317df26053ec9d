"""Servers that a client asks and that mean it ill: they get no token by a redirect, and no memory without end."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest
from websockets.asyncio.client import ClientConnection

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.length_prefix import prefixed
from perdure.runtime.envelopes.client.bindings import connect
from perdure.runtime.envelopes.client.connection import MAX_WAITING_BYTES, EnvelopeConnection, Sent
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError
from perdure.runtime.envelopes.client.http import HttpConnection
from perdure.runtime.envelopes.client.identity import new_identity
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.signing import signed_envelope
from perdure.runtime.envelopes.client.socket_frames import SocketFrames
from perdure.runtime.envelopes.client.tls import Trust
from tests.conformance.envelope_certificates import EnvelopeCertificates

NOW = datetime(2025, 7, 10, 13, 37, 5, tzinfo=UTC)
ASK = signed_envelope(new_identity("did:web:me.example"), NOW, "ask", "hi", to="did:web:worker.example")
SENT = Sent(ASK, "str-1")
BRIEF = Patience(answer=timedelta(seconds=0.2))
PATIENT = Patience(answer=timedelta(minutes=1), silence=timedelta(minutes=1))


class Endless(httpx.AsyncByteStream):
    """A body without end, and how much of it was taken."""

    def __init__(self, part: bytes, *, pause: float = 0) -> None:
        self.part, self.pause, self.taken = part, pause, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.taken += len(self.part)
            await asyncio.sleep(self.pause)
            yield self.part


def http(response: httpx.Response, patience: Patience = PATIENT) -> HttpConnection:
    """A connection to a server that answers everything so."""
    transport = httpx.MockTransport(lambda request: response)
    return HttpConnection(httpx.AsyncClient(base_url="https://worker.example", transport=transport), patience)


def events(stream: httpx.AsyncByteStream, **headers: str) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"} | headers, stream=stream)


async def first(connection: EnvelopeConnection) -> Delta:
    async for delta in connection.stream(SENT, after=None):
        return delta
    raise AssertionError("it has ended")


@pytest.mark.parametrize("part", [b"x" * 65536, b"data: x\n" * 8192, b": x\n" * 16384])
async def test_an_event_without_end_is_refused(part: bytes) -> None:
    """A line of any length, an event of any number of lines: 4.13 after two megabytes."""
    body = Endless(part)
    with pytest.raises(UAMPError) as caught:
        await first(http(events(body)))
    assert caught.value.code == "4.13"
    assert body.taken < 3 * 1024 * 1024


async def test_a_compressed_stream_is_not_inflated() -> None:
    """A thousandfold of what came could come out of it."""
    body = Endless(gzip.compress(b"\n" * 10_000_000))
    with pytest.raises(UAMPError) as caught:
        await first(http(events(body, **{"Content-Encoding": "gzip"})))
    assert caught.value.code == "4.15"
    assert body.taken == 0


async def test_a_compressed_refusal_is_not_inflated() -> None:
    body = httpx.ByteStream(gzip.compress(b" " * 10_000_000))
    with pytest.raises(UnsignedError) as caught:
        await http(httpx.Response(403, headers={"Content-Encoding": "gzip"}, stream=body)).deliver(ASK)
    assert caught.value.code == "4.03"


async def test_an_answer_that_drips_is_not_waited_for() -> None:
    """The answer as a whole has its time, not each part of it."""
    with pytest.raises(ConnectionBroken):
        await http(httpx.Response(202, stream=Endless(b" ", pause=0.01)), BRIEF).deliver(ASK)
    with pytest.raises(ConnectionBroken):
        await first(http(httpx.Response(503, stream=Endless(b" ", pause=0.01)), BRIEF))


@asynccontextmanager
async def answering(certificates: EnvelopeCertificates, told: bytes) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A TLS server that gives this answer to everything; its port, and what it was sent."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(told)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def test_a_redirect_leads_nowhere(tmp_path: Path) -> None:
    """Whoever it names would be shown the token."""
    certificates = EnvelopeCertificates(tmp_path)
    async with answering(certificates, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (thief, stolen):
        redirect = f"HTTP/1.1 307 Elsewhere\r\nLocation: wss://localhost:{thief}/\r\nContent-Length: 0\r\n\r\n"
        async with answering(certificates, redirect.encode()) as (port, heard):
            connection = connect(
                "ws",
                f"https://localhost:{port}",
                trust=Trust(certificates.authority),
                bearer="secret",
                patience=PATIENT,
            )
            with pytest.raises(UnsignedError):
                await connection.deliver(ASK)
            await connection.close()
    assert b"Bearer secret" in heard[0]
    assert stolen == []


class Flood:
    """A WebSocket on which frames come without end."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_closed = asyncio.Event()

    def __aiter__(self) -> Flood:
        return self

    async def __anext__(self) -> bytes:
        if self.is_closed.is_set():
            raise StopAsyncIteration
        await asyncio.sleep(0)
        delta = Delta(self.sent, "str-1", NOW, DeltaType.CHUNK, {"text": "x" * 900_000})
        self.sent += 1
        return prefixed(delta.to_bytes())

    async def send(self, data: bytes) -> None: ...

    async def close(self) -> None:
        self.is_closed.set()


async def test_frames_that_nobody_takes_are_not_kept_without_end() -> None:
    flood = Flood()
    frames = SocketFrames(cast(ClientConnection, flood))
    await frames.attach("str-1", None)
    await flood.is_closed.wait()
    assert frames.is_broken
    assert flood.sent * 900_000 < MAX_WAITING_BYTES + 2_000_000
    with pytest.raises(UAMPError, match="window"):
        async for _ in frames.incoming("str-1"):
            pass
    await frames.close()
