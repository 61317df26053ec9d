"""A workflow's definition as plain data: what a session is pinned to, whatever is deployed later.

Functions are not in it; a worker finds them by the names of workflow, stage and task. Source: UAIP 0.1, Types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from perdure.uaip.http_call import HttpCall
from perdure.uaip.json_form import from_json, to_json
from perdure.uaip.retry import NO_RETRY, RetrySpec
from perdure.upp.json_value import JSONObject, JSONValue, sha256_hex

DAY_S = 86_400.0

TaskKind: TypeAlias = Literal["function", "agent", "http"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A way to another stage.

    Attributes:
        target: the stage's name.
        keep: the keys of the shared state that stay; None means all.
    """

    target: str
    keep: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A callable of a stage, without its function. Source: UAIP 0.1, Task; the rest is Perdure's.

    Attributes:
        name: unique in its stage.
        description: for whoever chooses it.
        parameters: JSON Schema 2020-12 of type object.
        returns: JSON Schema of the result; None if nothing is said of it.
        kind: "function", "agent" (a run of it is the task) or "http".
        effect: a ToolEffect: `none`, `idempotent`, `at_most_once` or `once`.
        timeout_s: seconds that one try may take; None for no limit of its own.
        retry: how often it is tried when it raises.
        approval: "human" if a person approves each call before it runs, else "".
        approval_timeout_s: seconds that the approval is waited for; None means for ever.
        agent: of kind "agent": its name.
        http: of kind "http": the call.
        save_as: the key of the state that gets the result; "" for none.
    """

    name: str
    description: str
    parameters: JSONObject
    returns: JSONObject | None = None
    kind: TaskKind = "function"
    effect: str = "at_most_once"
    timeout_s: float | None = None
    retry: RetrySpec = NO_RETRY
    approval: Literal["", "human"] = ""
    approval_timeout_s: float | None = None
    agent: str = ""
    http: HttpCall | None = None
    save_as: str = ""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A step of a workflow. Source: UAIP 0.1, Stage.

    Attributes:
        name: unique in its workflow.
        description: for whoever goes there.
        tasks: what can be called here, as declared.
        prerequisites: keys that the state must have before this stage is entered, as declared.
        transitions: where one can go from here, as declared; none means that it is terminal.
    """

    name: str
    description: str = ""
    tasks: tuple[TaskSpec, ...] = ()
    prerequisites: tuple[str, ...] = ()
    transitions: tuple[Edge, ...] = ()

    @property
    def is_terminal(self) -> bool:
        """Whether no way leads on. Its tasks can be called all the same."""
        return not self.transitions

    def task(self, name: str) -> TaskSpec | None:
        """The task of that name, or None."""
        return next((task for task in self.tasks if task.name == name), None)

    def edge(self, target: str) -> Edge | None:
        """The way to the stage of that name, or None."""
        return next((edge for edge in self.transitions if edge.target == target), None)


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A workflow. Source: UAIP 0.1, Workflow.

    Attributes:
        name: what clients ask for.
        initial_stage: where a session starts; its prerequisites are not asked for then.
        stages: as declared.
        description: for people and for models.
        ttl_s: seconds after its last action for which a session lives.
        inputs: the keys that clients may write by `state_input`; None means all that are not reserved.
    """

    name: str
    initial_stage: str
    stages: tuple[StageSpec, ...]
    description: str = ""
    ttl_s: float = DAY_S
    inputs: tuple[str, ...] | None = None

    @property
    def stage_names(self) -> tuple[str, ...]:
        """As declared."""
        return tuple(stage.name for stage in self.stages)

    def stage(self, name: str) -> StageSpec | None:
        """The stage of that name, or None."""
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def sha256(self) -> str:
        """The same for two definitions that say the same, whatever the order of members in their schemas."""
        return sha256_hex(self.canonical)

    @property
    def canonical(self) -> bytes:
        """The bytes that the hash is of: its JSON form with the members of each object in order."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()

    def to_json(self) -> JSONObject:
        """Its JSON form, which is stored with each session. Stages and tasks are lists: their order is part of it."""
        return to_json(self)

    @classmethod
    def from_json(cls, value: JSONValue) -> WorkflowDefinition:
        """The definition of its JSON form.

        Raises:
            InvalidInput: it is none.
        """
        return from_json(cls, value, "workflow definition")
