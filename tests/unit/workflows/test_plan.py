"""The plan strategy over effects in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.plan_answer import plan_schema
from perdure.uap.plan_steps import PlanStatus, PlanStep
from perdure.uap.spec import StrategySpec
from perdure.uap.state import ExecutionState
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolResult
from perdure.workflows.strategies import build
from perdure.workflows.strategies.plan import MOST_ROUNDS, Plan, plan
from tests.unit.workflows.memory import Memory, begun, run, script_of

PLANNING = ["step 1", "generate plan", "end"]


def written(*steps: str | tuple[str, str], after: Mapping[str, str] = MappingProxyType({})) -> str:
    """A plan: ids, or ids with tools; `after` has what a step depends on."""
    pairs = [(step, "") if isinstance(step, str) else step for step in steps]
    items = [
        {"id": id_, "description": f"do {id_}.", "tool": tool or None, "dependsOn": [*after.get(id_, "")]}
        for id_, tool in pairs
    ]
    return json.dumps({"steps": items})


def statuses(effects: Memory) -> list[tuple[str, str]]:
    return [(step.id, str(step.status)) for step in effects.state.plan or []]


def prompts(effects: Memory) -> list[str]:
    return [ask.prompt for ask in effects.asks]


async def test_each_plan_step_is_a_step() -> None:
    effects = Memory(script_of(written("a", "b"), "did a", "did b"))
    turn = await run(plan(), effects)
    assert effects.done == [*PLANNING, "step 2", "generate", "end", "step 3", "generate", "last"]
    assert turn.response.text == "did b"
    assert statuses(effects) == [("a", "completed"), ("b", "completed")]


async def test_planning_is_asked_for_by_schema_and_without_tools() -> None:
    effects = Memory(script_of(written("a"), "did a"))
    await run(plan(max_plan_steps=4), effects)
    planning, acting = effects.asks
    assert (planning.scaffold, planning.tools, planning.structure) == ("plan", False, plan_schema(4))
    assert "at most 4 steps" in planning.prompt
    assert (acting.scaffold, acting.tools, acting.structure) == ("", True, None)


async def test_an_own_schema_is_asked_for_in_place_of_the_default() -> None:
    effects = Memory(script_of(written("a"), "did a"))
    await run(plan(plan_schema={"type": "object"}), effects)
    assert effects.asks[0].structure == {"type": "object"}


async def test_a_step_is_asked_for_by_its_id_description_and_tool() -> None:
    effects = Memory(script_of(written(("a", "look"), "b"), "did a", "did b"))
    await run(plan(), effects)
    assert "Carry out step a of the plan, and only this: do a. Use the tool look." in prompts(effects)
    assert "Carry out step b of the plan, and only this: do b." in prompts(effects)


async def test_tools_are_run_within_the_step() -> None:
    """And without the hooks of react."""
    effects = Memory(script_of(written("a"), ["look"], ["look"], "did a"))
    await run(plan(), effects)
    assert effects.done == [*PLANNING, "step 2", "generate", "tools", "generate", "tools", "generate", "last"]


async def test_after_tools_the_model_is_told_which_step_it_is_at() -> None:
    effects = Memory(script_of(written("a"), ["look"], "did a"))
    await run(plan(), effects)
    assert prompts(effects)[2].startswith("Go on with step a of the plan: do a.")


async def test_a_step_that_calls_tools_without_end_is_asked_once_without_them_and_fails_the_run() -> None:
    script = [written("a"), *([["look"]] * (MOST_ROUNDS + 1))]
    effects = Memory(script_of(*script))
    with pytest.raises(UPPError, match=rf"maximum iterations \({MOST_ROUNDS}\)") as raised:
        await run(plan(), effects)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert effects.done.count("tools") == MOST_ROUNDS
    assert [ask.tools for ask in effects.asks[1:]] == [True] * MOST_ROUNDS + [False]


async def test_a_step_may_have_as_many_rounds_as_the_limit() -> None:
    script = [written("a"), *([["look"]] * MOST_ROUNDS), "did a"]
    effects = Memory(script_of(*script))
    assert (await run(plan(), effects)).response.text == "did a"


async def test_steps_come_after_what_they_depend_on() -> None:
    effects = Memory(script_of(written("a", "b", after={"a": "b"}), "did b", "did a"))
    await run(plan(), effects)
    assert [prompt[:16] for prompt in prompts(effects)[1:]] == ["Carry out step b", "Carry out step a"]


async def test_a_plan_of_too_many_steps_is_cut() -> None:
    effects = Memory(script_of(written("a", "b", "c"), "did a", "did b"))
    await run(plan(max_plan_steps=2), effects)
    assert statuses(effects) == [("a", "completed"), ("b", "completed")]


async def test_an_empty_plan_is_one_plain_answer() -> None:
    effects = Memory(script_of(written(), "here you are"))
    turn = await run(plan(), effects)
    assert effects.done == [*PLANNING, "step 2", "generate", "last"]
    assert (effects.asks[1].prompt, turn.response.text) == ("", "here you are")


async def test_a_step_is_in_progress_while_it_is_carried_out() -> None:
    seen: list[list[tuple[str, str]]] = []

    class Watching(Memory):
        async def start_step(self) -> int:
            seen.append(statuses(self))
            return await super().start_step()

    await run(plan(), Watching(script_of(written("a", "b"), "did a", "did b")))
    assert seen == [
        [],
        [("a", "in_progress"), ("b", "pending")],
        [("a", "completed"), ("b", "in_progress")],
    ]


@pytest.mark.parametrize(
    ("rounds", "status"),
    [
        ([["bad"]], "failed"),
        ([["bad", "bad_other"]], "failed"),
        ([["bad_other"]], "completed"),
        ([["look"]], "completed"),
        ([["bad"], ["look"]], "failed"),
        ([], "completed"),
    ],
    ids=["fails", "among others", "another one fails", "not called", "failed before", "no call"],
)
async def test_a_step_fails_if_its_tools_last_call_did(rounds: list[list[str]], status: str) -> None:
    effects = Memory(script_of(written(("a", "bad")), *rounds, "well"))
    await run(plan(allow_replan=False), effects)
    assert statuses(effects) == [("a", status)]


async def test_a_call_that_works_after_one_that_did_not_is_no_failure() -> None:
    class Second(Memory):
        async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
            results = await super().call_tools(message, hooks=hooks)
            if self.done.count("tools") > 1:
                results.results[:] = [ToolResult(item.tool_call_id, "fine") for item in results.results]
            return results

    effects = Second(script_of(written(("a", "bad")), ["bad"], ["bad"], "well"))
    await run(plan(), effects)
    assert statuses(effects) == [("a", "completed")]


async def test_a_failed_step_makes_a_new_plan_within_its_step() -> None:
    effects = Memory(
        script_of(written("x", ("a", "bad"), "b"), "did x", ["bad"], "no", written("c"), "did c"),
    )
    turn = await run(plan(), effects)
    assert statuses(effects) == [("x", "completed"), ("a", "failed"), ("c", "completed")]
    assert effects.done[6:] == [
        *("step 3", "generate", "tools", "generate", "generate plan", "end"),
        *("step 4", "generate", "last"),
    ]
    assert "Step a of the plan failed: do a." in effects.asks[4].prompt
    assert turn.response.text == "did c"


async def test_what_ran_counts_in_the_size_of_a_new_plan() -> None:
    effects = Memory(script_of(written("x", ("a", "bad"), "b"), "did x", ["bad"], "no", written("c", "d"), "did c"))
    await run(plan(max_plan_steps=3), effects)
    assert effects.asks[4].structure == plan_schema(1)
    assert [id_ for id_, _ in statuses(effects)] == ["x", "a", "c"]


async def test_a_failed_step_with_no_room_for_another_ends_the_run() -> None:
    effects = Memory(script_of(written(("a", "bad")), ["bad"], "no"))
    turn = await run(plan(max_plan_steps=1), effects)
    assert (statuses(effects), turn.response.text) == ([("a", "failed")], "no")
    assert effects.done[-1] == "last"


async def test_a_new_plan_without_steps_ends_the_run() -> None:
    effects = Memory(script_of(written(("a", "bad"), "b"), ["bad"], "no", written()))
    await run(plan(), effects)
    assert (statuses(effects), effects.done[-1]) == ([("a", "failed")], "last")


async def test_an_id_that_was_used_gets_an_end_that_is_counted() -> None:
    effects = Memory(
        script_of(written(("a", "bad")), ["bad"], "no", written(("a", "bad")), ["bad"], "no", written("a"), "")
    )
    await run(plan(), effects)
    assert statuses(effects) == [("a", "failed"), ("a-2", "failed"), ("a-3", "completed")]


async def test_three_new_plans_are_the_most() -> None:
    failing = [written(("a", "bad"), "b"), ["bad"], "no"]
    effects = Memory(script_of(*(failing * 4)))
    await run(plan(max_plan_steps=50), effects)
    assert effects.done.count("generate plan") == 4
    assert [status for _, status in statuses(effects)] == [*["failed"] * 4, "pending"]
    assert effects.done[-1] == "last"


async def test_without_replanning_a_failed_step_ends_the_run_and_the_rest_stays() -> None:
    effects = Memory(script_of(written(("a", "bad"), "b", after={"b": "a"}), ["bad"], "no"))
    await run(plan(allow_replan=False), effects)
    assert statuses(effects) == [("a", "failed"), ("b", "pending")]
    assert effects.done[-1] == "last"


BAD = {
    "circle": (written("a", "b", after={"a": "b", "b": "a"}), "in a circle"),
    "unknown": (written("a", after={"a": "z"}), "depends on steps that do not exist: 'z'"),
    "no plan": ('{"plan": 1}', '"steps"'),
    "no JSON": ("I would rather not", "no JSON object"),
    "two of an id": (written("a", "a"), "'a'"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_plan_is_asked_for_again_with_what_was_wrong(kind: str) -> None:
    bad, problem = BAD[kind]
    effects = Memory(script_of(bad, written("a"), "did a"))
    await run(plan(), effects)
    assert effects.done == ["step 1", "generate plan", "generate plan", "end", "step 2", "generate", "last"]
    assert problem in effects.asks[1].prompt


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize(("allowed", "asked"), [(True, 4), (False, 1)])
async def test_a_plan_that_stays_bad_is_an_error(kind: str, allowed: bool, asked: int) -> None:
    bad, problem = BAD[kind]
    effects = Memory(lambda _: bad)
    with pytest.raises(UPPError, match=problem) as raised:
        await run(plan(allow_replan=allowed), effects)
    assert raised.value.code == ErrorCode.INVALID_RESPONSE
    assert effects.done.count("generate plan") == asked


async def test_a_plan_in_text_is_taken_from_it() -> None:
    effects = Memory(script_of(f"Here is the plan: {written('a')}", "did a"))
    await run(plan(), effects)
    assert statuses(effects) == [("a", "completed")]


async def test_the_stop_condition_ends_the_run() -> None:
    effects = Memory(script_of(written("a", "b"), "did a"), stop=2)
    await run(plan(), effects)
    assert statuses(effects) == [("a", "completed"), ("b", "pending")]


SCRIPT = script_of(
    *(written("x", ("a", "bad"), "b"), "did x", ["bad"], "no"),
    *(written("a", "c", after={"c": "xa"}), ["look"], "did a", "did c"),
)


@pytest.mark.parametrize("at", range(1, 5))
async def test_a_run_that_is_taken_up_at_a_boundary_goes_on_from_its_plan(at: int) -> None:
    """It asks and does what the run that was never interrupted would still have, and comes to the same plan."""
    boundaries: list[tuple[int, int, ExecutionState]] = []

    class Kept(Memory):
        async def end_step(self, *, last: bool) -> bool:
            ended = await super().end_step(last=last)
            boundaries.append((len(self.done), len(self.asks), copy.deepcopy(self.state)))
            return ended

    whole = Kept(SCRIPT)
    await run(plan(), whole)
    did, asked, state = boundaries[at - 1]
    resumed = Memory(SCRIPT, state)
    await run(plan(), resumed)
    assert resumed.done == whole.done[did:]
    assert resumed.asks == whole.asks[asked:]
    assert resumed.state.plan == whole.state.plan


async def test_a_step_that_was_cut_off_is_carried_out_again() -> None:
    state = begun()
    state.step, state.plan = 2, [PlanStep("a", "do a.", status=PlanStatus.IN_PROGRESS)]
    effects = Memory(lambda _: "did a", state)
    await run(plan(), effects)
    assert effects.done == ["step 3", "generate", "last"]


async def test_a_plan_that_has_run_is_not_run_again() -> None:
    """The run was interrupted between its last step and its end."""
    state = ExecutionState(messages=[UserMessage("go")], step=2, plan=[PlanStep("a", "d", status=PlanStatus.COMPLETED)])
    effects = Memory(lambda _: "", state)
    with pytest.raises(UPPError, match="at least one assistant message"):  # this host forgot the answer
        await run(plan(), effects)
    assert effects.done == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_plan_steps": 0}, "max_plan_steps is 0; it must be a whole number of at least 1"),
        ({"max_plan_steps": 2.0}, "max_plan_steps is 2.0"),
        ({"allow_replan": 1}, "allow_replan is 1; it must be True or False"),
        ({"plan_schema": {}}, "plan_schema is {}; it must be a JSON Schema, or left out"),
        ({"plan_schema": "steps"}, "plan_schema is 'steps'"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, object], text: str) -> None:
    """When the agent is defined, not when it runs."""
    with pytest.raises(InvalidInput, match=text):
        plan(**cast("dict[str, Any]", options))


def test_a_strategy_is_built_again_from_its_options() -> None:
    made = plan(max_plan_steps=7, allow_replan=False, plan_schema={"type": "object"})
    built = build(StrategySpec(made.name, made.options))
    assert isinstance(built, Plan)
    assert built.options == {"max_plan_steps": 7, "allow_replan": False, "plan_schema": {"type": "object"}}
