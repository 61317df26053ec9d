"""Facts that UAP's own tests assert of its strategies and hooks, by their numbers in the reference; in process."""

from __future__ import annotations

import pytest

from perdure.execution import loop, plan, react
from perdure.inprocess import InProcessHost
from perdure.uap.agent import Agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.options import RunOptions
from perdure.upp.errors import UPPError
from perdure.upp.messages import Message, UserMessage
from perdure.upp.turn import Turn
from tests.conformance.uap_scenarios import INPUT, LOOK, SCENARIOS, Scenario, Seen, check_scenario, planned

COVERED = {*range(13, 20), *range(22, 29), 30, *range(32, 39), 41, 65, 67, 68, 69} - {28}
"""28 has a test of its own."""


async def run(made: Agent, history: list[Message] | None = None) -> Turn:
    return await InProcessHost().run(made, history or [], UserMessage(INPUT), RunOptions())


async def play(scenario: Scenario) -> tuple[Turn | None, Seen]:
    """The turn, None if the run failed as it must."""
    made, seen = scenario.stage()
    if not scenario.error:
        return await run(made), seen
    with pytest.raises(UPPError) as raised:
        await run(made)
    assert raised.value.code == scenario.error
    assert seen.errors == [raised.value]
    return None, seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_scenario_ends_as_it_must(scenario: Scenario) -> None:
    turn, seen = await play(scenario)
    check_scenario(scenario, turn, seen)


def test_the_scenarios_show_all_facts() -> None:
    assert {int(fact) for scenario in SCENARIOS for fact in scenario.facts.split()} == COVERED


def test_agents_of_scenarios_have_names_of_their_own() -> None:
    """So that one worker can serve them all."""
    assert len({scenario.stage()[0].name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize(("strategy", "name"), [(loop(), "loop"), (react(), "react"), (plan(), "plan")])
def test_13_22_32_a_strategy_has_its_name(strategy: NamedStrategy, name: str) -> None:
    assert strategy.name == name


@pytest.mark.parametrize("scenario", [item for item in SCENARIOS if not item.error], ids=lambda item: item.name)
async def test_65_on_complete_gets_the_very_turn(scenario: Scenario) -> None:
    turn, seen = await play(scenario)
    assert seen.completed[0] is turn


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_65_every_step_that_starts_ends(scenario: Scenario) -> None:
    _, seen = await play(scenario)
    starts, ends = ([line for line in seen.hooks if line.startswith(word)] for word in ("start", "end"))
    assert len(starts) == len(ends) > 0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_19_steps_are_counted_from_1(scenario: Scenario) -> None:
    _, seen = await play(scenario)
    assert [state.step for state in seen.states] == list(range(1, len(seen.states) + 1))


async def test_28_the_prompt_is_the_last_message_exactly_as_given() -> None:
    """In every step; also where observations go before it."""
    scenario = Scenario(
        name="own prompt",
        facts="28",
        execution=react(reasoning_prompt="Why?  "),
        script=["first", LOOK, "second", "found"],
        asked=4,
        hooks=[],
    )
    _, seen = await play(scenario)
    asked = [seen.requests[place].messages[-1] for place in (0, 2)]
    assert [(type(message), message.text) for message in asked] == [(UserMessage, "Why?  ")] * 2


async def test_32_the_plan_is_asked_for_as_structured_output() -> None:
    """The first call only."""
    scenario = Scenario(name="structure", facts="32", execution=plan(), script=[planned("a"), "did"], asked=2, hooks=[])
    _, seen = await play(scenario)
    assert [request.structure is not None for request in seen.requests] == [True, False]
