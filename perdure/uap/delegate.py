"""`delegate(...)`: one tool by which an agent hands a task to any of several agents, with media of the conversation.

Each agent that it names is a sub-agent as `Agent.to_tool` makes one: durable, cancelled with its parent, its usage counted
by its path. In specs and paths it is `delegate:<agent>`, which no model's tool can be called. Source: UAMP 1.0, sections
6.13 and 8.5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from perdure.errors import InvalidInput
from perdure.uap import lineage
from perdure.uap.agent_tool import TASK, AgentTool, make_tool, result_of, task_of
from perdure.uap.attachments import attached, task_message, told_ids
from perdure.uap.delegated import AGENT, delegated_name
from perdure.uap.present import presents
from perdure.uap.sub_agent_run import run_sub_agent
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message
from perdure.upp.tools import Tool, ToolContext, ToolEffect

if TYPE_CHECKING:
    from perdure.uap.agent import Agent

ATTACHMENTS = "attachments"
NAME = "delegate"


@dataclass(frozen=True, slots=True, eq=False)
class DelegateTool(Tool):
    """A tool whose call is a run of the agent that it names. Made by `delegate`.

    Attributes:
        targets: the agents as tools, by the names that the model knows them by.
    """

    run: Callable[..., object] = field(init=False)
    targets: dict[str, AgentTool] = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", self._run)
        Tool.__post_init__(self)  # super() does not work in a dataclass with slots

    def named(self) -> Iterator[tuple[str, AgentTool]]:
        """The agents by the names that specs and paths have for them."""
        yield from ((delegated_name(self.name, label), target) for label, target in self.targets.items())

    async def _run(self, arguments: JSONObject, context: ToolContext) -> JSONValue:
        """Run the agent in this process. Durable runs come here only with a name that is none of an agent."""
        label = arguments.get(AGENT)
        target = self.targets.get(label) if isinstance(label, str) else None
        if target is None:
            raise InvalidInput(f"{self.name} knows no agent {str(label)[:80]!r}; it has {', '.join(self.targets)}")
        task, run = task_of(target, arguments), lineage.current()
        ids = arguments.get(ATTACHMENTS)
        media = await attached(() if run is None else run.conversation(), ids, context.contents)
        name = delegated_name(self.name, str(label))
        turn = await run_sub_agent(target.agent, name, task_message(task, ids, media), context.call_id)
        return result_of(target.agent, turn)


def delegate(*agents: Agent, name: str = NAME, description: str | None = None) -> Tool:
    """A tool by which a model hands a task to one of several agents: `agent(..., tools=[delegate(researcher, painter)])`.

    The model gives the agent's name, the task in words and, if it likes, the content ids of media of the conversation,
    which the agent is then shown too. It is told the agent's last words, or its data where it has a structure.

    Args:
        agents: each with a name of its own, in which the model reads `.` as `_`.
        name: what the model calls the tool.
        description: for the model, in place of what is said by default; the agents' own follow.

    Raises:
        InvalidInput: there is no agent, one has no name, or two have the same.
    """
    targets: dict[str, AgentTool] = {}
    for item in agents:
        if item.name is None:
            raise InvalidInput("an agent that is delegated to needs a name: agent(name=..., ...)")
        label = item.name.replace(".", "_")
        if label in targets:
            raise InvalidInput(f"two agents are named {label!r}; {name} could not tell them apart")
        targets[label] = make_tool(item, name, None, _parameters([label]))
    if not targets:
        raise InvalidInput(f"{name} needs at least one agent to hand tasks to")
    said = description or "Hand a task to another agent, which works on its own, and get its answer."
    lines = [f"{label}: {target.description}" for label, target in targets.items()]
    return DelegateTool(
        name=name,
        description="\n".join([said, "The agents:", *lines]),
        parameters=_parameters(list(targets)),
        effect=ToolEffect.IDEMPOTENT,
        takes_context=True,
        targets=targets,
    )


def ids_told(agent: Agent, messages: Sequence[Message]) -> Sequence[Message]:
    """The conversation as the agent's model is sent it: with the ids of its media where it may hand media on, or show it."""
    return told_ids(messages) if is_told_ids(agent) else messages


def is_told_ids(agent: Agent) -> bool:
    """Whether the agent may hand media on, or show it, and so has to know the ids of what it sees."""
    return any(isinstance(item, DelegateTool) or presents(item) for item in agent.resolved)


def _parameters(labels: Sequence[str]) -> JSONObject:
    words = "What the agent is to do, with all that it must know: it does not see this conversation"
    ids = "Content ids of media of this conversation that the agent is to be shown"
    return {
        "type": "object",
        "properties": {
            AGENT: {"type": "string", "enum": cast("list[JSONValue]", list(labels)), "description": "Who is to do it"},
            TASK: {"type": "string", "description": words},
            ATTACHMENTS: {"type": "array", "items": {"type": "string"}, "description": ids},
        },
        "required": [AGENT, TASK],
    }
