"""Many viewers of one event stream, in a process of their own: `python -m benchmarks.viewers URL COUNT`.

A viewer resumes by `Last-Event-ID`, as browsers do, until it has a run's terminal event. While events come, it notes only
bytes and the time at which they came, so that a thousand viewers cost the machine little; they are read as HTTP when all is
over. The process says `ready` once every viewer's stream has begun, and at the end a list of `Seen` as a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import h11

from benchmarks.w_agents import DELTA_CHARACTERS, STAMP_DIGITS

_BEGINNING = b"retry: "
_ENDS = (b"event: run.completed", b"event: run.failed", b"event: run.cancelled")
_TAIL_BYTES = max(len(text) for text in (_BEGINNING, *_ENDS))
_AGAIN_S = 1.0
_CONNECTING = 50


@dataclass(frozen=True)
class Seen:
    """What one viewer saw.

    Attributes:
        delays_ms: of each stamped delta: from when the provider gave it until it had come here, the first time.
        is_ordered: stamps and events' numbers only rose.
        connections: 1 if the viewer never had to resume.
        refusals: how often it was not answered by a stream, and asked again.
        end: the type of the run's terminal event.
    """

    delays_ms: list[float]
    is_ordered: bool
    connections: int
    refusals: int
    end: str


@dataclass(frozen=True)
class _Event:
    """An event of the stream, and when all of it had come (monotonic ns). The id is "" where there is none."""

    at: int
    id: str
    type: str
    data: dict[str, Any]


class _Connection(asyncio.Protocol):
    """One request and its response, in the pieces in which it came."""

    def __init__(self, request: h11.Request) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        self.has_begun = False
        self.known = asyncio.Event()
        self.over = asyncio.Event()
        self.has_ended = False
        self._http = h11.Connection(h11.CLIENT)
        self._request = request
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sent = (self._http.send(self._request) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        self._transport.write(sent)

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.monotonic_ns(), data))
        near = self._tail + data
        if not self.has_begun and _BEGINNING in near:
            self.has_begun = True
            self.known.set()
        if any(end in near for end in _ENDS):
            self.has_ended = True
        if self.has_ended and near.endswith(b"\n\n\r\n"):
            self._transport.close()
        self._tail = near[-_TAIL_BYTES:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.known.set()
        self.over.set()

    def events(self) -> Iterator[_Event]:
        """What came, once it is over."""
        text = b""
        for at, piece in self.pieces:
            self._http.receive_data(piece)
            text += b"".join(self._body())
            *frames, text = text.split(b"\n\n")
            yield from (event for frame in frames if (event := _event(at, frame)) is not None)

    def _body(self) -> Iterator[bytes]:
        while (part := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(part, h11.Data):
                yield bytes(part.data)
            elif isinstance(part, h11.EndOfMessage):
                return


def _event(at: int, frame: bytes) -> _Event | None:
    fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if ": " in line and line[0] != ":")
    if not fields.keys() & {"id", "data"}:
        return None
    return _Event(at, fields.get("id", ""), fields.get("event", ""), json.loads(fields.get("data", "{}")))


class _Viewer:
    """One viewer of the events at a URL."""

    def __init__(self, url: str, gate: asyncio.Semaphore) -> None:
        self._url = urlsplit(url)
        self._gate = gate
        self._connections: list[_Connection] = []
        self._refusals = 0
        self._last = ""

    async def begin(self) -> None:
        """Return once a stream has begun; whoever is refused asks again, as one who was cut off does."""
        async with self._gate:
            while True:
                connection = await self._connect()
                await connection.known.wait()
                if connection.has_begun:
                    self._connections.append(connection)
                    return
                self._refusals += 1
                sys.stderr.write(f"refused: {b''.join(piece for _, piece in connection.pieces)[-500:]!r}\n")
                await asyncio.sleep(_AGAIN_S)

    async def follow(self) -> None:
        """Return once the run's terminal event has come."""
        while True:
            current = self._connections[-1]
            await current.over.wait()
            if current.has_ended:
                return
            self._last = next(reversed(_ids(current)), self._last)
            await asyncio.sleep(_AGAIN_S)
            await self.begin()

    def seen(self) -> Seen:
        """What was seen, all in all."""
        events = [event for one in self._connections for event in one.events()]
        came: dict[int, int] = {}
        for event in events:
            for stamp in _stamps(event):
                came.setdefault(stamp, event.at)
        numbers = [int(event.id) for event in events if event.id]
        return Seen(
            delays_ms=[(at - stamp) / 1e6 for stamp, at in came.items()],
            is_ordered=list(came) == sorted(came) and numbers == sorted(set(numbers)),
            connections=len(self._connections),
            refusals=self._refusals,
            end=next((event.type for event in events if f"event: {event.type}".encode() in _ENDS), ""),
        )

    async def _connect(self) -> _Connection:
        host, port = str(self._url.hostname), self._url.port or 80
        headers = [("Host", f"{host}:{port}"), ("Accept", "text/event-stream")]
        headers += [("Last-Event-ID", self._last)] if self._last else []
        request = h11.Request(method="GET", target=self._url.path, headers=headers)
        _, connection = await asyncio.get_running_loop().create_connection(lambda: _Connection(request), host, port)
        return connection


def _ids(connection: _Connection) -> list[str]:
    """The numbers of the whole events in what came, read without the response's framing."""
    text = b"".join(piece for _, piece in connection.pieces)
    return [line[4:].decode() for line in text.splitlines() if line.startswith(b"id: ") and line[4:].isdigit()]


def _stamps(event: _Event) -> list[int]:
    """The stamps of the deltas that an event is, or stands for."""
    if event.type != "text_delta":
        return []
    text = str(event.data["data"]["delta"]["text"])
    return [int(text[at : at + STAMP_DIGITS]) for at in range(0, len(text), DELTA_CHARACTERS)]


async def _main(url: str, count: int) -> None:
    gate = asyncio.Semaphore(_CONNECTING)
    viewers = [_Viewer(url, gate) for _ in range(count)]
    await asyncio.gather(*(viewer.begin() for viewer in viewers))
    _say("ready")
    await asyncio.gather(*(viewer.follow() for viewer in viewers))
    _say(json.dumps([asdict(viewer.seen()) for viewer in viewers]))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
