"""The consumer of a stream: each frame once and in order, whatever the connection does; and changed frames are noticed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from jwcrypto import jwk, jws

from perdure.errors import RunCancelled
from perdure.protocols.uamp_envelope.delta import Delta, delta_of
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.keys import VerificationKey, verification_key
from perdure.runtime.envelopes.client.answer import AnswerCollector, Medium
from perdure.runtime.envelopes.client.connection import Delivered, Sent
from perdure.runtime.envelopes.client.consumer import Consumer
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError
from perdure.runtime.envelopes.client.identity import new_identity
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.signing import signed_envelope
from perdure.upp.json_value import JSONObject

PEER = "did:web:worker.example"
STREAM = "str-1"
NOW = datetime(2025, 7, 10, 13, 37, 5, tzinfo=UTC)
KEY = cast(Any, jwk.JWK).generate(kty="EC", crv="P-256")
OTHER = cast(Any, jwk.JWK).generate(kty="EC", crv="P-256")
BRIEF = Patience(broken=timedelta(seconds=1), pause=timedelta(milliseconds=1))
PATIENT = Patience(broken=timedelta(minutes=5), pause=timedelta(milliseconds=1))
TIRELESS = Patience(broken=timedelta(days=1), pause=timedelta(microseconds=1))
Step = Delta | Exception | None  # a frame; a failure; or the end of the connection


def frame(seq: int, type: str = "chunk", **payload: Any) -> Delta:
    text: JSONObject = {"text": f"<{seq}>"} if type == "chunk" and not payload else payload
    value: JSONObject = {
        "delta_seq": seq,
        "stream_id": STREAM,
        "ts": "2025-07-10T13:38:01.000Z",
        "type": type,
        "payload": text,
    }
    return delta_of(value)


def transcript(frames: Sequence[Delta], key: Any = KEY, kid: str = f"{PEER}#k1") -> JSONObject:
    """The signature over frames, the last of which has none yet, by jwcrypto and rfc8785."""
    running = hashlib.sha256()
    for delta in frames:
        running.update(rfc8785.dumps(cast(Any, delta.to_json())) + b"\n")
    token = jws.JWS(json.dumps({"sha256": running.hexdigest()}, separators=(",", ":")).encode())
    cast(Any, token).add_signature(key, None, json.dumps({"alg": "ES256", "kid": kid}), None)
    protected, _, signature = token.serialize(compact=True).split(".")
    return {"sha256": running.hexdigest(), "jws": f"{protected}..{signature}"}


def whole(count: int, **changes: Any) -> list[Delta]:
    """A stream of so many frames, the last one with its signature."""
    frames = [frame(seq) for seq in range(count - 1)]
    end = frame(count - 1, "done")
    return [*frames, frame(count - 1, "done", transcript=transcript([*frames, end], **changes))]


class Keys:
    """The keys of one agent."""

    async def keys(self, did: str, *, kid: str | None = None) -> Sequence[VerificationKey]:
        assert did == PEER
        public = json.loads(KEY.export_public())
        return [verification_key(f"{PEER}#k1", public)]


class Script:
    """A connection that brings what it was told, one list for each time it is asked."""

    carries_acks = True

    def __init__(self, *rounds: Sequence[Step], keeps_window: bool = False) -> None:
        self.rounds = [*rounds]
        self.asked: list[int | None] = []
        self.acks: list[int] = []
        self.keeps_window = keeps_window

    async def deliver(self, envelope: object) -> Delivered:
        raise AssertionError("a consumer sends nothing")

    async def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        """Frames as told; a producer that keeps to the window has never more than that out without an ACK."""
        self.asked.append(after)
        self.acks += [] if after is None else [after]
        for step in self.rounds.pop(0) if self.rounds else [ConnectionBroken("gone")]:
            if isinstance(step, Exception):
                raise step
            if step is not None:
                out = step.seq - max(self.acks, default=-1)
                assert not self.keeps_window or step.type.is_terminal or out <= sent.envelope.window, "it is closed"
                yield step

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        self.acks.append(seq)

    async def close(self) -> None: ...


def consumer_of(
    script: Script,
    *,
    window: int = 4,
    already: Sequence[Delta] = (),
    patience: Patience = PATIENT,
    acknowledge: Callable[[int], Awaitable[None]] | None = None,
    before_resume: Callable[[], Awaitable[None]] | None = None,
) -> Consumer:
    me = new_identity("did:web:me.example")
    envelope = signed_envelope(me, NOW, "ask", "hi", to=PEER, delta_window=window)

    async def noted(seq: int) -> None:
        await script.acknowledge(STREAM, seq)

    return Consumer(
        script,
        Sent(envelope, STREAM),
        keys=Keys(),
        acknowledge=acknowledge or noted,
        patience=patience,
        already=already,
        before_resume=before_resume,
    )


async def read(consumer: Consumer) -> list[int]:
    async with aclosing(consumer.frames()) as frames:
        return [delta.seq async for delta in frames]


async def test_acks_go_out_at_half_the_window_and_not_for_the_end() -> None:
    script = Script(whole(9))
    consumer = consumer_of(script)
    assert await read(consumer) == [*range(9)]
    assert script.acks == [1, 3, 5, 7]
    assert consumer.is_signed


@pytest.mark.parametrize("window", [1, 2, 4, 64])
async def test_a_thousand_frames_come_through_any_window(window: int) -> None:
    """ACKs go out before the window closes, or nothing more would come."""
    consumer = consumer_of(Script(whole(1001), keeps_window=True), window=window)
    assert await read(consumer) == [*range(1001)]
    assert consumer.is_signed


async def test_who_is_slow_to_use_frames_is_not_ahead_with_acks() -> None:
    """The ACK of a frame goes out when the next one is asked for."""
    script = Script(whole(9))
    async with aclosing(consumer_of(script).frames()) as frames:
        for _ in range(2):
            await anext(frames)
        assert script.acks == []
        await anext(frames)
        assert script.acks == [1]


async def test_a_broken_stream_goes_on_after_the_last_frame() -> None:
    frames = whole(5)
    script = Script(frames[:2], [ConnectionBroken("cut")], [UnsignedError(Code.BUSY, "later")], frames[1:4], frames[4:])
    consumer = consumer_of(script)
    assert await read(consumer) == [*range(5)]
    assert script.asked == [None, 1, 1, 1, 3]
    assert consumer.is_signed


async def test_a_gap_is_asked_for_again() -> None:
    """A missing frame is 4.09: what came after it is not used, and the stream is asked for from before it."""
    frames = whole(5)
    script = Script([frames[0], frames[2]], frames[1:])
    assert await read(consumer_of(script)) == [*range(5)]
    assert script.asked == [None, 0]


async def test_a_gap_that_stays_is_an_error_in_the_end() -> None:
    frames = whole(3)
    script = Script(*[[frames[0], frames[2]]] * 50)
    with pytest.raises(UAMPError) as caught:
        await read(consumer_of(script, patience=BRIEF))
    assert caught.value.code == Code.SEQUENCE_GAP


async def test_a_connection_that_never_comes_back_is_given_up() -> None:
    script = Script([frame(0)])
    with pytest.raises(ConnectionBroken):
        await read(consumer_of(script, patience=BRIEF))
    assert len(script.asked) > 2


class Quiet(Script):
    """A connection that stands for a while before it breaks, though the agent says nothing."""

    async def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        if len(self.rounds) > 1:
            await asyncio.sleep(0.06)
        async for delta in super().stream(sent, after=after):
            yield delta


async def test_an_agent_may_be_silent_over_any_number_of_broken_connections() -> None:
    """Each has stood for longer than one may be silent: the server was there, and what breaks now is another matter."""
    patience = Patience(broken=timedelta(seconds=0.1), silence=timedelta(seconds=0.05), pause=timedelta(milliseconds=1))
    script = Quiet(*[[ConnectionBroken("cut")]] * 6, whole(2))
    assert await read(consumer_of(script, patience=patience)) == [0, 1]


async def test_what_an_ack_covers_is_kept_before_a_stream_goes_on() -> None:
    """The number that a new connection begins with is an ACK."""
    frames, told = whole(4), list[int | None]()
    script = Script(frames[:2], frames[2:])

    async def keep() -> None:
        told.extend(script.asked)

    consumer = consumer_of(script, before_resume=keep, window=64)
    assert await read(consumer) == [*range(4)]
    assert (told, script.asked) == ([None], [None, 1])


async def test_a_refusal_is_not_asked_again() -> None:
    script = Script([UnsignedError(Code.EXPIRED, "gone")])
    with pytest.raises(UnsignedError, match="gone"):
        await read(consumer_of(script))
    assert script.asked == [None]


async def test_an_ack_that_is_lost_is_covered_by_the_next_one() -> None:
    script = Script(whole(9))
    lost: list[int] = []

    async def acknowledge(seq: int) -> None:
        if not lost:
            lost.append(seq)
            raise ConnectionBroken("lost")
        script.acks.append(seq)

    assert await read(consumer_of(script, acknowledge=acknowledge)) == [*range(9)]
    assert (lost, script.acks[0]) == ([1], 2)


@pytest.mark.parametrize(
    "changed",
    [
        [frame(0), frame(1, text="other"), *whole(4)[2:]],
        [frame(0), frame(1, "progress", pct=1), *whole(4)[2:]],
        [*whole(4)[:3], frame(3, "done", transcript=transcript(whole(4)[:3]))],
        [*whole(4)[:3], frame(3, "done", text="other", transcript=whole(4)[3].payload["transcript"])],
        [*whole(4)[:3], frame(3, "cancel", transcript=whole(4)[3].payload["transcript"])],
    ],
)
async def test_a_changed_frame_is_noticed(changed: list[Delta]) -> None:
    """A frame that was put in another's place has another hash than what the agent has signed."""
    script = Script(changed)
    with pytest.raises(UAMPError, match="not those that were signed") as caught:
        await read(consumer_of(script))
    assert caught.value.code == Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    "forged", [{"key": OTHER}, {"kid": "did:web:evil.example#k1"}, {"key": OTHER, "kid": f"{PEER}#k2"}]
)
async def test_a_signature_of_another_is_none(forged: dict[str, Any]) -> None:
    with pytest.raises(UAMPError) as caught:
        await read(consumer_of(Script(whole(4, **forged))))
    assert caught.value.code == Code.UNAUTHENTICATED


async def test_an_end_without_a_signature_is_told_as_such() -> None:
    consumer = consumer_of(Script([frame(0), frame(1, "done")]))
    assert await read(consumer) == [0, 1]
    assert not consumer.is_signed


async def test_frames_of_an_earlier_process_are_not_asked_for_again() -> None:
    """They count for the signature over all."""
    frames = whole(6)
    script = Script(frames[3:])
    consumer = consumer_of(script, already=frames[:3])
    assert await read(consumer) == [3, 4, 5]
    assert script.asked == [2]
    assert script.acks == [2, 4]
    assert consumer.is_signed


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6), window=st.integers(1, 6))
async def test_any_cuts_and_repeats_lose_and_repeat_nothing(cuts: list[tuple[int, int]], window: int) -> None:
    """However connections overlap, leave holes and end, the frames that come out are the stream."""
    frames = whole(12)
    script = Script(*[frames[start:end] for start, end in cuts], frames)
    consumer = consumer_of(script, window=window, patience=TIRELESS)
    assert await read(consumer) == [*range(12)]
    assert consumer.is_signed


def test_an_answer_is_its_chunks_unless_the_end_says_what_counts() -> None:
    """A message that began anew has told more than its end says."""
    collector = AnswerCollector()
    for seq in range(3):
        collector.add(frame(seq))
    assert collector.answer(frame(3, "done"), is_signed=True).text == "<0><1><2>"
    told = collector.answer(frame(3, "done", text="<2>"), is_signed=True)
    assert (told.text, told.is_signed) == ("<2>", True)
    assert not collector.answer(frame(3, "done", text="<2>"), is_signed=False).is_signed


def test_an_answer_of_bytes_is_put_together() -> None:
    """The specification's example C.2: chunks of base64, and the type at the end; and two items with text between."""
    collector = AnswerCollector()
    collector.add(frame(0, "chunk", chunk_b64="iVBO"))
    collector.add(frame(1, "chunk", chunk_b64="Rw=="))
    made = collector.answer(frame(2, "done", mime="image/png"), is_signed=False)
    assert (made.text, made.media) == ("", (Medium("image/png", b"\x89PNG"),))
    collector = AnswerCollector()
    collector.add(frame(0, "chunk", chunk_b64="YQ==", item=0, mime="image/png"))
    collector.add(frame(1))
    collector.add(frame(2, "chunk", chunk_b64="Yg==", item=1, mime="image/gif"))
    made = collector.answer(frame(3, "done"), is_signed=True)
    assert (made.text, made.media) == ("<1>", (Medium("image/png", b"a"), Medium("image/gif", b"b")))


def test_a_failure_that_nobody_signed_is_marked() -> None:
    error = frame(0, "error", code="5.00", message="no", retryable=False)
    with pytest.raises(UnsignedError):
        AnswerCollector().answer(error, is_signed=False)
    with pytest.raises(UAMPError) as caught:
        AnswerCollector().answer(error, is_signed=True)
    assert not isinstance(caught.value, UnsignedError)
    with pytest.raises(RunCancelled):
        AnswerCollector().answer(frame(0, "cancel"), is_signed=False)
