"""Sessions as ThreadProtocol's threads, on their way out and in. Source: ThreadProtocol 1.0.0."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, cast

from fastapi import APIRouter, Query
from fastapi.responses import Response

from perdure.api import thread_shapes
from perdure.api.access import Reader, Runner
from perdure.api.answers import Answer, session_path
from perdure.api.models import ImportThreads
from perdure.api.parameters import SessionId
from perdure.api.problems import Refused
from perdure.protocols.threadprotocol.canonical import canonical_bytes, canonical_hash
from perdure.protocols.threadprotocol.viewing import View
from perdure.runtime.threads.incoming import ThreadReading
from perdure.runtime.threads.outgoing import thread_of_node
from perdure.store.sessions import read_session
from perdure.uap.ids import root_node_id
from perdure.upp.json_value import JSONValue

router = APIRouter(prefix="/api/sessions", tags=["threads"])

HASH_HEADER = "ThreadProtocol-Hash"


class Form(StrEnum):
    """How a thread is written: for people, or in the one form whose bytes are the same everywhere (RFC 8785)."""

    DISPLAY = "display"
    CANONICAL = "canonical"


@router.get("/{session}/thread", operation_id="getThread", response_model=thread_shapes.Thread)
async def thread(
    caller: Reader,
    session: SessionId,
    node: Annotated[str | None, Query(description="Whose thread; by default the current node's.")] = None,
    form: Annotated[Form, Query(description="`canonical`: the bytes that the hash is of.")] = Form.DISPLAY,
) -> Response:
    """Give the thread of one node; its header has the SHA-256 of the canonical form."""
    key = caller.key(session)
    row = await read_session(caller.database, key)
    named = node or row.current_node or root_node_id(key.session)
    found = thread_of_node(await caller.sessions.threads(session), named)
    if found is None:
        raise Refused(404, "unknown_node", f"session {key.session} has no thread node {named[:40]!r}; see its tree")
    headers = {HASH_HEADER: canonical_hash(found)}
    if form is Form.CANONICAL:
        return Response(canonical_bytes(found), headers=headers, media_type="application/json")
    return Answer(found.to_json(), headers=headers)


@router.get("/{session}/threads", operation_id="listThreads", response_model=thread_shapes.Threads)
async def threads(caller: Reader, session: SessionId) -> Answer:
    """Give all threads of a session, one for each node, parents before their branches."""
    found = await caller.sessions.threads(session)
    return Answer({"session": caller.key(session).session, "threads": [made.to_json() for made in found]})


@router.post(
    "/import-threads", operation_id="importThreads", status_code=201, response_model=thread_shapes.ImportedThreads
)
async def import_threads(caller: Runner, body: ImportThreads) -> Answer:
    """Store a thread, or several that are a tree, as a session, whole or not at all."""
    view = View(body.others_text.value, body.others_tools.value, body.since_join)
    session, read = await caller.sessions.import_threads(
        cast(JSONValue, [*body.threads]),
        body.agent,
        reading=ThreadReading(body.as_agent or "", body.lenient, view),
        session=body.session,
        metadata=body.metadata,
    )
    mended = {thread: [problem.to_json() for problem in found] for thread, found in read.problems.items()}
    shown = {"session": session, "mended": mended, "left_out": read.left_out}
    return Answer(cast(JSONValue, shown), 201, {"Location": session_path(session)})
