"""What was asked of stage sessions: their history, each action with its reply, and what waits for a person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path

from perdure.api import stage_shapes as shapes
from perdure.api.access import Approver, Reader
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_cursor, read_time_cursor, to_cursor
from perdure.api.models import AnswerStageAction
from perdure.api.parameters import Cursor, Limit, SessionId
from perdure.runtime.shown_stages import action_json, replied_json, stage_wait_json

router = APIRouter(prefix="/api", tags=["stage sessions"])

ActionId = Annotated[str, Path(description="The action's id.", examples=["3c1f0f7e-5a4d-4b0c-8e57-9a6f0f0c2f11"])]


@router.get("/stage-sessions/{session}/history", operation_id="listStageActions", response_model=shapes.StageHistory)
async def history(caller: Reader, session: SessionId, after: Cursor = None, limit: Limit = 50) -> Answer:
    """List what was asked of a stage session, in order, also what was refused and what is not done yet."""
    behind = 0 if after is None else int(read_cursor(after, int)[0])
    rows = await caller.stages.history(session, after=behind, limit=limit)
    following = to_cursor(rows[-1].ordinal) if len(rows) == limit else None
    definition = await caller.stages.definition_of(await caller.stages.find(session))
    return page("actions", [action_json(row, definition) for row in rows], following)


@router.get(
    "/stage-sessions/{session}/actions/{action_id}",
    operation_id="getStageAction",
    response_model=shapes.StageReply,
)
async def show(caller: Reader, session: SessionId, action_id: ActionId) -> Answer:
    """Show an action with its reply; one that is not done yet has a reply that says so."""
    found = await caller.stages.action(session, action_id)
    reply = await found.reply()
    definition = await caller.stages.definition_of(await caller.stages.find(session))
    return Answer(replied_json(found.row, definition, reply))


@router.post(
    "/stage-sessions/{session}/actions/{action_id}/answer",
    operation_id="answerStageAction",
    response_model=shapes.StageAction,
)
async def answer(caller: Approver, session: SessionId, action_id: ActionId, body: AnswerStageAction) -> Answer:
    """Answer an action that waits for a person, once; its session goes on."""
    row = await caller.stages.answer(session, action_id, body.answer, by=caller.principal.name, reason=body.reason)
    definition = await caller.stages.definition_of(await caller.stages.find(session))
    return Answer(action_json(row, definition))


@router.get("/stage-waits", operation_id="listStageWaits", response_model=shapes.StageWaits)
async def waits(caller: Reader, after: Cursor = None, limit: Limit = 100) -> Answer:
    """List the actions that wait for a person, over all stage sessions, those that were asked about longest ago first."""
    rows = await caller.stages.waits(after=None if after is None else _read_place(after), limit=limit)
    last = rows[-1] if len(rows) == limit else None
    asked = None if last is None else last.wait
    following = None
    if last is not None and asked is not None:
        following = to_cursor(asked.asked_at.isoformat(), last.key.session, last.ordinal)
    return page("waits", [stage_wait_json(row) for row in rows], following)


def _read_place(cursor: str) -> tuple[datetime, str, int]:
    at, session, ordinal = read_cursor(cursor, str, str, int)
    moment, name = read_time_cursor(to_cursor(at, session))
    return moment, name, int(ordinal)
