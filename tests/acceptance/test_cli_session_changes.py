"""`perdure sessions` that change something: branches, files, titles, deletion, cancelling; and the approval of a call."""

from __future__ import annotations

import json
import signal
import uuid
from typing import Any

from tests.acceptance.terminal import Terminal


def calculated(perdure: Terminal) -> tuple[str, str]:
    """The session of a completed run of two steps, and its root node."""
    session: str = perdure("run", "calc", "1+2?", "--json").json["session"]
    (node,) = perdure("sessions", "show", session, "--json").json["nodes"]
    return session, node["node"]


def checkpoints(perdure: Terminal, session: str) -> list[str]:
    """A session's checkpoints, oldest first."""
    events = perdure("sessions", "events", session, "--json").json["events"]
    return [event["data"]["checkpointId"] for event in events if event["type"] == "checkpoint"]


def test_a_session_is_branched_and_merged(perdure: Terminal) -> None:
    """Fork, checkout and merge say which node is current; the same key is the same change."""
    session, root = calculated(perdure)
    branch = perdure("sessions", "fork", session, root, "--name", "other", "--key", "k", "--json").json["node"]
    assert perdure("sessions", "fork", session, root, "--name", "other", "--key", "k").out == f"{branch}\n"
    shown = perdure("sessions", "show", session, "--json").json
    assert {(node["node"], node["parent"], node["name"]) for node in shown["nodes"]} == {
        (root, None, "main"),
        (branch, root, "other"),
    }
    assert perdure("sessions", "checkout", session, branch).out == f"current node: {branch}\n"
    assert perdure("run", "calc", "And?", "--session", session, "--json").json["status"] == "completed"
    merged = perdure("sessions", "merge", session, branch, root, "--json").json
    assert (merged["session"], merged["state"]) == (session, "changed")
    unknown = str(uuid.uuid4())
    perdure("sessions", "checkout", session, unknown, code=2).check_error(unknown)
    perdure("sessions", "fork", unknown, root, code=2).check_error(unknown)


def test_a_session_goes_back_to_a_checkpoint(perdure: Terminal) -> None:
    """Restore makes a branch current; resume-run goes on with the run's second step, on another branch."""
    session, root = calculated(perdure)
    first, *_ = checkpoints(perdure, session)
    restored = perdure("sessions", "restore", session, first, "--json").json["current"]
    assert restored != root
    run = perdure("sessions", "resume-run", session, first, "--json").json["run"]
    following = perdure.start("sessions", "events", session, "--follow", "--json")
    following.until(lambda: any(_ends(line, run) for line in following.out.splitlines()))
    following.send(signal.SIGINT)
    assert following.wait() == 130
    assert perdure("runs", "show", run, "--json").json["status"] == "completed"
    perdure("sessions", "restore", session, str(uuid.uuid4()), code=2).check_error("Checkpoint not found")


def _ends(line: str, run: str) -> bool:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return False
    return event["run"] == run and event["type"] == "run.completed"


def test_a_session_is_taken_along_in_a_file(perdure: Terminal) -> None:
    """Export, delete, import, export: the same document; a second import of an id that is there is refused."""
    session, _ = calculated(perdure)
    file = perdure.folder / "taken.json"
    written = perdure("sessions", "export", session, "--output", str(file), "--json").json
    assert written == {"session": session, "file": str(file), "bytes": file.stat().st_size}
    assert perdure("sessions", "delete", session, "--json").json["sessions"] == 1
    perdure("sessions", "show", session, code=2).check_error(session)
    assert perdure("sessions", "import", str(file), "--agent", "calc", "--json").json == {
        "session": session,
        "agent": "calc",
    }
    before, after = json.loads(file.read_text(encoding="utf-8")), perdure("sessions", "export", session).json
    assert after["threadTree"] == before["threadTree"]
    assert after["id"] == session
    perdure("sessions", "import", str(file), "--agent", "calc", code=2).check_error(session)
    perdure("sessions", "import", "-", "--agent", "calc", stdin="{", code=2).check_error("JSON")
    assert perdure("run", "calc", "And?", "--session", session, "--json").json["status"] == "completed"


def test_a_session_is_taken_along_as_a_thread(perdure: Terminal) -> None:
    """ThreadProtocol's JSON out, and in as another session that goes on; what breaks its rules is refused or mended."""
    session, _ = calculated(perdure)
    thread = perdure("sessions", "thread", session).json
    assert [action["action_type"] for action in thread["actions"]][:2] == ["user_message", "system.agent_join"]
    canonical = perdure("sessions", "thread", session, "--canonical").out
    assert json.loads(canonical) == thread
    assert perdure("sessions", "thread", session, "--all").json == [thread]
    perdure("sessions", "thread", session, "--node", "nobody", code=2).check_error("nobody")
    perdure("sessions", "thread", session, "--all", "--canonical", code=2).check_error("--all")
    file = perdure.folder / "thread.json"
    file.write_text(canonical, encoding="utf-8")
    made = perdure("sessions", "import-threads", str(file), "--agent", "calc", "--json").json
    assert (made["agent"], made["mended"]) == ("calc", [])
    assert perdure("run", "calc", "And?", "--session", made["session"], "--json").json["status"] == "completed"
    thread["actions"][1]["sequence"] = 7
    file.write_text(json.dumps(thread), encoding="utf-8")
    refused = perdure("sessions", "import-threads", str(file), "--agent", "calc", code=2)
    refused.check_error("actions[1].sequence")
    assert "mended: " in perdure("sessions", "import-threads", str(file), "--agent", "calc", "--lenient").err
    perdure("sessions", "import-threads", "-", "--agent", "calc", stdin="{", code=2).check_error("JSON")


def test_title_and_metadata_are_changed(perdure: Terminal) -> None:
    """Each key by itself; what is no JSON is refused whole."""
    session, _ = calculated(perdure)
    changed = perdure(
        "sessions", "patch", session, "--title", "Sums", "--metadata", "a=1", "--metadata", 'b="x"', "--json"
    )
    assert changed.json == {"session": session, "title": "Sums", "metadata": {"a": 1, "b": "x"}, "limits": None}
    assert perdure("sessions", "patch", session, "--remove", "a").out == "changed\n"
    shown = perdure("sessions", "show", session, "--json").json
    assert (shown["title"], shown["metadata"]) == ("Sums", {"b": "x"})
    perdure("sessions", "patch", session, code=2).check_error("--title")
    perdure("sessions", "patch", session, "--metadata", "c=x", code=2).check_error("no JSON")


def test_everything_of_a_session_is_cancelled_then_deleted(perdure: Terminal) -> None:
    """`cancel --all` takes the active run and the queue; an open session is deleted only by force; then it is gone."""
    running = perdure.start("run", "sleeper", "Sleep.")
    running.until(lambda: "-> sleep" in running.err)
    session = running.session
    queued = perdure("run", "sleeper", "Again.", "--session", session, "--no-wait", "--json").json["run"]
    perdure("sessions", "delete", session, code=2).check_error("is open", "force")
    cancelled = perdure("sessions", "cancel", session, "--all", "--json").json
    assert cancelled["withdrawn"] == [queued]
    assert cancelled["state"] in ("cancelled", "recorded")  # a busy worker may take longer than the command waits
    assert running.wait() == 4
    shown = perdure("sessions", "show", session, "--json").json
    assert {run["status"] for run in shown["runs"]} == {"cancelled"}
    perdure("sessions", "cancel", session, "--all", "--run", queued, code=2).check_error("--run")
    assert perdure("sessions", "delete", session, "--force").out == "deleted\n"
    assert perdure("sessions", "delete", session).out == "there was no such session\n"


def test_a_session_s_one_approval_needs_no_id(perdure: Terminal) -> None:
    """`sessions approve` answers it; with several it says which there are, and `waits` answers each."""
    run = perdure.start("run", "payer", "Pay.")
    run.until(lambda: "waits for an answer" in run.err)
    approved = perdure("sessions", "approve", run.session, "--arguments", '{"amount": 7}', "--by", "Ada", "--json").json
    assert (approved["answered_by"], approved["answer"]["decision"]) == ("Ada", "approve")
    assert run.wait() == 0
    assert "paid 7" in run.err
    perdure("sessions", "approve", run.session, code=2).check_error("waits for no approval")
    both = perdure.start("run", "buyer", "Buy.")
    both.until(lambda: both.err.count("waits for an answer") == 2)
    waits = perdure("waits", "list", "--session", both.session, "--json").json["waits"]
    first, second = sorted(waits, key=lambda wait: wait["asked"]["arguments"]["amount"])
    perdure("sessions", "approve", both.session, code=2).check_error("2 approvals", first["wait"], second["wait"])
    assert perdure("waits", "approve", first["wait"], "--json").json["answer"]["decision"] == "approve"
    perdure("waits", "reject", second["wait"], "--reason", "too much")
    assert both.wait() == 0
    assert "paid 1" in both.err
    assert "too much" in both.err
    calls = perdure("runs", "show", first["run"], "--json").json["tool_calls"]
    assert [(call["tool"], call["state"]) for call in calls] == [("pay", "done"), ("pay", "done")]


def test_a_client_s_tool_is_answered(perdure: Terminal) -> None:
    """`waits answer --result` is what the model is told; a second answer is refused."""
    run = perdure.start("run", "chooser", "Choose.")
    run.until(lambda: "waits for an answer" in run.err)
    (wait,) = perdure("waits", "list", "--session", run.session, "--json").json["waits"]
    assert (wait["kind"], wait["asked"]["tool"]) == ("client_tool", "pick")
    perdure("waits", "approve", wait["wait"], code=2)
    perdure("waits", "answer", wait["wait"], "--result", '"red"')
    assert run.wait() == 0
    assert run.out == "Chosen.\n"
    perdure("waits", "answer", wait["wait"], "--result", '"blue"', code=2).check_error(wait["wait"])
    assert "pick red" in run.err
