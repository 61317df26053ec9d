"""`perdure bench`: the figures of an agent's runs agree with what the servers hold, and what goes wrong is named."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from typing import Any

import asyncpg
from temporalio.client import Client

from tests.acceptance.terminal import Terminal

LONELY = """
insert into perdure.agents select tenant_id, 'lonely', agent_id, workflow_type, 'nobody', spec, seen_at
  from perdure.agents where name = 'calc'
"""


def servers(perdure: Terminal) -> dict[str, Any]:
    """What `perdure dev` has noted of its servers."""
    return json.loads((perdure.folder / ".perdure/servers.json").read_text())


async def fetch(perdure: Terminal, statement: str) -> list[Any]:
    """What the database answers."""
    connection = await asyncpg.connect(servers(perdure)["postgres"]["url"])
    try:
        return [row[0] for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def kept_events(perdure: Terminal, sessions: set[str]) -> int:
    """How many events Temporal keeps of the executions in which the runs of sessions ended."""
    ids = [run["run"] for session in sessions for run in perdure("sessions", "show", session, "--json").json["runs"]]
    places = {json.dumps(perdure("runs", "show", run, "--json").json["temporal"], sort_keys=True) for run in ids}
    return asyncio.run(count_events(perdure, [json.loads(place) for place in places]))


async def count_events(perdure: Terminal, places: list[dict[str, str]]) -> int:
    """How many events executions have together."""
    client = await Client.connect(servers(perdure)["temporal"]["address"])
    handles = [client.get_workflow_handle(place["workflow_id"], run_id=place["run_id"]) for place in places]
    return sum([len((await handle.fetch_history()).events) for handle in handles])


def bench_sessions(perdure: Terminal) -> set[str]:
    """The sessions that benchmarks have opened."""
    found = perdure("sessions", "list", "--limit", "500", "--json").json["sessions"]
    return {row["session"] for row in found if str(row["title"]).startswith("perdure bench ")}


def states(perdure: Terminal, sessions: set[str]) -> list[str]:
    """The states of all runs of sessions."""
    return [
        run["status"] for session in sessions for run in perdure("sessions", "show", session, "--json").json["runs"]
    ]


def test_the_figures_are_those_of_the_servers(perdure: Terminal) -> None:
    """Steps, calls and events are what was done; every time is above 0, and the worker has used its processor."""
    known = bench_sessions(perdure)
    pid = servers(perdure)["postgres"]["pid"]
    done = perdure("bench", "calc", "1+2?", "--runs", "3", "--at-once", "2", "--pid", str(pid), "--json").json
    opened = bench_sessions(perdure) - known
    assert len(opened) == 3
    assert (done["agent"], done["runs"], done["completed"], done["failed"], done["at_once"]) == ("calc", 3, 3, [], 2)
    per_run = done["per_run"]
    assert (per_run["steps"], per_run["model_calls"], per_run["tool_calls"]) == (2, 2, 1)
    assert round(done["per_step"]["history_events"] * 6) == kept_events(perdure, opened)
    assert done["per_step"]["history_bytes"] > 1000
    assert done["per_step"]["stored_bytes"] > 1000
    for name in ("ms_per_step", "ms_to_first_step", "ms_per_run"):
        assert 0 < done[name]["median"] <= done[name]["p95"]
    assert done["ms_to_first_step"]["median"] < done["ms_per_run"]["median"]
    assert 0 < done["runs_per_second"] <= 3000 / done["ms_per_run"]["median"] * 2
    [used] = done["cpu_ms_per_step"]
    assert (used["pid"], used["name"].startswith("postgres")) == (pid, True)
    assert used["ms"] > 0


def test_people_see_a_table(perdure: Terminal) -> None:
    """Without --json each figure has a line, and stderr says what is done."""
    shown = perdure("bench", "calc", "1+2?", "--runs", "1")
    for words in (
        "ms per step",
        "ms to the first step",
        "p95",
        "runs per second",
        "model calls per run",
        "stored bytes",
    ):
        assert words in shown.out
    assert "1 runs of calc, 1 at a time" in shown.err


def test_one_session_is_used_again_and_failed_runs_are_named(perdure: Terminal) -> None:
    """With --session new the runs are turns of one session; what fails is counted, named, and makes the exit code 1."""
    known = bench_sessions(perdure)
    failing = perdure("bench", "calc", "1+2?", "--runs", "6", "--session", "new", "--json", code=1)
    [session] = bench_sessions(perdure) - known
    assert sorted(states(perdure, {session})) == ["completed"] * 4 + ["failed"] * 2
    assert (failing.json["completed"], failing.json["at_once"]) == (4, 1)
    assert {(run["session"], run["status"]) for run in failing.json["failed"]} == {(session, "failed")}
    assert all(run["error"]["type"] and run["error"]["message"] for run in failing.json["failed"])
    assert "2 of 6 runs did not complete" in failing.err
    assert failing.json["failed"][0]["run"] in failing.err


def test_a_session_that_is_there_counts_only_what_is_new(perdure: Terminal) -> None:
    """Of a session that had runs before, history and rows of the benchmark's own runs are counted."""
    began = perdure("run", "slow", "Talk.", "--json").json
    session = began["session"]
    before = kept_events(perdure, {session})
    done = perdure("bench", "slow", "Talk.", "--runs", "1", "--session", session, "--json").json
    assert states(perdure, {session}) == ["completed", "completed"]
    after = kept_events(perdure, {session})
    assert done["per_step"]["history_events"] * done["per_run"]["steps"] == after - before
    [rows] = asyncio.run(
        fetch(perdure, f"select sum(octet_length(data::text)) from perdure.events where session_id = '{session}'")
    )
    assert 0 < done["per_step"]["stored_bytes"] < 3 * rows


def test_a_run_that_waits_for_somebody_is_cancelled(perdure: Terminal) -> None:
    """Nobody answers approvals in a benchmark, so that such a run has failed."""
    waiting = perdure("bench", "payer", "Pay.", "--runs", "1", "--json", code=1)
    [run] = waiting.json["failed"]
    assert run["error"]["type"] == "BenchStopped"
    assert "approval" in run["error"]["message"]
    assert waiting.json["ms_per_step"] is None
    assert perdure("runs", "show", run["run"], "--json").json["status"] == "cancelled"


def test_a_run_that_takes_too_long_is_cancelled(perdure: Terminal) -> None:
    """--max-seconds ends what goes on, and says so."""
    late = perdure("bench", "sleeper", "Go.", "--runs", "1", "--max-seconds", "1", "--json", code=1)
    [run] = late.json["failed"]
    assert "had not ended after 1 s" in run["error"]["message"]
    assert perdure("runs", "show", run["run"], "--json").json["status"] == "cancelled"


def test_ctrl_c_cancels_the_runs_in_flight(perdure: Terminal) -> None:
    """Ctrl-C leaves nothing running, and says what was cancelled."""
    known = bench_sessions(perdure)
    bench = perdure.start("bench", "sleeper", "Go.", "--runs", "4", "--at-once", "2", "--json")
    bench.until(lambda: states(perdure, bench_sessions(perdure) - known) == ["running", "running"])
    bench.send(signal.SIGINT)
    assert bench.wait() == 130
    assert bench.json["error"]["type"] == "Interrupted"
    assert len(bench.json["cancelled"]) == 2
    assert "0 runs had ended, 2 in flight were cancelled" in bench.err
    assert states(perdure, bench_sessions(perdure) - known) == ["cancelled", "cancelled"]


def test_what_cannot_be_measured_is_refused(perdure: Terminal) -> None:
    """An unknown agent or session, one that no worker serves, a process that is none: each in a line, and nothing is run."""
    known = bench_sessions(perdure)
    none = str(uuid.uuid4())
    perdure("bench", "nobody", "x", code=2).check_error("'nobody'", "registered are buyer, calc")
    perdure("bench", "calc", " ", code=2).check_error("INPUT is empty")
    perdure("bench", "calc", "x", "--session", "new", "--at-once", "2", code=2).check_error("--at-once", "--session")
    perdure("bench", "calc", "x", "--pid", "999999999", code=2).check_error("--pid 999999999", "no such process")
    unknown = perdure("bench", "calc", "x", "--session", none, code=2)
    assert unknown.err.splitlines()[-1].startswith("error: ")
    assert none in unknown.err
    asyncio.run(fetch(perdure, LONELY))
    try:
        perdure("bench", "lonely", "x", code=3).check_error("no worker", "'nobody'", "perdure worker")
    finally:
        asyncio.run(fetch(perdure, "delete from perdure.agents where name = 'lonely'"))
    assert bench_sessions(perdure) == known
