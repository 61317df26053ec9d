"""Changes of a session's thread tree. Each stands in the order of the session's inputs, and is answered when it is made."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.api import shapes
from perdure.api.access import Caller, Runner
from perdure.api.answers import Answer
from perdure.api.models import Checkout, Fork, Merge, Restore
from perdure.api.parameters import Key, SessionId
from perdure.store.sessions import read_session
from perdure.uap.ids import derive_id, new_id, root_node_id

router = APIRouter(prefix="/api/sessions/{session}", tags=["thread tree"])

_RECORDED: dict[int | str, dict[str, Any]] = {
    202: {"model": shapes.Recorded, "description": "No worker has come to it in time; it is made when one does."}
}


@router.post("/fork", operation_id="forkThread", response_model=shapes.Changed, responses=_RECORDED)
async def fork(caller: Runner, session: SessionId, body: Fork, key: Key = None) -> Answer:
    """Make a branch of a thread node; the current node stays what it is."""
    row = await read_session(caller.database, caller.key(session))
    drawn = new_id() if key is None else derive_id(row.key.session, "fork", key)
    detail = {
        "node": body.node or row.current_node or root_node_id(row.key.session),
        "name": body.name,
        "id": body.id or drawn,
    }
    return await _change(caller, session, "fork", detail, key)


@router.post("/checkout", operation_id="checkoutNode", response_model=shapes.Changed, responses=_RECORDED)
async def checkout(caller: Runner, session: SessionId, body: Checkout, key: Key = None) -> Answer:
    """Make a node the current one."""
    return await _change(caller, session, "checkout", {"node": body.node}, key)


@router.post("/merge", operation_id="mergeNodes", response_model=shapes.Changed, responses=_RECORDED)
async def merge(caller: Runner, session: SessionId, body: Merge, key: Key = None) -> Answer:
    """Add to one node what another's history has and its own lacks."""
    return await _change(caller, session, "merge", {"source": body.source, "target": body.target}, key)


@router.post("/restore", operation_id="restoreCheckpoint", response_model=shapes.Changed, responses=_RECORDED)
async def restore(caller: Runner, session: SessionId, body: Restore, key: Key = None) -> Answer:
    """Go back to a checkpoint, on a branch: the next run's history ends where it was taken."""
    return await _change(caller, session, "restore", {"checkpoint": body.checkpoint}, key)


async def _change(caller: Caller, session: str, kind: str, detail: dict[str, str | None], key: str | None) -> Answer:
    given = {name: value for name, value in detail.items() if value is not None}
    made = await caller.sessions.change(session, kind, {**given}, key=key)
    return Answer(made, 202 if made.get("state") == "recorded" else 200)
