"""The form of a workflow's JSON document. What it means is in `document`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perdure.uaip.definition import DAY_S
from perdure.uaip.http_call import Method
from perdure.upp.json_value import JSONObject, JSONValue

NO_ARGUMENTS: JSONObject = {"type": "object", "properties": {}}


class Form(BaseModel):
    """Strict: a member of another name or type is an error with its path."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class HttpForm(Form):
    """See `HttpCall`."""

    method: Method = "GET"
    url: str
    query: dict[str, JSONValue] | None = None
    headers: dict[str, JSONValue] = Field(default_factory=dict[str, JSONValue])
    body: JSONValue = None
    idempotency_header: str = "Idempotency-Key"


class RetryForm(Form):
    """See `Retry`; waits in seconds."""

    attempts: int
    wait_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 60.0


class TaskForm(Form):
    """A task: exactly one of `function`, `http` and `agent` carries it out.

    `parameters` and `returns` of a function come from its annotations and are not given here.
    """

    name: str | None = None
    description: str | None = None
    parameters: dict[str, JSONValue] | None = None
    returns: dict[str, JSONValue] | None = None
    function: str | None = None
    http: HttpForm | None = None
    agent: str | None = None
    effect: Literal["none", "idempotent", "at_most_once", "once"] | None = None
    timeout_s: float | None = None
    retry: RetryForm | None = None
    approval: Literal["human"] | None = None
    approval_timeout_s: float | None = None
    save_as: str | None = None


class StageForm(Form):
    """A stage."""

    name: str | None = None
    description: str = ""
    prerequisites: list[str] = Field(default_factory=list[str])
    tasks: dict[str, TaskForm] = Field(default_factory=dict[str, TaskForm])


class EdgeForm(Form):
    """A transition; a text alone is one that keeps all of the state."""

    to: str
    keep: list[str] | Literal["all", "none"] = "all"


def _as_edge(value: Any) -> Any:
    return {"to": value} if isinstance(value, str) else value


class WorkflowForm(Form):
    """The whole document. Source: UAIP 0.1, Workflow; `uaip`, `ttl_s` and `inputs` are Perdure's."""

    uaip: Literal["0.1"] = "0.1"
    name: str
    description: str = ""
    initial_stage: str | None = None
    stages: dict[str, StageForm]
    transitions: dict[str, list[Annotated[EdgeForm, BeforeValidator(_as_edge)]]] = Field(
        default_factory=dict[str, list[EdgeForm]]
    )
    ttl_s: float = DAY_S
    inputs: list[str] | None = None
