from __future__ import annotations

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorEvent, VendorRequest
from perdure.upp.providers.openai_responses.failures import classify
from perdure.upp.providers.openai_responses.response import read_response
from perdure.upp.providers.openai_responses.stream import ResponseStream
from perdure.upp.stream import StreamEvent, StreamEventType

SENT = VendorRequest("openai", "https://host/responses", {}, ProviderConfig(), classify=classify)
END: JSONObject = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def read(*events: JSONObject, names: str = "message") -> tuple[list[StreamEvent], ResponseStream]:
    stream = ResponseStream(SENT)
    return [event for data in events for event in stream.read(VendorEvent(names, data))], stream


def kinds(events: list[StreamEvent]) -> list[str]:
    return [str(event.type) for event in events]


def failure(*events: JSONObject) -> UPPError:
    with pytest.raises(UPPError) as caught:
        read(*events)
    return caught.value


@pytest.mark.parametrize(
    "kind", ["response.queued", "response.in_progress", "response.output_text.done", "response.new_thing", "ping"]
)
def test_events_that_mean_nothing_to_upp_are_passed_over(kind: str) -> None:
    assert read({"type": kind, "delta": "x"})[0] == []


def test_a_stream_that_does_not_say_that_it_starts_starts_all_the_same() -> None:
    events, _ = read({"type": "response.output_text.delta", "delta": "Hi", "output_index": 0})
    assert kinds(events) == ["message_start", "text_delta"]


def test_the_kind_may_stand_in_the_events_name_only() -> None:
    events, _ = read({"delta": "Hi", "output_index": 0}, names="response.output_text.delta")
    assert kinds(events) == ["message_start", "text_delta"]


def test_an_empty_delta_is_none() -> None:
    assert read({"type": "response.output_text.delta", "delta": "", "output_index": 0})[0] == []


def test_items_told_apart_by_their_ids_only_have_their_own_positions() -> None:
    events, _ = read(
        {"type": "response.output_item.added", "item": {"type": "message", "id": "msg_1"}},
        {"type": "response.output_item.added", "item": {"type": "message", "id": "msg_2"}},
        {"type": "response.output_text.delta", "item_id": "msg_2", "delta": "Hi"},
    )
    assert [event.index for event in events[1:]] == [0, 1, 1]


def test_arguments_that_come_only_with_the_whole_call_are_told_once() -> None:
    call: JSONObject = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    events, _ = read({"type": "response.output_item.done", "output_index": 0, "item": call})
    assert kinds(events) == ["message_start", "content_block_start", "tool_call_delta", "content_block_stop"]
    delta = events[2].delta
    assert (delta.tool_call_id, delta.tool_name, delta.arguments_json) == ("call_1", "f", "{}")


def test_a_call_without_a_call_id_has_the_same_id_in_the_stream_and_in_the_answer() -> None:
    call: JSONObject = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    events, stream = read({"type": "response.output_item.done", "output_index": 0, "item": call}, END)
    assert stream.response is not None
    message = read_response(stream.response, LLMRequest([]), SENT).message
    assert [call.tool_call_id for call in message.tool_calls or ()] == ["fc_1"] == [events[2].delta.tool_call_id]


def test_an_answer_that_is_not_sent_again_at_the_end_is_put_together_from_its_items() -> None:
    text: JSONObject = {"type": "message", "content": [{"type": "output_text", "text": "Second."}]}
    first: JSONObject = {"type": "message", "content": [{"type": "output_text", "text": "First."}]}
    _, stream = read(
        {"type": "response.output_item.done", "output_index": 1, "item": text},
        {"type": "response.output_item.done", "output_index": 0, "item": first},
        END,
    )
    assert stream.response is not None
    assert read_response(stream.response, LLMRequest([]), SENT).message.text == "First.\n\nSecond."


def test_the_answer_that_is_sent_again_at_the_end_is_the_one_that_counts() -> None:
    text: JSONObject = {"type": "message", "content": [{"type": "output_text", "text": "Draft"}]}
    final: JSONObject = {"type": "message", "content": [{"type": "output_text", "text": "Final"}]}
    _, stream = read(
        {"type": "response.output_item.done", "output_index": 0, "item": text},
        {"type": "response.completed", "response": {"id": "resp_1", "output": [final]}},
    )
    assert stream.response is not None
    assert read_response(stream.response, LLMRequest([]), SENT).message.text == "Final"


def test_an_image_is_told_when_it_is_whole() -> None:
    image: JSONObject = {"type": "image_generation_call", "id": "ig_1", "result": "AQI="}
    events, _ = read({"type": "response.output_item.done", "output_index": 2, "item": image})
    assert (events[2].type, events[2].index, events[2].delta.data) == (StreamEventType.IMAGE_DELTA, 2, b"\x01\x02")


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "error", "code": "server_error", "message": "Oops."}, ErrorCode.PROVIDER_ERROR),
        ({"type": "error", "error": {"code": "insufficient_quota", "message": "Oops."}}, ErrorCode.QUOTA_EXCEEDED),
        ({"type": "error", "error": {"type": "server_error", "code": None, "message": "Oops."}}, "PROVIDER_ERROR"),
        ({"error": {"code": "context_length_exceeded", "message": "Oops."}}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        *(
            ({"type": "response.failed", "response": {"error": {"code": code, "message": "Oops."}}}, expected)
            for code, expected in {
                "rate_limit_exceeded": "RATE_LIMITED",
                "server_error": "PROVIDER_ERROR",
                "vector_store_timeout": "PROVIDER_ERROR",
                "invalid_prompt": "CONTENT_FILTERED",
                "bio_policy": "CONTENT_FILTERED",
                "image_content_policy_violation": "CONTENT_FILTERED",
                "invalid_base64_image": "INVALID_REQUEST",
                "image_too_large": "INVALID_REQUEST",
                "unsupported_image_media_type": "INVALID_REQUEST",
            }.items()
        ),
    ],
)
def test_an_error_in_the_stream_has_the_code_of_its_kind(event: JSONObject, code: str) -> None:
    error = failure({"type": "response.created", "response": {}}, event)
    assert (error.code, error.provider, error.message) == (code, "openai", "Oops.")


@pytest.mark.parametrize("kind", ["response.failed", "response.cancelled"])
def test_a_failure_without_a_reason_is_one(kind: str) -> None:
    assert failure({"type": kind, "response": {"error": None}}).code == ErrorCode.PROVIDER_ERROR
