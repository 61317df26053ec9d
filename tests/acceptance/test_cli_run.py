"""`perdure run`: what is seen of a run while it goes on, how it ends, and what is refused."""

from __future__ import annotations

import os
import re
import signal
import uuid
from pathlib import Path

import pytest

from tests.acceptance.terminal import Terminal
from tests.conformance.uamp_agents import call, gate, plan

TEXT = "The sum of one and two is three."


def runs_of(perdure: Terminal, session: str) -> list[str]:
    """The states of a session's runs, in order."""
    return [run["status"] for run in perdure("sessions", "show", session, "--json").json["runs"]]


def worker_of(folder: Path) -> int:
    """The worker process of the project."""
    for entry in Path("/proc").iterdir():
        is_worker = entry.name.isdecimal() and b"\0worker\0agents:app" in read(entry / "cmdline")
        if is_worker and (entry / "cwd").resolve() == folder:
            return int(entry.name)
    raise AssertionError("no worker runs")


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_answer_comes_while_it_is_made(perdure: Terminal) -> None:
    """Text goes to stdout piece by piece, tool calls and the rest to stderr."""
    middle = uuid.uuid4().hex
    told = plan({"calls": [call("add", a=1, b=2)]}, {"say": [TEXT[:15], gate(middle), TEXT[15:]]})
    run = perdure.start("run", "teller", told)
    run.until(lambda: run.out == TEXT[:15])
    (perdure.folder / middle).touch()
    assert run.wait() == 0
    assert run.out == TEXT + "\n"
    assert '-> add {"a": 1, "b": 2}\n<- add 3\n' in run.err
    assert "completed: 2 steps, 2 model calls" in run.err


def test_a_key_makes_a_run_one(perdure: Terminal) -> None:
    """With --json the answer is one document; the same key is the same run, and another input under it a conflict."""
    key = uuid.uuid4().hex
    first = perdure("run", "calc", "-", "--key", key, "--json", "--instructions", "Be brief.", stdin="1+2?").json
    again = perdure("run", "calc", "1+2?", "--key", key, "--json", "--instructions", "Be brief.").json
    assert first == again
    assert first["status"] == "completed"
    assert first["turn"]["messages"][-1]["content"][0]["text"] == TEXT
    other = perdure("run", "calc", "2+2?", "--key", key, "--json", code=2)
    assert other.json["error"]["type"] == "KeyConflict"
    other.check_error(key)


def test_a_failed_run_is_exit_code_1(perdure: Terminal) -> None:
    """A run that fails says its error's type."""
    failed = perdure("run", "calc", "1+2?", "--max-steps", "1", "--json", code=1).json
    assert failed["status"] == "failed"
    assert failed["error"]["type"] == "LimitExceeded"
    assert failed.keys() == {"run", "session", "status", "error"}


def test_the_garbage_collector_leaves_alone_what_a_worker_starts_with(perdure: Terminal) -> None:
    """Its modules are some hundred thousand objects, which no run makes garbage."""
    run = perdure("run", "keeper", "Go.")
    told = re.search(r"<- kept (\d+)", run.err)
    assert told is not None
    assert int(told[1]) > 100_000


def test_ctrl_c_leaves_the_run_going(perdure: Terminal) -> None:
    """Ctrl-C ends the command only, and says how to go on; a run that is cancelled ends its viewers with code 4."""
    run = perdure.start("run", "sleeper", "Go.")
    run.until(lambda: "-> sleep" in run.err)
    session = run.session
    left = perdure.start("run", "sleeper", "And again.", "--session", session, "--json")
    left.until(lambda: f"of session {session}" in left.err)
    left.send(signal.SIGINT)
    assert left.wait() == 130
    assert left.json["session"] == session
    assert left.json["error"]["type"] == "Interrupted"
    assert f"perdure sessions events {session} --follow" in left.err
    assert runs_of(perdure, session) == ["running", "queued"]
    assert (
        perdure("sessions", "cancel", session, "--run", left.json["run"]).out
        == "cancelled\nwithdrawn from the queue: 1\n"
    )
    said = perdure("sessions", "cancel", session).out
    assert said.startswith(("cancelled\n", "recorded;"))  # a busy worker may take longer than the command waits
    assert run.wait() == 4
    assert "the run was cancelled" in run.err


def test_text_of_a_dead_attempt_is_said_to_be_void(perdure: Terminal) -> None:
    """A worker dies in the middle of an answer: the text begins again, and stderr says so."""
    middle = uuid.uuid4().hex
    run = perdure.start("run", "teller", plan({"say": [TEXT[:15], gate(middle), TEXT[15:]]}))
    run.until(lambda: run.out == TEXT[:15])
    os.kill(worker_of(perdure.folder), signal.SIGKILL)
    (perdure.folder / middle).touch()
    assert run.wait() == 0
    void, answer = run.out.splitlines()
    assert void == TEXT[:15]
    assert answer == TEXT
    assert "is void" in run.err


@pytest.mark.parametrize("session", ["", "a" * 300, "🦀", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"])
def test_a_session_id_that_is_none_is_refused(perdure: Terminal, session: str) -> None:
    """An id that no session can have is refused with a remedy, by every command that takes one."""
    perdure("run", "calc", "x", "--session", session, code=2).check_error("is not a UUIDv4", "uuid.uuid4()")
    perdure("sessions", "show", session, code=2).check_error("is not a UUIDv4")


def test_what_does_not_exist_is_named(perdure: Terminal) -> None:
    """Unknown agents, sessions, runs and waits are user errors, each with what there is or how to see it."""
    none = str(uuid.uuid4())
    perdure("run", "nobody", "x", code=2).check_error(
        "'nobody'", "registered are buyer, calc, chooser, clerk, keeper, payer, sleeper, slow, teller"
    )
    perdure("run", "calc", "x", "--session", none, code=2).check_error(none)
    perdure("sessions", "pause", none, code=2).check_error(none, "perdure sessions list")
    perdure("runs", "show", none, code=2).check_error(none, "perdure sessions show")
    perdure("waits", "answer", none, "--not-run", code=2).check_error(none, "perdure waits list")
    error = perdure("sessions", "events", none, "--json", code=2).json["error"]
    assert error["type"] == "UnknownSession"
    assert none in error["message"]
