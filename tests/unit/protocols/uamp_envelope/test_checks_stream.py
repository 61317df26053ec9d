"""Checks 30 to 32, 38 to 41, 47 and 50 of the conformance list, as far as they are pure: deltas, windows, frames."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_envelope.ack import ack_body, ack_payload, read_ack_delta, read_ack_envelope
from perdure.protocols.uamp_envelope.delta import (
    Delta,
    DeltaType,
    bytes_chunk,
    chunk_data,
    delta_error,
    delta_of,
    patch_payload,
    read_delta,
    text_chunk,
)
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.length_prefix import FrameReader, prefixed
from perdure.protocols.uamp_envelope.receive_sequence import ReceiveSequence
from perdure.protocols.uamp_envelope.schema import check_schema
from perdure.protocols.uamp_envelope.stall import stall
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.protocols.uamp_envelope.transcript import Transcript
from tests.unit.protocols.uamp_envelope.samples import EC_KEY, ID, KEYS, NOW, OTHER_ID, refused, signed

CHUNK, DONE, CANCEL = DeltaType.CHUNK, DeltaType.DONE, DeltaType.CANCEL


def delta(seq: int, type: DeltaType = CHUNK, **payload: Any) -> Delta:
    return Delta(seq, "str-1", NOW, type, payload)


def test_check_30_a_delta_obeys_the_schema_and_goes_round() -> None:
    made = delta(17, CHUNK, **text_chunk("a\nb€"))
    sent = made.to_bytes()
    assert b"\n" not in sent
    check_schema("delta", parse_object(sent))
    assert read_delta(sent) == made


@pytest.mark.parametrize(
    "change",
    [
        *({"delta_seq": -1}, {"delta_seq": 1.5}, {"delta_seq": "1"}, {"delta_seq": True}, {"delta_seq": 1e300}),
        *({"type": "end"}, {"payload": []}, {"payload": None}, {"more": 1}, {"ts": "now"}, {"stream_id": ""}),
    ],
    ids=range(11),
)
def test_check_30_what_is_no_delta_is_refused(change: dict[str, Any]) -> None:
    with refused("4.00"):
        read_delta(json.dumps({**delta(1).to_json(), **change}).encode())


@pytest.mark.parametrize("name", ["delta_seq", "stream_id", "ts", "type"])
def test_check_30_each_required_member_is_required(name: str) -> None:
    with refused("4.00"):
        delta_of({key: value for key, value in delta(1).to_json().items() if key != name})


def test_check_30_a_lenient_reader_fills_what_the_url_says() -> None:
    assert delta_of({"delta_seq": 0, "type": "chunk"}, stream_id="str-1", received_at=NOW) == delta(0)


@given(st.integers(1, 30), st.lists(st.integers(0, 30), max_size=6))
def test_check_32_whatever_the_breaks_each_frame_is_taken_once_in_order(count: int, breaks: list[int]) -> None:
    frames = [delta(seq) for seq in range(count)] + [delta(count, DONE)]
    reader, seen = ReceiveSequence("str-1", window=4), list[int]()
    for cut in [*breaks, len(frames)]:
        start = 0 if reader.last_seq is None else max(0, reader.last_seq - 1)  # a sender that repeats one more
        for frame in frames[start : start + cut]:
            if not reader.is_repeat(frame):
                seen.append(frame.seq)
            reader = reader.taken(frame)
    assert seen == [*range(count + 1)]
    assert reader.has_ended


def test_check_39_a_window_of_one_is_acked_frame_by_frame() -> None:
    reader, acks = ReceiveSequence("str-1", window=1), 0
    for seq in range(20):
        reader = reader.taken(delta(seq))
        assert reader.is_ack_due
        reader, acks = reader.acknowledged(), acks + 1
    assert acks == 20


def test_check_39_a_window_that_stays_full_ends_in_5_04() -> None:
    assert stall(NOW, NOW + timedelta(seconds=29)) is None
    error = stall(NOW, NOW + timedelta(seconds=30))
    assert error is not None
    assert error.to_json() == {
        "code": "5.04",
        "message": "no ACK came for 30 s while the window was full",
        "retryable": True,
        "retry_after": 5,
    }


def test_check_41_a_gap_is_4_09_and_the_stream_resumes_from_what_was_taken() -> None:
    reader = ReceiveSequence("str-1").taken(delta(0))
    with refused("4.09") as caught:
        reader.taken(delta(2))
    assert caught.value.retryable
    assert reader.last_seq == 0
    assert reader.taken(delta(1)).taken(delta(2)).last_seq == 2


def test_check_41_frames_of_another_stream_or_after_the_end_are_refused() -> None:
    reader = ReceiveSequence("str-2")
    with refused("4.00"):
        reader.taken(delta(0))
    ended = ReceiveSequence("str-1").taken(delta(0, DONE))
    assert ended.taken(delta(0)) == ended
    with refused("4.00"):
        ended.taken(delta(1))


def test_acks_are_due_at_half_the_window() -> None:
    reader, due = ReceiveSequence("str-1", window=8), list[int]()
    for seq in range(12):
        reader = reader.taken(delta(seq))
        if reader.is_ack_due:
            due.append(seq)
            reader = reader.acknowledged()
    assert due == [3, 7, 11]


def test_an_ack_goes_round_by_envelope_and_by_delta() -> None:
    envelope = signed(intent="progress", id=OTHER_ID, reply_to=ID, stream_id="str-1", body=ack_body(12))
    assert read_ack_envelope(envelope) == 12
    assert read_ack_delta(delta(0, DeltaType.PROGRESS, **ack_payload(12))) == 12
    assert read_ack_delta(delta(0, DeltaType.PROGRESS, pct=10)) is None
    assert read_ack_delta(delta(0, CHUNK, ack=1)) is None
    assert read_ack_envelope(signed(intent="progress", body={"type": "text/plain", "content": "half"})) is None


@pytest.mark.parametrize("ack", ["12", -1, 1.5, True, None, [1]])
def test_an_ack_that_is_no_sequence_number_is_refused(ack: Any) -> None:
    with refused("4.00"):
        read_ack_delta(delta(0, DeltaType.PROGRESS, ack=ack))


def test_check_47_chunks_make_the_same_bytes() -> None:
    image = bytes(range(256)) * 40
    frames = [
        delta(seq, CHUNK, **bytes_chunk(image[at : at + 999])) for seq, at in enumerate(range(0, len(image), 999))
    ]
    assert b"".join(chunk_data(read_delta(frame.to_bytes())) for frame in frames) == image
    assert chunk_data(delta(0, CHUNK, chunk_b64="-_8")) == chunk_data(delta(0, CHUNK, chunk_b64="+/8=")) == b"\xfb\xff"
    assert chunk_data(delta(0, CHUNK, text="é")) == "é".encode()
    with refused("4.00"):
        chunk_data(delta(0, CHUNK, data="x"))


def test_a_patch_names_its_format() -> None:
    ops: list[Any] = [{"op": "add", "path": "/a", "value": 1}]
    assert patch_payload("json-patch", [*ops]) == {"format": "json-patch", "ops": ops}
    assert patch_payload("merge-patch", {"a": None}) == {"format": "merge-patch", "patch": {"a": None}}


def test_an_error_frame_carries_the_error_object() -> None:
    error = UAMPError(Code.BUSY, "busy", retry_after=timedelta(seconds=1.2), ref=ID)
    got = delta_error(delta(3, DeltaType.ERROR, **error.to_json()))
    assert got.to_json() == {"code": "5.04", "message": "busy", "retryable": True, "retry_after": 2, "ref": ID}


def test_check_50_frames_are_big_endian_and_put_together_from_any_pieces() -> None:
    assert prefixed(b"ab") == b"\x00\x00\x00\x02ab"
    frames = [b"", b"{}", b"x" * 300]
    wire = b"".join(prefixed(frame) for frame in frames)
    for step in (1, 3, 5, len(wire)):
        reader, got = FrameReader(), list[bytes]()
        for at in range(0, len(wire), step):
            got += reader.feed(wire[at : at + step])
        assert got == frames
    assert not FrameReader().feed(wire[:-1])[2:]


def test_check_50_a_frame_over_the_limit_is_refused_by_its_prefix() -> None:
    assert FrameReader(10).feed(prefixed(b"x" * 10)) == [b"x" * 10]
    with refused("4.13") as caught:
        FrameReader(10).feed(b"\x00\x00\x00\x0b")
    assert caught.value.carriage.ws_close == 1009


def test_a_transcript_signs_all_frames() -> None:
    def running(texts: list[str]) -> Transcript:
        transcript = Transcript()
        for seq, text in enumerate(texts):
            transcript.add(delta(seq, CHUNK, text=text))
        return transcript

    end = running(["a", "b"]).signed(delta(2, DONE, text="ab"), EC_KEY)
    running(["a", "b"]).verify(read_delta(end.to_bytes()), KEYS)
    for texts in (["a"], ["b", "a"], ["ab"], []):
        with refused("4.01"):
            running(texts).verify(end, KEYS)
    signature = end.payload["transcript"]
    for forged in (delta(2, DONE, text="a", transcript=signature), delta(2, CANCEL, text="ab", transcript=signature)):
        with refused("4.01"):
            running(["a", "b"]).verify(forged, KEYS)
    with refused("4.00"):
        running(["a", "b"]).verify(delta(2, DONE), KEYS)
    with refused("4.01"):
        running(["a", "b"]).verify(end, KEYS[:1])
