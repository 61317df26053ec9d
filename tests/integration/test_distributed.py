"""The distributed shape: two workers and two API processes that know Temporal and PostgreSQL by their addresses alone."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.integration import memory_load
from tests.integration.api_server import ApiProcess, checked
from tests.integration.event_api import Viewer
from tests.integration.facts import check_session
from tests.integration.plant import Plant, Processes, processes
from tests.integration.stack import WorkerProcess, eventually
from tests.integration.test_kills import spec
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS = {f"{step}.{index}" for step in range(3) for index in range(2)}


@pytest.fixture(scope="module")
def plant() -> Iterator[Plant]:
    with tempfile.TemporaryDirectory(prefix="perdure-plant-") as folder:
        started = Plant(Path(folder))
        started.start()
        yield started
        started.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(plant: Plant) -> AsyncGenerator[Processes, None]:
    assert await asyncio.to_thread(plant.migrate_as_a_job) == 0
    async with processes(plant) as started:
        yield started


@asynccontextmanager
async def client_of(running: Processes, place: int) -> AsyncGenerator[httpx.AsyncClient, None]:
    async with running.apis[place].client() as client:
        yield client


def taken(answer: httpx.Response) -> dict[str, Any]:
    """The run that an input was stored for; it may have ended before the answer was written."""
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


async def submitted(client: httpx.AsyncClient, agent: str, given: str, **more: Any) -> dict[str, Any]:
    return taken(await client.post("/runs", json={"agent": agent, "input": given, **more}))


async def ended(client: httpx.AsyncClient, run: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        shown = checked(await client.get(f"/runs/{run}"))
        return shown if shown["status"] in ("completed", "failed", "cancelled") else None

    return await eventually(found, what=f"the end of run {run}")


async def told(viewer: Viewer, kind: str) -> None:
    """Return once the viewer was told of an event of that type."""

    async def found() -> bool:
        return any(event["type"] == kind for event in viewer.events)

    await eventually(found, what=kind)


async def test_submitted_at_one_streamed_and_approved_at_the_other(running: Processes) -> None:
    """The wait of a run that was handed in at A is listed and answered at B; B's viewer and A show the same end."""
    name = uuid.uuid4().hex
    call = {"tool": "pay", "arguments": {"name": name, "to": "Ann", "amount": 7}}
    async with client_of(running, 0) as a, client_of(running, 1) as b:
        run = await submitted(a, "clerk", json.dumps({"name": name, "script": [[call], "paid"]}))
        viewer = Viewer(f"/api/runs/{run['run']}/events")
        async with asyncio.TaskGroup() as group:
            group.create_task(viewer.read_all(b, running.apis[1].url))
            await told(viewer, "run.parked")
            waits = checked(await b.get("/waits", params={"session": run["session"]}))["waits"]
            assert [wait["run"] for wait in waits] == [run["run"]]
            checked(await b.post(f"/waits/{waits[0]['wait']}", json={"answer": {"decision": "approve"}}))
        assert viewer.events[-1]["type"] == "run.completed"
        shown = await ended(a, run["run"])
    assert shown["turn"]["messages"][-1]["content"][0]["text"] == "paid"
    assert len(running.plant.entries(name, "tool")) == 1
    await check_session(running.plant, run["session"])


async def test_l79_a_run_is_stopped_by_whoever_comes_back(running: Processes) -> None:
    """Start at A, read there, reload at B, stop at A: the run ends, and the second viewer is told so."""
    async with client_of(running, 0) as a, client_of(running, 1) as b:
        run = await submitted(a, "talker", "talk", options={"params": {"words": 2000}})
        viewer = Viewer(f"/api/runs/{run['run']}/events")
        await viewer.read(a, running.apis[0].url, most=6)
        assert not viewer.ended
        async with asyncio.TaskGroup() as group:
            group.create_task(viewer.read_all(b, running.apis[1].url))
            stopped = checked(await a.post(f"/runs/{run['run']}/cancel", params={"wait_s": 60}))
        assert stopped["state"] == "cancelled"
        assert viewer.events[-1]["type"] == "run.cancelled"
        assert viewer.seqs == sorted(set(viewer.seqs))
        again = Viewer(f"/api/runs/{run['run']}/events")
        await again.read_all(b, running.apis[1].url)
        assert again.events == viewer.events
        assert checked(await b.get(f"/runs/{run['run']}"))["status"] == "cancelled"


async def post_until_accepted(urls: list[str], path: str, body: dict[str, Any]) -> str:
    """Hand in an input as a careful client does: with a key, at any server, again if the connection broke."""
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    async with httpx.AsyncClient(timeout=60) as client:
        for place in range(10):
            try:
                answer = await client.post(urls[place % len(urls)] + path, json=body, headers=headers)
            except httpx.TransportError:
                continue
            return taken(answer)["run"]
    raise AssertionError("no server took it")


async def test_l02_two_servers_post_to_one_session_while_all_die(running: Processes) -> None:
    """An API and a worker are killed among the posts: each input is run once, in one order, each call beside its result."""
    plant, count = running.plant, max(12, scaled(100))
    first = spec(steps=1, tool="idempotent")
    values = [spec(steps=1, calls=2, tool="idempotent", seconds=0.05) for _ in range(count)]
    async with client_of(running, 1) as b:
        session = (await submitted(b, "worker", json.dumps(first)))["session"]
        urls = [api.url for api in running.apis]
        path = f"/api/sessions/{session}/runs"
        bodies = [{"input": json.dumps(one)} for one in values]
        posting = [
            asyncio.create_task(post_until_accepted(urls[n % 2 :] + urls[: n % 2], path, body))
            for n, body in enumerate(bodies)
        ]
        await asyncio.wait(posting, return_when=asyncio.FIRST_COMPLETED)
        await running.kill_api(0)
        runs = await asyncio.gather(*posting)
        await running.replace_worker(0)
        assert len(set(runs)) == count
        assert {(await ended(b, run))["status"] for run in runs} == {"completed"}
    await running.start_api(0)
    facts = await check_session(plant, session, first["name"], *(one["name"] for one in values), storing_s=0.5)
    assert len(facts.runs) == count + 1
    started = [event.run for event in facts.events if event.type == "run.started"]
    finished = [event.run for event in facts.events if event.type == "run.completed"]
    assert started == finished, "one after the other"


async def test_l42_an_api_and_a_worker_die_under_viewers(running: Processes) -> None:
    """Killed half-way: the runs go on, and each viewer, wherever it comes back, ends with what is stored."""
    plant = running.plant
    values = [spec(steps=3, calls=2, latency=0.3, tool="idempotent", seconds=0.3) for _ in range(max(3, scaled(40)))]
    async with client_of(running, 0) as a, client_of(running, 1) as b:
        runs = [await submitted((a, b)[n % 2], "worker", json.dumps(one)) for n, one in enumerate(values)]
        viewers = [Viewer(f"/api/runs/{run['run']}/events") for run in runs]
        urls = [api.url for api in running.apis]
        async with asyncio.TaskGroup() as group:
            for viewer in viewers:
                group.create_task(viewer.read_all(b, *urls))
            await plant.until_entries(values[0]["name"], "tool", 2)
            await running.kill_api(0)
            await running.replace_worker(1)
        assert {(await ended(b, run["run"]))["status"] for run in runs} == {"completed"}
    await running.start_api(0)
    for run, one, viewer in zip(runs, values, viewers, strict=True):
        facts = await check_session(plant, run["session"], one["name"], storing_s=0.5)
        assert viewer.events == [event.to_json() for event in facts.events if event.run == run["run"]]
        assert viewer.events[-1]["type"] == "run.completed"
        assert {entry["key"] for entry in plant.entries(one["name"], "tool_done")} == CALLS


async def test_l24_l92_memory_stays_flat(running: Processes) -> None:
    """1,000 sessions created and deleted and 1,000 sub-agents finished, at full scale: API and worker are no larger after it.

    Here, since these servers are no other test's: Temporal takes its time to delete so much.
    """
    worker = WorkerProcess(running.plant, memory_load.APP, PERDURE_TASK_QUEUE="memory", **memory_load.SMALL)
    api = ApiProcess(running.plant)
    try:
        await asyncio.to_thread(worker.wait_ready)
        await asyncio.to_thread(api.wait_ready)
        async with httpx.AsyncClient(base_url=f"{api.url}/api", timeout=700) as client:
            await memory_load.many(client, sessions=scaled(200), children=scaled(200))
            before = [memory_load.resident(process.pid) for process in (worker, api)]
            await memory_load.many(client, sessions=scaled(1000), children=scaled(1000))
            after = [memory_load.resident(process.pid) for process in (worker, api)]
    finally:
        worker.kill()
        api.kill()
    assert all(memory_load.is_flat(*pair) for pair in zip(before, after, strict=True)), (before, after)
