"""`perdure stages`, on the approval process: an agent asks over HTTP, and a person says yes or no in a terminal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import PLACE
from tests.acceptance.stage_walks import Walk, bodies, served
from tests.acceptance.terminal import Forks, Terminal

LINES = bodies("approval_stages")
ABSENT = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Office:
    """Where requests for money are made and approved."""

    terminal: Terminal
    url: str

    def stages(self, *arguments: str, code: int = 0) -> Any:
        """The JSON of a command."""
        return self.terminal("stages", *arguments, "--json", code=code).json

    def asked(self, upto: int = 4) -> Walk:
        """A session in which the first lines of the example were sent: by default all up to the question."""
        walk = Walk(self.url)
        for line in LINES[:upto]:
            walk.send(line)
        return walk


@pytest.fixture(scope="module")
def office(forks: Forks) -> Iterator[Office]:
    with (
        tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as place,
        served(forks, Path(place), "examples.approval_stages:app") as (terminal, url),
    ):
        yield Office(terminal, url)


def test_a_person_says_yes_and_the_example_goes_on(office: Office) -> None:
    """What waits is listed with what is asked, answered once, and then the rest of the docstring works."""
    walk = office.asked()
    assert walk.replies[-1][1]["status"] == "waiting"
    (wait,) = office.stages("list", "--waiting")["waits"]
    assert (wait["session"], wait["task"], wait["kind"]) == (walk.session, "decide", "approval")
    assert wait["arguments"] == LINES[3]["args"]
    assert wait["action_id"] in office.terminal("stages", "list", "--waiting").out
    question = f"perdure stages answer {walk.session} {wait['action_id']}"
    assert question in office.terminal("stages", "show", walk.session).out
    said = office.terminal("stages", "answer", walk.session, wait["action_id"], "--approve", "--by", "Ada")
    assert said.out == f"answered; session {walk.session} goes on\n"
    again = office.terminal("stages", "answer", walk.session, wait["action_id"], "--deny", code=2)
    again.check_error("was answered by Ada")
    for line in LINES[4:]:
        walk.send(line)
    assert [reply["status"] for _, reply in walk.replies[4:]] == ["ok", "ok"]
    assert walk.replies[-1][1]["result"]["supplier"] == "Stationer"
    assert office.stages("list", "--waiting")["waits"] == []
    assert "nothing waits" in office.terminal("stages", "list", "--waiting").err


def test_a_person_decides_otherwise(office: Office) -> None:
    """With other arguments it is another decision; a denial says why to the client."""
    walk = office.asked()
    action = walk.replies[-1][1]["action_id"]
    changed = '{"verdict": "reject", "reason": "Not this year."}'
    answered = office.stages("answer", walk.session, action, "--approve", "--arguments", changed, "--by", "Ada")
    assert answered["wait"]["answered_by"] == "Ada"
    walk.send(LINES[4])
    assert walk.replies[-1][1]["missing"] == ["approved"]
    walk.send(LINES[3], **{"Idempotency-Key": "second"})
    action = walk.replies[-1][1]["action_id"]
    office.stages("answer", walk.session, action, "--deny", "--reason", "No money.", "--by", "Ada")
    reply = walk.send(LINES[3], **{"Idempotency-Key": "second"})
    assert (reply["status"], reply["error"]["type"]) == ("error", "Denied")
    assert "No money." in reply["error"]["message"]


def test_the_history_and_the_state_of_a_session(office: Office) -> None:
    """Also what was refused stands there, in order; the state is what the tasks wrote."""
    walk = office.asked(2)
    walk.send(LINES[4])
    told = office.stages("history", walk.session)["actions"]
    assert [(one["ordinal"], one["name"], one["http"]) for one in told] == [
        (1, "write_request", 200),
        (2, "purchase", 422),
    ]
    assert [one["child"] for one in told] == [None, None]
    assert [one["ordinal"] for one in office.stages("history", walk.session, "--after", "1")["actions"]] == [2]
    page = office.terminal("stages", "history", walk.session, "--limit", "1")
    assert "method_call write_request" in page.out
    assert "--after 1" in page.err
    assert office.stages("state", walk.session)["state"]["request"]["amount_eur"] == 240
    assert "Stationer" in office.terminal("stages", "state", walk.session).out
    shown = office.stages("show", walk.session)
    assert (shown["stage"], shown["status"], shown["actions"]) == ("draft", "open", 2)
    assert [tool["name"] for tool in shown["tools"]] == ["write_request", "transition_stage", "terminate_session"]
    assert "can go to review" in office.terminal("stages", "show", walk.session).out


def test_sessions_are_paused_resumed_and_terminated(office: Office) -> None:
    """Each command says what it came to; what is handed in meanwhile waits; an end is for good."""
    walk = office.asked(1)
    assert office.terminal.reached("stages", "pause", walk.session).out == "paused\n"
    assert office.stages("show", walk.session)["status"] == "paused"
    assert walk.send(LINES[1])["status"] == "paused"
    assert office.terminal.reached("stages", "resume", walk.session, "--json").json["state"] == "resumed"
    walk.send(LINES[2])
    assert walk.replies[-1][1]["current_stage"] == "review"
    walk.send(LINES[3])
    assert office.terminal.reached("stages", "terminate", walk.session, "--reason", "enough").out == "terminated\n"
    shown = office.stages("show", walk.session)
    assert (shown["status"], shown["ended_reason"], shown["open_actions"]) == ("terminated", "enough", 0)
    assert office.stages("terminate", walk.session)["state"] == "terminated"
    walk.send(LINES[2])
    assert walk.replies[-1] == (404, {"detail": "Session not found"})


def test_a_list_is_read_page_by_page(office: Office) -> None:
    """Newest first, filtered by workflow, stage and status."""
    made = [office.asked(1).session for _ in range(3)]
    first = office.stages("list", "--limit", "2")
    second = office.stages("list", "--limit", "1", "--before", first["next"])
    assert [row["session"] for row in first["stage_sessions"] + second["stage_sessions"]] == made[::-1]
    table = office.terminal("stages", "list", "--limit", "1")
    assert made[-1] in table.out
    assert "--before" in table.err
    office.terminal.reached("stages", "terminate", made[0])
    ended = office.stages("list", "--status", "terminated", "--workflow", "purchase_approval", "--stage", "draft")
    assert made[0] in [row["session"] for row in ended["stage_sessions"]]
    assert office.stages("list", "--workflow", "nope")["stage_sessions"] == []


def test_workflows_are_listed(office: Office) -> None:
    (served_now,) = office.stages("workflows")["workflows"]
    assert served_now["stages"] == ["draft", "review", "purchase"]
    assert "purchase_approval" in office.terminal("stages", "workflows", "--search", "MONEY").out
    assert "no workflow" in office.terminal("stages", "workflows", "--search", "nothing like it").err


def test_what_cannot_be_used_is_said(office: Office) -> None:
    """Each in one line, with the remedy; a session that there is not is no fault of a server."""
    session = office.asked(1).session
    for command in ("show", "history", "state", "pause", "terminate"):
        office.terminal("stages", command, ABSENT, code=2).check_error(ABSENT, "perdure stages list")
    office.terminal("stages", "show", "x" * 50, code=2).check_error("perdure stages list")
    office.terminal("stages", "answer", session, ABSENT, code=2).check_error("--approve", "--not-done")
    both = office.terminal("stages", "answer", session, ABSENT, "--approve", "--deny", code=2)
    both.check_error("one answer")
    office.terminal("stages", "answer", session, ABSENT, "--deny", "--arguments", "{}", code=2).check_error("--approve")
    office.terminal("stages", "answer", session, ABSENT, "--approve", code=2).check_error("no action")
    office.terminal("stages", "list", "--stage", "draft", code=2).check_error("workflow")
    office.terminal("stages", "list", "--waiting", "--stage", "draft", code=2).check_error("--limit only")
    office.terminal("stages", "list", "--before", "yesterday", code=2).check_error("cursor")
