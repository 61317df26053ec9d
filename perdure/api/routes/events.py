"""The event log of a session or a run, as it grows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from perdure.api import event_socket
from perdure.api.access import Reader
from perdure.api.event_choice import read_choice
from perdure.api.parameters import RunId, SessionId, known_run_id
from perdure.api.streams import run_response, session_response

router = APIRouter(tags=["events"])
router.include_router(event_socket.router)

LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="The number of the last event that came; goes before `after`."),
]
After = Annotated[str | None, Query(description="Only events behind this number.", examples=["41"])]
Types = Annotated[
    str | None,
    Query(description="Only these types; one that ends in * means all that begin so.", examples=["text_delta,run.*"]),
]
Sources = Annotated[
    str | None, Query(description="Only of these sources: run, uap, upp, own, stage.", examples=["run,uap"])
]

_EXAMPLE = (
    'event: text_delta\ndata: {"session":"7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11","seq":12,"run":'
    '"0d2c8f4e-6b1a-4f7d-9c3e-2a5b8d1e4f60","step":1,"attempt":1,"source":"upp","type":"text_delta","data":'
    '{"message":"5f6e2c1d-8b7a-4d3c-9e2f-1a0b9c8d7e6f","index":0,"delta":{"text":"Hello"}},'
    '"at":"2026-01-31T12:00:00.000Z"}\nid: 12\n\n'
)
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}}
}
"""What the document says of an endless stream of events."""


@router.get(
    "/api/sessions/{session}/events",
    operation_id="streamSessionEvents",
    response_class=Response,
    responses=STREAM,
)
async def of_session(
    caller: Reader,
    session: SessionId,
    last: LastEventId = None,
    after: After = None,
    types: Types = None,
    sources: Sources = None,
) -> Response:
    """Follow a session's events without end: those that are there, then each as it comes.

    Whoever was cut off asks again with `Last-Event-ID`; browsers do so themselves. A number is missing only inside a
    folded range: an event with `data.folded` stands for all deltas of its content block from `from` to `to`, and
    replaces those of them that came before. `stream.lagging` says that the reader was too slow, and where to go on.
    """
    return await session_response(caller, session, last or after, read_choice(types, sources))


@router.get(
    "/api/runs/{run}/events",
    operation_id="streamRunEvents",
    response_class=Response,
    responses={**STREAM, 204: {"description": "The run's last event has been read: nothing will come any more."}},
)
async def of_run(
    caller: Reader,
    run: RunId,
    last: LastEventId = None,
    after: After = None,
    types: Types = None,
    sources: Sources = None,
) -> Response:
    """Follow a run's events up to its terminal one (`run.completed`, `run.failed`, `run.cancelled`), then end.

    The terminal event is told whatever `types` and `sources` say. An end without it is no end: ask again with
    `Last-Event-ID`.
    """
    choice = read_choice(types, sources)
    return await run_response(caller, known_run_id(run), last or after, choice)
