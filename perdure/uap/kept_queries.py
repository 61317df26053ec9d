"""Where the threads of queries are kept: in the metadata of the session in whose run they are asked, under `queries`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from perdure.errors import InvalidInput
from perdure.uap.active_session import current_run
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.thread import Thread

if TYPE_CHECKING:
    from perdure.uap.session import Session

QUERIES = "queries"


class QueryKeeper(Protocol):
    """Keeps the threads of queries."""

    async def check(self) -> None:
        """See that one can be kept, before anything is asked. Raises InvalidInput."""
        ...

    async def keep(self, thread: Thread) -> None:
        """Keep a thread as it is now. Raises InvalidInput."""
        ...


class SessionQueries:
    """Those of a session that is at hand."""

    def __init__(self, session: Session) -> None:
        """Keep them in its metadata."""
        self._session = session

    async def check(self) -> None:
        """See `QueryKeeper.check`. What is kept already is known then, and stays."""
        await self._session.refresh()
        queries_in(self._session.metadata)

    async def keep(self, thread: Thread) -> None:
        """See `QueryKeeper.keep`."""
        queries_in(self._session.metadata)[thread.id] = thread.to_json()


def queries_in(metadata: JSONObject) -> JSONObject:
    """A session's queries by thread id, for writing; made if there were none. Raises InvalidInput."""
    kept: JSONValue = metadata.setdefault(QUERIES, {})
    if not isinstance(kept, dict):
        raise InvalidInput(f"{QUERIES!r} in the session's metadata must be an object: query keeps its threads there")
    return kept


_elsewhere: ContextVar[QueryKeeper | None] = ContextVar("perdure_query_keeper", default=None)


def keeper_of(session: Session | None) -> QueryKeeper | None:
    """Who keeps a query that is asked here: that session, else the one whose run this code is part of, if any."""
    run = current_run()
    if session is None and run is not None:
        session = run.session
    return _elsewhere.get() if session is None else SessionQueries(session)


@contextmanager
def keeping(keeper: QueryKeeper) -> Generator[None]:
    """Let what starts inside be part of a run whose session is not in this process."""
    token = _elsewhere.set(keeper)
    try:
        yield
    finally:
        _elsewhere.reset(token)
