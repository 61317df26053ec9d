"""A vendor on this machine: an HTTP/1.1 server that answers with given bytes and keeps what it was sent.

It knows nothing of any vendor: what it says is written out in the tests and their fixtures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, TypeAlias

import h11

_ASKED_SECONDS = 90
_HUNG_UP_SECONDS = 25
"""Less than what the pauses of replies take that a client is to hang up in."""


class Cut(Enum):
    """The end of a connection in the middle of an answer."""

    CUT = "cut"


CUT: Final = Cut.CUT

Piece: TypeAlias = "bytes | float | Cut"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        status: the HTTP status.
        headers: without those of the framing: one piece goes out with its length, several as chunks.
        pieces: bytes are sent one by one, a number pauses for so many seconds, CUT closes the connection in the middle
            of a chunk. The status line goes out with the first bytes: a pause or CUT before them comes before it too
            (use b"" to send it alone).
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pieces: Sequence[Piece] = (b"",)

    def then(self, *pieces: Piece) -> Reply:
        """Returns the reply with more pieces at its end, as `sse_reply(...).then(CUT)`."""
        return replace(self, pieces=[*self.pieces, *pieces])

    def after(self, *pieces: Piece) -> Reply:
        """Returns the reply with more pieces before its first, as `json_reply(...).after(0.5)`."""
        return replace(self, pieces=[*pieces, *self.pieces])


@dataclass(frozen=True, slots=True)
class Received:
    """One request.

    Attributes:
        path: with the query, as it was sent.
        headers: by their names in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the body, read as JSON."""
        return json.loads(self.body)


def json_reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Returns a whole answer in JSON."""
    body = json.dumps(value).encode()
    return Reply(status, {"content-type": "application/json", **(headers or {})}, [body])


def sse_reply(raw: bytes | str, *, piece: int | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Returns a stream of server-sent events, whole or in pieces of so many bytes."""
    return Reply(200, {"content-type": "text/event-stream", **(headers or {})}, [b"", *_split(raw, piece)])


def lines_reply(raw: bytes | str, *, piece: int | None = None) -> Reply:
    """Returns a stream of newline-delimited JSON, whole or in pieces of so many bytes."""
    return Reply(200, {"content-type": "application/x-ndjson"}, [b"", *_split(raw, piece)])


class VendorServer:
    """Answers requests while its `async with` lasts.

    Attributes:
        received: the requests, oldest first.
        connections: how many connections were made to it.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self._replies: list[Reply] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._asked = asyncio.Event()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        if self._server is None:
            raise RuntimeError("the vendor server was not started")
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    def replies(self, *replies: Reply) -> None:
        """Sets the answers to the next requests, in order; the last one repeats."""
        self._replies = list(replies)

    async def asked(self) -> None:
        """Waits until there was a request. Raises TimeoutError if none comes."""
        async with asyncio.timeout(_ASKED_SECONDS):
            await self._asked.wait()

    async def hung_up(self) -> None:
        """Waits until no connection is open any more. Raises TimeoutError if one stays open."""
        async with asyncio.timeout(_HUNG_UP_SECONDS):
            while self._open:
                await asyncio.wait(self._open)

    async def __aenter__(self) -> VendorServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            while (request := await _read(connection, reader)) is not None:
                self.received.append(request)
                self._asked.set()
                if not await _answer(self._next_reply(), reader, writer):
                    return
                # The answer went out past h11, which only reads; it must hear of it to read the next request.
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
        except (ConnectionError, h11.ProtocolError):
            return  # the client is gone
        except asyncio.CancelledError:
            writer.transport.abort()  # a client that reads no more would keep `wait_closed` waiting
            raise
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _next_reply(self) -> Reply:
        if not self._replies:
            return Reply(500, {"content-type": "text/plain"}, [b"the test gave the vendor server no reply"])
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> Received | None:
    """Returns the next request, or None when the client is gone."""
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers}
            return Received(head.method.decode(), head.target.decode(), headers, body)
        else:
            return None


async def _answer(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Sends the reply; returns whether the connection can be used again."""
    whole = len(reply.pieces) == 1
    begun = False
    for piece in reply.pieces:
        if isinstance(piece, Cut):
            writer.write(b"ff\r\n{" if begun and not whole else b"")
            return False
        if isinstance(piece, int | float):
            if await _gone(reader, piece):
                return False
            continue
        if not begun:
            begun = True
            writer.write(_head(reply, len(piece) if whole else None))
        writer.write(piece if whole else b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
        await writer.drain()
        await asyncio.sleep(0)  # lets a client on the same event loop read this piece before the next
    if not begun:
        writer.write(_head(reply, None))
    writer.write(b"" if whole else b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(reply: Reply, length: int | None) -> bytes:
    reason = HTTPStatus(reply.status).phrase if reply.status in HTTPStatus._value2member_map_ else "Unknown"
    framing = {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{n}: {v}" for n, v in {**reply.headers, **framing}.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _gone(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Pauses; returns at once, with True, if the client hangs up."""
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(1) == b""
    except TimeoutError:
        return False


def _split(raw: bytes | str, piece: int | None) -> list[bytes]:
    data = raw.encode() if isinstance(raw, str) else raw
    return [data] if piece is None else [data[start : start + piece] for start in range(0, len(data), piece)]
