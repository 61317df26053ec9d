"""Worker versions on a real server: who gets a new session, and where a parked run ends when another build is current."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import RoutingConfigUpdateState
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client

from perdure import connect
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.temporal import is_open
from perdure.uap.session_key import SessionKey
from tests.acceptance.terminal import Terminal
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_visits import APP as HOUSE
from tests.integration.stage_visits import Visit, calling
from tests.integration.test_kills import finish
from tests.integration.waiting import APP, asked, call, submit

DEADLINE_S = 90


class Builds:
    """Workers of one deployment, on a task queue and for a tenant of their own."""

    def __init__(self, stack: Stack, folder: Path, versioning: str) -> None:
        self.name = f"versions-{uuid.uuid4().hex}"
        self.shell = Terminal(stack.forks, folder, **stack.addressing, PERDURE_DEPLOYMENT_NAME=self.name)
        self._stack = stack
        self._versioning = versioning
        self._started: list[WorkerProcess] = []

    def start(self, build: str, app: str = APP) -> WorkerProcess:
        """A worker of a build."""
        worker = WorkerProcess(
            self._stack, app, PERDURE_TASK_QUEUE=self.name, PERDURE_TENANT=self.name, PERDURE_BUILD_ID=build,
            PERDURE_DEPLOYMENT_NAME=self.name, PERDURE_WORKER_VERSIONING=self._versioning,
        ).wait_ready()  # fmt: skip
        self._started.append(worker)
        return worker

    def kill(self) -> None:
        """End them all."""
        for worker in self._started:
            worker.kill()


async def known_everywhere(client: Client, builds: Builds) -> None:
    """Return once every part of Temporal knows which build is current: it is told them one by one."""
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=builds.name)

    async def is_known() -> bool:
        info = (await client.workflow_service.describe_worker_deployment(request)).worker_deployment_info
        busy = RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS
        return info.routing_config_update_state != busy

    await eventually(is_known, seconds=DEADLINE_S, what="the current build everywhere")


async def builds_of(client: Client, builds: Builds, handle: RunHandle) -> list[list[str]]:
    """The builds that did the workflow tasks of each of the session's executions so far, in order."""
    return await builds_of_workflow(client, SessionKey(builds.name, handle.session).workflow_id)


async def builds_of_workflow(client: Client, workflow: str) -> list[list[str]]:
    """The same of a workflow by its id."""
    found: list[list[str]] = []
    listed = [item async for item in client.list_workflows(f"WorkflowId = '{workflow}'")]
    for item in sorted(listed, key=lambda item: item.start_time):
        history = await client.get_workflow_handle(workflow, run_id=item.run_id).fetch_history()
        done = [event.workflow_task_completed_event_attributes for event in history.events]
        found.append(
            [one.deployment_version.build_id or one.worker_version.build_id for one in done if one.started_event_id]
        )
    return found


@pytest.fixture
def builds(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Builds]:
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        made = Builds(stack, Path(folder), request.param)
        yield made
        made.kill()


def check_commands(builds: Builds) -> None:
    """What is asked of a build that is not there is refused; a share of what is new can be given to one that is."""
    shell = builds.shell
    shell("deploy", "current", "three", code=2).check_error("three", "PERDURE_BUILD_ID=three")
    shell("deploy", "show", "--deployment", "none-such", code=2).check_error("none-such", "PERDURE_BUILD_ID")
    ramped = shell("deploy", "ramp", "two", "25", "--json").json
    assert (ramped["current"], ramped["ramping"], ramped["ramp_percent"]) == ("one", "two", 25)
    assert "25 % of new sessions" in shell("deploy", "show").out
    shell("deploy", "ramp", "two", "101", code=2)


@pytest.mark.parametrize(("builds", "ends_on"), [("auto_upgrade", "two"), ("pinned", "one")], indirect=["builds"])
async def test_a_parked_run_ends_where_its_behaviour_says(stack: Stack, builds: Builds, ends_on: str) -> None:
    """New sessions go to the build that is current; a run that waits meanwhile ends, on the build that it should."""
    first = builds.start("one")
    assert "is not current (no version is): this worker gets no new sessions" in first.said
    assert "`perdure deploy current one` makes it current" in first.said
    async with connect(
        temporal_address=stack.addresses.temporal, database_url=stack.addresses.database_url, tenant=builds.name
    ) as sessions:
        assert builds.shell("deploy", "current", "one", "--json").json["current"] == "one"
        await known_everywhere(sessions.client, builds)
        parked = await submit(sessions, "a", [call("pay", "a")], "done")
        (wait,) = await asked(sessions, parked)
        assert "is not current (build one is)" in builds.start("two").said
        check_commands(builds)
        assert "new sessions" in builds.shell("deploy", "current", "two").out
        await known_everywhere(sessions.client, builds)
        new = await submit(sessions, "b", "hello")
        assert await finish(sessions, new) == "completed"
        await sessions.answer(wait.id, {"decision": "approve"}, by="ada")
        assert await finish(sessions, parked) == "completed"

        async def closed() -> bool:
            return not await is_open(sessions.client, SessionKey(builds.name, parked.session))

        await eventually(closed, seconds=DEADLINE_S, what="the end of the parked run's execution")
        later = await submit(sessions, "c", "hello", session=parked.session)
        assert await finish(sessions, later) == "completed"

        async def both_listed() -> bool:
            found = await builds_of(sessions.client, builds, parked)
            return len(found) == 2 and bool(await builds_of(sessions.client, builds, new))

        await eventually(both_listed, seconds=DEADLINE_S, what="the executions in Temporal's list")
        assert {build for one in await builds_of(sessions.client, builds, new) for build in one} == {"two"}
        old, young = await builds_of(sessions.client, builds, parked)
    assert (old[0], old[-1]) == ("one", ends_on)
    assert set(young) == {"two"}


@pytest.mark.parametrize("builds", ["pinned"], indirect=True)
async def test_a_stage_session_is_versioned_as_a_session_is(stack: Stack, builds: Builds) -> None:
    """An execution that waits for a person stays on its build; the session's next one begins on the current build."""
    builds.start("one", HOUSE)
    async with connect(
        temporal_address=stack.addresses.temporal, database_url=stack.addresses.database_url, tenant=builds.name
    ) as sessions:
        builds.shell("deploy", "current", "one")
        await known_everywhere(sessions.client, builds)
        visit = await Visit.begin(sessions)
        row = await visit.send(calling("open_door"))
        await visit.until_state(row, "waiting")
        builds.start("two", HOUSE)
        builds.shell("deploy", "current", "two")
        await known_everywhere(sessions.client, builds)
        await visit.answer(row, {"approved": True})
        await visit.settled(row)
        await visit.executions()
        assert (await visit.call("add")).body["result"] == 1
        await visit.executions()

        async def both_listed() -> list[list[str]] | None:
            found = await builds_of_workflow(sessions.client, visit.key.stage_workflow_id)
            return found if len(found) == 2 else None

        old, young = await eventually(both_listed, seconds=DEADLINE_S, what="the executions in Temporal's list")
    assert (set(old), set(young)) == ({"one"}, {"two"})
