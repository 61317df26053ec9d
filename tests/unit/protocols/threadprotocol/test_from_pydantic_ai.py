"""ThreadProtocol's checks 17 to 31: Pydantic AI's messages as actions, with the real package's JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pydantic_ai import messages as pai
from pydantic_ai.usage import RequestUsage

from perdure.protocols.threadprotocol.from_pydantic_ai import actions_from_messages
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.upp.json_value import JSONObject, JSONValue
from tests.unit.protocols.threadprotocol.threads import FRED, START, document, errors

Messages = Sequence[pai.ModelMessage]


def dumped(messages: Messages) -> list[JSONValue]:
    return json.loads(pai.ModelMessagesTypeAdapter.dump_json(list(messages)))


def read(messages: Sequence[JSONValue], **options: Any) -> list[JSONObject]:
    """The actions without time and number; they hold to every rule."""
    actions = actions_from_messages(messages, agent_id=FRED, not_before=START, **options)
    values = [action.to_json() for action in actions]
    assert errors(document() | {"actions": values, "updated_at": "2999-01-01T00:00:00Z"}) == []
    return [{k: v for k, v in value.items() if k not in ("timestamp", "sequence")} for value in values]


def asked(*parts: Any) -> list[JSONValue]:
    return dumped([pai.ModelRequest(parts=list(parts))])


def answered(*parts: Any, **fields: Any) -> list[JSONValue]:
    return dumped([pai.ModelResponse(parts=list(parts), **fields)])


def said(content: Any, **more: Any) -> JSONObject:
    return {"action_type": "assistant_message", "agent_id": FRED, "content": content, **more}


CALL = pai.ToolCallPart("search", {"q": 1}, "c1")
CALLED: JSONObject = {
    "action_type": "tool_call",
    "agent_id": FRED,
    "tool_name": "search",
    "tool_call_id": "c1",
    "args": {"q": 1},
}


def returned(status: str, content: Any, **more: Any) -> JSONObject:
    head: JSONObject = {"action_type": "tool_return", "tool_call_id": "c1", "tool_name": "search"}
    return {**head, "status": status, "content": content, **more}


def test_check_17_a_string_prompt_stays_a_string() -> None:
    assert read(asked(pai.UserPromptPart("hi"))) == [{"action_type": "user_message", "content": "hi"}]
    assert read(asked(pai.UserPromptPart(["hi"]))) == [{"action_type": "user_message", "content": "hi"}]


def test_check_18_images_have_standard_base64() -> None:
    content = ["see", pai.ImageUrl("https://x/a.png"), pai.BinaryContent(b"\x00\xff\xfe", media_type="image/png")]
    assert read(asked(pai.UserPromptPart(content)))[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "image_url": "https://x/a.png", "media_type": "image/png"},
        {"type": "image", "image_base64": "AP/+", "media_type": "image/png"},
    ]


def test_check_18_other_media_have_a_source_and_cache_points_are_dropped() -> None:
    content = [
        pai.AudioUrl("https://x/a.mp3"),
        pai.VideoUrl("https://x/a.mp4"),
        pai.DocumentUrl("https://x/a.pdf"),
        pai.CachePoint(),
        pai.UploadedFile(file_id="f1", provider_name="openai", media_type="application/pdf"),
        pai.BinaryContent(b"x", media_type="application/pdf"),
        pai.TextContent("t"),
    ]
    assert read(asked(pai.UserPromptPart(content)))[0]["content"] == [
        {"type": "audio", "url": "https://x/a.mp3", "media_type": "audio/mpeg"},
        {"type": "video", "url": "https://x/a.mp4", "media_type": "video/mp4"},
        {"type": "file", "url": "https://x/a.pdf", "media_type": "application/pdf"},
        {"type": "file", "file_id": "f1", "provider_name": "openai", "media_type": "application/pdf"},
        {"type": "file", "data": "eA==", "media_type": "application/pdf"},
        {"type": "text", "text": "t"},
    ]


def test_check_19_system_prompts_and_instructions_are_no_actions() -> None:
    request = pai.ModelRequest(parts=[pai.SystemPromptPart("be kind"), pai.UserPromptPart("hi")], instructions="secret")
    assert [action["action_type"] for action in read(dumped([request]))] == ["user_message"]


def test_check_20_adjacent_texts_are_one_message() -> None:
    assert read(answered(pai.TextPart("a"), pai.TextPart("b"))) == [said("ab")]


def test_check_21_text_after_a_call_joins_the_message_before_it() -> None:
    assert read(answered(pai.TextPart("a"), CALL, pai.TextPart("b"))) == [said("ab"), CALLED]


def test_check_21_an_empty_text_says_something_only_alone() -> None:
    assert read(answered(pai.TextPart(""), CALL)) == [CALLED]
    assert read(answered(pai.TextPart(""))) == [said("")]


def test_check_22_thinking_stays_apart_with_its_signature() -> None:
    signature = " EqQBCg+/= \n"
    parts = [
        pai.ThinkingPart("one", signature=signature, provider_name="anthropic", id="t1"),
        pai.ThinkingPart("", signature="s2", id="redacted_thinking"),
        pai.TextPart("a"),
    ]
    head: JSONObject = {"action_type": "thinking", "agent_id": FRED}
    assert read(answered(*parts, provider_name="bedrock"))[:2] == [
        {**head, "content": "one", "signature": signature, "provider_name": "anthropic", "thinking_id": "t1"},
        {**head, "signature": "s2", "provider_name": "bedrock", "thinking_id": "redacted_thinking"},
    ]
    assert read(answered(pai.ThinkingPart("x")))[0]["provider_name"] == "unknown"


ARGS: list[tuple[Any, Any]] = [
    ('{"q": 1}', {"q": 1}),
    ({"q": 1}, {"q": 1}),
    ("", {}),
    (None, {}),
    (" ", {}),
    ('{"q": ', '{"q": '),
    ("[1, 2]", [1, 2]),
    ('{"q": NaN}', '{"q": NaN}'),
]


@pytest.mark.parametrize(("args", "expected"), ARGS)
def test_check_23_arguments_are_a_json_value(args: Any, expected: Any) -> None:
    assert read(answered(pai.ToolCallPart("search", args, "c1")))[0]["args"] == expected


VALIDATION: Any = pai.RetryInfo(cause="validation_error")
RETRIED: Any = pai.RetryInfo(cause="model_retry", attempt=1, max_retries=3)
OUTCOMES: list[tuple[dict[str, Any], JSONObject]] = [
    ({}, returned("success", "r")),
    ({"outcome": "failed"}, returned("error", "r")),
    ({"outcome": "denied"}, returned("error", "r", outcome="denied")),
    ({"outcome": "interrupted"}, returned("error", "r", outcome="interrupted")),
    ({"outcome": "retried"}, returned("error", "r", outcome="retried")),
    ({"outcome": "retried", "retry": VALIDATION}, returned("validation_error", "r")),
    (
        {"outcome": "retried", "retry": RETRIED},
        returned("error", "r", outcome="retried", retry={"cause": "model_retry", "attempt": 1, "max_retries": 3}),
    ),
]


@pytest.mark.parametrize(("fields", "expected"), OUTCOMES)
def test_check_24_outcomes_are_statuses(fields: dict[str, Any], expected: JSONObject) -> None:
    messages = answered(CALL) + asked(pai.ToolReturnPart("search", "r", "c1", **fields))
    assert read(messages) == [CALLED, expected]


def test_check_24_by_the_specifications_letter_every_retry_is_an_error() -> None:
    messages = answered(CALL) + asked(pai.ToolReturnPart("search", "r", "c1", outcome="retried", retry=VALIDATION))
    assert read(messages, strict_seed=True)[1]["status"] == "error"


DETAILS: list[JSONValue] = [{"type": "missing", "loc": ["q"], "msg": "Field required", "input": {}}]


def legacy(content: JSONValue, tool_name: str | None) -> list[JSONValue]:
    part: JSONObject = {"part_kind": "retry-prompt", "content": content, "tool_name": tool_name, "tool_call_id": "c1"}
    return [{"kind": "request", "parts": [{**part, "timestamp": "2026-01-01T00:00:00Z"}]}]


@pytest.mark.parametrize(("content", "status"), [("again", "error"), (DETAILS, "validation_error")])
def test_check_25_both_shapes_of_a_tools_retry_give_one_action(content: Any, status: str) -> None:
    old = answered(CALL) + legacy(content, "search")
    new = dumped(pai.ModelMessagesTypeAdapter.validate_python(old))  # the package itself makes the new shape of it
    assert cast(Any, new[1])["parts"][0]["part_kind"] == "tool-return"
    assert read(old) == read(new)
    assert read(old)[1]["status"] == status
    assert read(old)[1]["content"] == content


@pytest.mark.parametrize(("content", "cause"), [("again", "model_retry"), (DETAILS, "validation_error")])
def test_check_26_feedback_without_a_tool_makes_no_return(content: Any, cause: str) -> None:
    old = legacy(content, None)
    new = dumped(pai.ModelMessagesTypeAdapter.validate_python(old))
    assert cast(Any, new[0])["parts"][0]["part_kind"] == "retry-feedback"
    data: JSONObject = {"agent_id": FRED, "cause": cause, "content": content}
    assert read(old) == read(new) == [{"action_type": "system.retry_feedback", "data": data}]


def test_check_27_a_providers_own_call_and_return_are_marked() -> None:
    call = pai.NativeToolCallPart("web_search", {"q": 1}, "b1", provider_name="openai")
    back = pai.NativeToolReturnPart("web_search", {"hits": []}, "b1", provider_name="openai")
    actions = read(answered(call, back, pai.TextPart("a")))
    assert [action["action_type"] for action in actions] == ["tool_call", "tool_return", "assistant_message"]
    assert all(action["provider_executed"] is True for action in actions[:2])
    assert [action["provider_name"] for action in actions[:2]] == ["openai", "openai"]


def test_check_28_a_file_is_part_of_the_message() -> None:
    image = pai.FilePart(pai.BinaryImage(b"\x00\xff\xfe", media_type="image/png"))
    shown: JSONObject = {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}
    text: JSONObject = {"type": "text", "text": "ab"}
    assert read(answered(pai.TextPart("a"), pai.TextPart("b"), image)) == [said([text, shown])]
    assert read(answered(image)) == [said([shown])]


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "tool_call"])
def test_check_29_usage_and_finish_reason_are_copied(reason: Any) -> None:
    usage = RequestUsage(input_tokens=3, output_tokens=4)
    told = read(answered(pai.TextPart("a"), usage=usage, finish_reason=reason))
    counts = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    assert told == [said("a", finish_reason=reason, usage=counts)]


def test_check_29_a_reason_that_has_no_word_is_left_out() -> None:
    assert read(answered(pai.TextPart("a"), finish_reason="error")) == [said("a")]


def test_check_29_tokens_of_thinking_stand_at_the_thinking() -> None:
    usage = RequestUsage(input_tokens=3, output_tokens=4, details={"reasoning_tokens": 2})
    assert read(answered(pai.ThinkingPart("x"), CALL, usage=usage))[0]["usage"] == {"thinking_tokens": 2}


def test_check_30_parallel_calls_keep_their_order_and_returns_theirs() -> None:
    made = [pai.ToolCallPart("search", {}, f"c{number}") for number in (1, 2, 3)]
    back = [pai.ToolReturnPart("search", number, f"c{number}") for number in (3, 1, 2)]
    ids = [action["tool_call_id"] for action in read(answered(*made) + asked(*back))]
    assert ids == ["c1", "c2", "c3", "c3", "c1", "c2"]


def test_check_30_an_id_that_comes_again_gets_a_suffix() -> None:
    cycle = answered(CALL) + asked(pai.ToolReturnPart("search", 1, "c1"))
    ids = [action["tool_call_id"] for action in read([*cycle, *cycle])]
    assert ids == ["c1", "c1", "c1~2", "c1~2"]


def test_check_30_a_return_without_a_call_is_kept_beside_the_tools() -> None:
    assert read(asked(pai.ToolReturnPart("search", 1, "c9")))[0]["action_type"] == "system.orphan_tool_return"


def test_check_31_every_kind_of_part_is_taken() -> None:
    of_package = [value for value in vars(pai).values() if hasattr(value, "part_kind")]
    kinds = {str(value.part_kind) for value in of_package}
    assert {"speech", "compaction", "instruction", "retry-prompt", "model-settings-delta", "builtin-tool-call"} <= kinds
    for kind in kinds:
        part: JSONObject = {"part_kind": kind, "content": "x", "tool_name": "t", "tool_call_id": "c1", "args": {}}
        if kind == "file":
            part["content"] = {"kind": "binary", "data": "eA==", "media_type": "image/png"}
        for of in ("request", "response"):
            read([{"kind": of, "parts": [{**part, "speaker": "user", "transcript": "said"}]}])


def test_check_31_speech_is_a_message_and_the_rest_system_actions() -> None:
    heard = pai.ModelRequest(parts=[pai.SpeechPart(speaker="user", transcript="hello")])
    spoken = pai.ModelResponse(parts=[pai.SpeechPart(speaker="assistant", transcript="hi"), pai.CompactionPart("sum")])
    actions = read(dumped([heard, spoken]))
    data: JSONObject = {"agent_id": FRED, "content": "sum"}
    assert actions[:2] == [{"action_type": "user_message", "content": "hello"}, said("hi")]
    assert actions[2] == {"action_type": "system.compaction", "data": data}


def test_numbers_go_on_and_times_never_go_back() -> None:
    messages = answered(CALL, timestamp=datetime(2026, 1, 1, tzinfo=UTC)) + asked(pai.UserPromptPart("x"))
    cast(Any, messages[1])["parts"][0]["timestamp"] = "2020-01-01T00:00:00Z"
    actions = actions_from_messages(messages, agent_id=FRED, not_before=START, first=7)
    assert [action.sequence for action in actions] == [7, 8]
    assert actions[0].timestamp == actions[1].timestamp


NO_MESSAGES: list[Any] = [None, {}, {"kind": "x", "parts": []}, {"kind": "request", "parts": [{}]}]


@pytest.mark.parametrize("message", NO_MESSAGES)
def test_what_is_no_message_is_refused_with_its_path(message: Any) -> None:
    with pytest.raises(InvalidThread, match=r"messages\[0\]"):
        actions_from_messages([message], agent_id=FRED, not_before=START)


def test_the_package_still_has_the_old_part() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        part = pai.RetryPromptPart("again", tool_name="search", tool_call_id="c1")  # pyright: ignore[reportDeprecated]
        old = asked(part)
    assert read(answered(CALL) + old)[1] == returned("error", "again", outcome="retried")
