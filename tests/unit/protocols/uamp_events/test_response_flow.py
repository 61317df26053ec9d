"""The event log of a run as a response; checks 44 to 46, 49, 51 to 53, 55, 57 to 60, 64, 65, 73."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.delegated import forwarded_thinking
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.response_gate import ResponseGate
from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import EventDelta, StreamEvent, StreamEventType, message_stop, reasoning_delta, text_delta
from tests.unit.protocols.uamp_events.client_line import shown
from tests.unit.protocols.uamp_events.logged_run import LoggedRun, Row

PARIS = ("c1", "search", '{"city":"Paris"}')
ROME = ("c2", "search", '{"city":"Rome"}')


def flow(*client_tools: str, **options: Any) -> ResponseFlow:
    return ResponseFlow("resp_1", "run-1", "sess_1", client_tools=client_tools, **options)


def told(rows: Iterable[Row], reader: ResponseFlow | None = None) -> list[dict[str, Any]]:
    reader = reader or flow()
    return [shown(event) for row in rows for event in reader.take(row)]


def types(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def deltas(events: Iterable[dict[str, Any]], kind: str) -> list[Any]:
    return [event["delta"][kind] for event in events if event.get("delta", {}).get("type") == kind]


def test_44_45_text_is_told_as_it_comes_and_whole_in_the_end() -> None:
    log = LoggedRun()
    events = told([log.of_run("run.started"), *log.says("The ", "weather", " is fine"), log.completed()])
    assert types(events)[:4] == ["response.created", *["response.delta"] * 3]
    assert "".join(deltas(events, "text")) == "The weather is fine"
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "The weather is fine"}]
    assert {event["response_id"] for event in events} == {"resp_1"}
    assert {event["session_id"] for event in events} == {"sess_1"}


@given(st.permutations(["run.completed", "run.failed", "run.cancelled"]))
def test_46_one_event_ends_a_response(ends: list[str]) -> None:
    log, reader = LoggedRun(), flow()
    events = told([*log.says("x"), *(log.of_run(kind) for kind in ends), *log.says("late")], reader)
    ended = {"run.completed": "response.done", "run.failed": "response.error", "run.cancelled": "response.cancelled"}
    assert [kind for kind in types(events) if kind in ended.values()] == [ended[ends[0]]]
    assert events[-1]["type"] == ended[ends[0]]
    assert reader.is_over


def test_rows_of_other_runs_are_passed_over() -> None:
    assert told(LoggedRun("run-2").says("x")) == []


def test_the_same_rows_give_the_same_events() -> None:
    """So that a client that comes back can be told what it has not had; and each event has its own id."""
    log = LoggedRun()
    rows = [*log.says("a", "b"), *log.calls(PARIS, ROME), log.returns("c1", {"t": 22}), log.completed()]
    first, second = told(rows), told(rows)
    assert first == second
    ids = [event["event_id"] for event in first]
    assert len(set(ids)) == len(ids)
    assert all(str(uuid.UUID(ident)) == ident for ident in ids)


def test_49_a_cancelled_response_tells_what_there_was() -> None:
    log = LoggedRun()
    events = told([*log.says("The weather", " in"), log.of_run("run.cancelled")])
    assert events[-1]["type"] == "response.cancelled"
    assert events[-1]["partial_output"] == [{"type": "text", "text": "".join(deltas(events, "text"))}]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"type": "ModelError", "message": "m", "code": "RATE_LIMITED"}, "rate_limit_exceeded"),
        ({"type": "LimitExceeded", "message": "m", "code": "max_steps"}, "max_steps"),
        ({"type": "ModelError", "message": "m"}, "generation_error"),
        ({}, "generation_error"),
    ],
)
def test_51_a_failed_run_is_an_error_of_its_response(error: dict[str, Any], code: str) -> None:
    (_, event) = told([LoggedRun().of_run("run.failed", error=error)])
    assert (event["type"], event["response_id"], event["error"]["code"]) == ("response.error", "resp_1", code)
    assert event["error"]["message"]


def test_52_53_usage_deltas_sum_up_to_the_usage() -> None:
    log = LoggedRun()
    step: JSONObject = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 4}
    events = told([log.step_end(step), *log.says("x"), log.step_end(step), log.completed()])
    parts = [event["delta"] for event in events if event["type"] == "usage.delta"]
    assert len(parts) == 3
    usage = events[-1]["response"]["usage"]
    assert usage == {"input_tokens": 25, "output_tokens": 12, "total_tokens": 37, "cached_tokens": 15}
    for name, count in usage.items():
        assert sum(part.get(name, 0) for part in parts) == count
    assert usage["cached_tokens"] <= usage["input_tokens"]


def test_52_cost_is_told_where_it_is_known() -> None:
    usage: JSONObject = {"inputTokens": 1, "outputTokens": 1, "cost": "0.000061"}
    done = told([LoggedRun().completed(usage)])[-1]
    assert done["response"]["usage"]["cost"] == {"total_cost": 0.000061, "currency": "USD"}


def test_55_thinking_is_not_text_and_only_for_who_wants_it() -> None:
    log = LoggedRun()
    rows = [log.upp(reasoning_delta("hm ")), log.upp(reasoning_delta("so")), *log.says("yes"), log.completed()]
    events = told(rows)
    thoughts = [event for event in events if event["type"] == "thinking"]
    assert [(event["content"], event["is_delta"], event["redacted"]) for event in thoughts] == [
        ("hm ", True, False),
        ("so", True, False),
    ]
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "yes"}]
    assert "thinking" not in types(told(rows, flow(thinking=False)))


@pytest.mark.parametrize("streamed", [True, False])
def test_57_a_call_of_the_clients_is_asked_for_once_the_run_waits(streamed: bool) -> None:
    log, reader = LoggedRun(), flow("search")
    assert "tool.call" not in types(told(log.calls(PARIS, streamed=streamed), reader))
    (event,) = told([log.waits_for(0)], reader)
    assert (event["type"], event["call_id"], event["name"]) == ("tool.call", "c1", "search")
    assert event["arguments"] == '{"city":"Paris"}'
    assert reader.open_calls == {"c1": wait_id("m1", 0)}


def test_58_59_a_response_goes_on_when_all_its_calls_are_answered() -> None:
    log, reader = LoggedRun(), flow("search")
    rows = [*log.calls(PARIS, ROME), log.waits_for(1), log.waits_for(0)]
    events = told(rows, reader)
    assert [event["call_id"] for event in events if event["type"] == "tool.call"] == ["c2", "c1"]
    assert deltas(events, "tool_call") == []
    assert told([log.returns("c1", "22")], reader) == []
    assert list(reader.open_calls) == ["c2"]
    rest = told([log.returns("c2", "30"), *log.says("warm", message="m2"), log.completed()], reader)
    assert reader.open_calls == {}
    assert "response.created" not in types(rest)
    assert rest[-1]["response"]["output"] == [{"type": "text", "text": "warm"}]


def test_64_open_calls_are_asked_for_again_with_their_ids() -> None:
    log, reader = LoggedRun(), flow("search")
    rows = [*log.calls(PARIS, ROME), log.waits_for(0), log.waits_for(1), log.returns("c2", "30")]
    events = told(rows, reader)
    (again,) = reader.reminders()
    assert shown(again) in events
    assert again.call_id == "c1"
    assert told([log.waits_for(0, again="-1")], reader) == []
    assert reader.open_calls == {"c1": wait_id("m1", 0) + "-1"}


def test_65_a_call_of_the_servers_is_told_from_beginning_to_end() -> None:
    log = LoggedRun()
    events = told([*log.calls(PARIS), log.returns("c1", {"t": 22}), log.completed()])
    pieces = deltas(events, "tool_call")
    assert "".join(piece["arguments"] for piece in pieces) == '{"city":"Paris"}'
    assert {(piece["id"], piece["name"]) for piece in pieces} == {("c1", "search")}
    assert deltas(events, "tool_result") == [{"call_id": "c1", "result": '{"t":22}', "status": "success"}]
    assert types(events) == [
        "response.created",
        "response.delta",
        "response.delta",
        "progress",
        "response.delta",
        "tool.call_done",
        "usage.delta",
        "response.done",
    ]


def test_65_calls_that_were_not_streamed_are_told_whole() -> None:
    log = LoggedRun()
    events = told([*log.calls(PARIS, ROME, streamed=False), log.returns("c1", "down", failed=True)])
    assert [piece["arguments"] for piece in deltas(events, "tool_call")] == [PARIS[2], ROME[2]]
    assert deltas(events, "tool_result") == [{"call_id": "c1", "result": "down", "status": "error"}]


def test_57_an_id_that_a_vendor_uses_again_gets_its_own() -> None:
    log, reader = LoggedRun(), flow("search")
    told([*log.calls(PARIS), log.waits_for(0), log.returns("c1", "22")], reader)
    (event,) = told(
        [*log.calls(("c1", "search", '{"city":"Rome"}'), message="m2"), log.waits_for(0, message="m2")], reader
    )
    assert event["call_id"] == "c1~2"
    assert event["arguments"] == '{"city":"Rome"}'
    assert reader.open_calls == {"c1~2": wait_id("m2", 0)}


def test_an_approval_is_told_as_progress() -> None:
    log = LoggedRun()
    told_events = told([*log.calls(PARIS), log.waits_for(0), log.of_run("run.parked", reason="pause")])
    waiting = [(event["target"], event["target_id"]) for event in told_events if event.get("stage") == "waiting"]
    assert waiting == [("tool", "c1"), ("response", "resp_1")]


def test_45_a_message_that_begins_again_counts_once() -> None:
    log = LoggedRun()
    rows = [
        *log.says("The dead ", "try"),
        log.of_run("message.reset", message="m1"),
        *log.says("Fine"),
        log.completed(),
    ]
    events = told(rows)
    assert [event["stage"] for event in events if event["type"] == "progress"] == ["restarted"]
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "Fine"}]


def test_45_an_answer_that_was_not_streamed_is_told_before_the_end() -> None:
    log, reader = LoggedRun(), flow()
    answer = AssistantMessage("All at once", id="m1")
    events = [shown(event) for event in reader.take(log.completed(), answer=answer)]
    assert deltas(events, "text") == ["All at once"]
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "All at once"}]


def test_an_answer_that_was_changed_is_what_counts() -> None:
    log, reader = LoggedRun(), flow()
    told(log.says("a secret"), reader)
    events = [shown(event) for event in reader.take(log.completed(), answer=AssistantMessage("no", id="m1"))]
    assert deltas(events, "text") == []
    assert events[-1]["response"]["output"] == [{"type": "text", "text": "no"}]


def test_73_sound_is_told_once_with_its_length() -> None:
    log = LoggedRun()
    chunk = StreamEvent(StreamEventType.AUDIO_DELTA, 0, EventDelta(data=b"\0" * 24_000))
    events = told([log.upp(chunk), log.upp(chunk), log.upp(message_stop()), log.completed()])
    assert types(events)[1:4] == ["audio.delta", "audio.delta", "audio.done"]
    assert events[3]["duration_ms"] == 1000
    assert deltas(events, "audio") == []


def test_73_the_text_of_a_message_with_sound_is_its_transcript() -> None:
    log = LoggedRun()
    chunk = StreamEvent(StreamEventType.AUDIO_DELTA, 1, EventDelta(data=b"\0" * 480))
    rows = [log.upp(text_delta("good ")), log.upp(chunk), log.upp(text_delta("morning")), log.upp(message_stop())]
    events = told([*rows, *log.says("no sound", message="m2"), log.completed()])
    assert [(event["type"], event.get("transcript")) for event in events if event["type"].startswith("transcript")] == [
        ("transcript.delta", "good "), ("transcript.delta", "morning"), ("transcript.done", "good morning"),
    ]  # fmt: skip
    assert "".join(deltas(events, "text")) == "good morningno sound"


def test_a_row_with_a_preview_is_refused() -> None:
    row = LoggedRun().row(
        "uap", "action", {"toolCalls": [{"toolCallId": "c", "toolName": "n", "cut": {"sha256": "x"}}]}
    )
    with pytest.raises(InvalidInput, match="preview"):
        flow().take(row)


def test_a_strategy_of_ones_own_says_the_same_once() -> None:
    log = LoggedRun()
    rows = [log.row("own", "event", {"n": n, "upp": text_delta(text).to_json()}) for n, text in ((0, "a"), (1, "b"))]
    again = [log.row("own", "event", {"n": n, "upp": text_delta(text).to_json()}) for n, text in ((1, "b"), (2, "c"))]
    assert deltas(told([*rows, *again]), "text") == ["a", "b", "c"]


def test_a_sub_agents_thinking_is_progress_of_its_call() -> None:
    log = LoggedRun("child")
    event = forwarded_thinking(log.upp(reasoning_delta("hm")), session_id="s", response_id="r", call_id="c1")
    assert event is not None
    assert shown(event)["delta"] == {"type": "tool_progress", "tool_progress": {"call_id": "c1", "text": "hm"}}
    (text,) = log.says("x")
    assert forwarded_thinking(text, session_id="s", response_id="r", call_id="c1") is None


def test_everything_that_a_run_tells_passes_the_gate() -> None:
    log, reader, gate = LoggedRun(), flow("ask"), ResponseGate()
    gate.reserve("resp_1")
    asked = ("c2", "ask", '{"city":"Oslo"}')
    rows = [*log.says("a"), *log.calls(PARIS, asked), log.waits_for(1), log.returns("c1", 1), log.returns("c2", 2)]
    for row in [*rows, *log.says("b", message="m2"), log.completed()]:
        assert all(gate.admit(event) for event in reader.take(row))
    assert gate.open_responses == []
