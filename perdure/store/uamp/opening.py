"""Opening UAMP's sessions, and reading them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from perdure.errors import KeyConflict, SessionGone
from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.sealing import seal_in
from perdure.store.tables import uamp_sessions
from perdure.store.uamp.rows import NewUampSession, UampSessionRow, session_row
from perdure.uap.ids import is_uuid4
from perdure.uap.session_key import SessionKey, checked_session_id, unknown_session
from perdure.upp.json_value import dumps


async def open_session(database: Database, new: NewUampSession) -> tuple[UampSessionRow, bool]:
    """Open a session, or find it open.

    Returns:
        Its row, and whether this call made it; one that was there is as it was.

    Raises:
        InvalidInput: its id is no UUIDv4.
        UnknownSession: there is no such session as its chat.
        SessionGone: that is being deleted, or it has ended itself.
        KeyConflict: it is there and is another's, or of another chat.
    """
    checked_session_id(new.id)
    key = SessionKey(new.tenant, new.session)
    async with database.transaction(new.tenant) as connection:
        head = await lock_head(connection, key)
        if head is None:
            raise unknown_session(new.session)
        if head.deleting:
            raise SessionGone(f"session {new.session} is being deleted and takes no more input")
        values = {
            "tenant_id": new.tenant, "id": new.id, "session_id": new.session, "agent": new.agent,
            "principal": new.principal, "user_id": new.user, "username": new.username, "chat": new.chat,
            "state": dumps(new.state), "token_expires_at": new.token_expires_at, "payment": new.payment,
            "told_log": new.told_log,
        }  # fmt: skip
        now = {"created_at": func.clock_timestamp(), "last_seen_at": func.clock_timestamp()}
        sealed = {**seal_in(connection, key).row(uamp_sessions, values), **now}
        statement = upsert(uamp_sessions).values(sealed).on_conflict_do_nothing().returning(uamp_sessions.c.id)
        made = await connection.scalar(statement) is not None
        row = session_row((await connection.execute(_of(new.tenant, new.id))).one())
    if (row.principal, row.session, row.agent) != (new.principal, new.session, new.agent):
        raise KeyConflict(f"session {new.id} is there and is not yours to go on with; leave its id out to open another")
    if row.ended_at is not None:
        raise SessionGone(f"session {new.id} has ended; leave its id out to open another")
    return row, made


async def find_session(database: Database, tenant: str, ident: str) -> UampSessionRow | None:
    """A session by its id, one that has ended too; None if there is none.

    Args:
        database: the store.
        tenant: whose.
        ident: whatever a client sent.
    """
    if not is_uuid4(ident):
        return None
    async with database.reading(tenant) as connection:
        row = (await connection.execute(_of(tenant, ident))).first()
    return None if row is None else session_row(row)


def _of(tenant: str, ident: str) -> Any:
    return select(uamp_sessions).where(uamp_sessions.c.tenant_id == tenant, uamp_sessions.c.id == ident)
