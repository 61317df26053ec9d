"""ThreadProtocol's checks 40 to 44: the Vercel AI SDK's stream as actions, and back."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.ui.vercel_ai import VercelAIAdapter, response_types

from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.from_pydantic_ai import actions_from_messages
from perdure.protocols.threadprotocol.from_stream import DENIED, StreamReader
from perdure.protocols.threadprotocol.models import AnyAction
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.threadprotocol.stream_notes import NOTE_TYPE
from perdure.protocols.threadprotocol.to_stream import stream_chunks
from perdure.upp.json_value import JSONObject
from tests.unit.protocols.threadprotocol.threads import (
    ANNA,
    FRED,
    START,
    calls,
    document,
    errors,
    returns,
    says,
    thinks,
    thread,
    user,
)

ASKED: JSONObject = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def read(chunks: Sequence[Any], asked: JSONObject | None = None) -> list[AnyAction]:
    reader = StreamReader(agent_id=FRED, not_before=START)
    if asked is not None:
        reader.take_user(asked)
    for chunk in chunks:
        reader.take(json.loads(json.dumps(chunk)))
    return reader.actions()


def told(*chunks: Any, end: str | None = "finish") -> list[JSONObject]:
    """The actions of chunks without time and number; they hold to every rule."""
    actions = [action.to_json() for action in read([*chunks, *([{"type": end}] if end else [])])]
    assert errors(document() | {"actions": actions}) == []
    return [{k: v for k, v in action.items() if k not in ("timestamp", "sequence")} for action in actions]


def text(name: str, *deltas: str, ends: bool = True) -> list[JSONObject]:
    middle: list[JSONObject] = [{"type": "text-delta", "id": name, "delta": delta} for delta in deltas]
    return [{"type": "text-start", "id": name}, *middle, *([{"type": "text-end", "id": name}] if ends else [])]


def asks(call_id: str = "c1", kind: str = "available", **more: Any) -> JSONObject:
    return {"type": f"tool-input-{kind}", "toolCallId": call_id, "toolName": "search", "input": {"q": 1}, **more}


def gets(kind: str, call_id: str = "c1", **more: Any) -> JSONObject:
    return {"type": f"tool-output-{kind}", "toolCallId": call_id, **more}


def kinds(actions: Sequence[JSONObject]) -> list[str]:
    return [str(action["action_type"]) for action in actions]


MESSAGES: list[Any] = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi", "timestamp": "2025-01-15T10:00:01Z"}]},
    {
        "kind": "response",
        "timestamp": "2025-01-15T10:00:02.5Z",
        "finish_reason": "tool_call",
        "usage": {"input_tokens": 5, "output_tokens": 6, "details": {"reasoning_tokens": 2}},
        "parts": [
            {"part_kind": "thinking", "content": "hm", "signature": "s=", "provider_name": "anthropic", "id": "t1"},
            {"part_kind": "text", "content": "Let me "},
            {"part_kind": "text", "content": "look"},
            {"part_kind": "tool-call", "tool_name": "search", "args": '{"q": 1.0}', "tool_call_id": "c1"},
            {"part_kind": "tool-call", "tool_name": "buy", "args": '{"broken', "tool_call_id": "c2"},
        ],
    },
    {
        "kind": "request",
        "parts": [
            {"part_kind": "tool-return", "tool_name": "search", "tool_call_id": "c1", "content": {"n": [1, None]}},
            {"part_kind": "retry-prompt", "tool_name": "buy", "tool_call_id": "c2", "content": [{"type": "json"}]},
        ],
    },
    {
        "kind": "response",
        "timestamp": "2025-01-15T10:00:09Z",
        "finish_reason": "stop",
        "parts": [{"part_kind": "text", "content": "Done 😀"}],
    },
]


def test_check_40_a_client_makes_the_servers_bytes_of_the_stream() -> None:
    served = actions_from_messages(MESSAGES, agent_id=FRED, not_before=START, first=4)
    assert len(served) == 8
    chunks = stream_chunks(served, "m1", user_ref="u1")
    assert [canonical_bytes(action) for action in read(chunks, ASKED)] == [canonical_bytes(action) for action in served]


def test_check_40_every_chunk_is_one_that_pydantic_ai_knows() -> None:
    served = actions_from_messages(MESSAGES, agent_id=FRED, not_before=START)
    types = [value for name, value in vars(response_types).items() if name.endswith("Chunk")]
    known = {value.model_fields["type"].default: value for value in types if value.__name__ != "BaseChunk"}
    for chunk in stream_chunks(served, "m1"):
        kind = str(chunk["type"])
        model: Any = response_types.DataChunk if kind.startswith("data-") else known[kind]
        TypeAdapter(model).validate_python(chunk)


async def _streamed(*_: Any) -> AsyncIterator[Any]:
    yield {0: DeltaThinkingPart(content="hm", signature="s=")}
    for said in ("Let me ", "look"):
        yield said
    yield {1: DeltaToolCall("search", '{"q": 1}', tool_call_id="c1")}
    yield {2: DeltaToolCall("search", '{"q": "x"}', tool_call_id="c2")}


async def _streamed_after(messages: Any, info: Any) -> AsyncIterator[Any]:
    if len(messages) > 1:
        yield "Done"
        return
    async for delta in _streamed(messages, info):
        yield delta


async def test_check_40_pydantic_ais_own_stream_and_its_messages_tell_the_same() -> None:
    agent = Agent(FunctionModel(stream_function=_streamed_after))

    @agent.tool_plain
    def search(q: int) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"n": [q, None]}

    results: list[AgentRunResult[Any]] = []
    body = {"id": "x", "trigger": "submit-message", "messages": [ASKED]}
    run_input = VercelAIAdapter.build_run_input(json.dumps(body).encode())
    adapter: VercelAIAdapter[Any, Any] = VercelAIAdapter(agent=agent, run_input=run_input, sdk_version=6)
    sent = [chunk.encode(6) async for chunk in adapter.run_stream(on_complete=results.append)]
    own = read([json.loads(chunk) for chunk in sent if chunk != "[DONE]"], ASKED)
    served = actions_from_messages(json.loads(results[0].all_messages_json()), agent_id=FRED, not_before=START)
    known = ("action_type", "content", "signature", "provider_name", "tool_name", "tool_call_id", "args", "status")
    shown = [[{k: v for k, v in action.to_json().items() if k in known} for action in side] for side in (own, served)]
    assert len(shown[0]) == len(shown[1]) == 8
    for side in shown:
        (refused,) = [action for action in side if action.get("status") == "validation_error"]
        assert "int_parsing" in json.dumps(refused.pop("content"))  # the stream has it as a text
        side.sort(key=lambda action: json.dumps(action, sort_keys=True))  # parallel results come in any order
    assert shown[0] == shown[1]


def test_check_40_without_the_servers_notes_a_client_numbers_and_dates_them_itself() -> None:
    served = actions_from_messages(MESSAGES, agent_id=FRED, not_before=START)
    plain = [chunk for chunk in stream_chunks(served, "m1") if chunk["type"] != NOTE_TYPE]
    own = read(plain, ASKED)
    assert [action.action_type for action in own] == [action.action_type for action in served]
    assert [action.sequence for action in own] == list(range(1, 9))
    assert {action.timestamp for action in own} == {START}


def test_check_40_steps_that_the_stream_does_not_tell_end_at_a_tools_output() -> None:
    chunks = [*text("a", "one"), asks(), gets("available", output=1), *text("b", "two")]
    assert kinds(told(*chunks)) == ["assistant_message", "tool_call", "tool_return", "assistant_message"]


def test_check_41_refused_input_is_a_call_and_its_return() -> None:
    refused = asks(kind="error", input='{"q', errorText="no JSON")
    call, back = told(refused, gets("error", errorText="again"))
    assert (call["args"], back["status"], back["content"]) == ('{"q', "validation_error", "no JSON")


def test_check_41_errors_and_denials_are_returns() -> None:
    assert told(asks(), gets("error", errorText="down"))[1]["status"] == "error"
    back = told(asks(), gets("denied"))[1]
    assert (back["status"], back["content"], back["outcome"]) == ("error", DENIED, "denied")
    answer: JSONObject = {"type": "tool-approval-response", "toolCallId": "c1", "reason": "too dear"}
    assert told(asks(), answer, gets("denied"))[1]["content"] == "too dear"


def test_check_41_preliminary_output_is_passed_over() -> None:
    chunks = [asks(), gets("available", output=1, preliminary=True), gets("available", output=2)]
    assert [action.get("content") for action in told(*chunks)] == [None, 2]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_check_42_a_bare_error_closes_the_only_open_call(count: int) -> None:
    made = [asks(f"c{number}") for number in range(count)]
    last = told(*made, {"type": "error", "errorText": "boom"})[-1]
    if count == 1:
        assert (last["action_type"], last["status"], last["content"]) == ("tool_return", "error", "boom")
    else:
        assert last == {"action_type": "system.error", "data": {"message": "boom"}}


def test_check_43_data_is_a_system_action_unless_it_is_transient_or_reserved() -> None:
    chunks = [
        {"type": "data-tool_grant", "id": "d1", "data": {"agent_id": FRED, "tool_name": "search"}},
        {"type": "data-tool_grant", "id": "d1", "data": 2},
        {"type": "data-weather-map", "data": None},
        {"type": "data-gone", "data": 1, "transient": True},
        {"type": "data-tp-other", "data": 1},
    ]
    assert told(*chunks) == [
        {"action_type": "system.tool_grant", "data": {"agent_id": FRED, "tool_name": "search"}},
        {"action_type": "system.tool_grant", "data": 2},
        {"action_type": "system.weather-map", "data": None},
    ]


def test_check_43_a_step_that_is_reset_leaves_nothing() -> None:
    step: list[JSONObject] = [{"type": "start-step"}, *text("a", "wrong"), asks()]
    assert kinds(told(*step, {"type": "reset-step"}, *text("b", "right"))) == ["assistant_message"]


@pytest.mark.parametrize("end", ["abort", None])
def test_check_43_an_abort_leaves_no_orphan_and_nothing_half_said(end: str | None) -> None:
    chunks = [
        *text("a", "whole"),
        asks("c1"),
        gets("available", "c1", output=1),
        asks("c2"),
        *text("b", "ha", ends=False),
    ]
    assert kinds(told(*chunks, end=end)) == ["assistant_message", "tool_call", "tool_return"]


def test_check_43_a_call_that_waits_stays_when_the_stream_ends_properly() -> None:
    assert kinds(told(asks(), {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"})) == [
        "tool_call"
    ]
    assert told({"type": "tool-input-start", "toolCallId": "c1", "toolName": "search"}) == []


def test_files_and_sources_and_the_finish_reason_are_kept() -> None:
    file: JSONObject = {"type": "file", "url": "data:image/png;base64,AP/+", "mediaType": "image/png"}
    source: JSONObject = {"type": "source-url", "sourceId": "s1", "url": "https://x"}
    message, origin = told(
        *text("a", "see"), file, source, {"type": "finish", "finishReason": "content-filter"}, end=None
    )
    image: JSONObject = {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}
    assert message["content"] == [{"type": "text", "text": "see"}, image]
    assert message["finish_reason"] == "content_filter"
    assert origin == {"action_type": "system.source", "data": source}


METADATA: list[Any] = [
    {"pydantic_ai": {"id": "t1", "signature": "s=", "provider_name": "openai", "provider_details": {}}},
    {"openai": {"itemId": "t1", "signature": "s="}},
]


@pytest.mark.parametrize("metadata", METADATA)
def test_a_signature_comes_with_the_end_of_the_reasoning(metadata: JSONObject) -> None:
    chunks: list[JSONObject] = [
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "hm"},
        {"type": "reasoning-end", "id": "r", "providerMetadata": metadata},
    ]
    signed: JSONObject = {"content": "hm", "signature": "s=", "provider_name": "openai", "thinking_id": "t1"}
    assert told(*chunks) == [{"action_type": "thinking", "agent_id": FRED, **signed}]


UNSOUND = [
    {"type": "text-delta", "id": "a", "delta": "x"},
    {"type": "text-end", "id": "a"},
    {"type": "reasoning-delta", "id": "a", "delta": "x"},
    {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": "x"},
    {"type": "tool-output-available", "toolCallId": "c1", "output": 1},
    {"type": "text-start"},
    {"type": NOTE_TYPE, "data": {"ref": "x"}},
    {"no": "type"},
    7,
]


@pytest.mark.parametrize("chunk", UNSOUND)
def test_a_chunk_of_something_that_was_not_begun_is_refused(chunk: Any) -> None:
    with pytest.raises(InvalidThread):
        read([chunk])


def test_a_user_message_has_its_named_files_as_attachments() -> None:
    parts: list[Any] = [
        {"type": "text", "text": "see"},
        {"type": "file", "url": "https://x/a.pdf", "mediaType": "application/pdf", "filename": "a.pdf"},
        {"type": "file", "url": "data:image/png;base64,AP/+", "mediaType": "image/png"},
    ]
    message = read([], {"id": "u1", "role": "user", "parts": parts})[0].to_json()
    image: JSONObject = {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}
    assert message["content"] == [{"type": "text", "text": "see"}, image]
    assert message["attachments"] == [{"name": "a.pdf", "url": "https://x/a.pdf", "media_type": "application/pdf"}]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab😀\n", max_size=12), min_size=1, max_size=3), st.data())
def test_check_44_where_the_deltas_are_cut_makes_no_difference(texts: list[str], data: st.DataObject) -> None:
    def chunks(cut: bool) -> list[JSONObject]:
        made: list[JSONObject] = [{"type": "start-step"}]
        for number, whole in enumerate(texts):
            places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=3))) if cut else []
            edges = [0, *places, len(whole)]
            made += text(f"t{number}", *(whole[start:end] for start, end in itertools.pairwise(edges)))
        return [*made, {"type": "finish-step"}, {"type": "finish"}]

    assert [canonical_bytes(a) for a in read(chunks(True))] == [canonical_bytes(a) for a in read(chunks(False))]


ROOT = "0d1b6a0e-1111-4111-8111-111111111111"
VALUES: Any = st.none() | st.integers(0, 9) | st.sampled_from(["5", "{}", "", "x", "{"]) | st.just({"a": [None, 1.5]})
FIELDS: Any = st.sampled_from([{}, {"action_id": ROOT}, {"x": 1}])
PART: JSONObject = {"type": "image", "image_url": "https://x/a.png", "media_type": "image/png"}
CONTENTS: Any = st.sampled_from(
    ["", "a", [PART], [{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}, PART]]
)


@st.composite
def any_actions(draw: st.DrawFn) -> list[JSONObject]:
    actions: list[JSONObject] = []
    for number in range(draw(st.integers(1, 5))):
        call_id, more = f"c{number}", draw(FIELDS)
        match draw(st.sampled_from(["says", "thinks", "tool", "system"])):
            case "says":
                actions.append(says(draw(CONTENTS), draw(st.sampled_from([FRED, ANNA])), usage=USAGE, **more))
            case "thinks":
                actions.append(thinks(draw(st.sampled_from(["", "hm"])), signature=draw(st.text(max_size=3)), **more))
            case "tool":
                status = draw(st.sampled_from(["success", "error", "validation_error"]))
                outcome = draw(st.sampled_from([{}, {"outcome": "denied"}]))
                actions.append(calls(call_id, args=draw(VALUES), **more))
                actions.append(returns(call_id, status=status, content=draw(VALUES), **outcome))
            case _:
                actions.append({"action_type": "system.config-x.y", "data": draw(VALUES), **more})
    return actions


USAGE: JSONObject = {"input_tokens": 1, "output_tokens": 2}


@settings(max_examples=100, deadline=None)
@given(any_actions())
def test_check_40_whatever_the_actions_are_a_client_makes_their_bytes(actions: list[JSONObject]) -> None:
    served = thread(user(), *actions).actions
    own = read(stream_chunks(served, "m1", user_ref="u1"), ASKED)
    assert [canonical_bytes(action) for action in own] == [canonical_bytes(action) for action in served]
