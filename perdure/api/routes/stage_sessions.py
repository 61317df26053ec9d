"""Stage sessions for operators: listed, shown, followed, paused, resumed, terminated and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from perdure.api import stage_shapes as shapes
from perdure.api.access import Administrator, Reader, Runner
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_time_cursor, to_cursor
from perdure.api.event_choice import read_choice
from perdure.api.models import TerminateStageSession
from perdure.api.parameters import Cursor, Limit, SessionId
from perdure.api.routes.control import WaitSeconds
from perdure.api.routes.events import STREAM, After, LastEventId, Sources, Types
from perdure.api.streams import log_response
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.shown_stages import stage_session_json, stage_view_json
from perdure.runtime.stage_control import RECORDED, StageControlled
from perdure.uaip.refusal import session_not_found
from perdure.uaip.session import SessionStatus

router = APIRouter(prefix="/api/stage-sessions", tags=["stage sessions"])

_RECORDED: dict[int | str, dict[str, Any]] = {
    202: {"model": shapes.StageControlled, "description": "It will be done as soon as a worker runs."}
}


@router.get("", operation_id="listStageSessions", response_model=shapes.StageSessions)
async def list_page(
    caller: Reader,
    workflow: Annotated[str | None, Query(description="Only of this workflow.")] = None,
    stage: Annotated[str | None, Query(description="Only those in this stage of it.")] = None,
    status: Annotated[SessionStatus | None, Query(description="Only those of this status.")] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> Answer:
    """List stage sessions, newest first. Each is on one page, also while others are opened."""
    place = None if after is None else read_time_cursor(after)
    rows = await caller.stages.page(workflow=workflow, stage=stage, status=status, after=place, limit=limit)
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else to_cursor(last.created_at.isoformat(), last.key.session)
    return page("stage_sessions", [stage_session_json(row) for row in rows], following)


@router.get("/{session}", operation_id="getStageSession", response_model=shapes.StageView)
async def show(caller: Reader, session: SessionId) -> Answer:
    """Show a stage session: its state, what can be called now, where it can go and what that still needs, and its open wait."""
    view = await caller.stages.view(session)
    state = await caller.stages.state(session)
    return Answer(stage_view_json(view, state, await caller.stages.in_hand(view.row)))


@router.post(
    "/{session}/pause",
    operation_id="pauseStageSession",
    response_model=shapes.StageControlled,
    responses=_RECORDED,
)
async def pause(caller: Runner, session: SessionId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Pause a stage session: a task that runs ends, and the actions behind it wait."""
    return _reached(await caller.stages.pause(session, wait_s=wait_s))


@router.post(
    "/{session}/resume",
    operation_id="resumeStageSession",
    response_model=shapes.StageControlled,
    responses=_RECORDED,
)
async def resume(caller: Runner, session: SessionId, wait_s: WaitSeconds = 5.0) -> Answer:
    """Let a paused stage session take its actions."""
    return _reached(await caller.stages.resume(session, wait_s=wait_s))


@router.post(
    "/{session}/terminate",
    operation_id="terminateStageSession",
    response_model=shapes.StageControlled,
    responses=_RECORDED,
)
async def terminate(
    caller: Runner, session: SessionId, body: TerminateStageSession, wait_s: WaitSeconds = 5.0
) -> Answer:
    """End a stage session at once: a task that runs is cancelled, and all that is open is answered so."""
    return _reached(await caller.stages.terminate(session, reason=body.reason, wait_s=wait_s))


@router.delete("/{session}", operation_id="deleteStageSession", status_code=204, response_class=Response)
async def delete(
    caller: Administrator,
    session: SessionId,
    force: Annotated[bool, Query(description="Also while an action is open, which is cut off.")] = False,
) -> Response:
    """Delete a stage session: its rows and executions."""
    if not await caller.stages.delete(session, force=force):
        raise RequestRefused(session_not_found())
    return Response(status_code=204)


@router.get("/{session}/events", operation_id="streamStageSessionEvents", response_class=Response, responses=STREAM)
async def events(
    caller: Reader,
    session: SessionId,
    last: LastEventId = None,
    after: After = None,
    types: Types = None,
    sources: Sources = None,
) -> Response:
    """Follow a stage session's events without end: those that are there, then each as it comes.

    Whoever was cut off asks again with `Last-Event-ID`; browsers do so themselves.
    """
    choice = read_choice(types, sources)
    row = await caller.stages.find(session)
    return log_response(caller, row.key, row.last_seq, last or after, choice)


def _reached(reached: StageControlled) -> Answer:
    body = {"state": reached.state, "stage_session": stage_session_json(reached.row)}
    return Answer(body, 202 if reached.state == RECORDED else 200)
