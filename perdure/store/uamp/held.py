"""A UAMP session while one of its client's events is applied: locked, so that any process may do it, one at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.sealing import seal_in
from perdure.store.tables import uamp_responses, uamp_sessions, uamp_taken
from perdure.store.uamp.mail import put
from perdure.store.uamp.rows import UampSessionRow, session_row
from perdure.uap.ids import is_uuid4
from perdure.upp.json_value import JSONObject, dumps, loads, sha256_hex


class Unchanged:
    """Stands for a value that stays as it is."""


UNCHANGED = Unchanged()


@asynccontextmanager
async def held_session(database: Database, tenant: str, ident: str) -> AsyncGenerator[HeldSession | None]:
    """A session, locked inside the block; all is stored at the end of the block, or nothing if it ends with an error.

    Nothing that waits for others belongs in the block, nor posts to a chat: they lock other sessions.

    Yields:
        None if there is no such session; one that has ended is there.
    """
    if not is_uuid4(ident):
        yield None
        return
    query = select(uamp_sessions).where(uamp_sessions.c.tenant_id == tenant, uamp_sessions.c.id == ident)
    async with database.transaction(tenant) as connection:
        found = (await connection.execute(query.with_for_update())).first()
        yield None if found is None else HeldSession(connection, session_row(found), found.last_taken)


class HeldSession:
    """A session that this transaction has locked.

    Attributes:
        row: as it is now.
    """

    def __init__(self, connection: AsyncConnection, row: UampSessionRow, last_taken: int) -> None:
        """Of `held_session`."""
        self.row = row
        self._connection = connection
        self._last_taken = last_taken
        self._seal = seal_in(connection, row.key)

    async def saw(self, event_id: str) -> bool:
        """Whether an event of this id was applied before, whoever took it."""
        query = select(uamp_taken.c.ordinal).where(*self._own(), uamp_taken.c.event_sha256 == _hash(event_id))
        return await self._connection.scalar(query) is not None

    async def note(self, event_id: str) -> None:
        """An event of this id is applied."""
        await self._take(event_id, None)
        await self._set({})

    async def add_input(self, event_id: str, body: JSONObject) -> None:
        """An input is applied: it is kept for the next response."""
        await self._take(event_id, body)
        await self._set({}, changed=True)

    async def inputs(self) -> list[JSONObject]:
        """The inputs that no response has had, in order."""
        query = select(uamp_taken.c.body).where(
            *self._own(), uamp_taken.c.body.is_not(None), uamp_taken.c.response.is_(None)
        )
        rows = await self._connection.scalars(query.order_by(uamp_taken.c.ordinal))
        return [cast(JSONObject, loads(cast(bytes, body))) for body in rows.all()]

    async def ask_response(
        self, response: str, event_id: str, asked: JSONObject, request_sha256: str | None = None
    ) -> None:
        """A response is asked for; it has all inputs so far.

        Args:
            response: its id.
            event_id: of the event that asks for it.
            asked: what its run is to be begun with, besides the inputs.
            request_sha256: of what was asked.
        """
        values = {
            "tenant_id": self.row.tenant, "id": response, "session_id": self.row.session,
            "uamp_session": self.row.id, "asked": dumps(asked), "request_sha256": request_sha256,
        }  # fmt: skip
        sealed = self._seal.row(uamp_responses, values)
        await self._connection.execute(insert(uamp_responses).values(**sealed, made_at=func.clock_timestamp()))
        waiting = (*self._own(), uamp_taken.c.body.is_not(None), uamp_taken.c.response.is_(None))
        await self._connection.execute(update(uamp_taken).where(*waiting).values(response=response))
        await self._take(event_id, None)
        await self._set({}, changed=True)

    async def change(
        self,
        *,
        state: JSONObject | None = None,
        token_expires_at: datetime | Unchanged | None = UNCHANGED,
        payment: JSONObject | Unchanged | None = UNCHANGED,
    ) -> None:
        """Keep other values; what is not given stays."""
        new: dict[str, Any] = {} if state is None else {"state": dumps(state)}
        if not isinstance(token_expires_at, Unchanged):
            new["token_expires_at"] = token_expires_at
        if not isinstance(payment, Unchanged):
            new["payment"] = payment
        await self._set(self._seal.row(uamp_sessions, new), changed=True)
        told = {name: value for name, value in new.items() if name != "state"}
        self.row = replace(self.row, **told, state=self.row.state if state is None else state)

    async def post(self, events: Sequence[JSONObject]) -> None:
        """Put events into its mail; as `perdure.store.uamp.mail.post`, even after its end."""
        posted = await put(self._connection, self.row.key, self.row.id, events, None, held=True)
        self.row = replace(self.row, last_mail=self.row.last_mail + (posted or 0))

    async def end(self, reason: str | None) -> None:
        """It is over; harmless if it is already."""
        if self.row.ended_at is None:
            values = self._seal.row(uamp_sessions, {"ended_reason": reason})
            ended = await self._set({**values, "ended_at": func.clock_timestamp()}, changed=True)
            self.row = replace(self.row, ended_at=ended, ended_reason=reason)

    async def _take(self, event_id: str, body: JSONObject | None) -> None:
        self._last_taken += 1
        values = {
            "tenant_id": self.row.tenant, "session_id": self.row.session, "uamp_session": self.row.id,
            "ordinal": self._last_taken, "event_sha256": _hash(event_id),
            "body": None if body is None else dumps(body),
        }  # fmt: skip
        sealed = self._seal.row(uamp_taken, values)
        await self._connection.execute(insert(uamp_taken).values(**sealed, taken_at=func.clock_timestamp()))

    async def _set(self, values: dict[str, Any], *, changed: bool = False) -> datetime | None:
        """Write values, and that its client was heard; when it ended."""
        version = self.row.version + int(changed)
        everything = {
            "last_taken": self._last_taken,
            "version": version,
            "last_seen_at": func.clock_timestamp(),
            **values,
        }
        statement = update(uamp_sessions).where(
            uamp_sessions.c.tenant_id == self.row.tenant, uamp_sessions.c.id == self.row.id
        )
        ended = await self._connection.scalar(statement.values(**everything).returning(uamp_sessions.c.ended_at))
        self.row = replace(self.row, version=version)
        return cast("datetime | None", ended)

    def _own(self) -> tuple[Any, Any]:
        return uamp_taken.c.tenant_id == self.row.tenant, uamp_taken.c.uamp_session == self.row.id


def _hash(event_id: str) -> str:
    return sha256_hex(event_id.encode("utf-8", "surrogatepass"))
