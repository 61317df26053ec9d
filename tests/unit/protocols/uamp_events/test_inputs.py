"""Inputs become content items and one user message; checks 35 to 42."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_events.client_events import InputEvent
from perdure.protocols.uamp_events.content_ids import identified
from perdure.protocols.uamp_events.content_items import FileItem, ImageItem, TextItem, WireMessage
from perdure.protocols.uamp_events.conversation import Clock, Turn, from_upp, to_upp, turn_of
from perdure.protocols.uamp_events.faults import EventRefused
from perdure.protocols.uamp_events.input_buffer import InputBuffer
from perdure.protocols.uamp_events.media import MediaUrl
from perdure.protocols.uamp_events.parsing import parse_client_event
from perdure.protocols.uamp_events.upp_blocks import Fetched, urls_to_fetch
from perdure.uap.content_refs import returned_media
from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.media_source import Base64Source, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from tests.unit.protocols.uamp_events.client_line import uuids

STORED = "550e8400-e29b-41d4-a716-446655440000"
AT = datetime(2026, 1, 1, tzinfo=UTC)
PNG = base64.b64encode(b"png bytes").decode()


def event(kind: str, **members: Any) -> InputEvent:
    source = json.dumps({"type": f"input.{kind}", "event_id": "e", **members})
    return cast(InputEvent, parse_client_event(source, draw_id=str))


def buffer(*events: InputEvent) -> InputBuffer:
    filled = InputBuffer(uuids())
    for one in events:
        filled.add(one)
    return filled


def turn(*events: InputEvent, fetched: dict[str, Fetched] | None = None) -> Turn:
    return turn_of(buffer(*events).drain(), Clock(uuids(), AT), fetched)


def blocks(*events: InputEvent, fetched: dict[str, Fetched] | None = None) -> list[ContentBlock]:
    user = turn(*events, fetched=fetched).user
    assert user is not None
    return list(user.content)


def test_35_inputs_of_the_user_are_one_message_in_order() -> None:
    given_turn = turn(event("text", text="look"), event("image", image=PNG, format="png"), event("text", text="well?"))
    assert given_turn.user is not None
    assert given_turn.before == []
    assert given_turn.user.content == [
        TextBlock("look"),
        ImageBlock(Base64Source(PNG), "image/png"),
        TextBlock("well?"),
    ]


def test_36_system_text_extends_the_instructions_and_assistant_text_is_history() -> None:
    given_turn = turn(
        event("text", text="Be brief.", role="system"),
        event("text", text="hi"),
        event("text", text="hello", role="assistant"),
        event("text", text="and now?"),
    )
    assert given_turn.instructions == ["Be brief."]
    assert [(type(message), message.text) for message in given_turn.before] == [
        (UserMessage, "hi"),
        (AssistantMessage, "hello"),
    ]
    assert given_turn.user is not None
    assert given_turn.user.text == "and now?"


HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You know the weather."},
    {"role": "user", "content": "Paris and Rome?"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}},
            {"id": "c2", "name": "weather", "arguments": '{"city":"Rome"}'},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "22"},
    {"role": "tool", "tool_call_id": "c2", "content": "30"},
    {"role": "assistant", "content": "22 and 30"},
]


def test_37_messages_are_the_history_and_their_last_one_is_not_said_twice() -> None:
    same = turn(event("text", text="Oslo?", messages=[*HISTORY, {"role": "user", "content": "Oslo?"}]))
    new = turn(event("text", text="Oslo?", messages=HISTORY))
    for found in (same, new):
        assert found.user is not None
        assert found.user.text == "Oslo?"
        assert found.instructions == ["You know the weather."]
        assert found.history is not None
        assert [type(message) for message in found.history] == [
            UserMessage,
            AssistantMessage,
            ToolResultMessage,
            AssistantMessage,
        ]
    assert new.history is not None
    asked, told = new.history[1], new.history[2]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolResultMessage)
    assert [call.arguments for call in asked.tool_calls or ()] == [{"city": "Paris"}, {"city": "Rome"}]
    assert [(result.tool_call_id, result.result) for result in told.results] == [("c1", "22"), ("c2", "30")]


def test_37_a_result_of_no_call_is_refused() -> None:
    with pytest.raises(EventRefused, match="c9"):
        turn(event("text", text="x", messages=[{"role": "tool", "tool_call_id": "c9", "content": "1"}]))


@pytest.mark.parametrize(
    ("image", "source"),
    [
        (PNG, Base64Source(PNG)),
        (f"data:image/png;base64,{PNG}", Base64Source(PNG)),
        ({"url": f"data:image/png;base64,{PNG}"}, Base64Source(PNG)),
        ({"url": "https://example.com/a.png"}, UrlSource("https://example.com/a.png")),
        ("https://example.com/a.png", UrlSource("https://example.com/a.png")),
        (f"/api/content/{STORED}", UrlSource(f"/api/content/{STORED}")),
        ("/9j/4AAQSkZJRg==", Base64Source("/9j/4AAQSkZJRg==")),
    ],
)
def test_38_an_image_is_base64_or_a_url(image: Any, source: Any) -> None:
    """The base64 of every JPEG begins with a slash, which is no path."""
    assert blocks(event("image", image=image, format="png")) == [ImageBlock(source, "image/png")]


def test_38_detail_is_kept() -> None:
    user = turn(event("image", image=PNG, format="png", detail="low")).user
    assert user is not None
    (item,) = from_upp(user).items()
    assert isinstance(item, ImageItem)
    assert (item.detail, item.format) == ("low", "png")


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_39_audio_in_chunks_is_one_clip_byte_for_byte(clip: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(clip)) for cut in cuts), len(clip)]
    pieces = [clip[start:end] for start, end in pairwise(edges)]
    chunks = [
        event("audio", audio=base64.b64encode(piece).decode(), format="pcm16", is_final=place == len(pieces) - 1)
        for place, piece in enumerate(pieces)
    ]
    assert blocks(*chunks) == [AudioBlock(clip, "audio/pcm")]


def test_39_an_unfinished_clip_ends_with_the_turn_or_with_another_input() -> None:
    part = event("audio", audio="AAAA", format="wav", is_final=False)
    assert blocks(part) == [AudioBlock(b"\0\0\0", "audio/wav")]
    assert blocks(part, event("text", text="?"), part) == [
        AudioBlock(b"\0\0\0", "audio/wav"),
        TextBlock("?"),
        AudioBlock(b"\0\0\0", "audio/wav"),
    ]


def test_40_video_is_fetched_or_there() -> None:
    url = "https://example.com/v.mp4"
    there, elsewhere = event("video", video="AAAA", format="mp4"), event("video", video={"url": url})
    assert blocks(there) == [VideoBlock(b"\0\0\0", "video/mp4")]
    given_input = buffer(elsewhere).drain()
    assert urls_to_fetch(given_input.messages[0].items()) == [url]
    assert blocks(elsewhere, fetched={url: Fetched("video/webm", b"v")}) == [VideoBlock(b"v", "video/webm")]
    with pytest.raises(EventRefused, match="was not fetched"):
        blocks(elsewhere)


@pytest.mark.parametrize(
    ("mime", "block"),
    [
        ("application/pdf", DocumentBlock(Base64Source("aGk="), "application/pdf", "f")),
        ("text/plain", DocumentBlock(TextSource("hi"), "text/plain", "f")),
        ("text/csv", DocumentBlock(TextSource("hi"), "text/plain", "f")),
        ("image/png", ImageBlock(Base64Source("aGk="), "image/png")),
        ("audio/wav", AudioBlock(b"hi", "audio/wav")),
        ("application/zip", BinaryBlock(b"hi", "application/zip", {"filename": "f"})),
    ],
)
def test_41_a_file_is_what_its_type_says(mime: str, block: ContentBlock) -> None:
    assert blocks(event("file", file="aGk=", filename="f", mime_type=mime)) == [block]


def test_41_base64_that_is_none_is_refused() -> None:
    with pytest.raises(EventRefused, match="base64"):
        blocks(event("file", file="not base64!", filename="f", mime_type="application/zip"))


def test_42_content_ids_are_kept_found_or_drawn_and_text_has_none() -> None:
    filled = buffer(
        event("text", text="see"),
        event("image", image=PNG, content_id="mine"),
        event("image", image={"url": f"/api/content/{STORED}"}),
        event("image", image={"url": f"https://host/api/content/{STORED}?sig=1"}),
        event("file", file="aGk=", filename="f", mime_type="text/plain"),
    )
    items = filled.drain().messages[0].items()
    ids = [getattr(item, "content_id", None) for item in items]
    assert ids[:4] == [None, "mine", STORED, STORED]
    assert ids[4]
    assert ids[4] not in ids[:4]
    assert [identified(item, lambda: "other") for item in items] == items


def test_42_content_ids_survive_the_message() -> None:
    user = turn(event("text", text="see"), event("image", image={"url": f"/api/content/{STORED}"})).user
    assert user is not None
    shown = from_upp(user)
    again = WireMessage.model_validate(json.loads(json.dumps(shown.to_json())))
    assert again == shown
    found = again.items()[1]
    assert isinstance(found, ImageItem)
    assert found.image == MediaUrl(url=f"/api/content/{STORED}")
    assert found.content_id == STORED


def test_media_of_a_result_is_found_and_told_again() -> None:
    """Stored content, that is; it survives into the agent's conversation and out of it."""
    image = {"type": "image", "image": {"url": f"https://h/api/content/{STORED}?signature=x"}, "alt_text": "a square"}
    audio = {"type": "audio", "audio": "AAAA", "content_id": "x"}
    answer = {"call_id": "c", "result": '{"n":1}', "content_items": [image, audio]}
    source = {"role": "tool", "tool_call_id": "c", "content_items": [{"type": "tool_result", "tool_result": answer}]}
    message = to_upp(WireMessage.model_validate(source), Clock(uuids(), AT))
    assert isinstance(message, ToolResultMessage)
    result = message.results[0].result
    assert isinstance(result, dict)
    assert result["result"] == {"n": 1}
    (facts,) = returned_media(result)
    assert (facts.content_id, facts.media_type, facts.description) == (STORED, "image/jpeg", "a square")
    again = to_upp(from_upp(message), Clock(uuids(), AT))
    assert isinstance(again, ToolResultMessage)
    assert again.results == message.results


def test_payment_and_context_of_the_interaction() -> None:
    given_turn = buffer(
        event("text", text="a", payment_token="p1", context={"chat_id": "c"}),
        event("text", text="b", payment_token="p2", context={"sender_id": "u"}),
    ).drain()
    assert given_turn.payment_token == "p2"
    assert given_turn.context == {"chat_id": "c", "sender_id": "u"}
    assert "p2" not in repr(given_turn)


def test_a_turn_holds_so_much() -> None:
    small = InputBuffer(uuids(), max_bytes=10)
    small.add(event("text", text="12345"))
    with pytest.raises(EventRefused) as caught:
        small.add(event("text", text="123456"))
    assert caught.value.code == "input_too_large"
    assert small.drain().messages == [WireMessage(role="user", content_items=[TextItem(text="12345")])]
    small.add(event("text", text="1234567890"))


def test_nothing_said_is_a_turn_without_a_user_message() -> None:
    empty = buffer()
    assert empty.is_empty
    assert turn().user is None


def test_a_file_goes_round() -> None:
    user = turn(event("file", file="aGk=", filename="a.csv", mime_type="text/csv", content_id="id")).user
    assert user is not None
    (item,) = from_upp(user).items()
    assert item == FileItem(file="aGk=", filename="a.csv", mime_type="text/csv", content_id="id")
