"""Envelopes over HTTP/2 and HTTP/3: they come by POST, and the deltas of their streams go as server-sent events.

Over HTTP/3 each stream is one response on one QUIC stream, whose number is the transport's own and not the stream's id.
Source: UAMP envelope 1.0, section 7 and appendix C.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.sse import format_sse_event

from perdure.api.answers import Answer
from perdure.api.backend import Backend
from perdure.api.doors.envelope.shapes import AUTHENTICATED, ENVELOPE_BODY, ERRORS, AcceptedEnvelope
from perdure.api.doors.envelope.transport import admitted, door_of
from perdure.api.telling import StreamedBody, StreamedResponse
from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.identifier import MESSAGES_PATH, STREAM_PATH_PREFIX, check_stream_id
from perdure.protocols.uamp_envelope.media_type import check_content_type
from perdure.protocols.uamp_envelope.strict_json import MAX_SAFE_INTEGER
from perdure.runtime.envelopes.delta_stream import DeltaStream
from perdure.upp.json_value import JSONObject

_FIRST = b"retry: 1000\n\n"
_ALIVE = b":\n\n"
_HEADERS = {"Cache-Control": "no-store, no-transform"}
_MAX_DIGITS = len(str(MAX_SAFE_INTEGER))
_EXAMPLE = 'id: 0\ndata: {"delta_seq":0,"payload":{"text":"4"},"stream_id":"str-1","ts":"2026-01-10T13:37:05Z","type":"chunk"}\n\n'
_LOCATED: dict[str, Any] = {
    "headers": {"Location": {"description": "The stream that it opened.", "schema": {"type": "string"}}}
}

router = APIRouter(tags=["uamp envelopes"])


@router.post(
    MESSAGES_PATH,
    status_code=202,
    operation_id="postEnvelope",
    response_model=AcceptedEnvelope,
    response_model_exclude_none=True,
    responses={**ERRORS, 202: _LOCATED},
    openapi_extra=ENVELOPE_BODY,
)
async def post_envelope(request: Request) -> Answer:
    """Send an agent a signed envelope, as application/uamp+json;v=1.

    An `ask`, `subscribe` or `propose` opens a stream, which `Location` names. An envelope that is sent again, the same to the
    last byte of what is signed, is answered as before and not done again. The caller shows a bearer token or key, or a client
    certificate, of the agent that the envelope is from.
    """
    caller = await admitted(request)
    check_content_type(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UAMPError(
            Code.UNSUPPORTED, "no Content-Encoding is taken; an envelope's body has a compression of its own"
        )
    receipt = await door_of(request).desk.receive(await request.body(), caller)
    body: JSONObject = {"id": receipt.envelope_id}
    if receipt.stream_id is not None:
        body["stream_id"] = receipt.stream_id
    return Answer(body, 202, {} if receipt.location is None else {"Location": receipt.location})


@router.get(
    STREAM_PATH_PREFIX + "{stream_id:path}",
    operation_id="streamDeltas",
    response_class=Response,
    responses={
        **ERRORS,
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
        204: {"description": "The stream is over, and its last delta was read."},
        410: {**ERRORS[404], "description": "4.10: the stream is kept no longer."},
    },
    openapi_extra=AUTHENTICATED,
)
async def stream_deltas(
    request: Request,
    stream_id: str,
    last: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="The last delta that came, which counts as an ACK of all up to it."),
    ] = None,
) -> Response:
    """Read the deltas of a stream of the caller's, each as one event whose `id` is its `delta_seq`.

    No more than `delta_window` come without an ACK, which is an envelope with intent `progress`. Whoever was cut off asks
    again with `Last-Event-ID`, at any replica.
    """
    caller = await admitted(request)
    door = door_of(request)
    try:
        check_stream_id(stream_id)
    except UAMPError:
        raise UAMPError(Code.UNKNOWN_STREAM, "there is no such stream") from None
    stream = await door.desk.open_stream(stream_id, caller, last_seq=read_last_seq(last))
    if stream.is_past_end:
        return Response(status_code=204)
    return Deltas(stream, door.backend)


def read_last_seq(header: str | None) -> int | None:
    """The number of the last delta that a reader has; None if it has none.

    Raises:
        UAMPError: 4.00: the header is no such number.
    """
    if not header:
        return None
    if not (header.isascii() and header.isdecimal() and len(header) <= _MAX_DIGITS):
        raise malformed("Last-Event-ID must be the delta_seq of the last delta")
    return int(header)


class Deltas(StreamedResponse):
    """A stream's deltas. It ends behind the terminal one, or when the process does: then its reader asks again."""

    def __init__(self, stream: DeltaStream, backend: Backend) -> None:
        """Respond to the reader of a stream."""
        super().__init__(backend.patience, _HEADERS)
        self._stream = stream
        self._leaving = backend.leaving

    async def tell(self, body: StreamedBody) -> None:
        await body.write(_FIRST)
        is_over = False
        async with aclosing(self._stream.frames()) as frames, aclosing(until(self._leaving, frames)) as told:
            async for delta in told:
                await body.write(_ALIVE if delta is None else frame(delta))
                is_over = delta is not None and delta.type.is_terminal
        self.is_told = is_over


def frame(delta: Delta) -> bytes:
    """A delta as one event; it has no `event:` line."""
    return format_sse_event(data_str=delta.to_bytes().decode(), id=str(delta.seq))


async def until(
    leaving: asyncio.Event, frames: AsyncGenerator[Delta | None, None]
) -> AsyncGenerator[Delta | None, None]:
    """The same frames, up to the process's end."""
    ending = asyncio.create_task(leaving.wait(), name="wait for the process's end")
    upcoming: asyncio.Task[list[Delta | None]] | None = None
    try:
        while not ending.done():
            upcoming = asyncio.create_task(_next(frames), name="wait for a delta")
            await asyncio.wait([upcoming, ending], return_when=asyncio.FIRST_COMPLETED)
            if not upcoming.done() or not upcoming.result():
                return
            yield upcoming.result()[0]
    finally:
        waiting: list[asyncio.Task[Any]] = [task for task in (ending, upcoming) if task is not None]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _next(frames: AsyncGenerator[Delta | None, None]) -> list[Delta | None]:
    """The next one; nothing behind the last."""
    async for delta in frames:
        return [delta]
    return []
