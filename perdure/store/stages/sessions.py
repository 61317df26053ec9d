"""Reading stage sessions, and deleting one."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, or_, select, tuple_

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.store.sessions import MAX_PAGE
from perdure.store.stages.held import session_row, sessions_of
from perdure.store.stages.rows import StageSessionRow
from perdure.store.stages.values import read_values
from perdure.store.tables import metadata, stage_sessions
from perdure.uaip.keys import is_unprintable
from perdure.uaip.session import SessionStatus
from perdure.uap.ids import is_uuid4
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


async def find_session(database: Database, key: SessionKey) -> StageSessionRow | None:
    """A stage session, or None. One whose time is over reads as expired, whoever has noticed."""
    if not is_uuid4(key.session):
        return None
    async with database.transaction(key) as connection:
        row = (await connection.execute(sessions_of(key.tenant).where(stage_sessions.c.id == key.session))).first()
    return None if row is None else session_row(row)


async def session_page(
    database: Database,
    tenant: str,
    *,
    workflow: str | None = None,
    stage: str | None = None,
    status: SessionStatus | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[StageSessionRow]:
    """A page of a tenant's stage sessions, the newest first.

    Args:
        database: the store.
        tenant: whose.
        workflow: only of the workflow of this name.
        stage: only those in this stage of it.
        status: only those that are so. What nobody has marked as expired yet is in no such page but the whole list.
        after: time and id of the last session of the page before.
        limit: at most so many, 1 to `MAX_PAGE`.

    Raises:
        InvalidInput: a limit out of range, or a stage without its workflow.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}")
    if stage is not None and workflow is None:
        raise InvalidInput(f"stage {stage!r:.80} says nothing without its workflow; give workflow too")
    if is_unprintable(f"{workflow or ''}{stage or ''}"):
        return []
    chosen = select(stage_sessions).where(stage_sessions.c.tenant_id == tenant)
    if workflow is not None:
        chosen = chosen.where(stage_sessions.c.workflow == workflow)
    if stage is not None:
        chosen = chosen.where(stage_sessions.c.stage == stage)
    if status is not None:
        chosen = chosen.where(stage_sessions.c.status == status.value)
    if status is SessionStatus.OPEN:
        living = (stage_sessions.c.expires_at > func.clock_timestamp(), stage_sessions.c.open_actions > 0)
        chosen = chosen.where(or_(*living))
    if after is not None:
        chosen = chosen.where(tuple_(stage_sessions.c.created_at, stage_sessions.c.id) < after)
    newest = (stage_sessions.c.created_at.desc(), stage_sessions.c.id.desc())
    page = chosen.order_by(*newest).limit(limit).subquery()
    query = sessions_of(tenant, page).order_by(page.c.created_at.desc(), page.c.id.desc())
    async with database.transaction(tenant) as connection:
        rows = (await connection.execute(query)).all()
    return [session_row(row) for row in rows]


async def read_state(database: Database, key: SessionKey) -> JSONObject:
    """The values of a session's shared state by key; none if there is no such session."""
    if not is_uuid4(key.session):
        return {}
    async with database.transaction(key) as connection:
        return await read_values(connection, key)


async def delete_session(database: Database, key: SessionKey) -> bool:
    """Delete all rows of a stage session, whatever its state; whether there was one.

    What still runs of it finds that it is gone, so it is to be terminated first.
    """
    if not is_uuid4(key.session):
        return False
    own = (stage_sessions.c.tenant_id == key.tenant, stage_sessions.c.id == key.session)
    async with database.transaction() as connection:
        await lock_head(connection, key, stage=True)
        there = (await connection.execute(delete(stage_sessions).where(*own))).rowcount
        if not there:
            return False
        for table in metadata.sorted_tables:
            if "session_id" in table.c:
                mine = (table.c.tenant_id == key.tenant, table.c.session_id == key.session)
                await connection.execute(delete(table).where(*mine))
    return True
