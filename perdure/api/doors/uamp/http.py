"""UAMP over HTTP: events come by POST, what follows from them goes by a stream of server-sent events.

A door remembers nothing: each event is applied to the session's row, and whoever reads the stream, at any process, is told
the same events with the same ids. Source: UAMP 1.0, section 13.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Header, Query, Request, Response

from perdure.api.access import RunnerOrStranger
from perdure.api.answers import Answer
from perdure.api.backend import Backend
from perdure.api.bodies import NEVER_JSON
from perdure.api.doors.uaip_shapes import body_of
from perdure.api.doors.uamp.cursor import Cursor
from perdure.api.doors.uamp.desk import Desk
from perdure.api.doors.uamp.http_errors import EVENTS, STREAM, refused
from perdure.api.doors.uamp.http_shapes import ERRORS, AcceptedEvent, UampEvent
from perdure.api.doors.uamp.sse import ToldEvents
from perdure.api.doors.uamp.teller import Told
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.parsing import event_object
from perdure.store.uamp.rows import UampSessionRow
from perdure.upp.json_value import JSONObject

SESSION_HEADER = "X-Session-ID"
_OUTSIDE = frozenset({"session.create", "ping"})
"""Events that are of no session."""

router = APIRouter(tags=["uamp"])

SessionHeader = Annotated[
    str | None, Header(alias=SESSION_HEADER, description="The session, as the answer to session.create named it.")
]
SessionQuery = Annotated[
    str | None, Query(description="The session, for browsers' EventSource, which cannot send a header.")
]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="The `id` of the last event that came: only what follows is told."),
]
_EXAMPLE = (
    'id: 41.0.2\ndata: {"type":"response.delta","event_id":"1f0c2f11-3c5e-4c0e-9b57-7f0c1f3a0f6f","timestamp":1767225600000,'
    '"session_id":"7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11","response_id":"resp_5f6e2c1d","delta":{"type":"text","text":"Hi"}}\n\n'
)
_NAMED: dict[str, Any] = {
    "headers": {SESSION_HEADER: {"description": "The session's id.", "schema": {"type": "string"}}},
}


@router.post(
    EVENTS,
    status_code=202,
    operation_id="postEvent",
    response_model=AcceptedEvent,
    response_model_exclude_none=True,
    responses={**ERRORS, 202: _NAMED},
    openapi_extra=body_of(UampEvent),
)
async def post_event(request: Request, principal: RunnerOrStranger, session: SessionHeader = None) -> Answer:
    """Send one event. Whatever follows from it comes on the session's stream.

    `session.create` needs no session: the answer names the new one in `X-Session-ID`. All others but `ping` need that
    header. An event whose id was applied in the session before is taken again and changes nothing. Without an
    Authorization header `session.create` must have a `token`.
    """
    desk = cast(Desk, request.app.state.uamp)
    try:
        given = await _event(request)
        posted = await desk.post(principal, session_of(given, session), given)
    except EventRefused as fault:
        raise refused(fault) from fault
    headers = {} if posted.session_id is None else {SESSION_HEADER: posted.session_id}
    body: JSONObject = {"event_id": posted.event_id}
    return Answer(body if posted.session_id is None else {**body, "session_id": posted.session_id}, 202, headers)


@router.get(
    STREAM,
    operation_id="streamEvents",
    response_class=Response,
    responses={
        **ERRORS,
        200: {**_NAMED, "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
        204: {"description": "The session has ended, and its last event has been read."},
    },
)
async def stream_events(
    request: Request,
    principal: RunnerOrStranger,
    session: SessionHeader = None,
    session_id: SessionQuery = None,
    last: LastEventId = None,
) -> Response:
    """Read a session's events without end: those that are there, then each as it comes.

    Whoever was cut off asks again with `Last-Event-ID`, at any process; browsers do so themselves. Any number of readers
    have all events. The stream ends behind `session.end`.
    """
    desk = cast(Desk, request.app.state.uamp)
    try:
        row = await desk.find(principal, _named(session, session_id))
    except EventRefused as fault:
        raise refused(fault) from fault
    teller = await desk.teller(row, None if last is None else Cursor.read(last))
    pages = teller.follow()
    backend = cast(Backend, request.app.state.backend)
    if row.ended_at is None:
        return ToldEvents(_seated(backend, row, pages), backend.patience, session=row.id)
    page = await anext(pages, None)
    if page is None:
        return Response(status_code=204, headers={SESSION_HEADER: row.id})
    return ToldEvents(_behind(page, pages), backend.patience, session=row.id)


def session_of(given: JSONObject, header: str | None) -> str | None:
    """The session that an event is for.

    Args:
        given: the event.
        header: of the request.

    Raises:
        EventRefused: none is named, or two.
    """
    kind, told = given.get("type"), given.get("session_id")
    if kind == "session.create":
        config = given.get("session")
        told = config.get("id") if isinstance(config, dict) else None
        if header is not None and header != told:
            raise EventRefused(
                Code.INVALID_EVENT,
                f"session.create opens a session of its own: leave {SESSION_HEADER} out, or name it in session.id",
            )
        return None
    if header is None and kind not in _OUTSIDE:
        raise EventRefused(
            Code.SESSION_REQUIRED, f"name the session in the header {SESSION_HEADER}; session.create opens one"
        )
    if header is not None and told is not None and told != header:
        raise EventRefused(Code.INVALID_EVENT, f"'session_id' of the event names another session than {SESSION_HEADER}")
    return header


def _named(header: str | None, query: str | None) -> str:
    named = header if header is not None else query
    if not named:
        raise EventRefused(
            Code.SESSION_REQUIRED, f"name the session in the header {SESSION_HEADER}, or as ?session_id="
        )
    if query is not None and query != named:
        raise EventRefused(Code.INVALID_EVENT, f"?session_id= names another session than {SESSION_HEADER}")
    return named


async def _event(request: Request) -> JSONObject:
    """The event of a request, bounded as every body is.

    Raises:
        EventRefused: it is none, or comes as something whose JSON is not bounded.
    """
    if request.headers.get("content-type", "").lower().startswith(NEVER_JSON):
        raise EventRefused(Code.INVALID_JSON, "send the event as application/json")
    return event_object(await request.body())


async def _seated(
    backend: Backend, row: UampSessionRow, pages: AsyncGenerator[list[Told], None]
) -> AsyncGenerator[list[Told], None]:
    """The same pages, read by somebody whom the chat's other participants see."""
    async with contextlib.aclosing(pages), backend.seats.seated(row):
        async for page in pages:
            yield page


async def _behind(first: list[Told], pages: AsyncGenerator[list[Told], None]) -> AsyncGenerator[list[Told], None]:
    async with contextlib.aclosing(pages):
        yield first
        async for page in pages:
            yield page
