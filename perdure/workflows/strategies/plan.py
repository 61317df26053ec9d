"""`plan`: make a plan, carry out its steps in order, plan anew when one fails. Source: UAP-1.0 section 5.4.

Where a run stands is all in `state.plan`: a run that is taken up at a boundary goes on with the next step there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uap.plan_answer import plan_from_text, plan_schema, read_plan
from perdure.uap.plan_steps import PlanStatus, PlanStep, order_steps, replanned
from perdure.uap.scaffold import PLAN
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import Ask, Effects, StrategyContext
from perdure.uap.whole_number import check_whole_number
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.turn import Turn
from perdure.workflows.strategies import plan_prompts as prompts
from perdure.workflows.strategies.loop import too_many_rounds

MOST_REPLANS = 3
MOST_ROUNDS = 10
"""Rounds of tools within one plan step; the answer after the last is asked for without tools."""


class Plan:
    """Planning, then the plan's steps. One step is the planning, or one plan step with its own tool loop."""

    def __init__(
        self, *, max_plan_steps: int = 10, allow_replan: bool = True, plan_schema: JSONObject | None = None
    ) -> None:
        """Plan at most `max_plan_steps` steps in all; see `plan`."""
        self.max_plan_steps = max_plan_steps
        self.allow_replan = allow_replan
        self.plan_schema = plan_schema

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return "plan"

    @property
    def options(self) -> dict[str, Any]:
        """What builds the same strategy again."""
        return {
            "max_plan_steps": self.max_plan_steps,
            "allow_replan": self.allow_replan,
            "plan_schema": self.plan_schema,
        }

    async def execute(self, context: StrategyContext) -> Turn:
        """Run until no step is left, one fails for good, or the stop condition says so.

        Raises:
            UPPError: INVALID_RESPONSE if the model makes no plan that can be carried out, INVALID_REQUEST if a step
                calls tools without end.
        """
        effects, state = context.effects, context.state
        ended = state.done
        while not ended:
            if state.plan is None:
                ended = await self._plan(effects, state)
            elif not state.plan:
                ended = await _answer_without_plan(effects)
            else:
                ended = await self._take_step(effects, state, state.plan)
        return effects.turn()

    async def _plan(self, effects: Effects, state: ExecutionState) -> bool:
        await effects.start_step()
        state.plan = await self._ask_for_plan(effects, [], prompts.planning_prompt(self.max_plan_steps))
        return await effects.end_step(last=False)

    async def _take_step(self, effects: Effects, state: ExecutionState, plan: list[PlanStep]) -> bool:
        step = _next_step(plan)
        if step is None:  # taken up behind the last one
            return True
        step.status = PlanStatus.IN_PROGRESS
        await effects.start_step()
        failed = await _converse(effects, prompts.step_prompt(step), prompts.go_on_prompt(step), step.tool)
        step.status = PlanStatus.FAILED if failed else PlanStatus.COMPLETED
        if failed and not self._may_replan(plan):
            return await effects.end_step(last=True)
        if failed:
            prompt = prompts.replanning_prompt(step, self._room(plan))
            plan = state.plan = await self._ask_for_plan(effects, plan, prompt)
        return await effects.end_step(last=_next_step(plan) is None)

    def _may_replan(self, plan: Sequence[PlanStep]) -> bool:
        return self.allow_replan and _failures(plan) <= MOST_REPLANS and self._room(plan) > 0

    def _room(self, plan: Sequence[PlanStep]) -> int:
        """How many steps a new plan may have: those that have run count too."""
        return self.max_plan_steps - sum(step.status in (PlanStatus.COMPLETED, PlanStatus.FAILED) for step in plan)

    async def _ask_for_plan(self, effects: Effects, old: Sequence[PlanStep], prompt: str) -> list[PlanStep]:
        """The plan with the model's new steps. A bad one is asked for again, as often as planning anew is left."""
        schema = self.plan_schema or plan_schema(self._room(old))
        tries = 1 + MOST_REPLANS - _failures(old) if self.allow_replan else 1
        while True:
            ask = Ask(scaffold=PLAN, prompt=prompt, tools=False, structure=schema)
            answer = await effects.generate(ask)
            tries -= 1
            try:
                data = plan_from_text(answer.text) if effects.data is None else effects.data
                plan = replanned(old, read_plan(data, self.max_plan_steps), self.max_plan_steps)
                order_steps(plan)
            except UPPError as error:
                if tries == 0:
                    raise
                prompt = prompts.correction_prompt(error.message)
            else:
                return plan


async def _answer_without_plan(effects: Effects) -> bool:
    await effects.start_step()
    await _converse(effects)
    return await effects.end_step(last=True)


async def _converse(effects: Effects, first: str = "", then: str = "", tool: str | None = None) -> bool:
    """One tool loop; returns whether the named tool's last call was an error.

    Args:
        effects: the host's.
        first: the prompt of the first call.
        then: the prompt after tools.
        tool: the tool that matters.
    """
    failed = False
    answer = await effects.generate(Ask(prompt=first))
    for number in range(1, MOST_ROUNDS + 1):
        if not answer.has_tool_calls:
            return failed
        results = await effects.call_tools(answer)
        failed = _last_outcome(answer, results, tool, failed)
        answer = await effects.generate(Ask(prompt=then, tools=number < MOST_ROUNDS))
    if answer.has_tool_calls:
        raise too_many_rounds(MOST_ROUNDS)
    return failed


def _last_outcome(answer: AssistantMessage, results: ToolResultMessage, tool: str | None, before: bool) -> bool:
    pairs = zip(answer.tool_calls or (), results.results, strict=True)
    errors = [result.is_error for call, result in pairs if call.tool_name == tool]
    return errors[-1] if errors else before


def _next_step(plan: Sequence[PlanStep]) -> PlanStep | None:
    """The next to be carried out; one that was in progress when its run was cut off is carried out again."""
    left = (PlanStatus.PENDING, PlanStatus.IN_PROGRESS)
    return next((step for step in order_steps(plan) if step.status in left), None)


def _failures(plan: Sequence[PlanStep]) -> int:
    return sum(step.status is PlanStatus.FAILED for step in plan)


def plan(*, max_plan_steps: int = 10, allow_replan: bool = True, plan_schema: JSONObject | None = None) -> Plan:
    """The plan-then-execute strategy. Source: UAP-1.0 section 5.4.

    Args:
        max_plan_steps: the most plan steps of the whole run; of a longer plan the first are taken.
        allow_replan: whether the model plans anew, at most three times, when a step fails or a plan cannot be carried
            out. If not, a failed step ends the run with the turn so far, and a bad plan is an error.
        plan_schema: the JSON Schema by which the plan is asked for; what fits it must be read as the default's
            `{"steps": [{"id", "description", "tool", "dependsOn"}]}` is.

    Raises:
        InvalidInput: an option that cannot be used.
    """
    check_whole_number("max_plan_steps", max_plan_steps, 1)
    if not isinstance(cast(object, allow_replan), bool):
        raise InvalidInput(f"allow_replan is {allow_replan!r:.80}; it must be True or False")
    if plan_schema is not None and not (isinstance(cast(object, plan_schema), dict) and plan_schema):
        raise InvalidInput(f"plan_schema is {plan_schema!r:.80}; it must be a JSON Schema, or left out")
    return Plan(max_plan_steps=max_plan_steps, allow_replan=allow_replan, plan_schema=plan_schema)
