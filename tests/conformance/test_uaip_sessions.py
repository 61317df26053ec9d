"""UAIP's conformance checks 42 to 48: isolation, lifetime and transport. The first line of each says what the reference asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.conformance.uaip_replies import PROVIDE_STATE, expect, seen
from tests.conformance.uaip_server import StageSession, UaipClient, UaipServer, new_label
from tests.conformance.uaip_store import BRIEF
from tests.integration.stack import eventually

PARALLEL = 50
NOT_JSON: list[Any] = [b"", b"{", b"[]", b'"x"', b"null", b"\xff", b'{"action": "method_call"', b"[" * 20_000]
ODD: list[Any] = [
    {"action": ["method_call"]},
    {"action": "method_call", "task": {}},
    {"action": "method_call", "task": "where", "args": {"x": {"y": [None]}}},
    {"action": "method_call", "task": "search", "args": {"query": "\ud800", "limit": 1}},
    {"action": "method_call", "task": "search", "args": {"query": "\x00", "limit": -(10**30)}},
    {"action": "method_call", "task": "fail", "args": {}},
    {"action": "stage_transition", "stage": 1},
    {"action": "stage_transition", "stage": "\x00"},
    {"action": "state_input", "state_updates": [1]},
    {"action": "state_input", "state_updates": {"": 1}},
    {"action": "state_input", "state_updates": {"\x00": "\ud800"}},
    {"action": "fly" * 1000},
]


async def test_check_42_sessions_do_not_touch_each_other(uaip: UaipClient) -> None:
    """Two sessions in different stages never affect each other."""
    first = await uaip.open_in("select")
    await first.put({"whose": "first"})
    second = await uaip.open()
    assert (await first.stage(), await second.stage()) == ("select", "browse")
    await second.put({"whose": "second"})
    await second.go("select")
    await first.go("browse")
    assert (await first.stage(), await second.stage()) == ("browse", "select")
    assert (await first.read("whose"), await second.read("whose")) == ("first", "second")


async def test_check_43_actions_at_once(uaip: UaipClient) -> None:
    """50 calls at once lose no update; of transitions at once one wins, and the others are 422."""
    session = await uaip.open()
    replies = await asyncio.gather(*(session.call("increment") for _ in range(PARALLEL)))
    counts = [uaip.server.form.result(reply) for reply in replies]
    assert sorted(counts) == list(range(1, PARALLEL + 1)), f"{len(set(counts))} different results of {PARALLEL} calls"
    assert await session.read("count") == PARALLEL
    moves = await asyncio.gather(*(session.go("select") for _ in range(3)))
    assert sorted(move.status_code for move in moves) == [200, 422, 422]
    assert await session.stage() == "select"


async def test_check_44_a_session_outlives_its_servers(server: UaipServer) -> None:
    """After the death of server, worker and Temporal the session goes on."""
    label = new_label()
    async with server.client() as before:
        session = await before.open_in("select")
        await session.put({"label": label})
        await session.result("mark", label=label, times=1)
    assert server.restart is not None
    await server.restart()
    async with server.client() as after:
        again = StageSession(after, session.workflow, session.id)
        assert await again.stage() == "select"
        assert await again.read("label") == label
        assert await again.marks(label) == 1
        expect(await again.go("browse"), 200)
        assert await again.stage() == "browse"


async def test_check_45_a_session_that_has_ended(uaip: UaipClient) -> None:
    """After `terminate_session`, or when its time is over, a session is 404."""
    session, other = await uaip.open(), await uaip.open()
    assert expect(await session.send("terminate_session", reason="done"), 200)["status"] == "terminated"
    for late in (await session.call("where"), await session.put({}), await session.send("fly")):
        expect(late, 404)
    assert await other.stage() == "browse"
    if uaip.server.restart is not None:  # it serves a workflow whose sessions live for a second
        await _until_gone(await uaip.open(BRIEF))


async def _until_gone(session: StageSession) -> None:
    async def gone() -> bool:
        return (await session.go("nowhere")).status_code == 404

    await eventually(gone, what="the session's time is over")


@pytest.mark.parametrize("kind", ["no JSON", "odd"])
async def test_check_46_replies_without_a_traceback(uaip: UaipClient, kind: str) -> None:
    """No reply has a traceback; 5xx is for real faults only, and has `detail` too."""
    session = await uaip.open()
    for given in NOT_JSON if kind == "no JSON" else ODD:
        body = given if isinstance(given, bytes) else _encoded({"workflow_name": session.workflow, **given})
        for reply in (await uaip.initialize(body), await uaip.execute(body, session.header)):
            assert reply.status_code < 500, f"{given!r:.60}: {seen(reply)}"
            assert "Traceback" not in reply.text
            assert 'File "' not in reply.text
            if reply.status_code >= 400:
                expect(reply, reply.status_code)
    for path in ("/initialize", "/execute"):
        expect(await uaip.http.get(path), 405)
    assert await session.stage() == "browse"
    if kind == "odd" and uaip.server.kill_database is not None:
        kill = uaip.server.kill_database
        await eventually(lambda: _faults_are_told(session, kill), what="PostgreSQL is away, and comes back")
        assert await session.stage() == "browse"


async def _faults_are_told(session: StageSession, kill_database: Callable[[], None]) -> bool:
    """Whether there was a fault, and is none any more; if it was back before anybody asked, there was none."""
    kill_database()
    faults = 0
    while True:
        replies = await asyncio.gather(session.client.schema(), session.put({"tried": True}))
        for reply in replies:
            assert reply.status_code in (200, 503), seen(reply)
            if reply.status_code == 503:
                expect(reply, 503)
                faults += 1
        if all(reply.status_code == 200 for reply in replies):
            return faults > 0


def _encoded(value: Any) -> bytes:
    """JSON with escapes, also of what is no Unicode."""
    return json.dumps(value).encode()


async def test_check_47_tools_are_what_can_be_called(uaip: UaipClient) -> None:
    """`tools` of every reply are the current stage's tasks with the schema's parameters, and the reserved tools."""
    stages = expect(await uaip.schema(), 200)["stages"]
    session = await uaip.open()
    for stage in ("browse", "select", "checkout", "done"):
        if stage == "checkout":
            refused = (await session.go(stage)).json()
            assert [tool["name"] for tool in refused["tools"]] == [PROVIDE_STATE]
            moved = await session.put({"cart.items": [], "user.email": "a@b.example"})
            assert _tools(moved.json()) == _expected(stages["select"])
        if stage != "browse":
            assert _tools(expect(await session.go(stage), 200)) == _expected(stages[stage])
        assert _tools((await session.go("nowhere")).json()) == _expected(stages[stage])
        assert _tools(expect(await session.call("where"), 200)) == _expected(stages[stage])


def _tools(body: Any) -> dict[str, Any]:
    """By name: the parameters of tasks, and for the reserved tools only the stages that they name."""
    found: dict[str, Any] = {tool["name"]: tool["input_schema"] for tool in body["tools"]}
    assert len(found) == len(body["tools"])
    if "transition_stage" in found:
        found["transition_stage"] = found["transition_stage"]["properties"]["target_stage"]["enum"]
    if "terminate_session" in found:
        found["terminate_session"] = True
    return found


def _expected(stage: Any) -> dict[str, Any]:
    tasks = {name: task["parameters"] for name, task in stage["tasks"].items()}
    moves = {"transition_stage": stage["transitions"]} if stage["transitions"] else {}
    return {**tasks, **moves, "terminate_session": True}


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
async def test_check_48_versions_of_http(server: UaipServer, version: str) -> None:
    """A session works over HTTP/1.1 and over HTTP/2."""
    later = version == "HTTP/2"
    async with server.client(http1=not later, http2=later) as client:
        try:
            session = await client.open()
        except httpx.TransportError as error:
            raise AssertionError(f"does not speak {version}: {error!r}") from error
        response = await session.call("where")
        assert response.http_version == version
        assert server.form.result(response) == "browse"
        assert server.form.refuses(await session.go("nowhere"))
        expect(await session.go("select"), 200)
