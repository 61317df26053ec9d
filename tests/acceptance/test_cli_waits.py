"""`perdure waits` and `perdure runs show`: a tool whose outcome is unknown, asked about and answered."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from tests.acceptance.terminal import Terminal


def test_a_person_answers_for_a_tool_that_may_have_run(perdure: Terminal) -> None:
    """A `once` tool whose process died is asked about; the answer is its result, and counts once."""
    run = perdure.start("run", "clerk", "Open one.")
    run.until(lambda: "waits for an answer" in run.err)
    (wait,) = [wait for wait in perdure("waits", "list", "--json").json["waits"] if wait["kind"] == "outcome"]
    assert wait["asked"]["tool"] == "open_ticket"
    assert wait["wait"] in perdure("waits", "list", "--session", wait["session"]).out
    assert f"perdure waits answer {wait['wait']}" in perdure("sessions", "show", wait["session"]).out
    refuse_bad_answers(perdure, wait["wait"])
    answered = perdure("waits", "answer", wait["wait"], "--happened", '"T-1"', "--by", "Ada", "--json").json
    assert answered["answered_by"] == "Ada"
    assert run.wait() == 0
    assert run.out == "Done.\n"
    assert "<- open_ticket T-1" in run.err
    perdure("waits", "answer", wait["wait"], "--not-run", code=2).check_error(wait["wait"])
    check_run(perdure, wait["run"])


def refuse_bad_answers(perdure: Terminal, wait: str) -> None:
    perdure("waits", "answer", wait, code=2).check_error("--happened", "--not-run")
    perdure("waits", "answer", wait, "--not-run", "--unknown", code=2).check_error("one answer")
    perdure("waits", "answer", wait, "--happened", "T-1", code=2).check_error("""--happened '"T-1"'""")
    perdure("waits", "answer", wait, "--result", "1", code=2).check_error("outcome")
    perdure("waits", "answer", wait, "--not-run", "--error", code=2).check_error("--error")


def check_run(perdure: Terminal, run: str) -> None:
    """The run's page has the call, and a command that opens its history in Temporal."""
    shown = perdure("runs", "show", run, "--json").json
    (call,) = shown["tool_calls"]
    assert (call["tool"], call["effect"], call["state"]) == ("open_ticket", "once", "done")
    assert (shown["status"], shown["steps"], shown["model_calls"]) == ("completed", 2, 2)
    page = perdure("runs", "show", run).out
    command = page.splitlines()[-1]
    assert command == shown["temporal"]["command"]
    program = Path(sysconfig.get_path("scripts")) / "temporal"
    environment = {**os.environ, "HOME": str(perdure.folder)}
    history = subprocess.run(
        [program, *shlex.split(command)[1:]], env=environment, capture_output=True, text=True, check=True
    )
    assert "WorkflowExecutionStarted" in history.stdout
