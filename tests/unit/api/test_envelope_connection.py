"""A peer's two-way connection: which streams it is told, and what it is told when one breaks off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from perdure.api.doors.envelope.connection import MOST_STREAMS, PeerConnection
from perdure.api.doors.envelope.opening import Door
from perdure.api.rate_limit import RateLimit
from perdure.protocols.uamp_envelope.ack import ack_payload
from perdure.protocols.uamp_envelope.delta import Delta, DeltaType, text_chunk
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.runtime.envelopes.callers import PeerCaller
from perdure.runtime.envelopes.desk import Receipt
from perdure.upp.json_value import JSONObject

NOW = datetime(2026, 1, 10, tzinfo=UTC)


class BrokenStream:
    """A stream that ends behind its first frame, without a terminal one."""

    is_past_end = False

    async def frames(self) -> AsyncGenerator[Delta | None]:
        yield Delta(0, "s", NOW, DeltaType.CHUNK, text_chunk("a"))


class EndlessStream(BrokenStream):
    """One of which nothing comes."""

    async def frames(self) -> AsyncGenerator[Delta | None]:
        await asyncio.Event().wait()
        yield None


class Desk:
    """A desk that has any stream that it is asked for, and remembers what it was asked."""

    def __init__(self, stream: BrokenStream) -> None:
        self.asked: list[Any] = []
        self._stream = stream

    async def open_stream(self, stream_id: str, caller: PeerCaller, *, last_seq: int | None) -> BrokenStream:
        self.asked.append(last_seq)
        return self._stream

    async def receive(self, data: bytes, caller: PeerCaller) -> Receipt:
        stream_id = json.loads(data)["stream_id"]
        self.asked.append(stream_id)
        return Receipt(stream_id, stream_id, stream_id, repeated=False)

    async def acknowledge(self, stream_id: str, caller: PeerCaller, seq: int) -> None:
        self.asked.append(f"ACK {seq}")


class Connection(PeerConnection):
    """Puts down what it is to send."""

    def __init__(self, desk: Desk, rate: RateLimit | None = None) -> None:
        door = SimpleNamespace(desk=desk, rate=rate, parts=SimpleNamespace(tenant="default"))
        super().__init__(cast(Door, door), PeerCaller("did:web:ann.example", "ann"))
        self.told = asyncio.Queue[Delta | str]()

    async def send_delta(self, delta: Delta) -> None:
        self.told.put_nowait(delta)

    async def send_receipt(self, received: JSONObject, receipt: Receipt) -> None:
        self.told.put_nowait(f"{received['stream_id']} taken")

    async def send_refusal(self, received: JSONObject, error: UAMPError) -> None:
        self.told.put_nowait(f"{received['stream_id']} {error.code}")

    async def ask(self, stream_id: str) -> None:
        """Hear as much of an ask as the connection looks at."""
        await self.hear(json.dumps({"intent": "ask", "stream_id": stream_id}).encode(), max_bytes=1000)

    async def progress(self, payload: JSONObject, stream_id: str = "s") -> None:
        """Hear a `progress` delta."""
        await self.hear(Delta(0, stream_id, NOW, DeltaType.PROGRESS, payload).to_bytes(), max_bytes=1000)


async def test_a_stream_that_breaks_off_is_said_and_an_ack_has_it_told_again() -> None:
    desk = Desk(BrokenStream())
    connection = Connection(desk)
    for payload in ({}, ack_payload(0)):
        await connection.progress(payload)
        assert isinstance(await connection.told.get(), Delta)
        assert await connection.told.get() == "s 5.04"
    assert desk.asked == [None, 0]
    await connection.close()


async def test_a_stream_that_is_told_is_acked_and_opened_once() -> None:
    desk = Desk(EndlessStream())
    connection = Connection(desk)
    for payload in ({}, ack_payload(3), {}):
        await connection.progress(payload)
    assert desk.asked == [None, "ACK 3"]
    await connection.close()


async def test_a_connection_has_so_many_streams_at_once() -> None:
    connection = Connection(Desk(EndlessStream()))
    for number in range(MOST_STREAMS + 1):
        await connection.progress({}, f"s{number}")
    assert await connection.told.get() == f"s{MOST_STREAMS} 5.04"
    await connection.close()


async def test_an_ask_whose_stream_has_no_room_is_not_taken() -> None:
    """Else it would run, and its sender be told that it was refused."""
    desk = Desk(EndlessStream())
    connection = Connection(desk)
    connection.begin()
    for number in range(MOST_STREAMS):
        await connection.progress({}, f"s{number}")
    await connection.ask("late")
    assert await connection.told.get() == "late 5.04"
    assert "late" not in desk.asked
    await connection.close()


async def test_each_envelope_counts_as_a_request_of_its_caller() -> None:
    """Whoever holds one connection may send no more than who makes a request for each."""
    connection = Connection(Desk(EndlessStream()), RateLimit(0.001, 2))
    connection.begin()
    for stream_id in ("a", "b", "c"):
        await connection.ask(stream_id)
    assert [await connection.told.get() for _ in range(3)] == ["a taken", "b taken", "c 4.29"]
    await connection.close()
