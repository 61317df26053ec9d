"""UAIP over HTTP: stage workflows for agents of others. Source: UAIP 0.1, Endpoints.

A door remembers nothing: an action is a row before it is answered, and whoever asks again with its key, at any process,
is answered from that row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from perdure.api.access import Reader, Runner
from perdure.api.answers import Answer
from perdure.api.bodies import NEVER_JSON
from perdure.api.doors.uaip_errors import WORKFLOWS
from perdure.api.doors.uaip_shapes import ExecuteBody, InitializeBody, Workflows, body_of
from perdure.api.parameters import Key
from perdure.api.waiting import within
from perdure.protocols.uaip.models import ExecuteResponse, InitializeResponse, WorkflowSchema
from perdure.protocols.uaip.reply import Reply
from perdure.protocols.uaip.request import (
    SESSION_HEADER,
    RequestRefused,
    read_action,
    read_initialize,
    read_key,
    read_session_id,
    read_target,
)
from perdure.protocols.uaip.schema import initialize_response, workflow_schema
from perdure.runtime.shown_stages import workflow_json
from perdure.runtime.stages import WAIT_SECONDS
from perdure.uaip.refusal import Reason, Refusal, session_not_found

LONGEST_WAIT_SECONDS = 600.0

router = APIRouter(tags=["uaip"])


class Compatibility(StrEnum):
    """Whose clients are answered."""

    REFERENCE = "reference"


SessionHeader = Annotated[
    str | None, Header(alias=SESSION_HEADER, description="The session's id. Without it the request is refused.")
]
WaitSeconds = Annotated[
    float,
    Query(
        ge=0, le=LONGEST_WAIT_SECONDS, description="How long the action is waited for. Then its status is `running`."
    ),
]
Compat = Annotated[
    Compatibility | None,
    Query(description="`reference`: refused actions are answered with status 200, as the first UAIP server does."),
]
_WITH_SESSION: dict[int | str, dict[str, Any]] = {
    200: {"headers": {SESSION_HEADER: {"description": "The session's id.", "schema": {"type": "string"}}}}
}


@router.post(
    "/initialize",
    operation_id="initialize",
    response_model=InitializeResponse,
    responses=_WITH_SESSION,
    openapi_extra=body_of(InitializeBody),
)
async def initialize(caller: Runner, request: Request, key: Key = None) -> Answer:
    """Open a session of a workflow. With an Idempotency-Key, again is the same session."""
    name = read_initialize(await _body(request))
    row = await caller.stages.initialize(name, key=read_key(key))
    definition = await caller.stages.definition_of(row)
    return _answer(Reply(200, initialize_response(definition, row.key.session)), row.key.session)


@router.post(
    "/execute",
    operation_id="execute",
    response_model=ExecuteResponse,
    responses=_WITH_SESSION,
    openapi_extra=body_of(ExecuteBody),
)
async def execute(
    caller: Runner,
    request: Request,
    session: SessionHeader = None,
    key: Key = None,
    wait_s: WaitSeconds = WAIT_SECONDS,
    compat: Compat = None,
) -> Answer:
    """Do an action in a session. When the answer begins it is stored, and will be done whatever happens.

    One that takes longer is answered with status `running` and its `action_id`. The same request with the same
    Idempotency-Key, or `GET /api/stage-sessions/{session}/actions/{action_id}`, gives its result later.
    """
    target = read_target(read_session_id(session), await _body(request))
    row = await caller.stages.find(target.session_id, workflow=target.workflow_name)
    given = read_key(key)
    if row.session.has_ended and not await caller.stages.knows_key(row.key.session, given):
        raise RequestRefused(session_not_found())
    handed_in = await caller.stages.submit(row.key.session, read_action(target.body), key=given)
    await within(caller.backend, handed_in.done(), wait_s)
    reply = await handed_in.reply()
    return _answer(reply.as_reference() if compat is Compatibility.REFERENCE else reply, row.key.session)


@router.get(WORKFLOWS, operation_id="listWorkflows", response_model=Workflows)
async def list_all(
    caller: Reader,
    search: Annotated[str | None, Query(description="Only those whose name or description has this text.")] = None,
) -> Answer:
    """List the workflows that are served, by name."""
    return Answer({"workflows": [workflow_json(served) for served in await caller.stages.workflows(search=search)]})


@router.get(f"{WORKFLOWS}/{{name:path}}", operation_id="getWorkflow", response_model=WorkflowSchema)
async def show(caller: Reader, name: str) -> Answer:
    """Show a workflow as new sessions have it: its stages, their tasks with JSON Schemas, and the ways between them."""
    return Answer(workflow_schema((await caller.stages.workflow(name)).definition))


async def _body(request: Request) -> bytes:
    """The bytes of a request, bounded as every body is.

    Raises:
        RequestRefused: it comes as something whose JSON is not bounded.
    """
    if request.headers.get("content-type", "").lower().startswith(NEVER_JSON):
        raise RequestRefused(Refusal(Reason.INVALID_REQUEST, "Invalid JSON body: send it as application/json"))
    return await request.body()


def _answer(reply: Reply, session: str) -> Answer:
    return Answer(reply.body, reply.status, {SESSION_HEADER: session})
