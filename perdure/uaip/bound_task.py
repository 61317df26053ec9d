"""A task of a served workflow with what carries it out: the user's function, an agent, or an HTTP call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import TypeAlias

from perdure.uaip.definition import TaskSpec
from perdure.uaip.http_call import HttpCall
from perdure.uaip.task_function import TaskFunction
from perdure.uap.agent import Agent
from perdure.uap.agent_tool import AgentTool, task_of
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """A task that is a function.

    Attributes:
        spec: as the definition that is deployed now has it; a session may be pinned to another.
        function: how it is called.
        owner: the stage's class; None for a function that a JSON document names.
    """

    spec: TaskSpec
    function: TaskFunction
    owner: type | None

    def callable(self) -> Callable[..., object]:
        """The function, bound to a new instance of its stage if it is a method. What the class raises comes through."""
        return self.function.function if self.owner is None else MethodType(self.function.function, self.owner())


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A task that is a run of an agent.

    Attributes:
        spec: as deployed now.
        agent: whose run it is.
    """

    spec: TaskSpec
    agent: Agent

    @property
    def tool(self) -> AgentTool:
        """The agent as a tool of the task's name and schema."""
        spec = self.spec
        return self.agent.to_tool(name=spec.name, description=spec.description, parameter_schema=spec.parameters)

    def input(self, arguments: JSONObject) -> str:
        """What the agent is told. Raises InvalidInput if the schema has a `task` and none was given."""
        return task_of(self.tool, arguments)


@dataclass(frozen=True, slots=True)
class HttpTask:
    """A task that is an HTTP call.

    Attributes:
        spec: as deployed now.
        call: what is sent.
    """

    spec: TaskSpec
    call: HttpCall


BoundTask: TypeAlias = FunctionTask | AgentTask | HttpTask
