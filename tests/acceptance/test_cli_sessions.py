"""`perdure sessions`: lists, pages, event logs, pause and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from perdure import connect
from perdure.errors import InvalidInput
from tests.acceptance.terminal import ROOT, Terminal

CLOSED_PIPE = 141


def test_a_paused_session_takes_inputs_and_waits(perdure: Terminal) -> None:
    """Pause holds the run and what comes after it, resume lets both go on; each command says what it came to."""
    first = perdure("run", "slow", "Talk.", "--no-wait", "--json").json
    session = first["session"]
    paused = perdure.reached("sessions", "pause", session).out
    assert paused.splitlines()[0] == "paused"  # and perhaps what is still in flight
    second = perdure("run", "slow", "-", "--session", session, "--no-wait", stdin="Talk again.\n")
    assert second.out.splitlines()[1] == f"session {session}"
    shown = perdure("sessions", "show", session, "--json").json
    assert (shown["status"], shown["paused"]) == ("paused", True)
    assert [run["status"] for run in shown["runs"]][1:] == ["queued"]
    assert session in [
        row["session"] for row in perdure("sessions", "list", "--status", "paused", "--json").json["sessions"]
    ]
    following = perdure.start("sessions", "events", session, "--follow")
    assert perdure.reached("sessions", "resume", session, "--json").json["state"] == "resumed"
    following.until(lambda: following.out.count("run.completed") == 2)
    following.send(signal.SIGINT)
    assert following.wait() == 130
    assert [run["status"] for run in perdure("sessions", "show", session, "--json").json["runs"]] == ["completed"] * 2


def test_events_have_no_gap_and_can_be_had_from_any_number(perdure: Terminal) -> None:
    """The event log is one JSON list; `--after` leaves out what is known; --follow gives the same, a line each."""
    session = perdure("run", "calc", "1+2?", "--json").json["session"]
    events = perdure("sessions", "events", session, "--json").json["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "run.completed"
    following = perdure.start("sessions", "events", session, "--follow", "--json", "--after", "3")
    following.until(lambda: following.out.count("\n") == len(events) - 3)
    following.send(signal.SIGINT)
    assert following.wait() == 130
    lines = following.out.splitlines()
    assert perdure("sessions", "events", session, "--json", "--after", "3").json["events"] == events[3:]
    assert [f'"seq": {event["seq"]},' in line for event, line in zip(events[3:], lines, strict=True)] == [True] * len(
        lines
    )


def test_a_reader_that_leaves_ends_the_command(perdure: Terminal) -> None:
    """`perdure sessions events --follow | head -1` ends although nothing more happens in the session."""
    session = perdure("run", "calc", "1+2?", "--json").json["session"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    command = [sys.executable, "-m", "perdure.cli.main", "sessions", "events", session, "--follow"]
    with subprocess.Popen(
        command, cwd=perdure.folder, env={**environment, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert b"run.queued" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(120) == CLOSED_PIPE


def test_a_list_is_read_page_by_page(perdure: Terminal) -> None:
    """Each page ends with the cursor of the next, in JSON and for people; the pages do not overlap."""
    made = [perdure("run", "calc", "x", "--no-wait", "--json").json["session"] for _ in range(3)]
    first = perdure("sessions", "list", "--limit", "2", "--json").json
    second = perdure("sessions", "list", "--limit", "1", "--before", first["next"], "--json").json
    seen = [row["session"] for row in first["sessions"] + second["sessions"]]
    assert seen == made[::-1]
    table = perdure("sessions", "list", "--limit", "2")
    assert [line.split()[0] for line in table.out.splitlines()] == ["session", *made[:0:-1]]
    assert f"--before {first['next']}" in table.err
    perdure("sessions", "list", "--before", "yesterday", code=2).check_error("'yesterday'", "cursor")
    perdure("sessions", "list", "--limit", "0", code=2).check_error("limit is 0")
    perdure("sessions", "list", "--status", "tired", code=2).check_error("'tired'", "'paused'")


async def test_ids_that_no_command_line_can_hold_are_refused_too(perdure: Terminal) -> None:
    """A NUL cannot be an argument, but a program can give one; it is the same error."""
    record = json.loads((perdure.folder / ".perdure/servers.json").read_text())
    async with connect(
        temporal_address=record["temporal"]["address"], database_url=record["postgres"]["url"]
    ) as sessions:
        with pytest.raises(InvalidInput, match="is not a UUIDv4"):
            await sessions.submit("calc", "x", session="a\x00b")
        with pytest.raises(InvalidInput, match="is not a UUIDv4"):
            await sessions.cancel("\x00" * 36)
