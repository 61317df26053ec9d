"""The UAIP door over real HTTP: what is asked is stored first, and answered whatever happens to who answers."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from perdure.store.policies import MAX_QUEUED
from tests.integration.api_server import ApiProcess, checked
from tests.integration.door_stages import DESK, ODD
from tests.integration.relay import relay_to
from tests.integration.stack import Stack, eventually
from tests.integration.stage_door import (
    KEY,
    PATIENTLY,
    SESSION,
    Door,
    desk_worker,
    detail_of,
    door_of,
    times_begun,
    until_begun,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


async def test_a_long_call_is_running_and_its_key_gives_the_result_later(door: Door, tmp_path: Path) -> None:
    """It runs once, however often it is asked for; another action with its key is a conflict."""
    session, gate, key = await door.initialize(), tmp_path / "gate", uuid.uuid4().hex
    first = await door.call(session, "hold", gate=str(gate), key=key, query={"wait_s": 0.2})
    assert (first["status"], first["task"], first["current_stage"]) == ("running", "hold", "front")
    again = await door.call(session, "hold", gate=str(gate), key=key, query={"wait_s": 0})
    assert (again["status"], again["action_id"]) == ("running", first["action_id"])
    other = await door.execute(session, "method_call", task="count", key=key)
    assert key in detail_of(other, 409)
    await until_begun(gate)
    gate.touch()
    done = await door.call(session, "hold", gate=str(gate), key=key)
    assert (done["status"], done["result"], done["action_id"]) == ("ok", "let go", first["action_id"])
    assert await door.call(session, "hold", gate=str(gate), key=key) == done
    assert times_begun(gate) == 1


async def test_a_server_dies_while_its_caller_waits(stack: Stack, api: ApiProcess, door: Door, tmp_path: Path) -> None:
    """Whoever asks another server with the same key gets the result, and the task has run once."""
    session, gate, key = await door.initialize(), tmp_path / "gate", uuid.uuid4().hex
    dying = await asyncio.to_thread(ApiProcess(stack).wait_ready)
    async with door_of(dying) as lost:
        asking = asyncio.create_task(lost.call(session, "hold", gate=str(gate), key=key))
        await until_begun(gate)
        dying.kill()
        with pytest.raises(httpx.TransportError):
            await asking
    waiting = asyncio.create_task(door.call(session, "hold", gate=str(gate), key=key))
    gate.touch()
    assert (await waiting)["result"] == "let go"
    assert times_begun(gate) == 1


async def test_a_server_that_is_told_to_end_answers_who_waits(stack: Stack, door: Door, tmp_path: Path) -> None:
    """That the action is running, at once; another server has its result."""
    session, gate, key = await door.initialize(), tmp_path / "gate", uuid.uuid4().hex
    leaving = await asyncio.to_thread(ApiProcess(stack).wait_ready)
    async with door_of(leaving) as left:
        asking = asyncio.create_task(left.call(session, "hold", gate=str(gate), key=key))
        await until_begun(gate)
        ended = asyncio.create_task(asyncio.to_thread(leaving.terminate))
        assert (await asking)["status"] == "running"
        assert await ended == 0
    gate.touch()
    assert (await door.call(session, "hold", gate=str(gate), key=key))["status"] == "ok"


async def test_temporal_is_away_and_the_row_is_the_acknowledgement(stack: Stack, door: Door) -> None:
    """The action is answered as running; any worker finds its row and does it, without its being asked for again."""
    session, key = await door.initialize(), uuid.uuid4().hex
    port = int(stack.addresses.temporal.rpartition(":")[2])
    async with relay_to(port) as relay:
        lonely = ApiProcess(stack, PERDURE_TEMPORAL_ADDRESS=f"127.0.0.1:{relay.port}")
        await asyncio.to_thread(lonely.wait_ready)
        relay.cut()
        async with door_of(lonely) as cut_off:
            first = await cut_off.call(session, "count", key=key, query={"wait_s": 0})
        lonely.kill()
    assert first["status"] in ("running", "ok")  # a worker may have been faster than the refusal of a dead connection

    async def settled() -> Any:
        path = f"/api/stage-sessions/{session}/actions/{first['action_id']}"
        found = checked(await door.http.get(path))
        return found if found["state"] == "settled" else None

    assert (await eventually(settled, what="the action"))["reply"]["result"] == 1
    assert (await door.call(session, "count", key=key))["result"] == 1


async def test_postgresql_dies_while_a_caller_waits(stack: Stack, door: Door, tmp_path: Path) -> None:
    """The caller has its result once PostgreSQL is back, in the answer that it waits for."""
    session, gate, key = await door.initialize(), tmp_path / "gate", uuid.uuid4().hex
    asking = asyncio.create_task(door.call(session, "hold", gate=str(gate), key=key, query={"wait_s": 85}))
    await until_begun(gate)
    stack.kill("postgres")
    gate.touch()
    assert (await asking)["result"] == "let go"
    assert times_begun(gate) == 1


async def test_postgresql_away_is_told_in_uaips_words(stack: Stack, door: Door) -> None:
    """While it is away; then the same session goes on."""
    session = await door.initialize()

    async def killed() -> httpx.Response | None:
        with suppress(ProcessLookupError):  # it is not back yet
            stack.kill("postgres")
        return await answered(503)

    async def answered(status: int) -> httpx.Response | None:
        response = await door.http.get(f"/api/workflows/{DESK}")
        assert response.status_code in (200, 503), response.text
        return response if response.status_code == status else None

    away = await eventually(killed, what="an answer without PostgreSQL")
    assert detail_of(away, 503)
    assert away.headers["retry-after"]
    await eventually(lambda: answered(200), what="an answer with PostgreSQL")
    assert checked(await door.execute(session, "handshake"))["status"] == "ok"


async def test_a_state_that_would_be_too_large_is_refused(door: Door) -> None:
    session = await door.initialize()
    refused = await door.execute(session, "state_input", state_updates={"much": "x" * 1_100_000})
    assert detail_of(refused, 413)
    assert (await door.shown(session))["state"] == {}


async def test_a_session_with_too_many_open_actions_takes_no_more(door: Door, stack: Stack) -> None:
    """As many as an inbox holds; the refusal says when to come again."""
    session = await door.initialize()
    async with stack.connect() as sessions, sessions.database.driver() as connection:
        await connection.execute(
            "update perdure.stage_sessions set open_actions = $2 where id = $1", session, MAX_QUEUED
        )
    refused = await door.execute(session, "handshake")
    assert session in detail_of(refused, 429)
    assert refused.headers["retry-after"]


async def test_over_http_2(api: ApiProcess) -> None:
    """The same answers, also to a body that is refused before it is read."""
    async with door_of(api, http1=False, http2=True) as door:
        session = await door.initialize()
        response = await door.execute(session, "method_call", task="echo", args={"value": "x", "times": 3})
        assert (response.http_version, checked(response)["result"]) == ("HTTP/2", "xxx")
        assert response.headers[SESSION] == session
        refused = await door.http.post("/execute", content=b"{" * 50_000)
        assert detail_of(refused, 400) == "Missing X-Session-Id header"
        assert (await door.call(session, "count"))["result"] == 1


@pytest.mark.parametrize("name", [DESK, ODD])
async def test_a_workflow_is_found_by_its_name_in_the_address(door: Door, name: str) -> None:
    shown = checked(await door.http.get(f"/api/workflows/{quote(name, safe='')}"))
    assert (shown["name"], shown["initial_stage"]) == (name, "front")
    assert shown["stages"]["front"]["tasks"]["echo"]["parameters"]["required"] == ["value"]
    session = await door.initialize(name)
    reply = checked(await door.execute(session, "method_call", workflow=name, task="count"))
    assert (reply["workflow"], reply["result"]) == (name, 1)


@pytest.mark.parametrize("name", ["nope", "a/b", "/", "", "..%2f", "x\0y", "é" * 200, "desk/"])
async def test_a_name_that_nobody_serves_is_not_found(door: Door, name: str) -> None:
    response = await door.http.get(f"/api/workflows/{quote(name, safe='')}")
    assert detail_of(response, 404).startswith("Workflow not found: ")
    body = {"workflow_name": name}
    assert detail_of(await door.http.post("/initialize", json=body), 404 if name else 400)


async def test_workflows_are_listed_and_searched(door: Door) -> None:
    listed = checked(await door.http.get("/api/workflows"))["workflows"]
    assert {DESK, ODD} <= {one["name"] for one in listed}
    found = checked(await door.http.get("/api/workflows", params={"search": "A DESK with"}))["workflows"]
    assert [one["name"] for one in found] == [DESK]
    assert found[0]["stages"] == ["front", "back"]
    assert checked(await door.http.get("/api/workflows", params={"search": "\0 nobody's"}))["workflows"] == []


async def test_a_key_opens_one_session(door: Door) -> None:
    """The same key for another workflow is a conflict."""
    headers = {KEY: uuid.uuid4().hex}
    first, again = [
        await door.http.post("/initialize", json={"workflow_name": DESK}, headers=headers) for _ in range(2)
    ]
    assert checked(first) == checked(again)
    assert first.headers[SESSION] == again.headers[SESSION] == first.json()["session_id"]
    other = await door.http.post("/initialize", json={"workflow_name": ODD}, headers=headers)
    assert headers[KEY] in detail_of(other, 409)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'"desk"', b"null", b"\xff", b"\0", b'{"workflow_name": 1}', b'{"workflow_name": ["desk"]}',
        b'{"workflow_name": ""}', b'{"workflow_name": NaN}', b"{}", b"[" * 300 + b"]" * 300, b"[" * 100_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/initialize", "/execute"])
async def test_what_cannot_be_read_is_a_bad_request(door: Door, path: str, content: bytes) -> None:
    response = await door.http.post(path, content=content, headers={SESSION: str(uuid.uuid4())})
    assert detail_of(response, 400)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/octet-stream"])
async def test_a_body_whose_json_nobody_counts_is_not_read(door: Door, kind: str) -> None:
    body = json.dumps({"workflow_name": DESK})
    response = await door.http.post("/initialize", content=body, headers={"content-type": kind})
    assert "application/json" in detail_of(response, 400)


async def test_checks_come_in_the_order_of_the_protocol(door: Door) -> None:
    """Header, JSON, workflow's name, workflow, session, key, action."""
    session, nobody = await door.initialize(), str(uuid.uuid4())
    odd = await door.initialize(ODD)

    async def told(header: str | None, body: Any, status: int, **more: str) -> str:
        headers = more if header is None else {SESSION: header, **more}
        return detail_of(await door.http.post("/execute", json=body, headers=headers), status)

    assert await told(None, [], 400) == "Missing X-Session-Id header"
    assert await told(nobody, {}, 400) == "Missing 'workflow_name'"
    assert await told(nobody, {"workflow_name": "nope"}, 404) == "Workflow not found: nope"
    assert await told(nobody, {"workflow_name": DESK}, 404) == "Session not found"
    assert await told("no id", {"workflow_name": DESK}, 404) == "Session not found"
    assert await told(odd, {"workflow_name": DESK}, 404) == "Session not found"
    assert await told(odd, {"workflow_name": "nope"}, 404) == "Workflow not found: nope"
    assert "'Idempotency-Key'" in await told(session, {"workflow_name": DESK}, 400, **{KEY: "x" * 201})
    assert await told(session, {"workflow_name": DESK}, 400) == "Missing 'action'"
    assert await told(session, {"workflow_name": DESK, "action": "fly"}, 422) == "Unknown action type: fly"
    assert await told(session, {"workflow_name": DESK, "action": "method_call"}, 400) == "Missing 'task'"
    named = await door.http.post(
        "/execute", json={"workflow_name": DESK, "action": "handshake"}, headers={SESSION.lower(): session.upper()}
    )
    assert (checked(named)["status"], named.headers[SESSION]) == ("ok", session)


@pytest.mark.parametrize("query", ["wait_s=soon", "wait_s=-1", "wait_s=601", "wait_s=nan", "compat=mine"])
async def test_a_parameter_that_cannot_be_used_is_a_bad_request(door: Door, query: str) -> None:
    session = await door.initialize()
    response = await door.execute(session, "handshake", query=dict([query.split("=")]))
    assert query.partition("=")[0] in detail_of(response, 400)


async def test_a_client_of_the_first_server_sees_refusals_as_answers(door: Door) -> None:
    """With `compat=reference`; what the request itself lacks is refused as ever."""
    session = await door.initialize()
    strict = await door.execute(session, "stage_transition", stage="back")
    assert detail_of(strict, 422) == "To transition to 'back', please provide: user.email"
    assert strict.headers[SESSION] == session
    lenient = await door.execute(session, "stage_transition", stage="back", query={"compat": "reference"})
    assert checked(lenient)["status"] == "input_required"
    assert [tool["name"] for tool in lenient.json()["tools"]] == ["provide_state"]
    assert detail_of(await door.execute(session, "method_call", query={"compat": "reference"}), 400)


async def test_a_paused_session_keeps_what_is_asked(door: Door) -> None:
    """It is said at once; whoever asks again gets the result, once the session is resumed."""
    session, key = await door.initialize(), uuid.uuid4().hex
    paused = checked(await door.http.post(f"/api/stage-sessions/{session}/pause", params=PATIENTLY))
    assert (paused["state"], paused["stage_session"]["status"]) == ("paused", "paused")
    first = await door.call(session, "count", key=key)
    assert first["status"] == "paused"
    asking = asyncio.create_task(door.call(session, "count", key=key))
    resumed = checked(await door.http.post(f"/api/stage-sessions/{session}/resume", params=PATIENTLY))
    assert (resumed["state"], resumed["stage_session"]["status"]) == ("resumed", "open")
    done = await asking
    assert (done["status"], done["result"], done["action_id"]) == ("ok", 1, first["action_id"])


async def test_a_session_that_is_ended_answers_who_waits(door: Door, tmp_path: Path) -> None:
    """An operator ends it while a task runs: the caller is told that there is no such session any more."""
    session, gate, key = await door.initialize(), tmp_path / "gate", uuid.uuid4().hex
    headers = {SESSION: session, KEY: key}
    body = {"workflow_name": DESK, "action": "method_call", "task": "hold", "args": {"gate": str(gate)}}
    asking = asyncio.create_task(door.http.post("/execute", json=body, headers=headers))
    await until_begun(gate)
    path = f"/api/stage-sessions/{session}/terminate"
    ended = await door.http.post(path, json={"reason": "enough"}, params=PATIENTLY)
    assert (checked(ended)["state"], ended.json()["stage_session"]["ended_reason"]) == ("terminated", "enough")
    assert detail_of(await asking, 404) == "Session not found"
    assert detail_of(await door.execute(session, "handshake"), 404) == "Session not found"
    assert detail_of(await door.http.post("/execute", json=body, headers=headers), 404) == "Session not found"


async def test_a_client_that_ended_its_session_is_told_so_again(door: Door) -> None:
    """By its key, as an answer may be lost; a new action finds no session."""
    session, key = await door.initialize(), uuid.uuid4().hex
    first, again = [checked(await door.execute(session, "terminate_session", key=key)) for _ in range(2)]
    assert first == again
    assert first["status"] == "terminated"
    assert detail_of(await door.execute(session, "terminate_session"), 404) == "Session not found"
