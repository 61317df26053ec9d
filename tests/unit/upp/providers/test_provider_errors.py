"""Which failure of a vendor becomes which UPPError."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers._errors import Classify, ErrorContext, error_from_event, error_of_answer

HOUR = timedelta(hours=1)


def context(classify: Classify | None = None, longest_wait: timedelta = HOUR) -> ErrorContext:
    return ErrorContext("acme", ["sk-canary-123456"], classify, longest_wait)


def answered(
    status: int, body: JSONValue | bytes = b"", headers: Mapping[str, str] | None = None, reason: str = "Reason"
) -> UPPError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of_answer(context(), status, reason, headers or {}, data)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ErrorCode.INVALID_REQUEST),
        (401, ErrorCode.AUTHENTICATION_FAILED),
        (402, ErrorCode.QUOTA_EXCEEDED),
        (403, ErrorCode.AUTHENTICATION_FAILED),
        (404, ErrorCode.MODEL_NOT_FOUND),
        (405, ErrorCode.PROVIDER_ERROR),
        (408, ErrorCode.TIMEOUT),
        (409, ErrorCode.INVALID_REQUEST),
        (413, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (418, ErrorCode.PROVIDER_ERROR),
        (422, ErrorCode.INVALID_REQUEST),
        (425, ErrorCode.PROVIDER_ERROR),
        (429, ErrorCode.RATE_LIMITED),
        (451, ErrorCode.CONTENT_FILTERED),
        *((status, ErrorCode.PROVIDER_ERROR) for status in (500, 501, 502, 503, 504, 520, 529, 599)),
    ],
)
def test_each_status_has_its_code(status: int, code: ErrorCode) -> None:
    """S27: also that of a server that is busy for a moment, which is tried again."""
    error = answered(status)
    assert (error.code, error.status_code, error.provider) == (code, status, "acme")
    assert error.message == f"HTTP {status}: Reason"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, {"code": "context_length_exceeded"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (400, {"code": "string_above_max_length"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (400, {"type": "exceed_context_size_error", "code": 400}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (400, {"message": "prompt is too long: 210000 tokens > 200000"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (400, {"message": "This model's maximum context length is 8192"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (
            400,
            {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."},
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (
            400,
            {"message": "input length and `max_tokens` exceed context limit: 9 + 9 > 10"},
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (400, {"message": "Your input exceeds the context window of this model"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (
            500,
            {"message": "the request exceeds the available context size"},
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        ),
        (429, {"message": "too many requests with a long context window"}, ErrorCode.RATE_LIMITED),
        (400, {"error": "prompt too long; exceeded max context length by 7 tokens"}, "CONTEXT_LENGTH_EXCEEDED"),
        (500, {"message": "the input exceeds the allowed context length"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (500, {"message": "Context length was exceeded"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED),
        (500, {"message": "Time exceeded. The context length is 8192."}, ErrorCode.PROVIDER_ERROR),
        (429, {"message": "limit exceeded for this context length"}, ErrorCode.RATE_LIMITED),
        (400, {"code": "model_not_found"}, ErrorCode.MODEL_NOT_FOUND),
        (401, {"message": "maximum context length"}, ErrorCode.AUTHENTICATION_FAILED),
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, ErrorCode.QUOTA_EXCEEDED),
        (400, {"code": "billing_hard_limit_reached"}, ErrorCode.QUOTA_EXCEEDED),
        (402, {"type": "billing_error"}, ErrorCode.QUOTA_EXCEEDED),
        (
            400,
            {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
            ErrorCode.QUOTA_EXCEEDED,
        ),
        (400, {"message": "You have reached your specified API usage limits."}, ErrorCode.QUOTA_EXCEEDED),
        (403, {"message": "Key limit exceeded (total limit)."}, ErrorCode.QUOTA_EXCEEDED),
        (400, {"code": "content_filter"}, ErrorCode.CONTENT_FILTERED),
        (400, {"code": "content_policy_violation"}, ErrorCode.CONTENT_FILTERED),
        (400, {"message": "Output blocked by content filtering policy"}, ErrorCode.CONTENT_FILTERED),
        (529, {"type": "overloaded_error"}, ErrorCode.PROVIDER_ERROR),
        (400, {"type": "rate_limit_error"}, ErrorCode.RATE_LIMITED),
        (401, {"type": "invalid_request_error", "code": "invalid_api_key"}, ErrorCode.AUTHENTICATION_FAILED),
        (409, {"message": "The thread is locked by another run"}, ErrorCode.PROVIDER_ERROR),
        (409, {"message": "blocked: the name is taken"}, ErrorCode.INVALID_REQUEST),
        (400, {"message": "the thread is locked"}, ErrorCode.INVALID_REQUEST),
        (400, {"code": None, "type": 7, "message": ["odd"]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_body_may_say_more_than_its_status(status: int, error: JSONObject, code: ErrorCode) -> None:
    assert answered(status, {"error": error}).code == code
    assert answered(status, error).code == code
    assert answered(status, [{"error": error}]).code == code


def test_a_body_that_is_text_may_say_more_than_its_status() -> None:
    assert answered(400, b"x" * 300 + b" Prompt is too long").code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


def test_what_a_vendor_echoes_of_the_request_says_nothing() -> None:
    body: JSONValue = {"error": {"message": "bad field"}, "request": {"prompt": "maximum context length"}}
    assert answered(400, body).code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("body", [{"error": {"code": "mine"}}, {"code": "mine"}, [{"error": {"code": "mine"}}]])
def test_the_adapter_reads_the_error_itself_first(body: JSONValue) -> None:
    seen: list[tuple[int | None, JSONObject]] = []

    def classify(status: int | None, error: JSONObject) -> ErrorCode | None:
        seen.append((status, error))
        return ErrorCode.CONTENT_FILTERED

    error = error_of_answer(context(classify), 429, "", {}, json.dumps(body).encode())
    assert error.code == ErrorCode.CONTENT_FILTERED
    assert seen == [(429, {"code": "mine"})]


def test_the_table_decides_what_the_adapter_leaves_to_it() -> None:
    assert error_of_answer(context(lambda _status, _error: None), 429, "", {}, b"").code == ErrorCode.RATE_LIMITED


def test_an_adapter_is_asked_in_a_stream_too_without_a_status() -> None:
    seen: list[tuple[int | None, JSONObject]] = []

    def classify(status: int | None, error: JSONObject) -> ErrorCode | None:
        seen.append((status, error))
        return None

    error_from_event(context(classify), {"error": {"code": 1}})
    error_from_event(context(classify), "text")
    assert seen == [(None, {"code": 1}), (None, {"message": "text"})]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "a"}, "message": "b", "detail": "c"}, "a"),
        ({"message": "b", "detail": "c"}, "b"),
        ({"error": {"error": {"message": "d"}}, "detail": "c"}, "d"),
        ({"error": "e", "detail": "c"}, "c"),
        ({"error": "e"}, "e"),
        ([{"error": {"message": "f"}}], "f"),
        ({"error": {"message": ""}, "message": "g"}, "g"),
        ({"odd": 1}, '{"odd": 1}'),
        (b"  upstream unavailable\n", "upstream unavailable"),
        (b"x" * 199, "x" * 199),
        (b"x" * 200, "HTTP 502: Bad Gateway"),
        (b"", "HTTP 502: Bad Gateway"),
        (b"\xff bad", "� bad"),
        ({"error": {"message": "lone \ud800"}}, "lone �"),
    ],
)
def test_the_message_is_the_vendors_own_where_it_can_be_read(body: JSONValue | bytes, message: str) -> None:
    assert answered(502, body, reason="Bad Gateway").message == message


def test_a_message_has_an_end() -> None:
    assert len(answered(400, {"message": "x" * 100_000}).message) == 2001


@pytest.mark.parametrize("body", [{"error": {"message": "not sk-canary-123456"}}, b"not sk-canary-123456"])
def test_a_message_shows_no_secret(body: JSONValue | bytes) -> None:
    assert answered(401, body).message == "not sk-c...3456"


def test_a_secret_at_the_end_of_a_long_message_is_masked_before_the_cut() -> None:
    message = answered(401, {"message": "x" * 1990 + " sk-canary-123456"}).message
    assert "canary" not in message


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, ErrorCode.PROVIDER_ERROR, "busy"),
        ({"type": "rate_limit_error", "message": "slow"}, ErrorCode.RATE_LIMITED, "slow"),
        ({"type": "authentication_error", "message": "no"}, ErrorCode.AUTHENTICATION_FAILED, "no"),
        ({"type": "invalid_request_error", "message": "bad"}, ErrorCode.INVALID_REQUEST, "bad"),
        ({"type": "invalid_request_error", "message": "prompt is too long"}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, None),
        ({"code": "rate_limit_exceeded", "message": "slow"}, ErrorCode.RATE_LIMITED, "slow"),
        ("out of memory", ErrorCode.PROVIDER_ERROR, "out of memory"),
        ({}, ErrorCode.PROVIDER_ERROR, "the vendor sent an error without a text"),
        (None, ErrorCode.PROVIDER_ERROR, "the vendor sent an error without a text"),
    ],
)
def test_an_error_inside_a_stream_has_its_code_without_a_status(
    event: JSONValue, code: ErrorCode, message: str | None
) -> None:
    error = error_from_event(context(), event)
    assert (error.code, error.status_code) == (code, None)
    assert message is None or error.message == message


@pytest.mark.parametrize(
    ("inside", "code", "status"),
    [
        (429, ErrorCode.RATE_LIMITED, 429),
        ("402", ErrorCode.QUOTA_EXCEEDED, 402),
        (503, ErrorCode.PROVIDER_ERROR, 503),
        (7, ErrorCode.PROVIDER_ERROR, None),
    ],
)
def test_a_status_that_the_error_itself_names_counts(inside: JSONValue, code: ErrorCode, status: int | None) -> None:
    error = error_from_event(context(), {"error": {"code": inside, "message": "x"}})
    assert (error.code, error.status_code) == (code, status)


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry-after": "7"}, {}, timedelta(seconds=7)),
        ({}, {"error": {"details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}, timedelta(seconds=34.5)),
        ({"retry-after": "7"}, {"error": {"details": [{"retryDelay": "34s"}]}}, timedelta(seconds=7)),
        ({}, {"error": {"details": [{"retryDelay": "90000s"}]}}, HOUR),
        ({}, {"error": {"details": [{"retryDelay": "soon"}, "odd"]}}, None),
        ({}, {"error": {"details": "odd"}}, None),
    ],
)
def test_the_wait_is_what_the_headers_or_the_body_ask_for(
    headers: dict[str, str], body: JSONValue, wait: timedelta | None
) -> None:
    assert answered(429, body, headers).retry_after == wait


def test_an_error_inside_a_stream_may_ask_for_a_wait() -> None:
    event: JSONValue = {"error": {"code": 429, "details": [{"retryDelay": "2s"}]}}
    assert error_from_event(context(), event).retry_after == timedelta(seconds=2)
