"""Opening a stage session: its row, its head, its first values, and the event that says so, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, KeyConflict
from perdure.store.database import Database
from perdure.store.inputs import check_key, emit
from perdure.store.opening import lock_head
from perdure.store.stages.definitions import ServedWorkflow
from perdure.store.stages.held import expires_at, session_row, sessions_of
from perdure.store.stages.rows import StageSessionRow, at_ms
from perdure.store.stages.values import write_values
from perdure.store.tables import session_heads, stage_sessions
from perdure.uaip.keys import check_keys
from perdure.uaip.session import StageSession, begin
from perdure.uaip.state import StateDiff
from perdure.uaip.state_change import too_large
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.redaction import known_secrets

OPENED = "stage.opened"


async def open_session(
    database: Database,
    tenant: str,
    served: ServedWorkflow,
    *,
    id: str | None = None,
    key: str | None = None,
    values: JSONObject | None = None,
) -> StageSessionRow:
    """Open a session, or find the one that was opened under the same key or id.

    Args:
        database: the store.
        tenant: whose.
        served: the workflow; its definition is what the session stays on.
        id: UUIDv4, for who derives it; by default a new one.
        key: idempotency key, unique for the tenant.
        values: what the shared state has from the start.

    Raises:
        InvalidInput: an id, a key or values that cannot be used.
        KeyConflict: the key, or the id, was used for another workflow or other values.
    """
    if key is not None:
        check_key(key)
    wanted = SessionKey(tenant, new_id() if id is None else checked_session_id(id))
    given = known_secrets.json(values or {})
    check_keys(given, "values")
    sha256 = sha256_hex(dumps([served.definition.name, given]))
    for attempt in (1, 2):
        try:
            async with database.transaction(tenant) as connection:
                known = await _find(connection, wanted, key)
                if known is None:
                    return await _open(connection, wanted, served, key, sha256, given)
                return _again(known, sha256, "id" if key is None else f"idempotency key {key!r}")
        except IntegrityError:  # another process opened it a moment ago: look again
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


async def _find(connection: AsyncConnection, wanted: SessionKey, key: str | None) -> Row[Any] | None:
    query = sessions_of(wanted.tenant)
    if key is not None:
        by_key = (await connection.execute(query.where(stage_sessions.c.key == key))).first()
        if by_key is not None:
            return by_key
    return (await connection.execute(query.where(stage_sessions.c.id == wanted.session))).first()


def _again(known: Row[Any], sha256: str, what: str) -> StageSessionRow:
    if known.opening_sha256 != sha256:
        raise KeyConflict(
            f"{what} opened session {known.id} of workflow {known.workflow!r} with other values, or of another workflow; "
            "use a new one for a new session"
        )
    return session_row(known)


async def _open(
    connection: AsyncConnection,
    wanted: SessionKey,
    served: ServedWorkflow,
    key: str | None,
    sha256: str,
    values: JSONObject,
) -> StageSessionRow:
    if await lock_head(connection, wanted) is not None:
        raise KeyConflict(f"session {wanted.session} is an agent's; leave the id out to get a new one")
    now = await connection.scalar(select(func.clock_timestamp()))
    assert now is not None, "the clock always answers"
    session = _begun(begin(served.definition, wanted.session, at_ms(now)), values)
    await connection.execute(insert(session_heads).values(**_head(wanted), stage=True, touched_at=now))
    row: dict[str, Any] = {
        "tenant_id": wanted.tenant, "id": wanted.session, "workflow": session.workflow, "definition": session.definition,
        "stage": session.stage, "status": session.status.value, "version": session.version, "taken": session.taken,
        "settled_at_ms": session.settled_at_ms, "sizes": session.sizes, "key": key, "opening_sha256": sha256,
        "created_at": now, "updated_at": now, "expires_at": expires_at(served.definition, session),
    }  # fmt: skip
    await connection.execute(insert(stage_sessions).values(row))
    await write_values(connection, wanted, StateDiff(0, values))
    data: JSONObject = {"workflow": session.workflow, "stage": session.stage}
    await emit(connection, wanted, None, [{"s": "stage", "t": OPENED, "d": data}])
    made = (await connection.execute(sessions_of(wanted.tenant).where(stage_sessions.c.id == wanted.session))).one()
    return session_row(made)


def _begun(session: StageSession, values: JSONObject) -> StageSession:
    if not values:
        return session
    change = StateDiff(0, values).change()
    refusal = too_large(change.sizes)
    if refusal is not None:
        raise InvalidInput(f"values: {refusal.detail}")
    return replace(session, sizes=change.sizes, version=1)


def _head(key: SessionKey) -> dict[str, Any]:
    return {"tenant_id": key.tenant, "session_id": key.session}
