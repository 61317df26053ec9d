"""The HTTP API: runs handed in, waited for, streamed, repeated and listed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.integration.agents import HELD
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.scale import scaled

pytestmark = pytest.mark.usefixtures("steady_worker")


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


def scripted(*script: Any, **more: Any) -> str:
    """The input that has the agent `actor` answer so."""
    return json.dumps({"name": uuid.uuid4().hex, "script": list(script), **more})


def held() -> str:
    """The input that has the agent `worker` ask a model that says nothing."""
    return json.dumps({"name": uuid.uuid4().hex, "latency": HELD})


PATIENT = {"wait_s": 50}
"""For the query of a control whose state is told: longer than any worker takes to come to it."""


async def ended(client: httpx.AsyncClient, run: str) -> dict[str, Any]:
    """The run, once it has completed."""

    async def look() -> dict[str, Any] | None:
        shown = checked(await client.get(f"/runs/{run}"))
        return shown if shown["status"] == "completed" else None

    return await eventually(look, what="the run's end")


async def test_a_run_in_the_background(api: ApiProcess) -> None:
    """It is accepted with the place where it is, and has its turn there when it has ended."""
    async with api.client() as client:
        response = await client.post("/runs", json={"agent": "actor", "input": scripted("Hello."), "title": "A"})
        submitted = checked(response, 202)
        assert response.headers["location"] == f"/api/runs/{submitted['run']}"
        assert submitted["action"] == "started"
        turn = (await ended(client, submitted["run"]))["turn"]
        assert turn["messages"][-1]["content"][0]["text"] == "Hello."
        session = checked(await client.get(f"/sessions/{submitted['session']}"))
        assert session["title"] == "A"
        assert session["run_count"] == 1


async def test_a_run_that_is_waited_for(api: ApiProcess) -> None:
    """The answer is the run with its turn; a second input goes on in its session, without naming the agent again."""
    async with api.client() as client:
        first = checked(await client.post("/runs", json={"agent": "actor", "input": scripted("One."), "mode": "wait"}))
        assert first["status"] == "completed"
        assert first["turn"]["messages"][-1]["content"][0]["text"] == "One."
        body = {"input": {"content": scripted("Two.")}, "mode": "wait"}
        second = checked(await client.post(f"/sessions/{first['session']}/runs", json=body))
        assert second["ordinal"] == first["ordinal"] + 1
        thread = checked(await client.get(f"/sessions/{first['session']}/messages"))["messages"]
        assert [item["message"]["type"] for item in thread] == ["user", "assistant"] * 2


async def test_a_run_that_fails_while_it_is_waited_for(api: ApiProcess) -> None:
    """Its failure is the answer, not an error of the request."""
    async with api.client() as client:
        body = {"agent": "actor", "input": scripted({"error": "CONTENT_FILTERED"}), "mode": "wait"}
        run = checked(await client.post("/runs", json=body))
        assert run["status"] == "failed"
        assert "CONTENT_FILTERED" in run["error"]["message"]
        assert run["turn"] is None


async def test_a_run_that_takes_longer_than_the_wait(api: ApiProcess) -> None:
    """The answer then is where it is."""
    async with api.client() as client:
        body = {"agent": "worker", "input": held(), "mode": "wait", "wait_s": 0.2}
        submitted = checked(await client.post("/runs", json=body), 202)
        assert submitted["status"] in ("queued", "running")
        reached = checked(await client.post(f"/runs/{submitted['run']}/cancel", params=PATIENT))
        assert reached["state"] == "cancelled"
        again = checked(await client.post(f"/runs/{submitted['run']}/cancel"))
        assert again["state"] == "cancelled"


async def test_a_run_as_a_stream(api: ApiProcess) -> None:
    """Its events come as they are written, the one that ends it last; each has its number."""
    async with api.client() as client:
        body = {"agent": "actor", "input": scripted("Hello."), "mode": "stream"}
        async with client.stream("POST", "/runs", json=body) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = [line async for line in response.aiter_lines()]
        kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        numbers = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
        assert kinds[0] == "run.queued"
        assert kinds[-1] == "run.completed"
        assert numbers == list(range(1, len(numbers) + 1))
        assert response.headers["location"].startswith("/api/runs/")


async def test_the_same_key_is_the_same_run(api: ApiProcess) -> None:
    """Also at once, also in another mode; with another body it is refused."""
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"agent": "actor", "input": scripted("Once.")}
    async with api.client() as client:
        answers = await asyncio.gather(*(client.post("/runs", json=body, headers=key) for _ in range(scaled(200))))
        assert len({answer.json()["run"] for answer in answers}) == 1
        waited = checked(await client.post("/runs", json={**body, "mode": "wait"}, headers=key))
        assert waited["run"] == answers[0].json()["run"]
        assert waited["status"] == "completed"
        ended = checked(await client.post("/runs", json=body, headers=key))
        assert ended["turn"] == waited["turn"]
        other = await client.post("/runs", json={**body, "input": "other"}, headers=key)
        assert code_of(other, 409) == "key_conflict"


async def test_an_input_that_is_to_start_later(api: ApiProcess) -> None:
    """It waits for its time, is listed as queued, and can be withdrawn."""
    start = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with api.client() as client:
        body = {"agent": "actor", "input": scripted("Later."), "start_after": start}
        submitted = checked(await client.post("/runs", json=body), 202)
        state = checked(await client.get(f"/sessions/{submitted['session']}/state"))
        assert [run["run"] for run in state["queued"]] == [submitted["run"]]
        reached = checked(await client.post(f"/runs/{submitted['run']}/cancel"))
        assert reached["state"] == "cancelled"
        assert checked(await client.get(f"/runs/{submitted['run']}"))["status"] == "cancelled"


async def test_a_session_takes_no_second_run_if_the_policy_is_to_reject(api: ApiProcess) -> None:
    """The answer names the run that is active."""
    async with api.client() as client:
        first = checked(await client.post("/runs", json={"agent": "worker", "input": held()}), 202)
        body = {"input": "more", "policy": "reject"}
        refused = await client.post(f"/sessions/{first['session']}/runs", json=body)
        assert code_of(refused, 409) == "run_active"
        assert refused.json()["run"] == first["run"]
        cancelled = checked(await client.post(f"/sessions/{first['session']}/cancel", params=PATIENT))
        assert cancelled["state"] == "cancelled"


async def test_runs_by_pages(api: ApiProcess) -> None:
    """Each run is on one page, though others are added meanwhile."""
    async with api.client() as client:
        opened = checked(await client.post("/sessions", json={"agent": "actor"}), 201)
        path = f"/sessions/{opened['session']}/runs"
        later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

        async def add() -> str:
            body = {"input": scripted("x"), "start_after": later}
            return str(checked(await client.post(path, json=body), 202)["run"])

        known = [await add() for _ in range(7)]
        found: list[str] = []
        query: dict[str, Any] = {"limit": 3}
        while True:
            page = checked(await client.get(path, params=query))
            found += [run["run"] for run in page["runs"]]
            if page["next"] is None:
                break
            query["after"] = page["next"]
            await add()
        assert found == known[::-1]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"agent": "actor", "input": "x", "mood": "good"}, "#/mood"),
        ({"agent": "actor", "input": "x", "options": {"tempo": 1}}, "#/options/tempo"),
        ({"agent": "actor"}, "#/input"),
        ({"agent": "actor", "input": 7}, "#/input"),
        ({"agent": "actor", "input": "x", "mode": "soon"}, "#/mode"),
        ({"agent": "actor", "input": "x", "start_after": "2026-01-01T00:00:00"}, "#/start_after"),
        ({"agent": " ", "input": "x"}, "#/agent"),
    ],
    ids=["unknown", "unknown option", "missing", "number", "mode", "naive time", "blank"],
)
async def test_a_body_that_cannot_be_used(api: ApiProcess, body: dict[str, Any], pointer: str) -> None:
    """The answer has the pointer to what is wrong, and not what stood there."""
    async with api.client() as client:
        response = await client.post("/runs", json=body)
        assert code_of(response, 422) == "invalid_input"
        assert response.json()["errors"][0]["pointer"] == pointer
        assert "good" not in response.text


async def test_what_does_not_exist(api: ApiProcess) -> None:
    """Each kind has its own code; an id that none can have is no other case."""
    nobody = str(uuid.uuid4())
    async with api.client() as client:
        assert code_of(await client.get(f"/runs/{nobody}"), 404) == "unknown_run"
        assert code_of(await client.get("/runs/%00"), 404) == "unknown_run"
        assert code_of(await client.get(f"/sessions/{nobody}"), 404) == "unknown_session"
        assert code_of(await client.delete(f"/sessions/{nobody}"), 404) == "unknown_session"
        assert code_of(await client.post("/runs", json={"agent": "nobody", "input": "x"}), 404) == "unknown_agent"
        assert code_of(await client.post(f"/sessions/{nobody}/runs", json={"input": "x"}), 404) == "unknown_session"
        assert code_of(await client.get("/nothing"), 404) == "not_found"
        assert code_of(await client.put("/runs"), 405) == "method_not_allowed"
        assert code_of(await client.get("/sessions", params={"after": "x"}), 422) == "invalid_input"
        assert code_of(await client.get("/sessions", params={"limit": 1001}), 422) == "invalid_input"
