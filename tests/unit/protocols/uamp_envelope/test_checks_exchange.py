"""Checks 24 to 29, 37 and 42 to 46 of the conformance list, as far as they are pure: replay, address, bodies, lifecycle."""

from __future__ import annotations

import gzip
import tracemalloc
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_envelope.admission import (
    check_context,
    check_fresh,
    check_intent,
    is_resend,
)
from perdure.protocols.uamp_envelope.body import Compression, decode_body, encode_body
from perdure.protocols.uamp_envelope.exchange import Exchange, open_exchange
from perdure.protocols.uamp_envelope.identifier import stream_location
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.jws import encode_part
from perdure.protocols.uamp_envelope.lifecycle import State, Step, advanced, opened
from perdure.upp.json_value import JSONObject
from tests.unit.protocols.uamp_envelope.samples import CLIENT, ID, NOW, OTHER_ID, WORKER, refused, signed

STRANGER = "did:web:stranger.example"


def asked(intent: str = "ask") -> Exchange:
    return open_exchange(signed(intent=intent), WORKER, "str-1")


def test_check_24_the_same_envelope_again_is_a_resend() -> None:
    envelope = signed()
    assert not is_resend(envelope, None)
    assert is_resend(signed(), envelope.sha256)


def test_check_25_the_same_id_with_other_content_is_a_conflict() -> None:
    with refused("4.22") as caught:
        is_resend(signed(ext={"n": 1}), signed().sha256)
    assert caught.value.ref == ID


@pytest.mark.parametrize("minutes", [-10, 10])
def test_check_26_an_old_or_early_envelope_is_refused(minutes: int) -> None:
    with refused("4.01"):
        check_fresh(signed(), NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_check_26_a_clock_may_be_five_minutes_off(seconds: int) -> None:
    check_fresh(signed(), NOW + timedelta(seconds=seconds))


def test_check_29_a_stream_id_is_percent_encoded_in_its_location() -> None:
    assert stream_location("str-42_a.b~c") == "/v1/stream/str-42_a.b~c"
    assert stream_location("a/b ?#é%") == "/v1/stream/a%2Fb%20%3F%23%C3%A9%25"
    assert signed(stream_id="a/b é").stream_id == "a/b é"


@pytest.mark.parametrize("stream_id", ["", ".", "..", "a\nb", "a\x00", "\x7f", "x" * 129])
def test_check_29_a_stream_id_that_cannot_be_a_path_is_refused(stream_id: str) -> None:
    with refused("4.00"):
        signed(stream_id=stream_id)


PACKINGS: tuple[Compression, ...] = ("none", "gzip", "zstd")
ZSTD = {"encoding": "base64url", "compression": "zstd"}
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
"""A frame that decoders pass over."""


def of_a_window(log: int) -> bytes:
    """A short content in a zstd frame that asks for a window of 2**log bytes."""
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=log)
    ).compressobj()
    return packer.compress(b"abc") + packer.flush()


@pytest.mark.parametrize("content", ["x" * 5000, b"\x00\xff" * 3000, "", "€😀"])
@pytest.mark.parametrize("compression", PACKINGS)
def test_check_37_a_body_goes_round(content: str | bytes, compression: Any) -> None:
    body = encode_body("text/plain", content, compression)
    got = decode_body(signed(body=body).body)
    assert got.data == (content.encode() if isinstance(content, str) else content)
    assert got.type == "text/plain"


def test_check_37_plain_base64_is_read_with_and_without_padding() -> None:
    for text in ("+/8=", "+/8"):
        assert decode_body({"type": "a/b", "content": text, "encoding": "base64"}).data == b"\xfb\xff"
    assert decode_body({"type": "a/b", "content": "-_8=", "encoding": "base64url"}).data == b"\xfb\xff"


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_check_37_a_bomb_is_refused_and_never_held(packing: str) -> None:
    """At most the limit is held, and what a window needs; 200 MB would have to be."""
    zeros = b"\x00" * 200_000_000
    bomb = gzip.compress(zeros, mtime=0) if packing == "gzip" else zstandard.compress(zeros)
    del zeros
    assert len(bomb) < 250_000
    body: JSONObject = {
        "type": "a/b",
        "content": encode_part(bomb),
        "encoding": "base64url",
        "compression": packing,
    }
    tracemalloc.start()
    with refused("4.13"):
        decode_body(body)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 20_000_000


def test_check_37_the_limit_is_exact() -> None:
    for compression in PACKINGS:
        body = encode_body("text/plain", "x" * 100, compression)
        assert len(decode_body(body, max_bytes=100).data) == 100
        with refused("4.13"):
            decode_body(body, max_bytes=99)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("4.15", {"content": "x", "encoding": "utf-16"}),
        ("4.15", {"content": "x", "encoding": "UTF-8"}),
        ("4.15", {"content": "AA", "encoding": "base64url", "compression": "br"}),
        ("4.15", {"content": "x", "compression": "gzip"}),
        ("4.15", {"content": "AA==", "encoding": "base64", "compression": "gzip"}),
        ("4.00", {"content": "A", "encoding": "base64url"}),
        ("4.00", {"content": "AA=", "encoding": "base64"}),
        ("4.00", {"content": "A A=", "encoding": "base64"}),
        ("4.00", {"content": "-_8=", "encoding": "base64"}),
        ("4.00", {"content": "+/8=", "encoding": "base64url"}),
        ("4.00", {"content": "é", "encoding": "base64url"}),
        ("4.00", {"content": "AAAA", "encoding": "base64url", "compression": "gzip"}),
        (
            "4.00",
            {"content": encode_part(gzip.compress(b"x" * 100)[:-9]), "encoding": "base64url", "compression": "gzip"},
        ),
        ("4.00", {"content": encode_part(gzip.compress(b"x") * 2), "encoding": "base64url", "compression": "gzip"}),
        ("4.00", {"content": encode_part(gzip.compress(b"x") + b"y"), "encoding": "base64url", "compression": "gzip"}),
        ("4.00", {"content": "AAAA", **ZSTD}),
        ("4.00", {"content": encode_part(zstandard.compress(b"x" * 100)[:-3]), **ZSTD}),
        ("4.00", {"content": encode_part(zstandard.compress(b"x" * 100)[:3]), **ZSTD}),
        ("4.00", {"content": encode_part(zstandard.compress(b"x") * 2), **ZSTD}),
        ("4.00", {"content": encode_part(SKIPPED + zstandard.compress(b"x")), **ZSTD}),
        ("4.00", {"content": encode_part(of_a_window(27)), **ZSTD}),
        ("4.15", {"content": "x", "compression": "zstd"}),
    ],
    ids=range(22),
)
def test_check_37_a_body_that_cannot_be_decoded_is_refused(code: str, body: dict[str, Any]) -> None:
    with refused(code):
        decode_body({"type": "text/plain", **body})


def test_check_37_text_that_is_not_utf8_is_refused_when_it_is_asked_for() -> None:
    got = decode_body({"type": "a/b", "content": "_w", "encoding": "base64url"})
    with refused("4.00"):
        _ = got.text


@pytest.mark.parametrize("named", [{"reply_to": ID}, {"reply_to": ID[9:].upper()}, {"stream_id": "str-1"}])
def test_check_42_the_owner_cancels_by_id_or_stream(named: dict[str, Any]) -> None:
    cancel = signed(intent="cancel", id=OTHER_ID, **named)
    assert asked().received(cancel).state is State.CANCELLED


def test_check_42_a_cancel_by_another_is_4_03() -> None:
    with refused("4.03"):
        asked().received(signed(intent="cancel", id=OTHER_ID, from_=WORKER, to=[WORKER], reply_to=ID))


def test_check_42_a_cancel_after_the_end_changes_nothing() -> None:
    done = asked().stepped(Step.DONE)
    assert done.received(signed(intent="cancel", id=OTHER_ID, reply_to=ID)) == done


@pytest.mark.parametrize(
    "named", [{}, {"reply_to": OTHER_ID}, {"stream_id": "str-2"}, {"reply_to": ID, "stream_id": "str-2"}]
)
def test_check_42_an_answer_to_something_else_is_4_04(named: dict[str, Any]) -> None:
    with refused("4.04"):
        asked().received(signed(intent="cancel", id=OTHER_ID, **named))


@pytest.mark.parametrize("intent", [Intent.INFORM, Intent.NOTIFY])
def test_check_43_inform_and_notify_are_complete_at_once_and_have_no_stream(intent: Intent) -> None:
    exchange = asked(intent.value)
    assert (exchange.state, exchange.stream_id) == (State.COMPLETED, None)
    assert not intent.opens


@pytest.mark.parametrize("intent", ["confirm", "deny"])
def test_check_44_confirm_and_deny_of_the_one_who_was_asked_end_a_proposal(intent: str) -> None:
    answer = signed(intent=intent, id=OTHER_ID, from_=WORKER, to=[CLIENT], reply_to=ID)
    assert asked("propose").received(answer).state is State.COMPLETED
    with refused("4.03"):
        asked("propose").received(signed(intent=intent, id=OTHER_ID, reply_to=ID))


def test_check_45_progress_keeps_a_subscription_open_until_its_cancel() -> None:
    exchange = asked("subscribe")
    for sender, to in ((CLIENT, WORKER), (WORKER, CLIENT)):
        news = signed(intent="progress", id=OTHER_ID, from_=sender, to=[to], reply_to=ID)
        assert exchange.received(news) == exchange
    assert exchange.received(signed(intent="cancel", id=OTHER_ID, reply_to=ID)).state is State.CANCELLED


@pytest.mark.parametrize(
    ("step", "state"),
    [
        *((step, State.COMPLETED) for step in (Step.DONE, Step.CONFIRM, Step.DENY)),
        *((step, State.ERROR) for step in (Step.ERROR, Step.TIMEOUT, Step.STALL)),
        *((Step.CANCEL, State.CANCELLED), (Step.PROGRESS, State.IN_PROGRESS)),
    ],
)
def test_check_46_each_step_leads_where_the_table_says(step: Step, state: State) -> None:
    assert advanced(State.IN_PROGRESS, step) is state


@given(intent=st.sampled_from(Intent), steps=st.lists(st.sampled_from(Step), max_size=8))
def test_check_46_nothing_leaves_a_terminal_state(intent: Intent, steps: list[Step]) -> None:
    if intent.answers:
        with refused("4.04"):
            opened(intent)
        return
    state = opened(intent)
    for step in steps:
        after = advanced(state, step)
        assert after is state if state.is_terminal else after in (*State,)
        assert after is not State.NEW
        state = after
    ending = [step for step in steps if step is not Step.PROGRESS]
    assert state.is_terminal == (intent.stands_alone or bool(ending))


def test_an_intent_that_is_not_advertised_is_refused() -> None:
    check_intent(signed(), {Intent.ASK})
    with refused("4.03"):
        check_intent(signed(), {Intent.INFORM})


def test_the_hash_of_a_known_envelope_in_context_is_compared() -> None:
    other = signed(id=OTHER_ID)
    item = {"id": OTHER_ID, "hash": other.context_hash}
    check_context(signed(context=[item]), {other.id: other.context_hash})
    check_context(signed(context=[item]), {UUID(int=1): "sha256:" + "0" * 64})
    with refused("4.00"):
        check_context(signed(context=[item]), {other.id: "sha256:" + "0" * 64})
