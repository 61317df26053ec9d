"""A workflow whose graph is changed by a deploy: live sessions stay on theirs, and new ones get the new one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from perdure.runtime.stages import Stages
from tests.integration.api_server import checked
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.uaip_clients import Door, Visit, visitors
from tests.integration.uaip_processes import StageProcesses, stage_processes
from tests.scale import scaled

APPS = "tests.integration.uaip_depots"
QUEUE = "depots"
DEPOT = "depot"


@dataclass(frozen=True)
class Depot:
    """What the tests have: the processes, the door, and what was served first."""

    running: StageProcesses
    door: Door
    schema: dict[str, Any]

    async def deploy(self, app: str) -> None:
        """Another worker in the place of the one that runs; every process serves what it registered."""
        await self.running.replace_worker(f"{APPS}:{app}")

    async def served(self) -> dict[str, Any]:
        return await self.door.get(f"/api/workflows/{DEPOT}")


@asynccontextmanager
async def depot(stack: Stack) -> AsyncGenerator[Depot, None]:
    """The first version serves."""
    async with (
        stage_processes(stack, f"{APPS}:before", queue=QUEUE) as running,
        visitors(lambda: running.urls) as door,
    ):
        yield Depot(running, door, await door.get(f"/api/workflows/{DEPOT}"))


def tools_of(reply: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in reply["tools"]]


async def sorting(door: Door) -> Visit:
    """A session of the first version, in its second stage."""
    visit = await door.open(DEPOT)
    assert await visit.result("scan", code=5) == 5
    await visit.go("sort")
    return visit


async def test_a_live_session_stays_on_its_graph(stack: Stack) -> None:
    """L41: It has its tools, its schemas, its way back and its last stage; the page of the workflow shows the new one."""
    async with depot(stack) as place:
        visit = await sorting(place.door)
        old = (await visit.shown())["definition"]
        await place.deploy("after_keeping")
        served = await place.served()
        assert list(served["stages"]) == ["receive", "sort", "load"]
        (listed,) = [one for one in (await place.door.get("/api/workflows"))["workflows"] if one["name"] == DEPOT]
        assert listed["definition"] != old == (await visit.shown())["definition"]

        greeted = checked(await visit.settle("handshake"))
        assert tools_of(greeted) == ["weigh", "transition_stage", "terminate_session"]
        assert greeted["transitions"] == ["receive", "ship"]
        back = await visit.go("receive")
        assert back["tools"][0]["input_schema"] == place.schema["stages"]["receive"]["tasks"]["scan"]["parameters"]
        assert checked(await visit.call("scan", code=6, place="there"), 422)["detail"].startswith("Invalid arguments")
        assert checked(await visit.call("scan", code="six"), 422)["task"] == "scan"
        await visit.go("sort")
        assert checked(await visit.settle("stage_transition", stage="ship"), 422)["missing"] == ["weight"]
        assert await visit.result("weigh") == 7
        await visit.go("ship")
        assert checked(await visit.settle("stage_transition", stage="load"), 422)["allowed"] == ["archive"]
        await visit.go("archive")
        assert await visit.result("file") == "5: 7"

        fresh = await place.door.open(DEPOT)
        assert await fresh.result("scan", code="six", place="there") == "six there"
        assert tools_of(await fresh.go("sort")) == ["transition_stage", "terminate_session"]
        assert checked(await fresh.settle("stage_transition", stage="receive"), 422)["allowed"] == ["load"]
        assert checked(await fresh.call("weigh"), 422)["available"] == []
        assert (await fresh.shown())["definition"] == listed["definition"]


async def test_a_result_is_what_the_sessions_own_definition_says(stack: Stack) -> None:
    """The later function returns a text where the first one's number is promised: the client is told, nothing is kept."""
    async with depot(stack) as place:
        visit = await place.door.open(DEPOT)
        await place.deploy("after")
        told = checked(await visit.call("scan", code=5))
        assert (told["status"], told["error"]["type"]) == ("error", "InvalidInput")
        assert "returned what its definition does not allow" in told["error"]["message"]
        assert (await visit.shown())["state"] == {}


async def test_a_task_that_was_removed_waits_for_a_worker_that_has_it(stack: Stack) -> None:
    """Its session does nothing else meanwhile, others do; it is run once, when it can be."""
    async with depot(stack) as place:
        visit, other = await sorting(place.door), await sorting(place.door)
        await place.deploy("after")
        key = uuid.uuid4().hex
        for wait_s in (1, 0):
            told = checked(await visit.send("method_call", task="weigh", key=key, wait_s=wait_s))
            assert told["status"] == "running"
        assert checked(await visit.send("handshake", key="behind", wait_s=0))["status"] == "running"
        await (await place.door.open(DEPOT)).go("sort")
        await said_why(stack, visit)

        checked(await other.send("method_call", task="weigh", wait_s=0))
        assert (await other.control("terminate", reason="its scales are gone"))["state"] == "terminated"
        assert [entry["http"] for entry in await other.history()] == [200, 200, 404]

        await place.deploy("after_keeping")
        assert checked(await visit.call("weigh", key=key))["result"] == 7
        checked(await visit.settle("handshake", key="behind"))
        assert len(stack.entries(visit.id, "effect")) == 1
        assert [entry["http"] for entry in await visit.history()] == [200] * 4
        assert stack.entries(other.id, "effect") == []


async def said_why(stack: Stack, visit: Visit) -> None:
    """Return once Temporal shows to operators what is missing, and what they can do."""
    async with stack.connect() as sessions:
        stages = Stages(sessions.client, sessions.database, sessions.tenant)
        handle = sessions.client.get_workflow_handle(stages.key_of(visit.id).stage_workflow_id)

        async def said() -> bool:
            pending = (await handle.describe()).raw_description.pending_activities
            return any("deploy a version that has it" in item.last_failure.message for item in pending)

        await eventually(said, what="why the task does not run")
        await stages.close()


async def test_a_task_that_a_deploy_cuts_off_is_finished_by_the_next_worker(stack: Stack) -> None:
    """The old worker dies within it; the next one, of the new version, runs it as the old definition says."""
    async with depot(stack) as place:
        visit = await sorting(place.door)
        weighing = asyncio.create_task(visit.call("weigh", seconds=2.0))
        await stack.until_entries(visit.id, "effect")
        await place.deploy("after_keeping")
        assert checked(await weighing)["result"] == 7
        assert {entry["key"] for entry in stack.entries(visit.id, "effect")} == {
            (await visit.history())[2]["action_id"]
        }
        await visit.go("ship")


async def test_two_versions_serve_side_by_side(stack: Stack) -> None:
    """S54: In the middle of a rolling deploy each session's tasks come to a worker that has them; none is in doubt."""
    count = max(4, scaled(40))
    async with depot(stack) as place:
        old = await asyncio.gather(*(place.door.open(DEPOT) for _ in range(count)))
        newer = WorkerProcess(stack, f"{APPS}:after", PERDURE_TASK_QUEUE=QUEUE)
        try:
            await asyncio.to_thread(newer.wait_ready)
            new = await asyncio.gather(*(place.door.open(DEPOT) for _ in range(count)))
            for stages in await asyncio.gather(*(old_way(visit) for visit in old), *(new_way(visit) for visit in new)):
                assert stages
        finally:
            newer.kill()
    for visit in old:
        assert len({entry["key"] for entry in stack.entries(visit.id, "effect")}) == 1


async def old_way(visit: Visit) -> bool:
    await visit.go("sort")
    assert await visit.result("weigh") == 7
    await visit.go("ship")
    return (await visit.go("archive"))["terminal"]


async def new_way(visit: Visit) -> bool:
    await visit.go("sort")
    return (await visit.go("load"))["terminal"]
