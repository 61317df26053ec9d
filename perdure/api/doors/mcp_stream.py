"""What an MCP client hears without having asked: that its tools have changed, whoever acted in the session.

Each message's id is the number of the event behind it in the session's event log, so a client that was cut off goes on by
`Last-Event-ID` at any process. Source: MCP 2025-11-25, Transports, Listening for Messages from the Server.
"""

from __future__ import annotations

from contextlib import aclosing

from fastapi.sse import format_sse_event
from mcp_types.version import is_version_at_least
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.api.doors.mcp_seat import StageSeat, Standing
from perdure.api.event_choice import read_after
from perdure.api.patience import Patience
from perdure.api.problems import Refused
from perdure.api.sse import HEADERS
from perdure.api.telling import StreamedBody, tell_until_left
from perdure.errors import ServerError, SessionGone

_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
_ALIVE = b": alive\n\n"
_PRIMED_SINCE = "2025-11-25"
"""Clients before it cannot read a message without data, by which later ones know from where they go on."""
_ENDS = (TimeoutError, SessionGone, ServerError, OSError)


class ChangeStream(Response):
    """The answer to GET: open until the client leaves, the session ends or this process does."""

    media_type = "text/event-stream"

    def __init__(self, seat: StageSeat, standing: Standing, request: Request, *, patience: Patience) -> None:
        """Respond to a client.

        Args:
            seat: the client's.
            standing: of its session now.
            request: with `Last-Event-ID` if the client goes on.
            patience: how long it waits.

        Raises:
            Refused: the client takes no events.
            InvalidInput: it goes on from nowhere.
        """
        accepted = request.headers.get("accept", "*/*")
        if not any(kind in accepted for kind in (self.media_type, "text/*", "*/*")):
            raise Refused(406, "not_acceptable", f"this is {self.media_type}; accept it")
        super().__init__(None, headers=HEADERS)
        del self.headers["content-length"]
        self._seat = seat
        self._patience = patience
        last = request.headers.get("last-event-id")
        self._after = standing.last_seq if last is None else read_after(last, standing.last_seq)
        self._is_primed = is_version_at_least(request.headers.get("mcp-protocol-version", ""), _PRIMED_SINCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = StreamedBody(send, self._patience)
        if await tell_until_left(self._tell(body), receive, ends=_ENDS):
            await body.end()

    async def _tell(self, body: StreamedBody) -> None:
        if self._is_primed:
            await body.write(format_sse_event(data_str="", id=str(self._after)))
        changes = self._seat.changes(self._after)
        async with aclosing(changes), aclosing(body.follow(changes)) as followed:
            async for seq in followed:
                change = _ALIVE if seq is None else format_sse_event(data_str=_CHANGED, event="message", id=str(seq))
                await body.write(change)
