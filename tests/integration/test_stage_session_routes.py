"""Stage sessions for operators: what the API shows of them, how they are steered, answered, followed and deleted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from perdure.uap.session_key import SessionKey
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.door_stages import DESK, ODD, TTL_S
from tests.integration.event_api import Viewer
from tests.integration.facts import until_forgotten
from tests.integration.stack import Stack, eventually
from tests.integration.stage_door import PATIENTLY, Door, desk_worker, detail_of, door_of, until_begun

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSIONS = "/api/stage-sessions"


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    """A worker and a server that no test kills."""
    with desk_worker(stack):
        process = ApiProcess(stack).wait_ready()
        yield process
        process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(api: ApiProcess) -> AsyncGenerator[Door]:
    async with door_of(api) as made:
        yield made


async def waiting(door: Door, amount: int = 5) -> tuple[str, str, str]:
    """A session in which a task waits for a person: its id, the action's, and the path of its answer."""
    session = await door.initialize()
    asked = await door.call(session, "spend", amount=amount, key="spending")
    assert asked["status"] == "waiting"
    return session, asked["action_id"], f"{SESSIONS}/{session}/actions/{asked['action_id']}/answer"


async def test_a_session_shows_what_can_be_done_now(door: Door) -> None:
    session = await door.initialize()
    before = await door.shown(session)
    assert (before["workflow"], before["stage"], before["status"], before["state"]) == (DESK, "front", "open", {})
    assert before["ways_on"] == [{"stage": "back", "missing": ["user.email"]}]
    assert [tool["name"] for tool in before["tools"]] == [
        "echo", "count", "fail", "hold", "spend", "transition_stage", "terminate_session",
    ]  # fmt: skip
    assert (before["wait"], before["actions"], before["open_actions"]) == (None, 0, 0)
    await door.call(session, "count")
    checked(await door.execute(session, "state_input", state_updates={"user.email": "a@b.example"}))
    ready = await door.shown(session)
    assert ready["ways_on"] == [{"stage": "back", "missing": []}]
    assert ready["expires_at"] > before["expires_at"]
    moved = checked(await door.execute(session, "stage_transition", stage="back"))
    after = await door.shown(session)
    assert (after["stage"], after["ways_on"], after["actions"]) == ("back", [], 3)
    assert after["state"] == {"count": 1, "user.email": "a@b.example"}
    assert after["tools"] == moved["tools"]
    schema = checked(await door.http.get("/api/workflows"))["workflows"]
    assert after["definition"] in [one["definition"] for one in schema if one["name"] == DESK]


async def test_a_session_expires_after_its_workflows_time(door: Door, stack: Stack) -> None:
    """What it shows then is an end, and clients find no session."""
    session = await door.initialize()
    async with stack.connect() as sessions:
        row = await sessions.stages.find(session)
        assert row.expires_at is not None
        assert (row.expires_at - row.created_at).total_seconds() == pytest.approx(TTL_S, abs=1)
        async with sessions.database.driver() as connection:
            await connection.execute(
                "update perdure.stage_sessions set expires_at = now() - interval '1 s', "
                "settled_at_ms = settled_at_ms - $2 where id = $1",
                session,
                (TTL_S + 1) * 1000,
            )
    shown = await door.shown(session)
    assert (shown["status"], shown["tools"], shown["expires_at"]) == ("expired", [], None)
    assert detail_of(await door.execute(session, "handshake"), 404) == "Session not found"
    paused = checked(await door.http.post(f"{SESSIONS}/{session}/pause"))
    assert paused["state"] == "expired"


async def test_sessions_are_listed_by_pages_and_filters(door: Door) -> None:
    """Each session once, newest first, also while others are opened."""
    made = [await door.initialize(ODD) for _ in range(5)]
    checked(await door.execute(made[0], "terminate_session", workflow=ODD))
    found: list[str] = []
    query: dict[str, Any] = {"workflow": ODD, "limit": 2}
    while True:
        page = checked(await door.http.get(SESSIONS, params=query))
        found += [one["session"] for one in page["stage_sessions"]]
        await door.initialize(ODD)
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert found[:5] == made[::-1]
    assert len(set(found)) == len(found)

    async def listed(**filters: Any) -> list[str]:
        page = checked(await door.http.get(SESSIONS, params=filters))
        return [one["session"] for one in page["stage_sessions"]]

    assert await listed(workflow=ODD, status="terminated") == [made[0]]
    assert made[0] not in await listed(workflow=ODD, stage="front", status="open")
    assert await listed(workflow=ODD, stage="back") == []
    assert await listed(workflow="nobody's\0") == []
    assert code_of(await door.http.get(SESSIONS, params={"status": "gone"}), 422) == "invalid_input"
    assert code_of(await door.http.get(SESSIONS, params={"stage": "front"}), 422) == "invalid_input"
    assert code_of(await door.http.get(SESSIONS, params={"after": "x"}), 422) == "invalid_input"


async def test_a_history_has_what_was_asked_in_order(door: Door, tmp_path: Path) -> None:
    """What was refused too, and what is not done yet; each action's page has its reply."""
    session, gate = await door.initialize(), tmp_path / "gate"
    await door.call(session, "echo", value="x")
    detail_of(await door.execute(session, "stage_transition", stage="back"), 422)
    await door.call(session, "fail")
    held = await door.call(session, "hold", gate=str(gate), query={"wait_s": 0})
    path = f"{SESSIONS}/{session}/history"
    first = checked(await door.http.get(path, params={"limit": 2}))
    rest = checked(await door.http.get(path, params={"limit": 3, "after": first["next"]}))
    actions = [*first["actions"], *rest["actions"]]
    assert rest["next"] is None
    assert [(one["ordinal"], one["name"], one["status"], one["http"]) for one in actions] == [
        (1, "echo", "ok", 200),
        (2, "back", "input_required", 422),
        (3, "fail", "error", 200),
        (4, "hold", "", None),
    ]
    assert actions[0]["arguments"] == {"value": "x"}
    page = f"{SESSIONS}/{session}/actions/{held['action_id']}"
    shown = checked(await door.http.get(page))
    assert (shown["reply"]["status"], shown["http"]) == ("running", 200)
    await until_begun(gate)
    gate.touch()

    async def settled() -> Any:
        found = checked(await door.http.get(page))
        return found if found["state"] == "settled" else None

    done = await eventually(settled, what="the action")
    assert (done["status"], done["http"], done["reply"]["result"]) == ("ok", 200, "let go")
    refused = checked(await door.http.get(f"{SESSIONS}/{session}/actions/{actions[1]['action_id']}"))
    assert (refused["http"], refused["reply"]["missing"]) == (422, ["user.email"])


async def test_a_person_approves_and_the_call_goes_on(door: Door) -> None:
    """Whoever waits for it is answered; it is answered once."""
    session, action, path = await waiting(door)
    wait = (await door.shown(session))["wait"]
    assert (wait["action_id"], wait["kind"], wait["task"], wait["arguments"]) == (
        action,
        "approval",
        "spend",
        {"amount": 5},
    )
    listed = checked(await door.http.get("/api/stage-waits"))["waits"]
    assert wait in listed
    asking = asyncio.create_task(door.call(session, "spend", amount=5, key="spending"))
    answered = checked(await door.http.post(path, json={"answer": {"approved": True, "arguments": {"amount": 3}}}))
    assert answered["wait"]["answered_by"] == "anonymous"
    done = await asking
    assert (done["status"], done["result"], done["action_id"]) == ("ok", 3, action)
    assert (await door.shown(session))["state"] == {"spent": 3}
    again = await door.http.post(path, json={"answer": {"approved": False}})
    assert code_of(again, 409) == "wait_answered"
    assert action not in [one["action_id"] for one in checked(await door.http.get("/api/stage-waits"))["waits"]]


async def test_a_person_denies_and_nothing_is_done(door: Door) -> None:
    session, action, path = await waiting(door)
    checked(await door.http.post(path, json={"answer": {"approved": False}, "reason": "too much"}))
    done = await door.call(session, "spend", amount=5, key="spending")
    assert (done["status"], done["action_id"]) == ("error", action)
    assert "too much" in done["error"]["message"]
    assert (await door.shown(session))["state"] == {}


async def test_an_answer_that_cannot_be_used_is_refused(door: Door) -> None:
    """And the wait stays; what waits for nobody cannot be answered."""
    session, _, path = await waiting(door)
    unusable: list[Any] = [
        {}, {"approved": "yes"}, {"outcome": "done"}, {"approved": True, "arguments": []}, {"approved": True, "x": 1},
    ]  # fmt: skip
    for answer in unusable:
        assert code_of(await door.http.post(path, json={"answer": answer}), 422) == "invalid_input"
    nobody = f"{SESSIONS}/{session}/actions/{uuid.uuid4()}/answer"
    assert code_of(await door.http.post(nobody, json={"answer": {"approved": True}}), 404) == "unknown_action"
    other = await door.initialize()
    counted = await door.call(other, "count")
    idle = f"{SESSIONS}/{other}/actions/{counted['action_id']}/answer"
    assert code_of(await door.http.post(idle, json={"answer": {"approved": True}}), 404) == "unknown_wait"
    elsewhere = path.replace(session, other)
    assert code_of(await door.http.post(elsewhere, json={"answer": {"approved": True}}), 404) == "unknown_action"
    assert (await door.shown(session))["wait"]["answered_by"] == ""


async def test_waits_are_listed_by_pages(door: Door) -> None:
    made = [(await waiting(door))[1] for _ in range(3)]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    while True:
        page = checked(await door.http.get("/api/stage-waits", params=query))
        found += [one["action_id"] for one in page["waits"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert [action for action in found if action in made] == made
    assert len(set(found)) == len(found)
    assert code_of(await door.http.get("/api/stage-waits", params={"after": "x"}), 422) == "invalid_input"


async def test_events_are_followed_across_connections(door: Door, api: ApiProcess) -> None:
    """From the number of the last one that came, as of agents' sessions; a filter holds."""
    session = await door.initialize()
    viewer = Viewer(f"{SESSIONS}/{session}/events")
    assert not await viewer.read(door.http, api.url, most=1)
    reading = asyncio.create_task(viewer.read(door.http, api.url, most=2))
    await door.call(session, "echo", value="x")
    await reading
    checked(await door.execute(session, "state_input", state_updates={"user.email": "a@b.example"}))
    checked(await door.execute(session, "stage_transition", stage="back"))
    while [event["type"] for event in viewer.events].count("stage.action_settled") < 3:
        await viewer.read(door.http, api.url, most=1)
    assert viewer.seqs == list(range(1, len(viewer.seqs) + 1))
    assert {event["source"] for event in viewer.events} == {"stage"}
    assert viewer.events[0]["type"] == "stage.opened"
    moves = Viewer(f"{SESSIONS}/{session}/events?types=stage.moved&sources=stage")
    await moves.read(door.http, api.url, most=1)
    assert [event["data"]["to"] for event in moves.events] == ["back"]
    beyond = await door.http.get(f"{SESSIONS}/{session}/events", headers={"Last-Event-ID": "9999"})
    assert code_of(beyond, 422) == "invalid_input"
    assert code_of(await door.http.get(f"{SESSIONS}/{uuid.uuid4()}/events"), 404) == "session_not_found"


async def test_controls_may_be_asked_for_again(door: Door) -> None:
    session = await door.initialize()
    for control, state in [
        ("resume", "resumed"), ("pause", "paused"), ("pause", "paused"), ("resume", "resumed"),
        ("terminate", "terminated"), ("terminate", "terminated"), ("pause", "terminated"), ("resume", "terminated"),
    ]:  # fmt: skip
        body: Any = {} if control == "terminate" else None
        path = f"{SESSIONS}/{session}/{control}"
        reached = checked(await door.http.post(path, json=body, params=PATIENTLY))
        assert (control, reached["state"]) == (control, state)
    assert (await door.shown(session))["status"] == "terminated"


async def test_a_deleted_session_is_gone_whole(door: Door, stack: Stack, tmp_path: Path) -> None:
    """With its rows and executions; not while an action is open, unless by force. Who follows or waits is told."""
    session, gate = await door.initialize(), tmp_path / "gate"
    asking = asyncio.create_task(door.execute(session, "method_call", task="hold", args={"gate": str(gate)}))
    await until_begun(gate)
    path = f"{SESSIONS}/{session}"
    assert code_of(await door.http.delete(path), 409) == "action_open"
    assert (await door.http.delete(path, params={"force": True})).status_code == 204
    assert detail_of(await asking, 404) == "Session not found"
    for gone in (path, f"{path}/history", f"{path}/events"):
        assert code_of(await door.http.get(gone), 404) == "session_not_found"
    assert detail_of(await door.execute(session, "handshake"), 404) == "Session not found"
    assert code_of(await door.http.delete(path), 404) == "session_not_found"
    async with stack.connect() as sessions:
        await until_forgotten(sessions, SessionKey(sessions.tenant, session).stage_workflow_id)
        async with sessions.database.driver() as connection:
            for table in ("stage_sessions", "stage_actions", "stage_values", "session_heads", "events"):
                column = "id" if table == "stage_sessions" else "session_id"
                assert (
                    await connection.fetchval(f"select count(*) from perdure.{table} where {column} = $1", session) == 0
                )


@pytest.mark.parametrize("session", ["nope", "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11", "%00", "x" * 300])
async def test_a_session_that_there_is_not_is_not_found(door: Door, session: str) -> None:
    """Whatever its id is: never malformed, never a fault of the server."""
    for method, path, body in [
        ("GET", "", None), ("GET", "/history", None), ("GET", "/events", None), ("POST", "/pause", None),
        ("POST", "/resume", None), ("POST", "/terminate", {}), ("DELETE", "", None), ("GET", "/actions/x", None),
        ("POST", "/actions/x/answer", {"answer": {"approved": True}}),
    ]:  # fmt: skip
        response = await door.http.request(method, f"{SESSIONS}/{session}{path}", json=body)
        assert code_of(response, 404) == "session_not_found"
