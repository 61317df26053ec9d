"""What a session holds: its state, thread, tree and checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from perdure.api import shapes, thread_shapes
from perdure.api.access import Caller, Reader
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_cursor, to_cursor
from perdure.api.parameters import Cursor, Limit, SessionId
from perdure.api.problems import Refused
from perdure.runtime.shown import checkpoint_json, message_json, node_json, run_json, wait_json
from perdure.store.checkpoints import current_checkpoint, read_checkpoints
from perdure.store.pages import CheckpointPlace, list_queued, page_checkpoints, page_messages
from perdure.store.runs import find_run
from perdure.store.sessions import read_nodes, read_session
from perdure.store.waits import open_waits
from perdure.uap.ids import root_node_id

router = APIRouter(prefix="/api/sessions/{session}", tags=["sessions"])

_QUEUED = 100


@router.get("/state", operation_id="getState", response_model=shapes.State)
async def state(caller: Reader, session: SessionId) -> Answer:
    """Show what a session does now: its active run, the first hundred queued ones, open waits, the current checkpoint."""
    key = caller.key(session)
    row = await read_session(caller.database, key)
    async with caller.database.transaction() as connection:
        current = await current_checkpoint(connection, key, await read_checkpoints(connection, key))
    active = None if row.active_run is None else await find_run(caller.database, caller.tenant, row.active_run)
    queued = await list_queued(caller.database, key, limit=_QUEUED)
    waits = await open_waits(caller.database, caller.tenant, key.session)
    return Answer(
        {
            "session": key.session,
            "status": row.status,
            "paused": row.paused,
            "current_node": row.current_node,
            "checkpoint": None if current is None else current.id,
            "run": None if active is None else run_json(active),
            "queued": [run_json(run) for run in queued],
            "waits": [wait_json(wait) for wait in waits],
            "last_event": row.last_seq,
        }
    )


@router.get("/tree", operation_id="getTree", response_model=thread_shapes.Tree)
async def tree(caller: Reader, session: SessionId) -> Answer:
    """Show the thread tree."""
    key = caller.key(session)
    row = await read_session(caller.database, key)
    nodes = await read_nodes(caller.database, key)
    root = next(node.id for node in nodes if node.parent is None)
    shown = [node_json(node) for node in nodes]
    current = row.current_node or root_node_id(key.session)
    return Answer({"session": key.session, "root": root, "current": current, "nodes": [*shown]})


@router.get("/messages", operation_id="listMessages", response_model=thread_shapes.Messages)
async def messages(
    caller: Reader,
    session: SessionId,
    node: Annotated[str | None, Query(description="Whose thread; by default the current node's.")] = None,
    after: Cursor = None,
    limit: Limit = 100,
) -> Answer:
    """List a node's thread, oldest first, from the root's beginning; each message with the node that it stands in."""
    key = caller.key(session)
    named = await _known_node(caller, session, node)
    place = None
    if after is not None:
        at, position = read_cursor(after, str, int)
        place = (str(at), int(position))
    found = await page_messages(caller.database, key, named, after=place, limit=limit)
    last = found[-1] if len(found) == limit else None
    return Answer(
        {
            "node": named,
            "messages": [message_json(item.node, item.stored) for item in found],
            "next": None if last is None else to_cursor(last.node, last.stored.position),
        }
    )


async def _known_node(caller: Caller, session: str, node: str | None) -> str:
    key = caller.key(session)
    row = await read_session(caller.database, key)
    named = node or row.current_node or root_node_id(key.session)
    if node is not None and node not in {item.id for item in await read_nodes(caller.database, key)}:
        raise Refused(404, "unknown_node", f"session {key.session} has no thread node {node[:40]!r}; see its tree")
    return named


@router.get("/checkpoints", operation_id="listCheckpoints", response_model=thread_shapes.Checkpoints)
async def checkpoints(caller: Reader, session: SessionId, after: Cursor = None, limit: Limit = 100) -> Answer:
    """List a session's checkpoints, oldest first."""
    key = caller.key(session)
    await read_session(caller.database, key)
    place = None
    if after is not None:
        first, rank, step, moment, ident = read_cursor(after, int, int, int, str, str)
        place = CheckpointPlace(int(first), int(rank), int(step), str(moment), str(ident))
    found = await page_checkpoints(caller.database, key, after=place, limit=limit)
    last = found[-1][1] if len(found) == limit else None
    following = None if last is None else to_cursor(last.place, last.rank, last.step, last.moment, last.id)
    return page("checkpoints", [checkpoint_json(row) for row, _ in found], following)
