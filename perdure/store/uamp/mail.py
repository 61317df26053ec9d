"""Events for the client of one UAMP session that are not in its chat's log: numbered without gaps, and announced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.events import Event
from perdure.store.json_text import escaped_json
from perdure.store.sealing import Seal, seal_in
from perdure.store.tables import uamp_sessions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

CHANNEL = "perdure_uamp_mail"
SOURCE = "uamp"
_MIB = 1024 * 1024
_OWN = ("event_id", "session_id", "type")

_PAGE = """
select seq, event_id, type, body, at, size from (
    select *, octet_length(body::text) as size, sum(octet_length(body::text)) over (order by seq) as total
      from (select * from perdure.uamp_mail where tenant_id = $1 and uamp_session = $2 and seq > $3
             order by seq limit $4) as page
) as sized where total - size < $5 order by seq
"""
_LAST = """
select s.tenant_id, s.id, s.last_mail from unnest($1::text[], $2::text[]) as asked (tenant, session)
  join perdure.uamp_sessions s on s.tenant_id = asked.tenant and s.id = asked.session
"""


async def post(
    database: Database,
    tenant: str,
    uamp_session: str,
    events: Sequence[JSONObject],
    *,
    notes: Sequence[str | None] | None = None,
) -> bool:
    """Put events into a session's mail, in order.

    Args:
        database: the store.
        tenant: whose.
        uamp_session: the session.
        events: as the wire has them; one without `event_id` is given one, and `session_id` is the session's.
        notes: one for each event, or None: what it is about. An event is put only if none of its note is there.

    Returns:
        Whether there is such a session, which has not ended.
    """
    query = select(uamp_sessions.c.session_id).where(
        uamp_sessions.c.tenant_id == tenant, uamp_sessions.c.id == uamp_session
    )
    async with database.transaction(tenant) as connection:
        session = await connection.scalar(query)
        if session is None:
            return False
        return await put(connection, SessionKey(tenant, session), uamp_session, events, notes) is not None


async def put(
    connection: AsyncConnection,
    key: SessionKey,
    uamp_session: str,
    events: Sequence[JSONObject],
    notes: Sequence[str | None] | None,
    *,
    held: bool = False,
) -> int | None:
    """The same within a transaction; how many were put, None if the session has ended.

    Args:
        connection: of the transaction.
        key: the session that the chat is.
        uamp_session: the session.
        events: as above.
        notes: as above.
        held: the session is locked by this transaction, and may have ended.
    """
    seal = seal_in(connection, key)
    given = [enveloped(seal, event, note) for event, note in zip(events, notes or [None] * len(events), strict=True)]
    answer = await connection.scalar(
        text("select perdure.uamp_post_v1(:tenant, :id, cast(:events as json), :held)"),
        {"tenant": key.tenant, "id": uamp_session, "events": escaped_json(given), "held": held},
    )
    return cast("dict[str, int | None]", answer)["posted"]


async def post_to_chat(database: Database, key: SessionKey, event: JSONObject, *, but: str) -> list[str]:
    """Put an event into the mail of a chat's sessions, in all or in none.

    Args:
        database: the store.
        key: the session that the chat is.
        event: as the wire has it; `event_id` and `session_id` are each receiver's own.
        but: the session that gets none.

    Returns:
        The sessions that got it.
    """
    given = escaped_json(enveloped(database.seal(key), {**event, "event_id": None}))
    answer = await database.call("uamp_post_to_chat_v1", key.tenant, key.session, given, but, None)
    return cast("list[str]", answer["posted"])


def enveloped(seal: Seal, event: JSONObject, note: str | None = None) -> JSONObject:
    """An event as the store's functions take it."""
    body: JSONObject = {name: value for name, value in event.items() if name not in _OWN}
    return {"type": event["type"], "event_id": event.get("event_id"), "note": note, "body": seal.value(body)}


async def read_mail(
    database: Database, tenant: str, uamp_session: str, *, after: int, limit: int = 1000, max_bytes: int = 4 * _MIB
) -> list[Event]:
    """Events of a session's mail with a number above `after`, in order; none only if there are none.

    Args:
        database: the store.
        tenant: whose.
        uamp_session: the session.
        after: a number.
        limit: how many at most.
        max_bytes: of them, beyond which none is added.

    Returns:
        Each with the event of the wire as its data.
    """
    async with database.driver(tenant) as connection:
        rows = await connection.fetch(_PAGE, tenant, uamp_session, after, limit, max_bytes)
    return [
        Event(
            uamp_session, row["seq"], None, None, None, SOURCE, row["type"],
            {"type": row["type"], "event_id": row["event_id"], "session_id": uamp_session, **row["body"]},
            row["at"], row["size"],
        )
        for row in rows
    ]  # fmt: skip


async def read_last_mail(database: Database, keys: Collection[SessionKey]) -> dict[SessionKey, int]:
    """The last number that was given in the mail of each of these; one that is not there, or no more, is left out.

    Args:
        database: the store.
        keys: each with the id of a session of UAMP.
    """
    async with database.driver() as connection:
        rows = await connection.fetch(_LAST, [key.tenant for key in keys], [key.session for key in keys])
    return {SessionKey(row["tenant_id"], row["id"]): row["last_mail"] for row in rows}


async def set_told(database: Database, tenant: str, uamp_session: str, *, log: int, mail: int) -> None:
    """The session's client was told of the log and of the mail up to these numbers, or further already."""
    columns: Any = uamp_sessions.c
    statement = update(uamp_sessions).where(columns.tenant_id == tenant, columns.id == uamp_session)
    further = {
        "told_log": func.greatest(columns.told_log, log),
        "told_mail": func.greatest(columns.told_mail, func.least(mail, columns.last_mail)),
    }
    async with database.transaction() as connection:
        await connection.execute(statement.values(**further))
