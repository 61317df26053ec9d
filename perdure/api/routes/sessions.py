"""Sessions: opened, listed, shown, changed and deleted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Response

from perdure.api import shapes
from perdure.api.access import Administrator, Reader, Runner
from perdure.api.answers import Answer, page, session_path
from perdure.api.cursors import read_time_cursor, to_cursor
from perdure.api.inputs import to_history
from perdure.api.models import CreateSession, PatchSession
from perdure.api.parameters import Cursor, Key, Limit, SessionId
from perdure.errors import KeyConflict, UnknownSession
from perdure.runtime.control import UNCHANGED
from perdure.runtime.filterable import read_filter
from perdure.runtime.shown import session_json
from perdure.store.inputs import check_key
from perdure.store.sessions import list_sessions, read_session
from perdure.uap.ids import derive_id
from perdure.uap.session_key import unknown_session

_METADATA = (
    "Only those whose metadata has this: `key:value`, divided by the first colon; may be given often, and all must hold. A value "
    'that is a JSON number, `true` or `false` is that, any other is a text; `"7"` in double quotes is the text, `7` the number. '
    "The key is one of those that the deployment allows (`PERDURE_FILTERABLE_METADATA`)."
)

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


class Status(StrEnum):
    """What a session is doing."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"


@router.get("", operation_id="listSessions", response_model=shapes.Sessions)
async def list_page(
    caller: Reader,
    status: Annotated[Status | None, Query(description="Only those of this status.")] = None,
    metadata: Annotated[list[str] | None, Query(description=_METADATA, examples=[["team:web", "priority:3"]])] = None,
    after: Cursor = None,
    limit: Limit = 50,
) -> Answer:
    """List sessions, newest first. Each is on one page, also while others are opened.

    Given metadata, those that have all of it. 503 with code `filter_incomplete`: a key was allowed a short while ago.
    """
    before = None if after is None else read_time_cursor(after)
    wanted = read_filter(metadata or (), ":", "metadata")
    rows = await list_sessions(
        caller.database, caller.tenant, status=status, metadata=wanted, before=before, limit=limit
    )
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else to_cursor(last.created_at.isoformat(), last.key.session)
    return page("sessions", [session_json(row) for row in rows], following)


@router.post("", operation_id="createSession", status_code=201, response_model=shapes.Session)
async def create(caller: Runner, body: CreateSession, key: Key = None) -> Answer:
    """Open a session without an input. With an id or an Idempotency-Key, again is the same session."""
    named = body.session
    if key is not None and named is None:
        check_key(key)
        named = derive_id(caller.tenant, "opened", key)
    try:
        session = await caller.sessions.open(
            body.agent,
            session=named,
            metadata=body.metadata,
            title=body.title,
            history=to_history(body.history),
            limits=None if body.limits is None else body.limits.to_limits(),
        )
    except UnknownSession as error:
        raise KeyConflict(str(error)) from error
    row = await read_session(caller.database, caller.key(session))
    return Answer(session_json(row), 201, {"Location": session_path(session)})


@router.get("/{session}", operation_id="getSession", response_model=shapes.Session)
async def show(caller: Reader, session: SessionId) -> Answer:
    """Show a session."""
    return Answer(session_json(await read_session(caller.database, caller.key(session))))


@router.patch("/{session}", operation_id="patchSession", response_model=shapes.Session)
async def patch(caller: Runner, session: SessionId, body: PatchSession) -> Answer:
    """Change a session's title, keys of its metadata, and its limits; what others wrote beside them stays."""
    metadata = body.metadata or {}
    limits = None if body.limits is None else body.limits.to_limits()
    row = await caller.sessions.patch(
        session,
        title=body.title if "title" in body.model_fields_set else UNCHANGED,
        metadata={name: value for name, value in metadata.items() if value is not None},
        removed=[name for name, value in metadata.items() if value is None],
        limits=limits if "limits" in body.model_fields_set else UNCHANGED,
    )
    return Answer(session_json(row))


@router.delete("/{session}", operation_id="deleteSession", status_code=204, response_class=Response)
async def delete(
    caller: Administrator,
    session: SessionId,
    force: Annotated[bool, Query(description="Also while a run is open, which is ended.")] = False,
) -> Response:
    """Delete a session: its rows, payloads and executions, and those of its sub-agents."""
    deleted = await caller.sessions.delete(session, force=force)
    if not deleted.sessions:
        raise unknown_session(caller.key(session).session)
    return Response(status_code=204)
