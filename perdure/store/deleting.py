"""Deleting a session and its sub-agents', in steps that can each be done again: mark, empty, forget.

While it is marked nothing more is written to it. The rows that say which sessions belong together go last, so that a
deletion that was cut off is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, RunActive
from perdure.store.database import Database
from perdure.store.envelopes.forgetting import blank_envelopes
from perdure.store.inputs import RUNS, emit
from perdure.store.opening import lock_head
from perdure.store.tables import envelopes, inputs, metadata, runs, session_heads, sessions
from perdure.uap.events import run_event
from perdure.uap.session_key import SessionKey

_TREE = text("""
with recursive tree as (
    select id, 0 as depth from perdure.sessions where tenant_id = :tenant and id = :session
    union all
    select s.id, t.depth + 1 from perdure.sessions s join tree t on s.parent_session = t.id where s.tenant_id = :tenant
)
select id from tree order by depth, id
""")

_CONTENT = [
    table
    for table in metadata.sorted_tables
    if "session_id" in table.c and table.name not in (sessions.name, session_heads.name, envelopes.name)
]
"""Whatever belongs to a session; a new table is in here by its column. Of envelopes it is remembered that they came."""


async def mark_deleting(database: Database, key: SessionKey, *, force: bool) -> list[SessionKey]:
    """Have nothing more written to a session and its sub-agents', to any depth, in one transaction.

    Whoever follows one of their runs is told that it is cancelled.

    Returns:
        The session first, then its sub-agents'; empty if there is no such session.

    Raises:
        RunActive: a run is open and `force` is not given; nothing is marked.
        InvalidInput: it is a sub-agent's session whose parent is there.
    """
    async with database.transaction() as connection:
        head = await lock_head(connection, key)
        if head is None:
            return []
        await _check_root(connection, key)
        found = (await connection.execute(_TREE, key._asdict())).scalars().all()
        keys = [SessionKey(key.tenant, session) for session in found]
        for one in keys:
            await _mark(connection, one, force=force)
        return keys


async def _check_root(connection: AsyncConnection, key: SessionKey) -> None:
    query = select(sessions.c.root_session).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    root = await connection.scalar(query)
    if root is None:
        return
    known = select(sessions.c.id).where(sessions.c.tenant_id == key.tenant, sessions.c.id == root)
    if await connection.scalar(known) is not None:
        raise InvalidInput(f"session {key.session} is a sub-agent's, part of session {root}; delete that one")


async def _mark(connection: AsyncConnection, key: SessionKey, *, force: bool) -> None:
    head = await lock_head(connection, key)
    if head is None or head.deleting:
        return
    if head.active_run is not None and not force:
        raise RunActive(
            f"run {head.active_run} of session {key.session} is open; cancel it first, or delete by force",
            run_id=head.active_run,
        )
    own = (inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session)
    waiting = select(inputs.c.run_id).where(*own, inputs.c.state == "queued", inputs.c.kind.in_(RUNS))
    queued = (await connection.execute(waiting.order_by(inputs.c.ordinal))).scalars().all()
    for run in [*([head.active_run] if head.active_run else []), *queued]:
        await emit(connection, key, run, [run_event("run.cancelled", {"deleted": True})])
    await emit(connection, key, None, [run_event("session.deleted", {})])
    await connection.execute(update(inputs).where(*own, inputs.c.state == "queued").values(state="withdrawn"))
    await connection.execute(
        update(runs)
        .where(runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.ended_at.is_(None))
        .values(status="cancelled", ended_at=text("clock_timestamp()"))
    )
    await connection.execute(update(session_heads).where(*_of(session_heads, key)).values(deleting=True))


async def delete_content(database: Database, keys: Sequence[SessionKey]) -> None:
    """Delete all that the marked sessions hold. Their own rows stay, and say which they are."""
    for key in reversed(keys):  # one transaction each: a session may be large
        async with database.transaction() as connection:
            await lock_head(connection, key)
            for table in _CONTENT:
                await connection.execute(delete(table).where(*_of(table, key)))
            await blank_envelopes(connection, key)


async def forget(database: Database, keys: Sequence[SessionKey]) -> None:
    """Delete the marked sessions' own rows, and whatever was written to them since; nothing says that they were there."""
    async with database.transaction() as connection:
        for key in reversed(keys):
            await lock_head(connection, key)
            for table in [*_CONTENT, session_heads]:
                await connection.execute(delete(table).where(*_of(table, key)))
            await blank_envelopes(connection, key)
            own = (sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
            await connection.execute(delete(sessions).where(*own))


def _of(table: Any, key: SessionKey) -> tuple[Any, Any]:
    return table.c.tenant_id == key.tenant, table.c.session_id == key.session
