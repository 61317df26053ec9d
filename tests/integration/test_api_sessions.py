"""The HTTP API: sessions opened, listed, changed, exported, branched, controlled and deleted."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.api_server import ApiProcess, as_json, checked, code_of
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_api_runs import PATIENT, ended, scripted
from tests.scale import scaled

pytestmark = pytest.mark.usefixtures("steady_worker")

ODD = "a\x00b \ud83c c \ufdd0 \U0001f378"


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


async def run(client: httpx.AsyncClient, session: str, *script: Any, **more: Any) -> dict[str, Any]:
    body = {"input": scripted(*script, **more), "mode": "wait"}
    return checked(await client.post(f"/sessions/{session}/runs", json=body))


async def opened(client: httpx.AsyncClient, **more: Any) -> str:
    response = await client.post("/sessions", **as_json({"agent": "actor", **more}))
    return str(checked(response, 201)["session"])


async def test_agents(api: ApiProcess) -> None:
    """Those that workers have registered."""
    async with api.client() as client:
        names = [agent["agent"] for agent in checked(await client.get("/agents"))["agents"]]
        assert {"actor", "talker", "worker"} <= set(names)
        assert names == sorted(names)


async def test_a_session_is_opened_once(api: ApiProcess) -> None:
    """By id and by key again is the same session; another agent's is refused."""
    named = str(uuid.uuid4())
    key = {"Idempotency-Key": uuid.uuid4().hex}
    async with api.client() as client:
        body = {"agent": "actor", "session": named, "metadata": {"team": "web"}}
        response = await client.post("/sessions", json=body)
        assert checked(response, 201)["session"] == named
        assert response.headers["location"] == f"/api/sessions/{named}"
        assert checked(await client.post("/sessions", json=body), 201)["created_at"] == response.json()["created_at"]
        other = await client.post("/sessions", json={"agent": "talker", "session": named})
        assert code_of(other, 409) == "key_conflict"
        twice = [await client.post("/sessions", json={"agent": "actor"}, headers=key) for _ in range(2)]
        assert len({checked(one, 201)["session"] for one in twice}) == 1


async def test_sessions_by_pages(api: ApiProcess) -> None:
    """Each session is on one page, though others are opened meanwhile."""
    async with api.client() as client:
        known = [await opened(client) for _ in range(scaled(200))]
        found: list[str] = []
        query: dict[str, Any] = {"limit": 3}
        while not set(known) <= set(found):
            page = checked(await client.get("/sessions", params=query))
            found += [session["session"] for session in page["sessions"]]
            query["after"] = page["next"]
            await opened(client)
        assert [session for session in found if session in known] == known[::-1]
        assert len(found) == len(set(found))


async def test_l04_a_patch_during_a_run(api: ApiProcess) -> None:
    """Title and metadata change while a run is active, and both succeed; what is not named stays."""
    async with api.client() as client:
        session = await opened(client, title="old", metadata={"keep": 1, "drop": 2})
        running = asyncio.create_task(run(client, session, [{"tool": "slow"}], "done"))
        body = {"title": "new", "metadata": {"drop": None, "add": [3]}}
        patched = checked(await client.patch(f"/sessions/{session}", json=body))
        assert patched["title"] == "new"
        assert patched["metadata"] == {"keep": 1, "add": [3]}
        assert (await running)["status"] == "completed"
        untitled = checked(await client.patch(f"/sessions/{session}", json={"title": None}))
        assert untitled["title"] is None
        assert untitled["metadata"] == {"keep": 1, "add": [3]}


async def test_l55_l56_text_that_postgresql_refuses(api: ApiProcess) -> None:
    """NUL and a lone surrogate come back as they went in, wherever a caller may write; a pair is one character."""
    async with api.client() as client:
        session = await opened(client, title=ODD, metadata={ODD: [ODD]})
        shown = checked(await client.get(f"/sessions/{session}"))
        assert shown["title"] == ODD
        assert shown["metadata"] == {ODD: [ODD]}
        done = await run(client, session, f"said {ODD}", odd=ODD)
        assert done["turn"]["messages"][-1]["content"][0]["text"] == f"said {ODD}"
        raw = b'{"agent":"talker","input":"\\ud83c\\udf78 \\ud83c \\u0000","title":"\xed\xa0\xbc","mode":"background"}'
        response = await client.post("/runs", content=raw, headers={"content-type": "application/json"})
        submitted = checked(response, 202)
        assert checked(await client.get(f"/sessions/{submitted['session']}"))["title"] == "\ud83c"
        await client.post(f"/sessions/{submitted['session']}/cancel")
        exported = await client.get(f"/sessions/{session}/export")
        assert checked(exported)["metadata"] == {ODD: [ODD]}
        nan = b'{"agent":"actor","metadata":{"x":NaN}}'
        response = await client.post("/sessions", content=nan, headers={"content-type": "application/json"})
        assert code_of(response, 422) == "invalid_input"


async def test_export_and_import(api: ApiProcess) -> None:
    """A session that is exported, deleted and imported exports the same document."""
    async with api.client() as client:
        session = await opened(client, metadata={"odd": ODD})
        await run(client, session, [{"tool": "huge", "arguments": {"size": 5000}}], "done")
        document = checked(await client.get(f"/sessions/{session}/export"))
        again = await client.post("/sessions/import", **as_json({"agent": "actor", "document": document}))
        assert code_of(again, 422) == "invalid_input"
        assert (await client.delete(f"/sessions/{session}")).status_code == 204
        assert code_of(await client.get(f"/sessions/{session}/export"), 404) == "unknown_session"
        imported = await client.post("/sessions/import", **as_json({"agent": "actor", "document": document}))
        assert checked(imported, 201)["session"] == session
        assert checked(await client.get(f"/sessions/{session}/export")) == document
        assert (await run(client, session, "on"))["status"] == "completed"


async def test_the_thread_tree(api: ApiProcess) -> None:
    """Fork, checkout, restore, merge and a resumed run; the thread of a branch begins with its parent's."""
    async with api.client() as client:
        session = await opened(client)
        await run(client, session, "one")
        checkpoints = checked(await client.get(f"/sessions/{session}/checkpoints"))["checkpoints"]
        await run(client, session, "two")
        tree = checked(await client.get(f"/sessions/{session}/tree"))
        assert [node["node"] for node in tree["nodes"]] == [tree["root"]]
        key = {"Idempotency-Key": uuid.uuid4().hex}
        forks = [await client.post(f"/sessions/{session}/fork", json={"name": "b"}, headers=key) for _ in range(2)]
        branch = checked(forks[0])["node"]
        assert checked(forks[1])["node"] == branch
        await client.post(f"/sessions/{session}/checkout", json={"node": branch})
        await run(client, session, "three")
        thread = checked(await client.get(f"/sessions/{session}/messages", params={"limit": 4}))
        assert thread["node"] == branch
        rest = checked(await client.get(f"/sessions/{session}/messages", params={"after": thread["next"]}))
        places = [(item["node"], item["position"]) for item in thread["messages"] + rest["messages"]]
        assert places == [(tree["root"], place) for place in range(4)] + [(branch, place) for place in range(2)]
        restored = checked(
            await client.post(f"/sessions/{session}/restore", json={"checkpoint": checkpoints[0]["checkpoint"]})
        )
        assert checked(await client.get(f"/sessions/{session}/state"))["current_node"] == restored["current"]
        merged = {"source": branch, "target": tree["root"]}
        checked(await client.post(f"/sessions/{session}/merge", json=merged))
        body = {"checkpoint": checkpoints[0]["checkpoint"], "mode": "wait"}
        resumed = checked(await client.post(f"/sessions/{session}/resume-run", json=body))
        assert resumed["turn"]["messages"][-1]["content"][0]["text"] == "one"
        wrong = await client.post(f"/sessions/{session}/checkout", json={"node": "none"})
        assert code_of(wrong, 422) == "invalid_input"
        missing = await client.get(f"/sessions/{session}/messages", params={"node": "none"})
        assert code_of(missing, 404) == "unknown_node"


async def test_checkpoints_by_pages(api: ApiProcess) -> None:
    """Each checkpoint is on one page, in order, though others are taken meanwhile."""
    async with api.client() as client:
        session = await opened(client)
        for _ in range(4):
            await run(client, session, [{"tool": "huge", "arguments": {"size": 1}}], "done")
        path = f"/sessions/{session}/checkpoints"
        known = [one["checkpoint"] for one in checked(await client.get(path))["checkpoints"]]
        first = checked(await client.get(path, params={"limit": 3}))
        await run(client, session, "more")
        second = checked(await client.get(path, params={"limit": 1000, "after": first["next"]}))
        found = [one["checkpoint"] for one in first["checkpoints"] + second["checkpoints"]]
        assert found[: len(known)] == known
        assert len(found) == len(set(found)) == len(known) + 1


async def test_control(api: ApiProcess) -> None:
    """Pause, resume and cancel answer with the state reached, and may be asked for again."""
    async with api.client() as client:
        session = await opened(client)
        for _ in range(2):
            assert checked(await client.post(f"/sessions/{session}/pause", params=PATIENT))["state"] == "paused"
        submitted = checked(await client.post(f"/sessions/{session}/runs", json={"input": scripted("x")}), 202)
        assert submitted["paused"] is True
        assert checked(await client.get(f"/sessions/{session}"))["status"] == "paused"
        cancelled = checked(await client.post(f"/sessions/{session}/cancel", params=PATIENT))
        assert cancelled["withdrawn"] == [submitted["run"]]
        for _ in range(2):
            assert checked(await client.post(f"/sessions/{session}/resume", params=PATIENT))["state"] == "resumed"
        assert checked(await client.post(f"/sessions/{session}/cancel", params=PATIENT))["state"] == "idle"
        assert (await run(client, session, "on"))["status"] == "completed"


async def test_a_tool_of_the_clients(api: ApiProcess) -> None:
    """The run waits for the result, is listed, takes it once, and ends with it."""
    tools = [{"name": "ask", "description": "Ask.", "parameters": {"type": "object"}}]
    async with api.client() as client:
        body = {
            "agent": "actor",
            "input": scripted([{"tool": "ask"}], "thanks"),
            "options": {"client_tools": tools},
            "mode": "wait",
        }
        parked = checked(await client.post("/runs", json=body), 202)
        assert parked["status"] == "parked"
        waits = checked(await client.get("/waits", params={"session": parked["session"]}))["waits"]
        assert [wait["kind"] for wait in waits] == ["client_tool"]
        call = waits[0]["asked"]["call"]
        path = f"/runs/{parked['run']}/tool-results"
        assert code_of(await client.post(f"{path}/other", json={"result": 1}), 404) == "unknown_wait"
        answered = checked(await client.post(f"{path}/{call}", **as_json({"result": {"odd": ODD}})))
        assert answered["answered_by"] == "anonymous"
        assert (await client.post(f"{path}/{call}", json={"result": 2})).status_code in (404, 409)
        shown = await ended(client, parked["run"])
        assert shown["turn"]["toolExecutions"][0]["result"] == {"odd": ODD}


async def test_what_operators_ask(api: ApiProcess) -> None:
    """Health, readiness, metrics and the document; none of them needs a caller."""
    async with api.client() as client:
        root = api.url
        assert checked(await client.get(f"{root}/health")) == {"status": "ok"}
        assert checked(await client.get(f"{root}/ready"))["ready"] is True
        checked(await client.post("/runs", json={"agent": "actor", "input": scripted("x"), "mode": "wait"}))
        metrics = await client.get(f"{root}/metrics")
        assert metrics.headers["content-type"].startswith("text/plain")
        for line in (
            'perdure_http_requests_total{method="POST",route="/api/runs",status="200"}',
            'perdure_submitted_runs_total{mode="wait"}',
            "perdure_open_streams 0.0",
            "perdure_event_lag_seconds_count",
            "perdure_store_up 1.0",
            "perdure_open_runs ",
            "perdure_oldest_queued_seconds ",
        ):
            assert line in metrics.text, metrics.text
        document = checked(await client.get("/openapi.json"))
        assert document["openapi"].startswith("3.1")
        operations = [one for path in document["paths"].values() for one in path.values()]
        assert len({one["operationId"] for one in operations}) == len(operations)
        assert json.dumps(document).count("HTTPValidationError") == 0
