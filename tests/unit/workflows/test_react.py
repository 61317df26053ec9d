"""The react strategy over effects in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.spec import StrategySpec
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import Ask
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.workflows.strategies import build
from perdure.workflows.strategies.react import ACT_PROMPT, REASONING_PROMPT, React, react
from tests.unit.workflows.memory import Memory, Said, run

ACTS = ["generate reason", "generate", "tools with hooks"]


def acts(count: int, number: int) -> Said:
    """Reasoning at even places; of the actions so many call a tool."""
    return "hm" if number % 2 == 0 else ["look"] if number // 2 < count else "done"


def acting(count: int, **given: Any) -> Memory:
    return Memory(lambda number: acts(count, number), **given)


async def test_one_step_reasons_then_acts() -> None:
    effects = acting(0)
    turn = await run(react(), effects)
    assert effects.done == ["step 1", "generate reason", "generate", "last"]
    assert turn.response.text == "done"


async def test_a_step_with_tools_is_followed_by_another() -> None:
    effects = acting(1)
    await run(react(), effects)
    assert effects.done == ["step 1", *ACTS, "end", "step 2", "generate reason", "generate", "last"]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_the_limit_ends_the_run_without_an_error(limit: int) -> None:
    effects = acting(99)
    await run(react(max_steps=limit), effects)
    middle = [part for number in range(1, limit) for part in (f"step {number}", *ACTS, "end")]
    assert effects.done == [*middle, f"step {limit}", *ACTS, "last"]


async def test_the_stop_condition_ends_the_run() -> None:
    effects = acting(99, stop=2)
    await run(react(), effects)
    assert effects.done[-1] == "end"
    assert effects.state.step == 2


async def test_reasoning_is_asked_for_without_tools_and_acting_with() -> None:
    effects = acting(0)
    await run(react(), effects)
    acting_ask = Ask(prompt=ACT_PROMPT, acts=True)
    assert effects.asks == [Ask(scaffold="reason", prompt=REASONING_PROMPT, tools=False), acting_ask]


@pytest.mark.parametrize("form", ["markdown", "json", "text"])
async def test_results_are_told_once_more_from_the_second_step_on(form: str) -> None:
    effects = acting(2)
    await run(react(observation_format=form), effects)
    assert [ask.observe for ask in effects.asks] == ["", "", form, "", form, ""]


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_that_is_taken_up_goes_on_from_its_step(at: int) -> None:
    """It asks and does what the run that was never interrupted would still have."""
    whole = acting(3)
    await run(react(), whole)
    resumed = acting(3, state=ExecutionState(step=at, messages=[UserMessage("go")], cycles=2 * at))
    await run(react(), resumed)
    assert resumed.done == whole.done[5 * at :]
    assert resumed.asks == whole.asks[2 * at :]


async def test_a_run_that_is_done_only_returns_its_turn() -> None:
    state = ExecutionState(step=2, messages=[UserMessage("go"), AssistantMessage("done")], cycles=4, done=True)
    effects = acting(99, state=state)
    assert (await run(react(), effects)).response.text == "done"
    assert effects.done == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_steps": 0}, "max_steps is 0; it must be a whole number of at least 1"),
        ({"max_steps": True}, "max_steps is True"),
        ({"max_steps": "3"}, "max_steps is '3'"),
        ({"reasoning_prompt": " "}, "reasoning_prompt is ' '; it must be text that is not blank"),
        ({"reasoning_prompt": 3}, "reasoning_prompt is 3"),
        ({"observation_format": "xml"}, "observation_format is 'xml'; it must be one of markdown, json, text"),
        ({"observation_format": None}, "observation_format is None"),
        ({"observation_format": []}, r"observation_format is \[\]"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, object], text: str) -> None:
    """When the agent is defined, not when it runs."""
    with pytest.raises(InvalidInput, match=text):
        react(**cast("dict[str, Any]", options))


def test_a_strategy_is_built_again_from_its_options() -> None:
    made = react(max_steps=7, reasoning_prompt="Why?", observation_format="json")
    built = build(StrategySpec(made.name, made.options))
    assert isinstance(built, React)
    assert built.options == {"max_steps": 7, "reasoning_prompt": "Why?", "observation_format": "json"}
