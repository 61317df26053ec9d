"""The scenarios of UAP's strategies and hooks as durable runs: what is true in process is true of a workflow."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from perdure.activities.contracts import SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.runtime.sessions import RunHandle
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.messages import MessageCache
from perdure.uap.agent import Agent
from perdure.uap.app import App
from perdure.upp.errors import UPPError
from perdure.upp.turn import Turn
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.conformance.uap_scenarios import INPUT, SCENARIOS, Scenario, Seen, check_scenario
from tests.integration.facts import check_session
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "scenarios"
Staged = dict[str, tuple[Agent, Seen]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def staged(stack: Stack) -> AsyncGenerator[Staged, None]:
    """All scenarios' agents, served by one worker of this process, whose hooks write where the tests can read."""
    made = {scenario.name: scenario.stage() for scenario in SCENARIOS}
    agents = [one for one, _ in made.values()]
    database = Database(stack.addresses.database_url)
    client = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    services = Services(
        database=database, announcer=Announcer(database), cache=MessageCache(database), app=App(agents=agents)
    )
    rows = [AgentRow(str(one.name), one.id, SESSION, QUEUE, converter.unstructure(one.spec())) for one in agents]
    await register_agents(database, "default", rows)
    async with build_worker(client, services, WorkerOptions(task_queue=QUEUE)):
        yield made
    await services.announcer.close()
    await database.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_scenario_ends_as_it_must(stack: Stack, staged: Staged, scenario: Scenario) -> None:
    made, seen = staged[scenario.name]
    async with stack.connect() as sessions:
        handle = await sessions.submit(str(made.name), INPUT)
        turn = await _ended(handle, scenario, seen)
    check_scenario(scenario, turn, seen)
    await check_session(stack, handle.session)


async def _ended(handle: RunHandle, scenario: Scenario, seen: Seen) -> Turn | None:
    """The turn, None if the run failed as it must."""
    if not scenario.error:
        return await handle.result()
    with pytest.raises(UPPError) as raised:
        await handle.result()
    assert raised.value.code == scenario.error
    assert [str(item) for item in seen.errors] == [str(raised.value)]
    return None
