"""The scenarios of UAP's strategies and hooks as durable runs: what is true in process is true of a workflow."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from perdure.runtime.sessions import RunHandle
from perdure.uap.agent import Agent
from perdure.upp.errors import UPPError
from perdure.upp.turn import Turn
from tests.conformance.uap_scenarios import INPUT, SCENARIOS, Scenario, Seen, check_scenario
from tests.integration.facts import check_session
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "scenarios"
Staged = dict[str, tuple[Agent, Seen]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def staged(stack: Stack) -> AsyncGenerator[Staged, None]:
    """All scenarios' agents, served by one worker of this process, whose hooks write where the tests can read."""
    made = {scenario.name: scenario.stage() for scenario in SCENARIOS}
    agents = [one for one, _ in made.values()]
    async with serving(stack, QUEUE, agents):
        yield made


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
