"""What UAIP's routes take and answer, for the OpenAPI document; `perdure.protocols.uaip` reads and makes it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.api.json_types import Object
from perdure.protocols.uaip.models import ErrorBody
from perdure.uaip.action import ActionKind

_STORE = "store"


class Workflow(BaseModel):
    """A workflow that is served."""

    name: str
    description: str
    initial_stage: str
    stages: list[str]
    definition: str


class Workflows(BaseModel):
    """The workflows that are served, by name."""

    workflows: list[Workflow]


class InitializeBody(BaseModel):
    """Of `POST /initialize`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"workflow_name": _STORE}]})

    workflow_name: str = Field(description="which workflow")


class ExecuteBody(BaseModel):
    """Of `POST /execute`. Which members it has beside the first two depends on the action."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"workflow_name": _STORE, "action": "handshake"},
                {"workflow_name": _STORE, "action": "method_call", "task": "search", "args": {"query": "tea"}},
                {"workflow_name": _STORE, "action": "stage_transition", "stage": "checkout"},
                {"workflow_name": _STORE, "action": "state_input", "state_updates": {"user.email": "a@b.example"}},
                {"workflow_name": _STORE, "action": "terminate_session", "reason": "done"},
            ]
        }
    )

    workflow_name: str = Field(description="the session's workflow")
    action: ActionKind
    task: str | None = Field(default=None, description="method_call: a task of the session's stage")
    args: Object | None = Field(default=None, description="method_call: the task's arguments")
    stage: str | None = Field(default=None, description="stage_transition: where to go")
    state_updates: Object | None = Field(default=None, description="state_input: values by flat key")
    reason: str | None = Field(default=None, description="terminate_session: why")


BODIES: tuple[type[BaseModel], ...] = (InitializeBody, ExecuteBody)
"""Of requests whose routes read them by themselves, as UAIP's order of checks asks for."""

_MEANINGS = {
    400: "The request cannot be read, or something is missing.",
    401: "The caller is not known.",
    403: "The caller lacks the scope, or the page is another server's.",
    404: "There is no such workflow or session, or it is another tenant's.",
    409: "The idempotency key was used with another action.",
    413: "The body, or the session's state with it, is too large.",
    421: "The server does not answer for this host.",
    422: "The action is refused; nothing was done.",
    429: "Too many requests.",
    500: "The server failed.",
    503: "A server that is needed does not answer; try again.",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": meaning} for status, meaning in _MEANINGS.items()
}
"""What any route of UAIP may answer besides its own."""


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """What the document says of such a body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
