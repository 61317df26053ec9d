"""Streams of exchanges between one agent of ours and a peer, with sessions whose logs are written as the activities write them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import rfc8785
from jwcrypto import jwk, jws

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.keys import SigningKey, signing_key
from perdure.runtime.envelopes.delta_stream import DeltaStream, acknowledge_frames, open_delta_stream
from perdure.runtime.envelopes.signals import ExchangeSignals
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.runtime.event_stream import EventStream
from perdure.store.answers import append_deltas
from perdure.store.database import Database
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.events import Announcer
from perdure.store.folding import EndedRun, fold_run
from perdure.uap.events import run_event
from perdure.uap.ids import answer_id, new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.envelope_story import NOW, OWN, EnvelopeStory
from tests.integration.stack import Stack, eventually
from tests.integration.store_story import AT, USAGE, Story

SECOND = timedelta(seconds=1)
PRIVATE: jwk.JWK = cast(Any, jwk.JWK).generate(kty="EC", crv="P-256")


@dataclass
class Clock:
    """The time, as a test has it."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, passed: timedelta) -> None:
        """Later."""
        self.now += passed


async def signing(did: str) -> SigningKey:
    """The key of any agent of ours."""
    return signing_key(f"{did}#k1", cast(JSONObject, PRIVATE.export_private(as_dict=True)))


@dataclass
class Replica:
    """One process of the API, as far as streams are concerned."""

    parts: StreamParts

    async def read(self, row: ExchangeRow, last: int | None = None, **given: Any) -> Reader:
        """A consumer's reading."""
        return Reader(self, await open_delta_stream(self.parts, row, last_seq=last, **given))

    async def ack(self, row: ExchangeRow, seq: int) -> None:
        """A consumer's ACK comes here."""
        await acknowledge_frames(self.parts, row.id, seq)


@dataclass
class Reader:
    """A consumer that reads a stream."""

    replica: Replica
    stream: DeltaStream
    taken: list[Delta] = field(default_factory=list[Delta])

    def __post_init__(self) -> None:
        self._frames = self.stream.frames()
        self._next: asyncio.Task[Delta | None] | None = None

    async def take(self, count: int = 1) -> list[Delta]:
        """The next frames."""
        taken: list[Delta] = []
        while len(taken) < count:
            frame = await self._within(60)
            if frame is not None:
                taken.append(frame)
        self.taken += taken
        return taken

    async def rest(self, row: ExchangeRow | None = None) -> list[Delta]:
        """All frames up to the end; each is ACKed if an exchange is given."""
        with contextlib.suppress(StopAsyncIteration):
            while True:
                frame = await self._within(60)
                if frame is not None:
                    self.taken.append(frame)
                if row is not None and frame is not None and not frame.type.is_terminal:
                    await self.replica.ack(row, frame.seq)
        return self.taken

    async def is_silent(self, seconds: float = 0.4) -> bool:
        """Whether nothing comes for a while; the stream goes on being read."""
        try:
            return await self._within(seconds) is None
        except TimeoutError:
            return True

    async def stalled(self, clock: Clock, time: timedelta) -> list[Delta]:
        """All frames up to the end, which comes since nothing is ACKed; by a clock that goes on until it has come."""
        ending = asyncio.create_task(self.rest())

        async def is_over() -> bool:
            clock.advance(time)
            return ending.done()

        await eventually(is_over, what="the end of a stream that nobody ACKs")
        return await ending

    async def close(self) -> None:
        """The consumer leaves."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._frames.aclose()

    async def _within(self, seconds: float) -> Delta | None:
        if self._next is None:
            self._next = asyncio.create_task(anext(self._frames))
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            raise TimeoutError("no frame came")
        came, self._next = self._next, None
        return came.result()


@contextlib.asynccontextmanager
async def replica(stack: Stack, tenant: str, clock: Clock, **given: Any) -> AsyncGenerator[Replica]:
    """A process with connections of its own."""
    database = Database(stack.addresses.database_url, pool_size=5)
    stream, signals = EventStream(database), ExchangeSignals(database, tenant)
    yield Replica(StreamParts(database, tenant, stream, signals, signing, clock, **given))
    await signals.close()
    await stream.close()
    await database.close()


@dataclass
class StreamStory:
    """A tenant with one session."""

    database: Database
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.envelopes = EnvelopeStory(self.database)
        self.tenant = self.envelopes.tenant
        self.story = Story(self.database, SessionKey(self.tenant, new_id()))
        self._announcer = Announcer(self.database)
        self._places: dict[str, int] = {}

    async def asked(self, window: int = 64) -> ExchangeRow:
        """An ask whose run has begun."""
        return await self.begun(await self.envelopes.opened(delta_window=window))

    async def begun(self, row: ExchangeRow) -> ExchangeRow:
        """It, with a run."""
        run = await self.story.run()
        begun = await begin_exchange(self.database, self.tenant, row.id, self.story.key.session, run)
        assert begun is not None
        return begun

    async def subscribed(self, window: int = 64) -> ExchangeRow:
        """A subscription to the session, from now on."""
        row = await self.envelopes.opened("subscribe", delta_window=window)
        last = (await self.story.head())["last_seq"]
        begun = await begin_exchange(self.database, self.tenant, row.id, self.story.key.session, None, log_seq=last)
        assert begun is not None
        return begun

    async def say(self, row: ExchangeRow, *texts: str, kind: str = "text_delta", index: int = 0) -> None:
        """The model says more; one row of the log for each text."""
        deltas: list[JSONObject] = [{"delta": {"text": text}} for text in texts]
        await self.tell(row, kind, *deltas, index=index)

    async def show(self, row: ExchangeRow, *media: JSONObject) -> None:
        """A tool has returned media that is to be shown."""
        result: JSONObject = {"toolCallId": "call", "toolName": "draw", "result": "drawn", "isError": False}
        shown: JSONObject = {"delta": result, "contentItems": [*media], "presented": True}
        await self.tell(row, "tool_execution_end", shown)

    async def begin_again(self, row: ExchangeRow) -> None:
        """The model begins its message anew."""
        assert row.run is not None
        message = answer_id(row.run, 1)
        reset = {**run_event("message.reset", {"message": message}), "p": 1}
        await append_deltas(
            self.database, self.story.writer(row.run), message, token=new_id(), reset=True, first=0, pending=[],
            events=[reset],
        )  # fmt: skip

    async def tell(self, row: ExchangeRow, kind: str, *data: JSONObject, index: int = 0) -> None:
        """Rows of the log about the model's message."""
        assert row.run is not None
        message = answer_id(row.run, 1)
        events: list[JSONObject] = [
            {"s": "upp", "t": kind, "p": 1, "a": 1, "d": {"message": message, "index": index, **item}} for item in data
        ]
        first = self._places.get(row.run, 0)
        self._places[row.run] = first + len(events)
        await append_deltas(
            self.database, self.story.writer(row.run), message, token="try-1", reset=False, first=first, pending=[],
            events=events,
        )  # fmt: skip
        self._announcer.changed(self.story.key)

    async def finish(self, row: ExchangeRow, text: str, status: str = "completed") -> None:
        """The run ends; `text` is what the model has said."""
        assert row.run is not None
        if status == "completed":
            await self.story.save(row.run, text=text)
        facts: JSONObject = {"at": AT, "usage": USAGE}
        if status == "failed":
            facts["error"] = {"type": "Broken", "message": "it broke"}
        await self.story.end(row.run, status, event=run_event(f"run.{status}", facts))
        self._announcer.changed(self.story.key)

    async def fold(self, row: ExchangeRow) -> None:
        """The run's deltas are folded, as a worker does after a minute."""
        assert row.run is not None
        events = [event for event in await self.story.events() if event.run == row.run]
        assert await fold_run(self.database, EndedRun(self.story.key, row.run, events[0].seq, events[-1].seq))

    async def frames(self, row: ExchangeRow) -> list[dict[str, Any]]:
        """The frames as they are stored."""
        async with self.database.driver() as connection:
            rows = await connection.fetch(
                "select frame from perdure.envelope_frames where tenant_id = $1 and exchange = $2 order by seq",
                self.tenant, row.id,
            )  # fmt: skip
        return [json.loads(frame["frame"]) for frame in rows]

    async def now(self, row: ExchangeRow) -> ExchangeRow:
        """The exchange as it is."""
        return await self.envelopes.row(row)


def text_of(frames: list[Delta]) -> str:
    """What the chunks say."""
    return "".join(str(frame.payload["text"]) for frame in frames if frame.type == "chunk")


def check_whole(frames: list[Delta], *, first: int = 0, ends: str = "done") -> None:
    """That frames have no gap and one terminal frame, the last; and that it signs all of them, if they are all."""
    assert [frame.seq for frame in frames] == list(range(first, first + len(frames)))
    assert [frame.type for frame in frames if frame.type.is_terminal] == [ends]
    assert frames[-1].type == ends
    transcript = cast("dict[str, str]", frames[-1].payload["transcript"])
    if first == 0:
        values = [cast("dict[str, Any]", frame.to_json()) for frame in frames]
        values[-1]["payload"] = {name: item for name, item in frames[-1].payload.items() if name != "transcript"}
        lines = b"".join(rfc8785.dumps(value) + b"\n" for value in values)
        assert transcript["sha256"] == hashlib.sha256(lines).hexdigest()
    head, middle, signature = transcript["jws"].split(".")
    assert middle == ""
    payload = b'{"sha256":"' + transcript["sha256"].encode() + b'"}'
    token = cast(Any, jws.JWS())
    token.deserialize(".".join([head, base64.urlsafe_b64encode(payload).decode().rstrip("="), signature]))
    token.verify(PRIVATE)
    assert json.loads(token.objects["protected"])["kid"] == f"{OWN}#k1"
