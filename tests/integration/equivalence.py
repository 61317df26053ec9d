"""Agents that follow the script in their input and note all that they are given, and how such scripts are generated.

Input, as JSON: {"answers": [...], "stop": the step after which the stop condition says so, "note": whether hooks write
metadata, "recover": what on_error makes of a failure: "" nothing, "more" a turn that goes on, "fresh" one of its own}.

An answer is a text; or {"text", "reasoning", "calls": [{"id", "tool", "arguments"}], "busy": whether it comes only at
the second try}; or {"error": a code}. After the last comes "end".

Notes are kept in this process, or in the ledger if the environment names one, as it does for a worker of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from hypothesis import strategies as st

from perdure import App, agent
from perdure.execution import loop, plan, react, staged
from perdure.uap.agent import Agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.ids import is_uuid4
from perdure.uap.state import ExecutionState
from perdure.upp import AssistantMessage, ErrorCode, JSONValue, LLMRequest, ToolCall, ToolResult, Turn, UPPError, tool
from perdure.upp.messages import UserMessage
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.script import Answer, ScriptedAnswer
from perdure.upp.providers.scripted import scripted
from perdure.upp.retry import ExponentialBackoff
from perdure.upp.usage import empty_usage
from tests.integration.agents import write_ledger
from tests.integration.staged_walk import WALK, walk_arguments

NAME = "equivalence"
"""Under which the notes are in the ledger."""

noted: list[dict[str, Any]] = []
_busy: set[int] = set()
_OWN_TO_A_RUN = ("timestamp", "duration", "stepId", "turnId")


def begin() -> None:
    """Forget the run before."""
    noted.clear()
    _busy.clear()


def plain(value: Any) -> Any:
    """JSON without times, and without the ids that hosts make, all UUIDs; those of the vendor and of plan steps stay."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {
            name: plain(item)
            for name, item in items
            if name not in _OWN_TO_A_RUN and not (name == "id" and is_uuid4(item))
        }
    return [plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def note(kind: str, **data: JSONValue) -> None:
    """Note what was given to the user's code."""
    entry = cast("dict[str, Any]", plain(data))
    if "PERDURE_TEST_LEDGER" in os.environ:
        write_ledger(kind, NAME, **entry)
    else:
        noted.append({"kind": kind, **entry})


def turn_json(turn: Turn) -> Any:
    """A turn as it must be whichever host made it."""
    return plain(turn.to_json())


def _state(state: ExecutionState) -> JSONValue:
    return {
        "step": state.step,
        "messages": [message.to_json() for message in state.messages],
        "metadata": state.metadata,
        "executions": [execution.to_json() for execution in state.tool_executions],
        "usage": state.usage.to_json(),
        "cycles": state.cycles,
        "done": state.done,
        "reasoning": list(state.reasoning),
        "plan": None if state.plan is None else [step.to_json() for step in state.plan],
    }


def _script(messages: Sequence[Any]) -> dict[str, Any]:
    return json.loads(messages[0].text)


@tool(effect="none")
async def echo(text: str, times: int = 1, wait_ms: int = 0) -> str:
    """Say a text so many times."""
    note("tool", said=text, times=times)
    await asyncio.sleep(wait_ms / 1000)
    return text * times


@tool(effect="none")
def fail(why: str) -> str:
    """Fail."""
    note("tool", failed=why)
    raise ValueError(why)


@tool(effect="none", sequential=True)
def alone(number: int) -> JSONValue:
    """Run alone."""
    note("tool", alone=number)
    return {"number": number, "half": number / 2, "no": None, "list": ["ä" * number]}


def _answer(request: LLMRequest) -> ScriptedAnswer:
    answers: list[Any] = _script(request.messages)["answers"]
    number = sum(isinstance(message, AssistantMessage) for message in request.messages)
    item: Any = answers[number] if number < len(answers) else "end"
    if isinstance(item, str):
        item = {"text": item}
    if item.get("busy") and number not in _busy:
        _busy.add(number)
        note("busy", number=number)
        return UPPError("busy", ErrorCode.RATE_LIMITED, "scripted")
    note(
        "refused" if "error" in item else "model",
        number=number,
        messages=[message.to_json() for message in request.messages],
        choice=request.tool_choice,
        structure=request.structure,
        tools=[tool.name for tool in request.tools],
    )
    if "error" in item:
        return UPPError("no more", ErrorCode(item["error"]), "scripted", status_code=400)
    calls = [ToolCall(call["id"], call["tool"], call["arguments"]) for call in item.get("calls", [])]
    return Answer(item["text"], tool_calls=calls, reasoning=item.get("reasoning"))


def _on_step_start(step: int, state: ExecutionState) -> None:
    note("on_step_start", step=step, state=_state(state))
    if _script(state.messages)["note"]:
        seen = cast("list[JSONValue]", state.metadata.get("seen") or [])
        state.metadata["seen"] = [*seen, step, "\ud800 ☃"]


async def _on_reason(step: int, reasoning: str) -> None:
    note("on_reason", step=step, reasoning=reasoning)


def _on_act(step: int, actions: Sequence[ToolCall]) -> None:
    note("on_act", step=step, actions=[action.to_json() for action in actions])


async def _on_observe(step: int, observations: Sequence[ToolResult]) -> None:
    note("on_observe", step=step, observations=[item.to_json() for item in observations])


async def _on_step_end(step: int, result: StepResult) -> None:
    note("on_step_end", step=step, turn=turn_json(result.turn), state=_state(result.state))
    if _script(result.state.messages)["note"]:
        result.state.metadata["last"] = {"step": step, "half": step / 2}


def _stop_condition(state: ExecutionState) -> bool:
    note("stop_condition", state=_state(state))
    script = _script(state.messages)
    if script["note"]:
        state.metadata["asked"] = state.step
    return state.step == script["stop"]


async def _on_complete(turn: Turn) -> None:
    note("on_complete", turn=turn_json(turn))


async def _on_error(error: Exception, state: ExecutionState) -> Turn | None:
    note("on_error", error=error_json(error), state=_state(state))
    sorry = AssistantMessage("sorry, " * 200)
    match _script(state.messages)["recover"]:
        case "more":
            return Turn([*state.messages, sorry], state.tool_executions, state.usage, state.cycles)
        case "fresh":
            return Turn([UserMessage("something else"), sorry], [], empty_usage(), 1)
        case _:
            return None


def error_json(error: BaseException) -> JSONValue:
    """An error as it must be whichever host raises it."""
    code = getattr(error, "code", None)
    return [type(error).__name__, None if code is None else str(code), str(error)]


HOOKS = AgentStrategy(
    stop_condition=_stop_condition,
    on_step_start=_on_step_start,
    on_reason=_on_reason,
    on_act=_on_act,
    on_observe=_on_observe,
    on_step_end=_on_step_end,
    on_complete=_on_complete,
    on_error=_on_error,
)
_RETRY = ExponentialBackoff(max_attempts=1, base_delay=timedelta(milliseconds=1), jitter=False)


def _made(execution: NamedStrategy, hooks: AgentStrategy | None, name: str) -> Agent:
    return agent(
        name=f"{execution.name}_{name}",
        model=scripted(_answer, chunk_size=200, chunk_delay=0.002),
        tools=[echo, fail, alone],
        execution=execution,
        config=ProviderConfig(retry=_RETRY),
        strategy=hooks,
    )


EXECUTIONS: list[NamedStrategy] = [
    loop(max_iterations=3),
    react(max_steps=3),
    plan(max_plan_steps=3),
    staged(WALK, max_steps=5),
]
AGENTS = {
    str(made.name): made
    for execution in EXECUTIONS
    for made in (_made(execution, HOOKS, "hooked"), _made(execution, None, "bare"))
}
app = App(agents=list(AGENTS.values()))

_texts = st.sampled_from(["", "hi", "naïve \x00 \ud800 ☃", "more than a preview " * 100]) | st.text(max_size=20)
_arguments: dict[str, st.SearchStrategy[Any]] = {
    "echo": st.fixed_dictionaries(
        {"text": _texts, "times": st.sampled_from([1, 2, 1000])}, optional={"wait_ms": st.sampled_from([5, 20])}
    ),
    "fail": st.fixed_dictionaries({"why": _texts}),
    "alone": st.fixed_dictionaries({"number": st.integers(0, 2000)}),
    "unknown": st.just({}),
}
_wrong: st.SearchStrategy[Any] = st.sampled_from(["{not json", [1], None, 7, {"times": "many"}])


@st.composite
def _calls(draw: st.DrawFn, tools: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    name = draw(st.sampled_from([*tools, "echo", "alone"]))
    wrong = draw(st.sampled_from([False] * 5 + [True]))
    id_ = draw(st.sampled_from(["", "", "", "same"]))
    return {"id": id_, "tool": name, "arguments": draw(_wrong if wrong else tools[name])}


def _acting_with(tools: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"text": _texts, "calls": st.lists(_calls(tools), min_size=1, max_size=4)},
        optional={"reasoning": _texts.filter(bool), "busy": st.booleans()},
    )


_acting = _acting_with(_arguments)
_walking = _acting_with({**_arguments, **walk_arguments})
_errors = st.fixed_dictionaries({"error": st.sampled_from([ErrorCode.CONTENT_FILTERED, ErrorCode.RATE_LIMITED])})


@st.composite
def _plans(draw: st.DrawFn) -> str:
    """Plans that may be too long or not to be carried out."""
    ids = draw(st.lists(st.sampled_from("abcdé"), min_size=1, max_size=5))
    tools = st.sampled_from([None, "echo", "fail"])
    needs = st.lists(st.sampled_from("abcdé"), max_size=1)
    steps = [{"id": id_, "description": draw(_texts), "tool": draw(tools), "dependsOn": draw(needs)} for id_ in ids]
    return json.dumps({"steps": steps})


_good_plan = st.integers(1, 3).map(
    lambda count: json.dumps({"steps": [{"id": str(n), "description": "d", "tool": "fail"} for n in range(count)]})
)


@st.composite
def scripts(draw: st.DrawFn, execution: str = "") -> tuple[str, str]:
    """An agent's name and the text of its input; of one strategy, or of any."""
    name = draw(st.sampled_from([name for name in sorted(AGENTS, reverse=True) if name.startswith(execution)]))
    planned = _good_plan | _plans()
    first = [draw(planned | _texts)] if name.startswith("plan") else []
    acting = _walking if name.startswith("staged") else _acting
    one = st.one_of(acting, acting, acting, _texts, planned if first else acting)
    answers: list[Any] = [*first, *draw(st.lists(one, min_size=1, max_size=8))]
    if draw(st.sampled_from([False, False, True])):
        answers.append(draw(_errors))
    script = {
        "answers": answers,
        "stop": draw(st.sampled_from([0, 0, 0, 1, 2, 3])),
        "note": draw(st.booleans()),
        "recover": draw(st.sampled_from(["", "more", "fresh"])),
    }
    return name, json.dumps(script)
