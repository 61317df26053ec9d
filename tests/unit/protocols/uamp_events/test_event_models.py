"""The wire models: every event of the specification, with the specification's own examples."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from perdure.protocols.uamp_events.faults import EventRefused
from perdure.protocols.uamp_events.parsing import (
    CLIENT_EVENTS,
    SERVER_EVENTS,
    UnknownEvent,
    parse_client_event,
    parse_server_event,
)
from perdure.protocols.uamp_events.server_events import TERMINAL, Progress
from perdure.protocols.uamp_events.wire import speaks

CLIENT = [
    "session.create",
    "session.update",
    "session.end",
    "capabilities.query",
    "client.capabilities",
    "input.text",
    "input.audio",
    "input.image",
    "input.video",
    "input.file",
    "input.typing",
    "response.create",
    "response.cancel",
    "tool.result",
    "payment.submit",
    "voice.invite",
    "voice.accept",
    "voice.decline",
    "voice.end",
    "ping",
]
SERVER = [
    "session.created",
    "session.updated",
    "session.error",
    "capabilities",
    "response.created",
    "response.delta",
    "response.done",
    "response.error",
    "response.cancelled",
    "tool.call",
    "tool.call_done",
    "progress",
    "thinking",
    "audio.delta",
    "audio.done",
    "transcript.delta",
    "transcript.done",
    "usage.delta",
    "rate_limit",
    "presence.typing",
    "presence.online",
    "presence.offline",
    "message.created",
    "message.read",
    "payment.required",
    "payment.accepted",
    "payment.balance",
    "payment.error",
    "voice.accept",
    "voice.decline",
    "voice.end",
    "pong",
]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "search", "description": "Search the web", "parameters": {"type": "object"}},
}
CAPABILITIES: dict[str, Any] = {
    "id": "gpt-4o",
    "provider": "openai",
    "modalities": ["text", "image"],
    "image": {"formats": ["jpeg"], "detail_levels": ["auto"], "max_images_per_request": 20},
    "file": {"supports_pdf": True},
    "tools": {"supports_tools": True, "built_in_tools": ["web_search"]},
    "supports_streaming": True,
    "supports_thinking": False,
    "supports_caching": False,
    "context_window": 128000,
}
MINIMAL_CLIENT: dict[str, dict[str, Any]] = {
    "session.create": {
        "uamp_version": "1.0",
        "session": {
            "modalities": ["text"],
            "tools": [TOOL],
            "turn_detection": {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 500},
            "response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": {"type": "object"}}},
            "extensions": {"openai": {"model": "gpt-4o", "temperature": 0.7}},
        },
        "agent": "weather-bot",
        "client_capabilities": {"id": "web-app", "widgets": ["chart"]},
    },
    "session.update": {"token": "t"},
    "session.end": {"reason": "user_left"},
    "capabilities.query": {"model": "gpt-4o"},
    "client.capabilities": {"capabilities": {"id": "web-app", "provider": "x", "modalities": ["text"]}},
    "input.text": {"text": "hi", "messages": [{"role": "user", "content": "hi"}], "context": {"chat_id": "c"}},
    "input.audio": {"audio": "AAAA", "format": "pcm16", "is_final": True},
    "input.image": {"image": "AAAA", "format": "jpeg", "detail": "auto"},
    "input.video": {"video": {"url": "https://example.com/video.mp4"}, "format": "mp4"},
    "input.file": {"file": "AAAA", "filename": "report.pdf", "mime_type": "application/pdf"},
    "input.typing": {"is_typing": True, "chat_id": "chat_abc"},
    "response.create": {"response": {"modalities": ["text"], "tools": []}, "response_format": {"type": "json_object"}},
    "response.cancel": {"response_id": "resp_abc"},
    "tool.result": {"call_id": "call_abc", "result": '{"t":22}', "is_error": False},
    "payment.submit": {"payment": {"scheme": "token", "network": "robutler", "token": "tok", "amount": "10.00"}},
    "voice.invite": {"sdp": "v=0"},
    "voice.accept": {"call_id": "v1"},
    "voice.decline": {"call_id": "v1", "reason": "busy"},
    "voice.end": {"duration_ms": 3},
    "ping": {},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_abc",
    "status": "completed",
    "output": [{"type": "text", "text": "22°C"}],
    "usage": {"input_tokens": 25, "output_tokens": 12, "total_tokens": 37, "cost": {"total_cost": 0.000061}},
}
MINIMAL_SERVER: dict[str, dict[str, Any]] = {
    "session.created": {
        "uamp_version": "1.0",
        "session": {"id": "s", "created_at": 1704067200, "config": {"modalities": ["text"]}, "status": "active"},
    },
    "session.updated": {},
    "session.error": {"error": {"code": "agent_offline", "message": "x", "details": {"retry_after": 30}}},
    "capabilities": {"capabilities": CAPABILITIES},
    "response.created": {"response_id": "resp_abc"},
    "response.delta": {"response_id": "resp_abc", "delta": {"type": "text", "text": "The"}},
    "response.done": {"response_id": "resp_abc", "response": RESPONSE, "signature": "eyJ"},
    "response.error": {"response_id": "resp_abc", "error": {"code": "rate_limit_exceeded", "message": "x"}},
    "response.cancelled": {"response_id": "resp_abc", "partial_output": [{"type": "text", "text": "The"}]},
    "tool.call": {"call_id": "call_abc", "name": "search", "arguments": "{}"},
    "tool.call_done": {"call_id": "call_abc"},
    "progress": {"target": "tool", "target_id": "call_abc", "percent": 50, "step": 2, "total_steps": 4},
    "thinking": {"content": "hm", "redacted": False, "is_delta": True},
    "audio.delta": {"response_id": "resp_abc", "audio": "AAAA"},
    "audio.done": {"response_id": "resp_abc", "duration_ms": 3200},
    "transcript.delta": {"response_id": "resp_abc", "transcript": "The"},
    "transcript.done": {"response_id": "resp_abc", "transcript": "The weather"},
    "usage.delta": {"response_id": "resp_abc", "delta": {"output_tokens": 5}},
    "rate_limit": {"limit": 100, "remaining": 3, "reset_at": 1704067260},
    "presence.typing": {"user_id": "a", "username": "alice", "is_typing": True, "chat_id": "c"},
    "presence.online": {"user_id": "a"},
    "presence.offline": {"user_id": "a"},
    "message.created": {
        "chat_id": "c",
        "message": {"id": "m", "role": "user", "content": "hi", "created_at": 1704067260},
    },
    "message.read": {"message_id": "m"},
    "payment.required": {
        "response_id": "resp_abc",
        "requirements": {"amount": "10.00", "currency": "USD", "schemes": [{"scheme": "token"}]},
    },
    "payment.accepted": {"payment_id": "p"},
    "payment.balance": {"balance": "9.50", "currency": "USD", "estimated_remaining": 190},
    "payment.error": {"code": "insufficient_balance", "message": "x", "can_retry": True},
    "voice.accept": {"sdp": "v=0"},
    "voice.decline": {"reason": "unsupported"},
    "voice.end": {"duration_ms": 3},
    "pong": {},
}


def read_client(source: dict[str, Any]) -> Any:
    return parse_client_event(json.dumps(source), draw_id=lambda: "drawn")


def test_the_twenty_client_events_are_known() -> None:
    assert len(CLIENT) == 20
    assert set(CLIENT_EVENTS) == {*CLIENT, "message.read"}
    assert set(MINIMAL_CLIENT) == set(CLIENT)


def test_the_32_server_events_are_known() -> None:
    assert len(SERVER) == 32
    assert set(SERVER_EVENTS) == {*SERVER, "session.end"}
    assert set(MINIMAL_SERVER) == set(SERVER)


@pytest.mark.parametrize("kind", CLIENT)
def test_04_a_client_event_is_read_whole_and_unknown_members_are_ignored(kind: str) -> None:
    source = {
        "type": kind,
        "event_id": "evt_001",
        "session_id": "s",
        "timestamp": 1704067200000,
        **MINIMAL_CLIENT[kind],
    }
    event = read_client({**source, "a_member_of_1.7": {"x": [1]}})
    told = event.to_json()
    assert "a_member_of_1.7" not in told
    assert _within(source, told)


@pytest.mark.parametrize("kind", SERVER)
def test_a_server_event_goes_round(kind: str) -> None:
    source = {"type": kind, "event_id": "evt_001", "timestamp": 1704067200000, **MINIMAL_SERVER[kind]}
    event = parse_server_event(json.dumps({**source, "new": 1}))
    assert not isinstance(event, UnknownEvent)
    assert _within(source, event.to_json())
    assert parse_server_event(json.dumps(event.to_json())) == event


def _within(part: Any, whole: Any) -> bool:
    """Whether everything in `part` is in `whole` with the same value."""
    if isinstance(part, dict):
        members = cast("dict[str, Any]", part)
        return all(key in whole and _within(value, whole[key]) for key, value in members.items())
    return part == whole


def test_03_an_unknown_type_is_no_error() -> None:
    assert read_client({"type": "input.smell", "event_id": "e"}) == UnknownEvent("input.smell", "e", None)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_json"),
        ("", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        ('{"type":"ping","event_id":"e","timestamp":NaN}', "invalid_json"),
        ("[" * 9999, "invalid_json"),
        ("[1]", "invalid_event"),
        ('"ping"', "invalid_event"),
        ("{}", "invalid_event"),
        ('{"event_id":"e"}', "invalid_event"),
        ('{"type":"","event_id":"e"}', "invalid_event"),
        ('{"type":7,"event_id":"e"}', "invalid_event"),
        ('{"type":"ping","event_id":""}', "invalid_event"),
        ('{"type":"ping","event_id":7}', "invalid_event"),
        ('{"type":"ping","event_id":"e","session_id":7}', "invalid_event"),
    ],
)
def test_05_06_what_is_no_event_is_refused(frame: str | bytes, code: str) -> None:
    with pytest.raises(EventRefused) as caught:
        parse_client_event(frame, draw_id=lambda: "drawn")
    assert caught.value.code == code


def test_09_any_string_is_an_event_id_and_a_missing_one_is_drawn() -> None:
    assert read_client({"type": "ping", "event_id": "evt_001"}).event_id == "evt_001"
    assert read_client({"type": "ping"}).event_id == "drawn"


def test_a_client_wants_event_ids() -> None:
    with pytest.raises(EventRefused, match="event_id"):
        parse_server_event('{"type":"pong"}')


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        ("input.file", {"mime_type": None}, "mime_type"),
        ("input.file", {"filename": None}, "filename"),
        ("input.text", {"text": 7}, "text"),
        ("input.text", {"role": "tool"}, "role"),
        ("input.audio", {"format": None}, "format"),
        ("input.audio", {"is_final": "yes"}, "is_final"),
        ("tool.result", {"result": {"t": 22}}, "result"),
        ("session.create", {"session": {}}, "session.modalities"),
        ("session.create", {"uamp_version": 1.0}, "uamp_version"),
        ("response.create", {"response_format": {"type": "json_schema"}}, "response_format"),
        ("response.create", {"response": {"tools": [{"type": "function", "function": {"name": "a b"}}]}}, "name"),
    ],
)
def test_41_an_event_that_cannot_be_used_is_refused_by_name(kind: str, change: dict[str, Any], named: str) -> None:
    with pytest.raises(EventRefused) as caught:
        read_client({"type": kind, "event_id": "evt_7", "session_id": "s", **MINIMAL_CLIENT[kind], **change})
    fault = caught.value
    assert (fault.code, fault.event_id, fault.session_id) == ("invalid_event", "evt_7", "s")
    assert named in str(fault)


def test_a_refusal_does_not_tell_the_token() -> None:
    with pytest.raises(EventRefused) as caught:
        read_client({"type": "session.update", "event_id": "e", "token": ["secret-token"]})
    assert "secret-token" not in str(caught.value)
    event = read_client({"type": "session.update", "event_id": "e", "token": "secret-token"})
    assert "secret-token" not in repr(event)


def test_43_typing_is_read_under_both_names_and_sent_under_one() -> None:
    event = read_client({"type": "input.typing", "event_id": "e", "is_typing": True, "conversation_id": "c"})
    assert event.to_json()["chat_id"] == "c"


def test_56_progress_is_within_a_hundred() -> None:
    with pytest.raises(ValueError, match="percent"):
        Progress(event_id="e", target="tool", percent=101)


@pytest.mark.parametrize("amount", ["ten", "", "-1", "1e3", "1,0"])
def test_67_amounts_are_decimal_text(amount: str) -> None:
    told = MINIMAL_SERVER["payment.required"]
    source = {"type": "payment.required", "event_id": "e", **told}
    source["requirements"] = told["requirements"] | {"amount": amount}
    with pytest.raises(EventRefused, match="amount"):
        parse_server_event(json.dumps(source))


@pytest.mark.parametrize(
    ("version", "same"),
    [
        *(("1.0", True), ("1.3", True), ("1.17", True), ("2.0", False), ("0.9", False), ("1", False), ("", False)),
        *(("1.x", False), ("1.0.0", False), ("v1.0", False), ("11.0", False)),
    ],
)
def test_13_14_versions_of_the_same_major_number_are_spoken(version: str, same: bool) -> None:
    assert speaks(version) is same


def test_three_events_end_a_response() -> None:
    kinds = {str(model.model_fields["type"].default) for model in TERMINAL}
    assert kinds == {"response.done", "response.error", "response.cancelled"}
