"""Stored media: uploaded, shown, listed, deleted, and given an address of its own for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from perdure.api import content_shapes
from perdure.api.access import Reader, Runner
from perdure.api.answers import Answer, page
from perdure.api.backend import Backend
from perdure.api.content_answers import content_answer
from perdure.api.cursors import read_time_cursor, to_cursor
from perdure.api.parameters import Cursor, Limit
from perdure.api.principal import Principal
from perdure.api.problems import Refused
from perdure.api.signed_content import Viewing
from perdure.api.uploads import FORM, UNKNOWN, read_upload
from perdure.runtime.shown import content_json, iso
from perdure.store.content.contents import (
    ContentRow,
    NewContent,
    delete_content,
    find_content,
    keep_content,
    page_contents,
)
from perdure.store.content.signed_urls import LONGEST_S
from perdure.store.content.tenant_contents import unknown_content
from perdure.store.database import Database
from perdure.uap.content_refs import content_path

PATH = "/api/content"

router = APIRouter(prefix=PATH, tags=["content"])

_LONGEST_S = 10 * 365 * 86_400
_EXAMPLE = "a1b2c3d4-0a4c-4d6e-92a1-8c8e8a348c3e"
_BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        UNKNOWN: {"schema": _BINARY, "example": "any bytes; Content-Type says what they are"},
        FORM: {
            "schema": {"type": "object", "properties": {"file": _BINARY}, "required": ["file"]},
            "example": {"file": "any bytes"},
        },
    },
}
_AGAIN: dict[int | str, dict[str, Any]] = {
    200: {"model": content_shapes.Content, "description": "It was stored before, under this id."}
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"*/*": {"schema": _BINARY}}, "description": "The bytes."},
    206: {"content": {"*/*": {"schema": _BINARY}}, "description": "Those that Range asks for."},
    304: {"description": "The client has it: If-None-Match names its ETag."},
    416: {"description": "There are none of the bytes that Range asks for."},
}

ContentId = Annotated[str, Path(description="The content's id.", examples=[_EXAMPLE])]
Viewer = Annotated[Principal | None, Depends(Viewing())]


@router.post(
    "",
    operation_id="uploadContent",
    status_code=201,
    response_model=content_shapes.Content,
    responses=_AGAIN,
    openapi_extra={"requestBody": _BODY},
)
async def upload(
    caller: Runner,
    request: Request,
    id: Annotated[str | None, Query(description="A UUID: the same again stores nothing. Drawn if not given.")] = None,
    filename: Annotated[str | None, Query(description="By default that of Content-Disposition or the form.")] = None,
    expires_s: Annotated[float | None, Query(gt=0, le=_LONGEST_S, description="Seconds until it is deleted.")] = None,
) -> Answer:
    """Store media: the body as it is, whose Content-Type is the media's, or the one file of a form."""
    given = await read_upload(request, cast(int, request.app.state.max_content_bytes))
    new = NewContent(
        given.media_type,
        given.body,
        caller.principal.name,
        id=id,
        filename=filename or given.filename,
        expires_at=None if expires_s is None else datetime.now(UTC) + timedelta(seconds=expires_s),
    )
    row, made = await keep_content(caller.database, caller.tenant, new)
    return Answer(content_json(row), 201 if made else 200, {"Location": content_path(row.id)})


@router.get("", operation_id="listContents", response_model=content_shapes.Contents)
async def list_all(caller: Reader, after: Cursor = None, limit: Limit = 100) -> Answer:
    """List the tenant's media, the newest first."""
    place = None if after is None else read_time_cursor(after)
    rows = await page_contents(caller.database, caller.tenant, after=place, limit=limit)
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else to_cursor(last.made_at.isoformat(), last.id)
    return page("contents", [content_json(row) for row in rows], following)


@router.get("/{content_id}", operation_id="getContent", response_class=Response, responses=_BYTES)
@router.head("/{content_id}", operation_id="headContent", include_in_schema=False)
async def show(
    request: Request,
    viewer: Viewer,
    content_id: ContentId,
    expires: Annotated[str | None, Query(description="Of a signed address.")] = None,
    signature: Annotated[str | None, Query(description="Likewise; no credential is needed then.")] = None,
) -> Response:
    """Show media, or the bytes of it that Range asks for."""
    backend = cast(Backend, request.app.state.backend)
    if viewer is not None:
        row = await _find(backend.database, content_id, viewer.tenant)
    else:
        row = await _signed(backend, content_id, expires or "", signature or "")
    return await content_answer(backend.database, row, request.headers, with_body=request.method == "GET")


@router.delete("/{content_id}", operation_id="deleteContent", status_code=204, response_class=Response)
async def delete(caller: Runner, content_id: ContentId) -> Response:
    """Delete media. Conversations that refer to it cannot be shown to a model any more."""
    if not await delete_content(caller.database, caller.tenant, content_id):
        raise unknown_content(content_id)
    return Response(status_code=204)


@router.post("/{content_id}/url", operation_id="signContentUrl", response_model=content_shapes.SignedUrl)
async def sign(
    caller: Runner,
    content_id: ContentId,
    for_s: Annotated[float, Query(gt=0, le=LONGEST_S, description="For how many seconds it is good.")] = 3600.0,
) -> Answer:
    """Give media an address that shows it to whoever has it, for a while: for a page's tags, and for vendors."""
    row = await _find(caller.database, content_id, caller.tenant)
    url, expires = (await caller.backend.url_signer()).sign(row, for_s=for_s)
    return Answer({"url": url, "expires_at": iso(datetime.fromtimestamp(expires, UTC))})


async def _find(database: Database, content_id: str, tenant: str) -> ContentRow:
    row = await find_content(database, content_id, tenant)
    if row is None:
        raise unknown_content(content_id)
    return row


async def _signed(backend: Backend, content_id: str, expires: str, signature: str) -> ContentRow:
    """The media that an address is signed for. Whether there is any is told to nobody else."""
    row = await find_content(backend.database, content_id)
    if row is None or not (await backend.url_signer()).admits(row, expires, signature):
        detail = "the address is not signed for this content, or its time is over; ask for a new one"
        raise Refused(403, "bad_signature", detail)
    return row
