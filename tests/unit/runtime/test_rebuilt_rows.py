"""Rows that a rebuild makes where history has not heard of what is written, or tells of what is not."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure.activities.contracts import (
    BEGIN_RUN,
    CALL_TOOL,
    END_RUN,
    GENERATE,
    BeginRunResult,
    CallToolInput,
    CallToolResult,
    EndRunResult,
    GenerateInput,
    GenerateResult,
    RunFrame,
)
from perdure.activities.history import Entry
from perdure.errors import DamagedSession
from perdure.runtime.rebuilt_calls import call_rows, unheard_answers
from perdure.runtime.rebuilt_runs import KnownRun, checkpoint_rows, known_run, run_row
from perdure.runtime.rebuilt_sessions import session_totals
from perdure.runtime.run_log import is_ahead, missing_checkpoints, read_logs
from perdure.runtime.session_history import SessionHistory
from perdure.store.rebuilt import Kept, LogEntry, StoredBody
from perdure.uap.ids import results_id
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import AgentSpec, ToolSpec
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage
from perdure.upp.tool_call import ToolCall

KEY = SessionKey("tenant", "session")
NOW = datetime(2026, 1, 6, tzinfo=UTC)
SPEC = AgentSpec("agent", "id", tools=[ToolSpec("once", "once"), ToolSpec("work")])
FRAME = RunFrame("run", "node", 4, 0, "input", "sha", {}, SPEC, started="2026-01-06T00:00:01.500+00:00")
RESULTS = results_id("run", 1)
USAGE = {"inputTokens": 3, "outputTokens": 2}


def log(seq: int, kind: str, data: JSONObject | None = None, **rest: Any) -> LogEntry:
    return LogEntry(seq, rest.get("run", "run"), rest.get("step"), rest.get("attempt"), kind, data or {}, NOW)


STARTED = log(7, "run.started", {"execution": "e1"})


def kept(*entries: LogEntry, active: bool = True, bodies: dict[str, StoredBody] | None = None) -> Kept:
    session = cast(Any, SimpleNamespace(created_at=NOW, current_node="node", imported=None))
    active_run = "run" if active else None
    return Kept(session, active_run, False, {"run": 2}, bodies or {}, [STARTED, *entries], set())


def heard(*entries: Entry) -> SessionHistory:
    history = SessionHistory()
    history.hear([Entry("e1", BEGIN_RUN, None, BeginRunResult("new", frame=FRAME)), *entries])
    return history


def run_of(history: SessionHistory, rows: Kept) -> KnownRun:
    return known_run(KEY, rows, history.runs["run"], read_logs(rows.log))


def record(step: int, **rest: Any) -> dict[str, Any]:
    values = {"id": f"c{step}", "run": "run", "step": step, "node": "node", "position": 4 + step, "at": "when"}
    return {"k": "checkpoint", "r": {**values, "usage": USAGE, "cycles": step, "messages": [], "metadata": {}, **rest}}


def generate(*pending: dict[str, Any], result: GenerateResult | None = None, execution: str = "e1") -> Entry:
    call = GenerateInput("tenant", "session", "run", "agent", "node", 4, 5, 0, 1, "answer", RESULTS, pending=[*pending])
    return Entry(execution, GENERATE, call, result)


def call_tool(index: int, result: CallToolResult | None = None) -> Entry:
    call = CallToolInput("tenant", "session", "run", "agent", 1, "answer", index, "sha", "once", 1.0)
    return Entry("e1", CALL_TOOL, call, result)


def answer(*tools: str) -> GenerateResult:
    message = AssistantMessage([], [ToolCall(f"c{n}", name, {}) for n, name in enumerate(tools)])
    return GenerateResult(message=message.to_json(), sha256="sha of answer", args=["sha of arguments"] * len(tools))


def ended_log(seq: int = 20) -> LogEntry:
    data: JSONObject = {"at": "2026-01-06T00:00:09.000Z", "usage": {**USAGE}, "cycles": 2, "steps": 2}
    return log(seq, "run.completed", data)


def test_open_run_stands_where_its_written_checkpoints_say() -> None:
    """What is on its way with an activity is not a row yet, or its events would never be written."""
    rows = kept(
        log(8, "step_start", step=1), log(9, "checkpoint", {"checkpointId": "c1"}), log(10, "step_start", step=2)
    )
    run = run_of(
        heard(generate(record(1)), generate({"k": "step", "step": 2}, execution="e2"), generate(record(2))), rows
    )
    row = run_row(run, None)
    assert [item["id"] for item in checkpoint_rows(run, {}, set())] == ["c1"]
    assert (row["status"], row["step"], row["started_step"], row["usage"], row["cycles"]) == ("running", 1, 2, USAGE, 1)
    assert (row["temporal_run_id"], row["first_seq"], row["last_seq"], row["ended_at"]) == ("e2", 7, None, None)
    assert row["started_at"] == datetime(2026, 1, 6, 0, 0, 1, 500_000, UTC)


def test_open_run_that_has_come_further_than_what_is_left_of_its_history_stands() -> None:
    rows = kept(log(8, "step_start", step=1), log(9, "checkpoint", {"checkpointId": "c1"}))
    assert run_row(run_of(heard(), rows), {"status": "running", "step": 1}) == {"status": "running", "step": 1}


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (["run.parked a"], "parked"),
        (["run.parked a", "run.resumed a"], "running"),
        (["run.parked a", "run.parked b", "run.resumed a"], "parked"),
        (["run.parked a", "run.adopted a"], "running"),
    ],
)
def test_open_run_is_parked_while_a_reason_is_left(kinds: list[str], status: str) -> None:
    entries = [log(8 + n, kind.split()[0], {"reason": kind.split()[1]}) for n, kind in enumerate(kinds)]
    assert run_row(run_of(heard(), kept(*entries)), None)["status"] == status


def test_end_that_history_has_not_heard_of_is_in_the_log() -> None:
    rows = kept(ended_log(), active=False)
    row = run_row(run_of(heard(), rows), None)
    assert (row["status"], row["step"], row["usage"], row["cycles"], row["error"]) == ("completed", 2, USAGE, 2, None)
    assert (row["ended_at"], row["last_seq"]) == (datetime(2026, 1, 6, 0, 0, 9, tzinfo=UTC), 20)
    assert run_row(run_of(heard(), rows), {"status": "completed", "step": 9})["step"] == 9


def test_end_in_history_goes_before_the_row() -> None:
    end = EndRunResult("ended", "run", "failed", "2026-01-06T00:00:09.000Z", 3, USAGE, 1, {"type": "X"})
    history = heard(Entry("e3", END_RUN, None, end))
    row = run_row(run_of(history, kept(ended_log(), active=False)), {"status": "completed"})
    assert (row["status"], row["step"], row["error"], row["temporal_run_id"]) == ("failed", 3, {"type": "X"}, "e3")


def test_history_is_ahead_of_nothing_once_its_executions_are_closed() -> None:
    logs = read_logs(kept(ended_log(), active=False).log)
    assert is_ahead(logs, heard(), {"e1"})
    assert is_ahead(logs, SessionHistory(), {"e1"})
    assert not is_ahead(logs, heard(), {"e2"})
    assert missing_checkpoints(read_logs([STARTED, log(8, "checkpoint", {"checkpointId": "c1"})]), []) == ["c1"]


def test_record_belongs_to_the_execution_that_wrote_it() -> None:
    """Another took it along before and was terminated."""
    wrote = generate(record(1), result=answer(), execution="e2")
    run = run_of(heard(generate(record(1)), wrote), kept(log(8, "checkpoint", {"checkpointId": "c1"})))
    assert checkpoint_rows(run, {}, set())[0]["temporal_run_id"] == "e2"


def test_row_is_held_against_the_execution_that_it_names() -> None:
    """Two executions reached the boundary, each at its time; a row of a third, whose history is gone, stands."""
    entries = [generate(record(1), execution="e1"), generate(record(1, at="later"), result=answer(), execution="e2")]
    run = run_of(heard(*entries), kept(active=False))
    for named, expected in (("e1", "when"), ("e2", "later"), ("unknown", "later")):
        rows = {("tenant", "session", "c1"): {"temporal_run_id": named}}
        assert [row["at"] for row in checkpoint_rows(run, rows, {"e3"})] == [expected]
    assert checkpoint_rows(run, {("tenant", "session", "c1"): {"temporal_run_id": "e3"}}, {"e3"}) == []


def test_two_hashes_for_one_message_are_damage() -> None:
    mark = {"messages": [{"id": "answer", "sha256": "another"}]}
    with pytest.raises(DamagedSession, match="two hashes"):
        heard(generate(result=answer()), generate(record(1, **mark)))


def test_calls_in_flight_are_pending_and_a_once_call_counts_as_begun() -> None:
    """So it is never run again without asking; a row that is there knows better."""
    run = run_of(heard(generate(result=answer("once", "work", "once")), call_tool(0), call_tool(1)), kept())
    rows = call_rows(run, kept(), {}, {})
    assert [(row["state"], row["attempt"], row["effect"]) for row in rows] == [
        ("running", 1, "once"), ("pending", 0, "at_most_once"), ("pending", 0, "once"),
    ]  # fmt: skip
    existing = {("tenant", "session", "answer", index): {"state": "pending"} for index in range(3)}
    assert call_rows(run, kept(), {}, existing) == []


def test_result_that_history_has_not_heard_of_is_in_the_log() -> None:
    """Whole if it is small, else by its hash."""
    delta: JSONObject = {"result": {"rows": [1, 2.0]}, "isError": False}
    small = log(8, "tool_execution_end", {"message": "answer", "index": 0, "delta": delta}, attempt=2)
    cut: JSONObject = {"sha256": "sha of all", "size": 9000}
    large = log(9, "tool_execution_end", {"message": "answer", "index": 1, "delta": {"isError": True}, "cut": cut})
    rows = kept(small, large)
    first, second = call_rows(run_of(heard(generate(result=answer("work", "work")), call_tool(0)), rows), rows, {}, {})
    raw = dumps({"rows": [1, 2.0]})
    assert (first["state"], first["attempt"], first["is_error"]) == ("done", 2, False)
    assert (first["result_sha256"], first["result_bytes"], first["duration_ms"]) == (sha256_hex(raw), len(raw), 0)
    assert (second["is_error"], second["result_sha256"], second["result_bytes"]) == (True, "sha of all", 9000)


def test_call_that_its_run_s_end_settled_has_no_duration() -> None:
    """The turn leaves it out: the tool never answered."""
    refs: list[JSONObject] = [{"isError": True, "ref": {"sha256": "sha of settling", "size": 8}, "toolCallId": "c0"}]
    rows = kept(ended_log(), active=False, bodies={RESULTS: StoredBody("sha", True, refs)})
    (row,) = call_rows(run_of(heard(generate(result=answer("work"))), rows), rows, {}, {})
    assert (row["state"], row["is_error"], row["result_sha256"], row["duration_ms"]) == (
        "done",
        True,
        "sha of settling",
        None,
    )


def test_heard_result_goes_before_all() -> None:
    result = CallToolResult(sha256="sha", size=5, duration_ms=37, attempt=3)
    rows = kept(log(8, "tool_execution_end", {"message": "answer", "index": 0, "delta": {"isError": True}}))
    (row,) = call_rows(run_of(heard(generate(result=answer("work")), call_tool(0, result)), rows), rows, {}, {})
    assert (row["is_error"], row["result_bytes"], row["duration_ms"], row["attempt"]) == (False, 5, 37, 3)


def test_stored_answer_that_history_has_not_heard_of_has_its_calls() -> None:
    history = heard(generate())
    rows = kept(bodies={"answer": StoredBody("sha", True, None)})
    assert unheard_answers(history, rows) == ["answer"]
    body = AssistantMessage([], [ToolCall("c0", "work", {"a": 1})])
    (row,) = call_rows(run_of(history, rows), rows, {"answer": body}, {})
    assert (row["call_id"], row["tool"], row["args_sha256"]) == ("c0", "work", sha256_hex(dumps({"a": 1})))
    assert call_rows(run_of(history, kept()), kept(), {}, {}) == []


def test_run_without_its_input_is_damage() -> None:
    with pytest.raises(DamagedSession, match="no input"):
        known_run(KEY, kept(), heard().runs["run"], {})


def test_totals_are_those_of_runs_that_ended() -> None:
    rows = kept(active=False)
    ended = {"id": "run", "ended_at": NOW, "last_seq": 9, "first_seq": 7, "step": 2, "usage": USAGE, "node_id": "node"}
    totals = session_totals(KEY, rows, read_logs(rows.log), [ended])
    assert totals == {
        "status": "idle", "current_node": "node", "runs": 1, "steps": 2, "usage": USAGE, "usage_by_agent": None,
        "updated_at": NOW,
    }  # fmt: skip
    assert session_totals(KEY, rows, read_logs(rows.log), []) == {}


def test_totals_hold_what_sub_agents_used() -> None:
    """By agent path; the session's usage is the sum."""
    rows = kept(active=False)
    used = {"agent": USAGE, "agent/scout": {"inputTokens": 10, "outputTokens": 1}}
    ended = {"id": "run", "ended_at": NOW, "last_seq": 9, "first_seq": 7, "step": 2, "usage": USAGE, "node_id": "node"}
    totals = session_totals(KEY, rows, read_logs(rows.log), [{**ended, "usage_by_agent": used}])
    assert totals["usage_by_agent"] == used
    assert totals["usage"] == {"inputTokens": 13, "outputTokens": 3}
