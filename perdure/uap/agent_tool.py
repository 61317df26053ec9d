"""A sub-agent as its parent's model sees it: a tool. Source: UAP-1.0 section 8.2."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure.errors import InvalidInput
from perdure.uap.inheritance import label_of
from perdure.uap.sub_agent_run import run_sub_agent
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.tools import Tool, ToolContext, ToolEffect
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.agent import Agent

TASK = "task"
_TASK_ALONE: JSONObject = {
    "type": "object",
    "properties": {TASK: {"type": "string", "description": "The task for the sub-agent to perform"}},
    "required": [TASK],
}
_SENTENCE = re.compile(r"(.+?[.!?])(?: |\Z)")
_LONGEST = 200
_NOT_DESCRIBED = "Delegates a task to a sub-agent"


@dataclass(frozen=True, slots=True, eq=False)
class AgentTool(Tool):
    """A tool whose call is a run of an agent. Made by `Agent.to_tool`.

    Its effect is `idempotent`: a durable run of a sub-agent is found again by the call's id, never begun twice.

    Attributes:
        agent: as it was defined; what it inherits is known when it runs.
    """

    run: Callable[..., object] = field(init=False)
    agent: Agent = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", self._run)
        if self.approval is not None:
            raise InvalidInput(f"sub-agent {self.name!r} takes no approval; give it to the tools that it calls")
        Tool.__post_init__(self)  # super() does not work in a dataclass with slots

    async def _run(self, arguments: JSONObject, context: ToolContext) -> JSONValue:
        turn = await run_sub_agent(self.agent, self.name, task_of(self, arguments), context.call_id)
        return result_of(self.agent, turn)


def make_tool(agent: Agent, name: str | None, description: str | None, parameters: JSONObject | None) -> AgentTool:
    """See `Agent.to_tool`."""
    return AgentTool(
        name=label_of(agent).replace(".", "_") if name is None else name,
        description=_described(agent) if description is None else description,
        parameters=_TASK_ALONE if parameters is None else parameters,
        effect=ToolEffect.IDEMPOTENT,
        takes_context=True,
        agent=agent,
    )


def task_of(tool: AgentTool, arguments: JSONObject) -> str:
    """What the sub-agent is told: the task, or the JSON text of all arguments where the tool's schema has no task.

    Raises:
        InvalidInput: the schema has a task, and the model gave none.
    """
    properties = tool.parameters.get("properties")
    if not isinstance(properties, dict) or TASK not in properties:
        return _text(arguments)
    task = arguments.get(TASK)
    if task is None or task == "":
        raise InvalidInput(f"tool {tool.name!r} needs a {TASK!r}: say what the sub-agent is to do")
    return task if isinstance(task, str) else _text(task)


def result_of(agent: Agent, turn: Turn) -> JSONValue:
    """What the parent's model is told of a sub-agent's turn: its data if it has a structure, else its last words."""
    return turn.response.text if agent.structure is None or turn.data is None else turn.data


def _text(value: JSONValue) -> str:
    return dumps(value).decode("utf-8", "surrogatepass")


def _described(agent: Agent) -> str:
    """The agent's description, else how its system prompt begins."""
    if agent.description:
        return agent.description
    system = " ".join((agent.system or "").split())
    if not system:
        return _NOT_DESCRIBED
    sentence = _SENTENCE.match(system)
    first = sentence.group(1) if sentence else system
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1].rstrip() + "…"
