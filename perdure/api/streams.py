"""Responses that follow an event log: a session's, or one run's."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response

from perdure.api.access import Caller
from perdure.api.event_choice import EventChoice, read_after
from perdure.api.sse import EventStreamResponse
from perdure.api.viewing import Viewing
from perdure.store.events import read_last_seqs
from perdure.store.run_spans import read_run_span
from perdure.store.sessions import read_session
from perdure.uap.session_key import SessionKey


async def session_response(caller: Caller, session: str, after: str | None, choice: EventChoice) -> Response:
    """A session's events, without end.

    Args:
        caller: who views.
        session: the session's id.
        after: the last number that the viewer has.
        choice: what it wants.

    Raises:
        UnknownSession: there is no such session.
        InvalidInput: `after` is none of its numbers.
    """
    key = caller.key(session)
    return log_response(caller, key, (await read_session(caller.database, key)).last_seq, after, choice)


def log_response(caller: Caller, key: SessionKey, newest: int, after: str | None, choice: EventChoice) -> Response:
    """An event log, without end.

    Args:
        caller: who views.
        key: whose log.
        newest: its last number.
        after: the last number that the viewer has.
        choice: what it wants.

    Raises:
        InvalidInput: `after` is none of its numbers.
    """
    start = read_after(after, newest)
    pages = caller.backend.stream.follow_pages(key, after=start, most_behind=caller.backend.patience.most_behind)
    return EventStreamResponse(Viewing(pages, choice), after=start, patience=caller.backend.patience)


async def run_response(
    caller: Caller,
    run: str,
    after: str | None = None,
    choice: EventChoice | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A run's events, up to its terminal one; status 204 if the viewer has had that.

    Args:
        caller: who views.
        run: the run's id.
        after: the last number that the viewer has.
        choice: what it wants.
        headers: more of the response's.

    Raises:
        UnknownRun: there is no such run.
        InvalidInput: `after` is none of its session's numbers.
    """
    span = await read_run_span(caller.database, caller.tenant, run)
    newest = (await read_last_seqs(caller.database, [span.key])).get(span.key, 0)
    given = read_after(after, newest)
    if span.last is not None and given >= span.last:
        return Response(status_code=204, headers=headers)
    start = max(span.before, given)
    pages = caller.sessions.stream.follow_pages(span.key, after=start, most_behind=caller.backend.patience.most_behind)
    viewing = Viewing(pages, choice or EventChoice(), span.run)
    return EventStreamResponse(viewing, after=start, patience=caller.backend.patience, headers=headers)
