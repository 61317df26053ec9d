"""Gemini's answers as messages, and those messages on their way back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.content import AudioBlock, ContentBlock, ImageBlock, ReasoningBlock, TextBlock, VideoBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage, message_from_json
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers.google.contents import contents_of
from perdure.upp.providers.google.response import AnswerReader
from perdure.upp.stream import StreamEventType
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage

REQUEST = LLMRequest([UserMessage("hi")])


def answer(*parts: JSONObject, finish: str | None = "STOP", **fields: JSONValue) -> JSONObject:
    candidate: JSONObject = {"content": {"role": "model", "parts": [*parts]}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **fields}


def read(*chunks: JSONObject, request: LLMRequest = REQUEST) -> LLMResponse:
    reader = AnswerReader()
    for chunk in chunks:
        reader.read(chunk)
    return reader.response(request)


def failure(*chunks: JSONObject, request: LLMRequest = REQUEST) -> UPPError:
    with pytest.raises(UPPError) as caught:
        read(*chunks, request=request)
    assert caught.value.provider == "google"
    return caught.value


def sent_back(message: AssistantMessage, needs_signatures: bool = True) -> list[JSONValue]:
    """What a later turn sends of the message, after it was stored and loaded."""
    loaded = message_from_json(message.to_json())
    match contents_of([UserMessage("hi"), loaded], needs_signatures)[1:]:
        case [{"role": "model", "parts": list(parts)}]:
            return parts
        case []:
            return []
        case other:
            raise AssertionError(other)


CALL: JSONObject = {"functionCall": {"id": "f1", "name": "look", "args": {"at": "x"}}, "thoughtSignature": "c2ln"}
SECOND: JSONObject = {"functionCall": {"name": "hear"}}


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([{"text": "a"}, {"text": "b"}], [TextBlock("ab")]),
        ([{"text": "a"}, {"text": "b", "thoughtSignature": "c2ln"}], [TextBlock("ab")]),
        (
            [{"text": "x", "thought": True}, {"text": "y", "thought": True}, {"text": "a"}],
            [ReasoningBlock("xy"), TextBlock("a")],
        ),
        (
            [{"text": "a"}, {"text": "x", "thought": True}, {"text": "b"}],
            [ReasoningBlock("x"), TextBlock("a"), TextBlock("b")],
        ),
        ([{"text": "a"}, CALL, {"text": "b"}], [TextBlock("a"), TextBlock("b")]),
        (
            [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "AAE="}}, {"text": "b"}],
            [TextBlock("a"), ImageBlock(BytesSource(b"\0\1"), "image/png"), TextBlock("b")],
        ),
        (
            [{"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAE="}}],
            [AudioBlock(b"\0\1", "audio/L16;rate=24000")],
        ),
        ([{"inlineData": {"mimeType": "video/mp4", "data": "AAE="}}], [VideoBlock(b"\0\1", "video/mp4")]),
        ([{"inlineData": {"mimeType": "image/png", "data": "AAE="}, "thought": True}], []),
        ([{"executableCode": {"language": "PYTHON", "code": "1+1\n"}}], [TextBlock("```python\n1+1\n```")]),
        ([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}], [TextBlock("```\n2\n```")]),
        ([{"codeExecutionResult": {"outcome": "OUTCOME_OK"}}], []),
        ([{"somethingNew": 1}], []),
        ([{"text": ""}], []),
    ],
)
def test_parts_become_blocks(parts: list[JSONObject], content: list[ContentBlock]) -> None:
    assert read(answer(*parts)).message.content == content


def test_calls_keep_their_native_ids_and_others_get_unique_ones() -> None:
    again: JSONObject = {"functionCall": {"id": "f1", "name": "look", "args": {"at": "y"}}}
    calls = read(answer(CALL, SECOND, again)).message.tool_calls
    assert calls is not None
    assert calls[0] == ToolCall("f1", "look", {"at": "x"})
    assert (calls[1].tool_name, calls[1].arguments, calls[2].arguments) == ("hear", {}, {"at": "y"})
    assert len({call.tool_call_id for call in calls}) == 3


def test_stop_stays_end_turn_with_calls() -> None:
    assert read(answer(CALL)).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        ("STOP", "end_turn"),
        (None, "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("CONTINUATION", "max_tokens"),
        ("TOOL_USE", "tool_use"),
        ("OTHER", "end_turn"),
        ("NO_IMAGE", "end_turn"),
        *((word, "content_filter") for word in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")),
        *((word, "content_filter") for word in ("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "LANGUAGE", "MODEL_ARMOR")),
    ],
)
def test_finish_reasons(finish: str | None, stop_reason: str) -> None:
    assert read(answer({"text": "a"}, finish=finish)).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("finish", "code"),
    [
        ("MALFORMED_FUNCTION_CALL", ErrorCode.PROVIDER_ERROR),
        ("MALFORMED_RESPONSE", ErrorCode.PROVIDER_ERROR),
        ("UNEXPECTED_TOOL_CALL", ErrorCode.PROVIDER_ERROR),
        ("MISSING_THOUGHT_SIGNATURE", ErrorCode.INVALID_REQUEST),
    ],
)
def test_finish_reasons_that_are_errors(finish: str, code: ErrorCode) -> None:
    chunk: JSONObject = {"candidates": [{"finishReason": finish, "finishMessage": "said so"}]}
    error = failure(chunk)
    assert error.code == code
    assert "said so" in error.message


def test_an_unexpected_call_is_the_tool_loop_to_answer() -> None:
    assert read(answer(CALL, finish="UNEXPECTED_TOOL_CALL")).message.has_tool_calls


def test_a_blocked_prompt_is_filtered() -> None:
    error = failure({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}})
    assert (error.code, "SAFETY" in error.message) == (ErrorCode.CONTENT_FILTERED, True)


OTHER_SHAPES: list[JSONObject] = [
    {},
    {"candidates": []},
    {"candidates": "x"},
    {"candidates": [{"content": {"parts": [1]}}]},
    {"candidates": [{"content": {"parts": [{"text": 1}]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]},
    {"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "%"}}]}}]},
    {"candidates": [{"content": {}}], "usageMetadata": {"promptTokenCount": "many"}},
]


@pytest.mark.parametrize("chunk", OTHER_SHAPES)
def test_another_shape_is_an_invalid_response(chunk: JSONObject) -> None:
    assert failure(chunk).code == ErrorCode.INVALID_RESPONSE


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, TokenUsage(0, 0, 0)),
        ({"promptTokenCount": 3}, TokenUsage(3, 0, 3)),
        (
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 90,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 20,
                "toolUsePromptTokenCount": 30,
                "totalTokenCount": 155,
            },
            TokenUsage(130, 25, 155, 90),
        ),
    ],
)
def test_thoughts_are_output_and_tool_prompts_input(usage: JSONObject | None, counted: TokenUsage) -> None:
    fields: dict[str, Any] = {} if usage is None else {"usageMetadata": usage}
    assert read(answer({"text": "a"}, **fields)).usage == counted


def test_each_chunk_adds_the_counts_that_it_has() -> None:
    first: JSONObject = {"promptTokenCount": 3, "cachedContentTokenCount": 2, "candidatesTokenCount": 1}
    last: JSONObject = {"candidatesTokenCount": 5, "totalTokenCount": 8}
    chunks = [answer({"text": "a"}, usageMetadata=first), answer(usageMetadata=last), answer(usageMetadata=None)]
    assert read(*chunks).usage == TokenUsage(3, 5, 8, 2)


def test_the_message_has_the_vendor_id_or_one_of_its_own() -> None:
    assert read(answer({"text": "a"}, responseId="r1")).message.id == "r1"
    assert len(read(answer({"text": "a"})).message.id) == 36


def test_only_the_first_candidate_is_read() -> None:
    chunk: JSONObject = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "b"}]}},
            {"index": 0, "content": {"parts": [{"text": "a"}]}},
        ]
    }
    assert read(chunk).message.text == "a"


def test_metadata_names_no_order_where_the_message_says_it() -> None:
    message = read(answer({"text": "a", "thoughtSignature": "c2ln"}, CALL, SECOND, modelVersion="m")).message
    assert message.metadata == {
        "google": {
            "model": "m",
            "finishReason": "STOP",
            "functionCallParts": [CALL, SECOND],
            "thoughtSignature": "c2ln",
        }
    }


LISTS_OF_PARTS: list[list[JSONObject]] = [
    [{"text": "a"}],
    [{"text": "a", "thoughtSignature": "c2ln"}],
    [{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}],
    [{"text": "a"}, {"text": "b", "thoughtSignature": "c2ln"}, {"text": "c"}],
    [{"text": "", "thoughtSignature": "c2ln"}],
    [CALL, SECOND],
    [{"text": "a"}, CALL, {"text": "b", "thoughtSignature": "eA=="}, SECOND | {"thoughtSignature": "eQ=="}, {"text": "c"}],
    [{"text": "t", "thought": True, "thoughtSignature": "c2ln"}, {"text": "a"}],
    [{"inlineData": {"mimeType": "image/png", "data": "AAE="}, "thoughtSignature": "c2ln"}, {"text": "a"}],
    [{"text": "a"}, {"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"output": "1"}}, {"text": "b"}],
    [{"toolCall": {"id": "s1"}, "thoughtSignature": "c2ln"}, {"toolResponse": {"id": "s1"}}, {"text": "a"}],
]  # fmt: skip


@pytest.mark.parametrize("parts", LISTS_OF_PARTS)
def test_what_came_goes_back_as_it_came(parts: list[JSONObject]) -> None:
    assert sent_back(read(answer(*parts)).message, needs_signatures=False) == parts


Part: TypeAlias = "dict[str, Any]"


@st.composite
def any_part(draw: st.DrawFn) -> Part:
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
    bodies: dict[str, Part] = {
        "text": {"text": text},
        "thought": {"text": text, "thought": True},
        "call": {"functionCall": {"name": text, "args": {}}},
        "media": {"inlineData": {"mimeType": "image/png", "data": "AAE="}},
        "code": {"executableCode": {"code": text}},
    }
    signed: Part = {"thoughtSignature": "c2ln"} if draw(st.booleans()) else {}
    return bodies[draw(st.sampled_from(list(bodies)))] | signed


def joined(parts: list[JSONObject]) -> list[JSONObject]:
    """The parts as they should go back: unsigned texts in a row as one, empty ones and unsigned thoughts left out."""
    result: list[JSONObject] = []
    open_run = False
    for each in parts:
        plain = set(each) == {"text"}
        if plain and open_run:
            result[-1] = {"text": f"{result[-1]['text']}{each['text']}"}
        else:
            result.append(dict(each))
        open_run = plain
    return [each for each in result if each != {"text": ""} and ("thought" not in each or "thoughtSignature" in each)]


@given(st.lists(any_part(), max_size=6))
def test_any_order_of_parts_goes_back_as_it_came(parts: list[JSONObject]) -> None:
    assert sent_back(read(answer(*parts)).message, needs_signatures=False) == joined(parts)


@given(st.lists(any_part(), max_size=6))
def test_parts_in_chunks_of_their_own_make_the_same_message(parts: list[JSONObject]) -> None:
    whole = read(answer(*parts, responseId="r")).message
    chunks = [answer(each, finish=None, responseId="r") for each in parts]
    streamed = read(*chunks, answer()).message
    assert streamed.content == whole.content
    assert streamed.metadata == whole.metadata
    assert [call.tool_name for call in streamed.tool_calls or ()] == [call.tool_name for call in whole.tool_calls or ()]


def test_the_text_of_the_events_is_the_text_of_the_message() -> None:
    reader = AnswerReader()
    chunks = [answer({"text": "a"}, {"text": "t", "thought": True}, finish=None), {}, answer({"text": "b"}, CALL)]
    events = [event for chunk in chunks for event in reader.read(chunk)]
    assert [(str(event.type), event.delta.text) for event in events] == [
        ("message_start", None),
        ("text_delta", "a"),
        ("reasoning_delta", "t"),
        ("text_delta", "b"),
        ("tool_call_delta", None),
    ]
    call = events[-1]
    assert (call.delta.tool_call_id, call.delta.tool_name, call.delta.arguments_json) == ("f1", "look", '{"at":"x"}')


def test_media_events_carry_the_bytes_and_their_position() -> None:
    image: JSONObject = {"inlineData": {"mimeType": "image/png", "data": "AAE="}}
    events = AnswerReader().read(answer(image, {"text": "a"}, image))
    found = [(event.index, event.delta.data) for event in events if event.type == StreamEventType.IMAGE_DELTA]
    assert found == [(0, b"\0\1"), (1, b"\0\1")]


def test_a_changed_message_goes_back_as_it_is_now() -> None:
    message = read(answer({"text": "a"}, CALL, {"text": "b"})).message
    changed = replace_content(message, [TextBlock("other")])
    assert sent_back(changed) == [{"text": "other"}, CALL]


def test_changed_arguments_go_back_changed_with_the_signature() -> None:
    message = read(answer(CALL)).message
    changed = replace(message, tool_calls=[ToolCall("f1", "look", {"at": "z"})])
    call = {"id": "f1", "name": "look", "args": {"at": "z"}}
    assert sent_back(changed) == [{"functionCall": call, "thoughtSignature": "c2ln"}]


def test_results_carry_the_native_id_only_of_calls_that_have_one() -> None:
    message = read(answer(CALL, SECOND)).message
    assert message.tool_calls is not None
    ids = [call.tool_call_id for call in message.tool_calls]
    results = ToolResultMessage([ToolResult(ids[0], {"ok": 1}), ToolResult(ids[1], "x")])
    assert contents_of([message, results], needs_signatures=True)[-1] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "f1", "name": "look", "response": {"ok": 1}}},
            {"functionResponse": {"name": "hear", "response": {"result": "x"}}},
        ],
    }


UNFIT: list[JSONObject] = [
    {"parts": [{"text": 1}]},
    {"parts": 1, "functionCallParts": "x"},
    {"parts": [{}]},
    {"parts": [{"text": 99}]},
]


@pytest.mark.parametrize("metadata", UNFIT)
def test_metadata_of_another_form_is_not_used(metadata: JSONObject) -> None:
    message = AssistantMessage("a", [ToolCall("1", "look", {})], metadata={"google": metadata})
    parts = sent_back(message, needs_signatures=False)
    assert parts == [{"text": "a"}, {"functionCall": {"name": "look", "args": {}}}]


STRUCTURE = replace(REQUEST, structure={"type": "object"})


def test_data_is_the_answer_text() -> None:
    assert read(answer({"text": '{"a": '}, {"text": "1}"}), request=STRUCTURE).data == {"a": 1}
    assert read(answer({"text": '{"a": 1}'})).data is None


@pytest.mark.parametrize(("finish", "code"), [("MAX_TOKENS", "INVALID_RESPONSE"), ("SAFETY", "CONTENT_FILTERED")])
def test_an_answer_that_is_no_data_is_an_error(finish: str, code: str) -> None:
    assert failure(answer({"text": '{"a'}, finish=finish), request=STRUCTURE).code == code


def replace_content(message: AssistantMessage, content: list[ContentBlock]) -> AssistantMessage:
    return replace(message, content=content)
