"""A Chat Completions answer, read; and a stream, folded into one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.upp.content import AudioBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers.openai_completions.response import error_of, read_answer
from perdure.upp.providers.openai_completions.stream import Fold
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

REQUEST = LLMRequest([UserMessage("hi")])
EMPTY: Any = {}
NONE: Any = []
STRUCTURED = LLMRequest([UserMessage("hi")], structure={"type": "object", "properties": {}})


def read(message: Any, finish_reason: Any = "stop", request: LLMRequest = REQUEST, **top: Any) -> LLMResponse:
    return read_answer({"choices": [{"message": message, "finish_reason": finish_reason}], **top}, request, "openai")


def call(name: Any = "note", arguments: Any = "{}", id: Any = "a") -> Any:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def fold(*deltas: Any, finish_reason: str | None = "stop") -> tuple[list[StreamEvent], LLMResponse]:
    """Returns the events and the response of a stream of these deltas."""
    folded = Fold("openai")
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
    events = [event for chunk in chunks for event in folded.add(chunk)]
    return events, read_answer(folded.answer(), REQUEST, "openai")


def calls_of(*deltas: Any) -> list[tuple[str, str, Any]]:
    """Returns id, name and arguments of the calls of a stream whose chunks hold one piece of a call each."""
    _, response = fold(*({"tool_calls": [delta]} for delta in deltas))
    return [(one.tool_call_id, one.tool_name, one.arguments) for one in response.message.tool_calls or []]


def piece(arguments: str = "", *, index: Any = None, id: Any = None, name: Any = None) -> Any:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [
        ("stop", "end_turn"),
        (None, "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_use"),
        ("eos", "eos"),
    ],
)
def test_finish_reasons_become_stop_reasons(finish_reason: Any, stop_reason: str) -> None:
    assert read({"content": "x"}, finish_reason).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [("tool_calls", "tool_use"), ("stop", "tool_use"), (None, "tool_use"), ("length", "max_tokens")],
)
def test_an_answer_with_calls_stops_for_them_unless_it_was_cut(finish_reason: Any, stop_reason: str) -> None:
    assert read({"tool_calls": [call()]}, finish_reason).stop_reason == stop_reason


@pytest.mark.parametrize("finish_reason", ["error", "insufficient_system_resource"])
def test_an_answer_that_the_vendor_broke_off_is_an_error(finish_reason: str) -> None:
    with pytest.raises(UPPError, match="broken off") as caught:
        read({"content": "half"}, finish_reason)
    assert caught.value.code == ErrorCode.PROVIDER_ERROR


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ('{"a":', '{"a":'),
        ("[]", []),
        ('"x"', "x"),
        ("null", None),
        ("NaN", "NaN"),
        ('{"a":1,"a":2}', {"a": 2}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments_are_read_or_kept_as_they_were_written(written: Any, arguments: Any) -> None:
    assert read({"tool_calls": [call(arguments=written)]}).message.tool_calls == [ToolCall("a", "note", arguments)]


def test_calls_with_no_id_or_the_same_get_their_own() -> None:
    calls = read({"tool_calls": [call(id="a"), call(id="a"), call(id=None)]}).message.tool_calls or []
    assert len({one.tool_call_id for one in calls}) == 3


@pytest.mark.parametrize("wrong", [call(name=None), call(name=""), {"id": "a", "type": "custom"}])
def test_a_call_of_no_tool_is_no_answer(wrong: Any) -> None:
    with pytest.raises(UPPError, match="without naming it") as caught:
        read({"tool_calls": [wrong]})
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": "none"},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": ["x"]}}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": 5}]}}]},
        {"choices": [{"message": {"content": [{"type": "thinking", "thinking": [5]}]}}]},
        {"choices": [{"message": {"tool_calls": EMPTY}}]},
    ],
)
def test_another_shape_is_an_invalid_response(answer: Any) -> None:
    with pytest.raises(UPPError) as caught:
        read_answer(answer, REQUEST, "openai")
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize("message", [{}, {"content": None}, {"content": "", "tool_calls": []}])
def test_an_empty_answer_is_a_message_without_content(message: Any) -> None:
    read_message = read(message).message
    assert (read_message.content, read_message.tool_calls) == ([], None)


def test_fields_that_a_server_leaves_blank_are_left_out() -> None:
    message = read({"content": "x"}, "", model="", system_fingerprint="", service_tier="", id="").message
    assert (message.metadata, len(message.id)) == ({"openai": {}}, 36)


def test_a_missing_id_is_made_up() -> None:
    assert read({"content": "x"}).message.id != read({"content": "x"}).message.id


def test_a_refusal_is_text_and_filtered() -> None:
    response = read({"content": None, "refusal": "No."})
    assert (response.message.text, response.stop_reason) == ("No.", "content_filter")


def test_structured_data_is_read_only_where_it_was_asked_for() -> None:
    assert read({"content": '{"a": 1}'}).data is None
    assert read({"content": '{"a": 1}'}, request=STRUCTURED).data == {"a": 1}
    assert read({"content": "42", "tool_calls": [call()]}, request=STRUCTURED).data is None


def test_a_refused_structure_is_filtered_content() -> None:
    with pytest.raises(UPPError) as caught:
        read({"refusal": "No."}, request=STRUCTURED)
    assert caught.value.code == ErrorCode.CONTENT_FILTERED


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ({"reasoning_content": "a"}, ["a"]),
        ({"reasoning": "b"}, ["b"]),
        ({"reasoning_content": "a", "reasoning": "a"}, ["a"]),
        ({"reasoning": "c", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, ["c"]),
        (
            {
                "reasoning": "d\ne",
                "reasoning_details": [
                    {"type": "reasoning.summary", "summary": "d"},
                    {"type": "reasoning.text", "text": "e"},
                    {"type": "reasoning.text", "text": None},
                ],
            },
            ["d", "e"],
        ),
        ({"reasoning_content": ""}, []),
    ],
)
def test_reasoning_is_read_once_before_the_text(message: Any, texts: list[str]) -> None:
    content = read({"content": "x", **message}).message.content
    assert content == [*(ReasoningBlock(text) for text in texts), TextBlock("x")]


def test_empty_reasoning_is_kept_to_be_given_back() -> None:
    assert read({"content": "x", "reasoning_content": ""}).message.metadata == {
        "openai": {"finish_reason": "stop", "reasoning_content": ""}
    }


@pytest.mark.parametrize(
    ("url", "block"),
    [
        ("data:image/webp;base64,AAAA", ImageBlock(Base64Source("AAAA"), "image/webp")),
        ("https://x/y.jpg?z=1", ImageBlock(UrlSource("https://x/y.jpg?z=1"), "image/jpeg")),
        ("https://x/y", ImageBlock(UrlSource("https://x/y"), "image/png")),
    ],
)
def test_generated_images_are_blocks(url: str, block: ImageBlock) -> None:
    assert read({"images": [{"type": "image_url", "image_url": {"url": url}}]}).message.content == [block]


@pytest.mark.parametrize(("kind", "mime_type"), [("mp3", "audio/mpeg"), ("pcm16", "audio/pcm"), ("flac", "audio/flac")])
def test_spoken_answers_are_transcript_and_sound(kind: str, mime_type: str) -> None:
    asked = LLMRequest([UserMessage("hi")], params={"audio": {"voice": "alloy", "format": kind}})
    message = {"content": None, "audio": {"id": "audio_1", "data": "AAEC", "expires_at": 1, "transcript": "Hi."}}
    assert read(message, request=asked).message.content == [TextBlock("Hi."), AudioBlock(b"\0\1\2", mime_type)]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, TokenUsage(0, 0, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 2}, TokenUsage(3, 2, 5)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "total_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            },
            TokenUsage(9, 1, 10, 4, 2),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "prompt_cache_hit_tokens": 8},
            TokenUsage(9, 1, 10, 8),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 12, "cached_tokens": 7}, TokenUsage(9, 1, 12, 7)),
    ],
)
def test_usage_is_read_in_each_vendors_words(usage: Any, tokens: TokenUsage) -> None:
    assert read({"content": "x"}, usage=usage).usage == tokens


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"choices": []}, None),
        ({"error": None, "choices": [EMPTY]}, None),
        ({"error": {"code": 502}}, {"code": 502}),
        ({"error": "busy"}, "busy"),
        ({"choices": [{"error": {"code": 429}}]}, {"code": 429}),
        (
            {"object": "error", "message": "too long", "code": 400},
            {"object": "error", "message": "too long", "code": 400},
        ),
    ],
)
def test_errors_inside_good_answers_are_found(answer: Any, error: Any) -> None:
    assert error_of(answer) == error


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [piece(index=0, id="a", name="f"), piece('{"x"', index=0), piece(":1}", index=0)],
            [("a", "f", {"x": 1})],
            id="id and name once",
        ),
        pytest.param(
            [piece('{"x"', index=0, id="a", name="f"), piece(":1}", index=0, id="a", name="f")],
            [("a", "f", {"x": 1})],
            id="id and name repeated",
        ),
        pytest.param(
            [piece('{"x"', index=0, id="a", name="f"), piece(":1}", index=0, id="b")],
            [("a", "f", {"x": 1})],
            id="another id for each piece",
        ),
        pytest.param(
            [
                piece(index=0, id="a", name="f"),
                piece(index=1, id="b", name="g"),
                piece("{}", index=0),
                piece("[]", index=1),
            ],
            [("a", "f", EMPTY), ("b", "g", NONE)],
            id="interleaved",
        ),
        pytest.param(
            [piece("{}", index=0, id="a", name="f"), piece("[]", index=0, id="b", name="g")],
            [("a", "f", EMPTY), ("b", "g", NONE)],
            id="all calls at index 0",
        ),
        pytest.param(
            [piece("{", id="a", name="f"), piece("}"), piece("{}", id="b", name="g")],
            [("a", "f", EMPTY), ("b", "g", EMPTY)],
            id="no index",
        ),
        pytest.param(
            [piece("{", index=5, id="a", name="f"), piece("}", index=5)],
            [("a", "f", EMPTY)],
            id="a first index above 0",
        ),
        pytest.param([piece('{"x', index=0, id="a", name="f")], [("a", "f", '{"x')], id="cut arguments"),
    ],
)
def test_pieces_of_calls_are_put_together(deltas: list[Any], calls: list[Any]) -> None:
    assert calls_of(*deltas) == calls


def test_calls_without_ids_get_one_that_events_and_message_share() -> None:
    events, response = fold(
        {"tool_calls": [piece("{}", name="f")]}, {"tool_calls": [piece("{}", name="g")]}, finish_reason="tool_calls"
    )
    ids = [event.delta.tool_call_id for event in events if event.delta.tool_call_id]
    assert ids == [one.tool_call_id for one in response.message.tool_calls or []]
    assert len(set(ids)) == 2


def test_events_of_calls_have_the_calls_position() -> None:
    events, _ = fold({"tool_calls": [piece("{}", index=3, id="a", name="f"), piece("{}", index=4, id="b", name="g")]})
    assert [(event.index, event.delta.tool_name) for event in events[1:]] == [(0, "f"), (1, "g")]


def test_only_the_first_of_several_answers_is_read() -> None:
    folded = Fold("openai")
    for index in (0, 1):
        list(folded.add({"choices": [{"index": index, "delta": {"content": "ab"[index]}, "finish_reason": "stop"}]}))
    assert read_answer(folded.answer(), REQUEST, "openai").message.text == "a"


def test_chunks_after_the_finish_reason_do_not_take_it_back() -> None:
    folded = Fold("openai")
    for reason in ("length", None):
        list(folded.add({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": reason}]}))
    assert read_answer(folded.answer(), REQUEST, "openai").stop_reason == "max_tokens"


def test_chunks_without_usage_do_not_take_it_back() -> None:
    folded = Fold("openai")
    usage: Any = {"prompt_tokens": 3, "completion_tokens": 2}
    list(folded.add({"choices": [{"index": 0, "delta": EMPTY, "finish_reason": "stop"}], "usage": usage}))
    list(folded.add({"choices": [], "usage": None}))
    assert read_answer(folded.answer(), REQUEST, "openai").usage == TokenUsage(3, 2, 5)


def test_a_stream_without_a_finish_reason_was_cut() -> None:
    with pytest.raises(UPPError) as caught:
        fold({"content": "half"}, finish_reason=None)
    assert caught.value.code == ErrorCode.NETWORK_ERROR


def test_pieces_of_sound_need_not_end_where_a_byte_does() -> None:
    events, response = fold(
        {"audio": {"id": "x", "data": "AA"}}, {"audio": {"data": "ECAw=="}}, {"audio": {"transcript": "Hi"}}
    )
    assert response.message.content == [TextBlock("Hi"), AudioBlock(b"\0\1\2\3", "audio/wav")]
    assert b"".join(event.delta.data or b"" for event in events) == b"\0\1\2\3"


def test_sound_that_is_no_base64_is_an_invalid_response() -> None:
    with pytest.raises(UPPError) as caught:
        fold({"audio": {"data": "????"}})
    assert caught.value.code == ErrorCode.INVALID_RESPONSE


def details_of(*pieces: Any) -> Any:
    _, response = fold(*({"reasoning_details": [one]} for one in pieces))
    return (response.message.metadata or {})["openai"]["reasoning_details"]


@pytest.mark.parametrize(
    ("pieces", "details"),
    [
        pytest.param(
            [
                {"type": "reasoning.text", "text": "a", "index": 0},
                {"type": "reasoning.text", "text": "b", "index": 0},
                {"type": "reasoning.text", "signature": "s", "text": None, "index": 0},
            ],
            [{"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"}],
            id="text, then its signature",
        ),
        pytest.param(
            [
                {"type": "reasoning.summary", "summary": "a", "index": 0},
                {"type": "reasoning.text", "text": "b", "index": 1},
                {"type": "reasoning.summary", "summary": "c", "index": 0},
            ],
            [
                {"type": "reasoning.summary", "summary": "ac", "index": 0},
                {"type": "reasoning.text", "text": "b", "index": 1},
            ],
            id="interleaved",
        ),
        pytest.param(
            [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}],
            [{"type": "reasoning.text", "text": "ab"}],
            id="no index",
        ),
    ],
)
def test_parts_of_reasoning_are_put_together(pieces: list[Any], details: list[Any]) -> None:
    assert details_of(*pieces) == details


ENCRYPTED: Any = {"type": "reasoning.encrypted", "index": 0}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [{**ENCRYPTED, "data": "x", "id": "1"}, {**ENCRYPTED, "data": "y", "id": "2"}],
            id="encrypted parts of one index",
        ),
        pytest.param([{**ENCRYPTED, "data": "x"}, {**ENCRYPTED, "data": "y"}], id="encrypted parts without ids"),
        pytest.param(
            [{"type": "reasoning.text", "text": "a", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}],
            id="two texts",
        ),
        pytest.param([{"type": "new.kind", "payload": {"k": [1]}, "index": 0}], id="a kind that nobody knows"),
    ],
)
def test_parts_of_reasoning_that_do_not_belong_together_stay_apart(pieces: list[Any]) -> None:
    assert details_of(*pieces) == pieces


def test_what_is_read_is_json() -> None:
    message = read({"content": "x", "annotations": [{"type": "url_citation"}]}, model="m", service_tier="flex").message
    assert json.loads(json.dumps(message.to_json()["metadata"])) == {
        "openai": {
            "model": "m",
            "finish_reason": "stop",
            "service_tier": "flex",
            "annotations": [{"type": "url_citation"}],
        }
    }


def thinking(text: Any) -> Any:
    return {"type": "thinking", "thinking": text}


def saying(text: Any) -> Any:
    return {"type": "text", "text": text}


PARTS = [
    pytest.param([saying("It is 6.")], [TextBlock("It is 6.")], id="text"),
    pytest.param(
        [thinking([saying("Two "), saying("threes.")]), saying("It is 6.")],
        [ReasoningBlock("Two threes."), TextBlock("It is 6.")],
        id="thinking, then text",
    ),
    pytest.param([thinking("Hm."), saying("6")], [ReasoningBlock("Hm."), TextBlock("6")], id="thinking as a string"),
    pytest.param([saying("6"), thinking([saying("Hm.")])], [ReasoningBlock("Hm."), TextBlock("6")], id="thinking last"),
    pytest.param([thinking([saying("Hm.")])], [ReasoningBlock("Hm.")], id="thinking alone"),
    pytest.param(
        [saying("It won "), {"type": "reference", "reference_ids": [0]}, saying("in 2024.")],
        [TextBlock("It won in 2024.")],
        id="a reference inside a sentence",
    ),
    pytest.param([saying(None), thinking(None), saying("")], [], id="parts that say nothing"),
    pytest.param([], [], id="no parts"),
]


@pytest.mark.parametrize(("parts", "content"), PARTS)
def test_content_in_parts_is_read_as_text_and_reasoning(parts: Any, content: list[Any]) -> None:
    assert read({"content": parts}).message.content == content


@pytest.mark.parametrize("at_once", [True, False], ids=["one chunk", "a chunk per part"])
@pytest.mark.parametrize(("parts", "content"), PARTS)
def test_content_in_parts_is_the_same_in_a_stream(parts: Any, content: list[Any], at_once: bool) -> None:
    deltas = [{"content": parts}] if at_once else [{"content": [part]} for part in parts]
    events, response = fold(*deltas)
    assert response.message.content == content
    assert response.message.metadata == read({"content": parts}).message.metadata
    said = [block.text for block in content if isinstance(block, TextBlock)]
    thought = [block.text for block in content if isinstance(block, ReasoningBlock)]
    assert "".join(e.delta.text or "" for e in events if e.type == "text_delta") == "".join(said)
    assert "".join(e.delta.text or "" for e in events if e.type == "reasoning_delta") == "".join(thought)


def test_a_stream_may_go_from_parts_to_strings() -> None:
    _, response = fold(
        {"content": ""}, {"content": [thinking([saying("Hm.")])]}, {"content": "It "}, {"content": "is."}
    )
    assert response.message.content == [ReasoningBlock("Hm."), TextBlock("It is.")]


def test_data_is_read_from_text_in_parts() -> None:
    parts = [thinking([saying("{}?")]), saying('{"a":'), saying("1}")]
    assert read({"content": parts}, request=STRUCTURED).data == {"a": 1}
