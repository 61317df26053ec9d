"""Queries that a user's code asks inside a durable run: their threads are kept in the run's session.

One writer per session holds for its conversation. Metadata is written by key under the lock of the head row, by clients
too; an activity that does so is one writer more of that kind, and writes nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from perdure.activities.services import Services
from perdure.store.database import Database
from perdure.store.session_metadata import change_metadata
from perdure.uap.kept_queries import keeping, queries_in
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets
from perdure.upp.thread import Thread


@asynccontextmanager
async def keeping_queries(services: Services, tenant: str, session: str) -> AsyncGenerator[None]:
    """Keep the threads of what is asked by `query` inside the block in a stored session."""
    with keeping(_StoredQueries(services.database, SessionKey(tenant, session))):
        yield


class _StoredQueries:
    """`QueryKeeper` of a session of which this process knows the id."""

    def __init__(self, database: Database, key: SessionKey) -> None:
        self._database = database
        self._key = key

    async def check(self) -> None:
        def look(metadata: JSONObject) -> None:
            queries_in(metadata)

        await change_metadata(self._database, self._key, look)

    async def keep(self, thread: Thread) -> None:
        def add(metadata: JSONObject) -> None:
            queries_in(metadata)[thread.id] = known_secrets.json(thread.to_json())

        await change_metadata(self._database, self._key, add)
