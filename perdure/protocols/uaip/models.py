"""The bodies of UAIP's replies. Members that a reply does not have are not set, and are not sent.

Source: UAIP 0.1, Endpoints. What the specification does not name is an addition.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.upp.json_value import JSONObject, JSONValue, well_formed

ReplyStatus = Literal["ok", "error", "input_required", "terminated", "running", "paused", "waiting"]


class Body(BaseModel):
    """A JSON object of the wire."""

    model_config = ConfigDict(frozen=True)

    def to_json(self) -> JSONObject:
        """Its members that are set."""
        return self.model_dump(exclude_unset=True)


class ErrorBody(Body):
    """Every error, whatever its status; some have more members."""

    model_config = ConfigDict(frozen=True, extra="allow")

    detail: str


class InitializeResponse(Body):
    """Of `POST /initialize`. `stages` are in the order of their declaration."""

    session_id: str
    workflow: str
    initial_stage: str
    stages: list[str]


class TaskSchema(Body):
    """A task of `GET /api/workflows/{name}`; `parameters` and `returns` are JSON Schema 2020-12."""

    name: str
    description: str
    parameters: dict[str, Any]
    returns: dict[str, Any] | None = None


class StageSchema(Body):
    """A stage of `GET /api/workflows/{name}`."""

    name: str
    description: str
    tasks: dict[str, TaskSchema]
    transitions: list[str]
    prerequisites: list[str] = Field(default_factory=list[str])


class WorkflowSchema(Body):
    """Of `GET /api/workflows/{name}`."""

    name: str
    description: str
    initial_stage: str
    stages: dict[str, StageSchema]


class ToolSchema(Body):
    """Something that can be called now, as a model is told of it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class TaskFailure(Body):
    """What a task raised."""

    type: str
    message: str


class ExecuteResponse(Body):
    """Of `POST /execute`: what every reply has, and after it what only some have.

    Attributes:
        status: "ok"; "error" (the task raised, or the action was refused); "input_required" (a stage's prerequisites are
            missing); "terminated"; "running", "waiting" (for a person's approval) and "paused" (the action is not done
            yet; its page has the result later).
        content: the outcome in words, for a model.
        tools: what can be called now.
        transitions: stages that the graph leads to from here.
        terminal: no stage is.
    """

    status: ReplyStatus
    action: str
    action_id: str
    session_id: str
    workflow: str
    current_stage: str
    terminal: bool
    content: str
    tools: list[ToolSchema]
    transitions: list[str]
    task: str = ""
    result: JSONValue = None
    error: TaskFailure | None = None
    from_stage: str = ""
    to_stage: str = ""
    updated: list[str] = Field(default_factory=list[str])


def tidy(value: JSONObject) -> JSONObject:
    """The value with valid Unicode only, as a wire needs it."""
    made = well_formed(value)
    assert isinstance(made, dict), "an object stays one"
    return made
