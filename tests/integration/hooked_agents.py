"""Agents that reason, and whose hooks write what they are given into the ledger.

Input: {"name": the test's own, "rounds": rounds of tools, "stop": step at which the stop condition says so, "fail": a
model call that fails, "recover": whether on_error returns a turn}.
"""

from __future__ import annotations

import json
from typing import Any, cast

from perdure import App, agent
from perdure.execution import plan, react
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.state import ExecutionState
from perdure.upp import AssistantMessage, ErrorCode, JSONValue, LLMRequest, ToolCall, Turn, UPPError, tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger

REASON = "Reason now."


def spec_of(state: ExecutionState) -> dict[str, Any]:
    return json.loads(state.messages[0].text)


def _said(state: ExecutionState) -> list[str]:
    return [f"{message.type}:{message.text[:20]}" for message in state.messages]


def on_step_start(step: int, state: ExecutionState) -> None:
    seen = cast("list[JSONValue]", state.metadata.get("seen") or [])
    state.metadata["seen"] = [*seen, f"start {step}"]
    write_ledger("hook", spec_of(state)["name"], hook="on_step_start", step=step, metadata=state.metadata)


async def on_reason(step: int, reasoning: str) -> None:
    write_ledger("hook", reasoning.split()[1], hook="on_reason", step=step, said=reasoning)


async def on_act(step: int, actions: Any) -> None:
    write_ledger("hook", actions[0].arguments["name"], hook="on_act", step=step, calls=len(actions))


def on_observe(step: int, observations: Any) -> None:
    write_ledger(
        "hook", str(observations[0].result).split()[0], hook="on_observe", step=step, results=len(observations)
    )


async def on_step_end(step: int, result: StepResult) -> None:
    state = result.state
    state.metadata["last"] = step
    write_ledger(
        "hook", spec_of(state)["name"], hook="on_step_end", step=step, messages=len(result.turn.messages),
        reasoning=list(state.reasoning), cycles=result.turn.cycles, said=_said(state),
    )  # fmt: skip


def stop_condition(state: ExecutionState) -> bool:
    write_ledger("hook", spec_of(state)["name"], hook="stop_condition", step=state.metadata["last"])
    return state.metadata["last"] == spec_of(state).get("stop")


async def on_complete(turn: Turn) -> None:
    name = json.loads(turn.messages[0].text)["name"]
    write_ledger("hook", name, hook="on_complete", step=0, said=turn.response.text, cycles=turn.cycles)


async def on_error(error: Exception, state: ExecutionState) -> Turn | None:
    spec = spec_of(state)
    write_ledger("hook", spec["name"], hook="on_error", step=state.step, error=str(error))
    if not spec.get("recover"):
        return None
    return Turn([*state.messages, AssistantMessage("I could not.")], state.tool_executions, state.usage, state.cycles)


@tool(effect="none")
async def look(name: str, key: str) -> str:
    """Look."""
    write_ledger("tool", name, key=key)
    return f"{name} saw {key} " + "x" * 3000


async def _model(request: LLMRequest) -> Answer:
    first = next(message for message in request.messages if message.type == "user" and '"name"' in message.text)
    spec = json.loads(first.text)
    given = sum(message.type == "assistant" for message in request.messages)
    last = request.messages[-1]
    write_ledger("model", spec["name"], number=given, last=last.text[:40], choice=request.tool_choice)
    if given == spec.get("fail"):
        raise UPPError("no more", ErrorCode.CONTEXT_LENGTH_EXCEEDED, "scripted")
    if last.text == REASON:
        return Answer(f"I, {spec['name']} think of {given} " + "y" * 2000, tool_calls=[ToolCall("x", "look", {})])
    rounds = given // 2
    if rounds >= spec["rounds"]:
        return Answer(f"done after {rounds}")
    calls = [ToolCall(f"{given}.{n}", "look", {"name": spec["name"], "key": f"{given}.{n}"}) for n in range(2)]
    return Answer("", tool_calls=calls)


hooks = AgentStrategy(
    stop_condition=stop_condition,
    on_step_start=on_step_start,
    on_reason=on_reason,
    on_act=on_act,
    on_observe=on_observe,
    on_step_end=on_step_end,
    on_complete=on_complete,
    on_error=on_error,
)
thinker = agent(
    name="thinker",
    model=scripted(_model),
    tools=[look],
    execution=react(max_steps=20, reasoning_prompt=REASON, observation_format="text"),
    strategy=hooks,
)
PLAN = json.dumps(
    {
        "steps": [
            {"id": "a", "description": "Look twice.", "tool": "look", "dependsOn": []},
            {"id": "b", "description": "Say it.", "tool": None, "dependsOn": ["a"]},
        ]
    }
)
LOOKS = [[ToolCall(f"look_{n}", "look", {"name": "planner", "key": str(n)})] for n in range(2)]
planner = agent(
    name="planner",
    model=scripted([PLAN, *LOOKS, "seen", "said"]),
    tools=[look],
    execution=plan(),
    strategy=AgentStrategy(on_step_start=lambda step, state: state.metadata.update(step=step)),
)
app = App(agents=[thinker, planner])
