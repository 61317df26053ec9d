"""L97: a streamed answer never shows a part of a secret, wherever its deltas are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.redacted_stream import RedactedStream
from perdure.upp.redaction import Redaction
from perdure.upp.stream import (
    StreamEvent,
    StreamEventType,
    content_block_stop,
    message_start,
    message_stop,
    object_delta,
    reasoning_delta,
    text_delta,
    tool_call_delta,
)

VALUE = "canary-7f3a-tail"
MARK = "[redacted:it]"


def knowing() -> Redaction:
    known = Redaction()
    known.register("it", VALUE)
    return known


def told(events: list[StreamEvent], kind: StreamEventType, index: int = 0) -> str:
    deltas = [event.delta for event in events if event.type is kind and event.index == index]
    return "".join(delta.text or delta.arguments_json or "" for delta in deltas)


@pytest.mark.parametrize("size", [1, 2, 5, 16, 100])
def test_l97_each_kind_of_delta_is_redacted(size: int) -> None:
    """Text, reasoning, objects and the arguments of two calls that come by turns."""
    whole = f"a {VALUE} b canary"
    stream, events = RedactedStream(knowing()), list[StreamEvent]()
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    for piece in pieces:
        for event in (
            text_delta(piece), reasoning_delta(piece, 1), object_delta(piece, 2),
            tool_call_delta("c", "t", piece, 3), tool_call_delta("d", "t", piece, 4),
        ):  # fmt: skip
            events += stream.take(event)
    events += [*stream.take(content_block_stop(0)), *stream.take(message_stop())]
    kinds = [*StreamEventType][4:7]
    assert kinds == [StreamEventType.TEXT_DELTA, StreamEventType.REASONING_DELTA, StreamEventType.OBJECT_DELTA]
    for index, kind in enumerate([*kinds, StreamEventType.TOOL_CALL_DELTA, StreamEventType.TOOL_CALL_DELTA]):
        assert told(events, kind, index) == f"a {MARK} b canary"
    assert events[-1] == message_stop()


@given(st.lists(st.integers(1, 30)))
def test_l97_the_stream_ends_with_what_the_whole_text_is(cuts: list[int]) -> None:
    whole, known = f"{VALUE}{VALUE} canary-7f {VALUE[:-1]}", knowing()
    stream, events = RedactedStream(known), list[StreamEvent]()
    rest = whole
    for cut in cuts:
        events += stream.take(text_delta(rest[:cut]))
        rest = rest[cut:]
    events += [*stream.take(text_delta(rest)), *stream.rest()]
    assert told(events, StreamEventType.TEXT_DELTA) == known.text(whole)


def test_what_holds_no_secret_passes_at_once() -> None:
    stream = RedactedStream(knowing())
    for event in (message_start(), text_delta("hello "), tool_call_delta("c", "t", ""), content_block_stop()):
        assert stream.take(event) == [event]


def test_where_no_secret_is_known_every_event_passes_as_it_is() -> None:
    stream, event = RedactedStream(Redaction()), text_delta(VALUE)
    (shown,) = stream.take(event)
    assert shown is event
