"""Sessions on their way out of a server and into another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from perdure.api import shapes
from perdure.api.access import Reader, Runner
from perdure.api.answers import Answer, on_wire, session_path
from perdure.api.models import ImportSession
from perdure.api.parameters import SessionId

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


@router.get(
    "/{session}/export",
    operation_id="exportSession",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "SessionJSON"}},
)
async def export(caller: Reader, session: SessionId) -> StreamingResponse:
    """Give a session as one document, UAP's SessionJSON, as it is read."""
    pieces = caller.sessions.export(session)
    first = await anext(pieces)  # raises what is wrong while the status can still say so

    async def rest() -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            yield on_wire(first)
            async for piece in pieces:
                yield on_wire(piece)

    return StreamingResponse(rest(), media_type="application/json")


@router.post("/import", operation_id="importSession", status_code=201, response_model=shapes.Imported)
async def import_document(caller: Runner, body: ImportSession) -> Answer:
    """Store a session from elsewhere, whole or not at all; its id stays what it is."""
    session = await caller.sessions.import_session(body.document, body.agent, metadata=body.metadata)
    return Answer({"session": session}, 201, {"Location": session_path(session)})
